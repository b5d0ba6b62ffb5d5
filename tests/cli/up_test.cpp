// Nodes as their users start them: real processes that found, join, die and leave.
#include "base/file.h"
#include "cli/process.h"
#include "cli/runs.h"
#include "state/checkpoint.h"
#include "state/hugging_face.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>

namespace chaos::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Up : public ::testing::Test {
protected:
    Up() {
        std::string run = mlp_run("steps = 1000000\neval_every = 0\ncheckpoint_every = 500\n");
        const std::string threads = "threads = 2";
        run.replace(run.find(threads), threads.size(), "threads = 1");  // there are several nodes
        folder.write("run.toml", run);
    }

    [[nodiscard]] std::function<void()> at_home() const {
        const std::string home = folder.path() / "home";
        return [home] { ::setenv("CHAOS_HOME", home.c_str(), 1); };
    }
    [[nodiscard]] std::unique_ptr<Process> start(const std::vector<std::string>& arguments) const {
        return std::make_unique<Process>(arguments, folder.path(), at_home());
    }
    [[nodiscard]] std::unique_ptr<Process> found(std::string& address,
                                                 const std::vector<std::string>& more = {}) const {
        std::vector<std::string> arguments{"up", "run.toml", "--dir", "a", "--listen", "127.0.0.1:0"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        auto node = start(arguments);
        EXPECT_TRUE(node->wait_for_output("join with")) << node->err;
        const std::size_t at = node->out.find("listens at ") + std::string("listens at ").size();
        address = node->out.substr(at, node->out.find('\n', at) - at);
        return node;
    }
    [[nodiscard]] std::unique_ptr<Process> join(const std::string& address, const std::string& dir) const {
        auto node = start({"join", address, "--dir", dir});
        EXPECT_TRUE(node->wait_for_output("trains with the others")) << node->out << node->err;
        return node;
    }
    [[nodiscard]] Outcome run(const std::vector<std::string>& arguments) const {
        return run_chaos(arguments, folder.path(), at_home());
    }
    [[nodiscard]] json status(const std::string& dir) const {
        const Outcome told = run({"status", "--json", "--dir", dir});
        EXPECT_EQ(told.code, 0) << told.err;
        return json::parse(told.out);
    }

    TemporaryFolder folder;
};

TEST_F(Up, NodesJoinDieAndLeaveAndTheRunCanBeComputedAgain) {
    std::string address;
    const auto a = found(address);
    const auto b = join(address, "b");
    const auto c = join(address, "c");
    EXPECT_EQ(status("c")["members"].size(), 3U);

    b->signal(SIGKILL);
    b->wait();
    ASSERT_TRUE(c->wait_for_output("is no longer a member")) << c->err;
    EXPECT_THAT(run({"events", "--json", "--dir", "c"}).out, HasSubstr("\"kind\":\"failed\""));
    json now;
    while ((now = status("a"))["members"].size() != 2) {
    }
    for (const char* field : {"node", "view", "epoch", "step", "members", "links", "state_hash", "loss"})
        EXPECT_FALSE(now[field].is_null()) << field;

    // The founder is nobody special.
    const Outcome left = run({"leave", "--dir", "a"});
    EXPECT_EQ(left.code, 0) << left.err;
    EXPECT_EQ(a->wait(), 0) << a->err;
    const std::uint64_t step = status("c")["step"];
    while (status("c")["step"] <= step) {
    }
    c->signal(SIGINT);
    EXPECT_EQ(c->wait(), 0) << c->err;

    const Outcome checked = run({"journal", "check", "a", "b", "c"});
    EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
    const Outcome again = run({"replay", "c", "a", "b"});
    EXPECT_EQ(again.code, 0) << again.out << again.err;
    EXPECT_THAT(again.out, HasSubstr("equal bits"));
}

TEST_F(Up, WhenAllWereDownTrainingGoesOn) {
    std::string address;
    std::uint64_t saved = 0;
    {
        const auto a = found(address);
        const auto b = join(address, "b");
        ASSERT_TRUE(a->wait_for_output("saved ")) << a->err;
        const std::size_t at = a->out.find("step-") + 5;
        saved = std::stoull(a->out.substr(at, 12));
        ASSERT_TRUE(b->wait_for_output("saved ")) << b->err;  // a quorum keeps them
        a->signal(SIGKILL);
        b->signal(SIGKILL);
        a->wait();
        b->wait();

        // Its journal begins where it joined.
        const Outcome refused = run({"replay", "b"});
        EXPECT_EQ(refused.code, 2);
        EXPECT_THAT(refused.err, HasSubstr("--from CHECKPOINT"));
        const state::CheckpointFolder checkpoints{folder / "b/checkpoints"};
        const std::string kept = checkpoints.path_of(checkpoints.steps()->front());
        const Outcome again = run({"replay", "b", "a", "--from", kept});
        EXPECT_EQ(again.code, 0) << again.out << again.err;
        EXPECT_THAT(again.out, HasSubstr("equal bits"));
    }
    const auto a = start({"up", "run.toml", "--dir", "a", "--listen", address});
    const auto b = start({"join", address, "--dir", "b"});
    // Whoever has the newer checkpoint begins, and the other one pulls it.
    for (const auto* node : {&a, &b})
        ASSERT_TRUE((*node)->wait_for_output(" of 1000000   loss")) << (*node)->out << (*node)->err;
    EXPECT_GT(saved, 0U);
    EXPECT_GE(status("b")["step"], saved);
    const Outcome checked = run({"journal", "check", "a", "b"});
    EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
}

TEST_F(Up, AStrictClusterWhoseMajorityIsLostIsRecoveredByAPerson) {
    std::string address;
    const auto a = found(address, {"--strict"});
    const auto b = join(address, "b");
    const auto c = join(address, "c");
    const Outcome needless = run({"recover", "--force", "--dir", "c"});
    EXPECT_EQ(needless.code, 2);
    EXPECT_THAT(needless.err, HasSubstr("there is nothing to recover"));
    for (Process* lost : {a.get(), b.get()}) lost->signal(SIGKILL);
    a->wait();
    b->wait();
    std::string why;
    while (why.find("chaos recover --dir c") == std::string::npos) why = run({"why", "--dir", "c"}).out;
    EXPECT_THAT(why, HasSubstr("only 1 of 3 active members are here"));
    const Outcome told = run({"recover", "--dir", "c"});
    EXPECT_EQ(told.code, 0) << told.err;
    EXPECT_THAT(told.out, HasSubstr("nothing was changed"));
    const std::uint64_t step = status("c")["step"];
    const Outcome forced = run({"recover", "--force", "--dir", "c"});
    EXPECT_EQ(forced.code, 0) << forced.err;
    EXPECT_THAT(forced.out, HasSubstr("goes on with 1 active member from step"));
    while (status("c")["step"] <= step) {
    }
    // One that was thought to be lost comes back, to where the others went.
    const auto again = start({"join", status("c")["listen"], "--dir", "b"});
    ASSERT_TRUE(again->wait_for_output("trains with the others")) << again->out << again->err;
    const Outcome checked = run({"journal", "check", "a", "b", "c"});
    EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
    EXPECT_THAT(checked.out, HasSubstr("1 fork"));
}

TEST_F(Up, AStrictClusterOfWhichTooFewComeBackIsFoundedAgainByAPerson) {
    std::string address;
    {
        const auto a = found(address, {"--strict"});
        const auto b = join(address, "b");
        const auto c = join(address, "c");
        ASSERT_TRUE(a->wait_for_output("saved ")) << a->err;  // the one that stands longest does
        for (Process* lost : {a.get(), b.get(), c.get()}) lost->signal(SIGKILL);
        for (Process* lost : {a.get(), b.get(), c.get()}) lost->wait();
    }
    const auto a = start({"up", "run.toml", "--dir", "a", "--listen", address});
    ASSERT_TRUE(a->wait_for_output("listens at")) << a->err;
    EXPECT_THAT(run({"why", "--dir", "a"}).out, HasSubstr("chaos recover --dir a"));
    EXPECT_THAT(run({"recover", "--dir", "a"}).out, HasSubstr("found the cluster again"));
    const Outcome forced = run({"recover", "--force", "--dir", "a"});
    EXPECT_EQ(forced.code, 0) << forced.err;
    EXPECT_THAT(forced.out, HasSubstr("goes on with 1 active member from step"));
    const std::uint64_t step = status("a")["step"];
    EXPECT_GT(step, 0U);
    while (status("a")["step"] <= step) {
    }
}

TEST_F(Up, InstitutionsComeAndGoWhileTheClusterRuns) {
    const auto last_word = [](const std::string& text) {
        const std::size_t end = text.find_last_not_of('\n');
        const std::size_t begin = text.find_last_of(" \n", end);
        return text.substr(begin + 1, end - begin);
    };
    std::string address;
    const auto a = found(address);
    const std::string own = status("a")["institutions"][0]["root"];
    const std::string lab = last_word(run({"institution", "new", "lab"}).out);
    const Outcome only = run({"institution", "remove", own, "--dir", "a"});
    EXPECT_EQ(only.code, 2);
    EXPECT_THAT(only.err, HasSubstr("the only institution"));
    EXPECT_THAT(run({"institution", "admit", "nonsense", "--dir", "a"}).err, HasSubstr("64 hexadecimal"));
    const Outcome admitted = run({"institution", "admit", lab, "--dir", "a"});
    EXPECT_EQ(admitted.code, 0) << admitted.err;
    EXPECT_THAT(admitted.out, HasSubstr("is in"));
    EXPECT_THAT(run({"institution", "admit", lab, "--dir", "a"}).err, HasSubstr("is so already"));
    const auto by_lab = [&](const std::string& dir) {
        auto node = start({"join", address, "--dir", dir, "--institution", "lab"});
        EXPECT_TRUE(node->wait_for_output("trains with the others")) << node->out << node->err;
        return node;
    };
    const auto b = by_lab("b");
    const auto c = by_lab("c");
    EXPECT_EQ(status("a")["institutions"].size(), 2U);

    // A third one needs the word of both.
    const std::string third = last_word(run({"institution", "new", "third"}).out);
    Process asking({"institution", "admit", third, "--dir", "a"}, folder.path(), at_home());
    ASSERT_TRUE(asking.wait_for_output("2 of 2 have to ask for it"));
    const Outcome agreed = run({"institution", "admit", third, "--dir", "b"});
    EXPECT_EQ(agreed.code, 0) << agreed.err;
    EXPECT_EQ(asking.wait(), 0) << asking.err;
    EXPECT_THAT(asking.out, HasSubstr("is in"));

    // A revocation takes one node out, the removal of its institution the others.
    const std::string key = last_word(run({"key", "show", "--dir", "b"}).out);
    const Outcome revoked = run({"institution", "revoke", key, "--dir", "c"});
    EXPECT_EQ(revoked.code, 0) << revoked.err;
    EXPECT_THAT(revoked.out, HasSubstr("revoked, for good"));
    EXPECT_EQ(b->wait(), 2);
    EXPECT_THAT(b->err, HasSubstr("out for good"));
    const Outcome removed = run({"institution", "remove", lab, "--dir", "c"});  // each may take itself out
    EXPECT_EQ(removed.code, 0) << removed.err;
    ASSERT_TRUE(c->wait_for_output("its institution was removed")) << c->err;
    while (status("a")["members"].size() != 1) {
    }
}

TEST_F(Up, LinksAreChangedByCommandAndEveryWishEnds) {
    std::string address;
    const auto a = found(address);
    const auto b = join(address, "b");
    const auto c = join(address, "c");
    const std::string id_a = status("a")["node"];
    const std::string id_b = status("b")["node"];
    const std::string id_c = status("c")["node"];
    const auto linked = [&](const std::string& x, const std::string& y) {
        const json links = status("c")["links"];
        return std::ranges::any_of(links, [&](const json& link) {
            return (link["a"] == x && link["b"] == y) || (link["a"] == y && link["b"] == x);
        });
    };
    while (!linked(id_a, id_b)) {
    }
    const Outcome removed = run({"link", "remove", id_a, id_b, "--dir", "a"});
    EXPECT_EQ(removed.code, 0) << removed.err;
    EXPECT_THAT(removed.out, HasSubstr("is given up\n"));
    while (linked(id_a, id_b)) {
    }
    EXPECT_THAT(run({"link", "remove", id_a, id_b, "--dir", "a"}).err, HasSubstr("there is no such link"));
    const Outcome added = run({"link", "add", id_a, id_b, "--dir", "b"});
    EXPECT_EQ(added.code, 0) << added.err;
    EXPECT_THAT(added.out, HasSubstr("linked with"));

    // No way leads to b any more without its other link.
    EXPECT_EQ(run({"link", "remove", id_a, id_b, "--dir", "b"}).code, 0);
    const std::uint64_t before = status("b")["incarnation"];
    const Outcome cut = run({"link", "remove", id_c, id_b, "--dir", "c"});
    EXPECT_EQ(cut.code, 0) << cut.err;
    EXPECT_THAT(cut.out, HasSubstr("left no way to " + id_b.substr(0, 8)));
    EXPECT_THAT(run({"events", "--dir", "a"}).out, HasSubstr("the removal of a link cut it off"));
    for (json now = status("b"); now["incarnation"] == before || now["role"] != "active"; now = status("b")) {
    }

    // One that stands still says nothing, and whoever asks hears of it.
    EXPECT_EQ(run({"link", "remove", id_c, id_b, "--dir", "c"}).code, 0);
    b->signal(SIGSTOP);
    const Outcome refused = run({"link", "add", id_c, id_b, "--dir", "c"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr(id_b.substr(0, 8)));
    while (status("c")["members"].size() > 2) {
    }
    const Outcome told = run({"events", "--json", "--dir", "c"});
    std::set<std::string> kinds;
    std::istringstream lines(told.out);
    for (std::string line; std::getline(lines, line);) kinds.insert(json::parse(line)["kind"].get<std::string>());
    for (const char* kind : {"refused", "failed", "step", "left", "link_up", "link_down", "view", "joined", "synced"})
        EXPECT_TRUE(kinds.contains(kind)) << kind << "\n" << told.out;
    const json counters = status("c")["counters"];
    for (const char* counter : {"messages_sent", "messages_received", "steps_redone"})
        EXPECT_GT(counters[counter].get<std::uint64_t>(), 0U) << counter;
    EXPECT_THAT(run({"why", "--dir", "c"}).out, HasSubstr("step "));
}

// Those who joined have all they need, also where it was found elsewhere than they look by themselves.
TEST_F(Up, ThoseWhoJoinedComeBackWithoutTheFounder) {
    std::string run_file = text_run("steps = 1000000\neval_every = 0\ncheckpoint_every = 200\n");
    const std::string threads = "threads = 2";
    run_file.replace(run_file.find(threads), threads.size(), "threads = 1");
    const std::string text = std::string(3000, 'a') + std::string(3000, 'b');
    folder.write("founder/run.toml", run_file);
    folder.write("founder/text.txt", text);
    folder.write("texts/text.txt", text);
    const state::CheckpointFolder checkpoints{folder / "b/checkpoints"};
    {
        const auto a = start({"up", "founder/run.toml", "--dir", "founder/a", "--listen", "127.0.0.1:0"});
        ASSERT_TRUE(a->wait_for_output("join with")) << a->err;
        EXPECT_THAT(a->out, HasSubstr("--data " + (folder / "founder").string()));
        const std::size_t at = a->out.find("listens at ") + std::string("listens at ").size();
        const std::string address = a->out.substr(at, a->out.find('\n', at) - at);
        EXPECT_THAT(run({"join", address, "--dir", "b"}).err, HasSubstr("this node lacks data of the run"));
        const auto b = start({"join", address, "--dir", "b", "--data", "texts"});
        ASSERT_TRUE(b->wait_for_output("trains with the others")) << b->out << b->err;
        const auto c = start({"join", address, "--dir", "c", "--data", "texts"});
        ASSERT_TRUE(c->wait_for_output("trains with the others")) << c->out << c->err;
        const std::uint64_t together = status("c")["step"];
        while (checkpoints.steps()->empty() || checkpoints.steps()->back() <= together) {
        }
        for (const auto* node : {&a, &b, &c}) (*node)->signal(SIGKILL);
        for (const auto* node : {&a, &b, &c}) (*node)->wait();
    }
    const std::uint64_t saved = checkpoints.steps()->back();
    std::filesystem::remove_all(folder / "founder");
    const auto b = start({"join", "--dir", "b"});
    const auto c = start({"join", "--dir", "c"});
    ASSERT_TRUE(b->wait_for_output("goes on from step " + std::to_string(saved))) << b->out << b->err;
    ASSERT_TRUE(c->wait_for_output("trains with the others")) << c->out << c->err;
    EXPECT_GE(status("c")["step"], saved);
    const Outcome checked = run({"journal", "check", "b", "c"});
    EXPECT_EQ(checked.code, 0) << checked.out << checked.err;
}

// What its run file names lies where the founder's does, and not in the folder of who joined.
TEST_F(Up, WhoseFilesLieElsewhereComesBackAndIsComputedAgain) {
    std::string run_file = text_run("steps = 1000000\neval_every = 0\ncheckpoint_every = 0\n");
    const std::string files = "files = \"text.txt\"";
    run_file.replace(run_file.find(files), files.size(), "files = \"te*.txt\"\ntokenizer = \"words/tokens.json\"");
    const std::string threads = "threads = 2";
    run_file.replace(run_file.find(threads), threads.size(), "threads = 1");
    const std::string text = std::string(3000, 'a') + std::string(3000, 'b');
    folder.write("founder/run.toml", run_file);
    folder.write("founder/words/tokens.json", state::byte_tokenizer_json());
    folder.write("founder/text.txt", text);
    folder.write("texts/text.txt", text);
    const auto a = start({"up", "founder/run.toml", "--dir", "a", "--listen", "127.0.0.1:0"});
    ASSERT_TRUE(a->wait_for_output("join with")) << a->err;
    const std::size_t at = a->out.find("listens at ") + std::string("listens at ").size();
    const std::string address = a->out.substr(at, a->out.find('\n', at) - at);
    for (const std::vector<std::string>& data : {std::vector<std::string>{"--data", "texts"}, {}}) {
        std::vector<std::string> arguments{"join", address, "--dir", "b"};
        arguments.insert(arguments.end(), data.begin(), data.end());
        const auto b = start(arguments);
        ASSERT_TRUE(b->wait_for_output("trains with the others")) << b->out << b->err;
        b->signal(SIGKILL);
        b->wait();
    }
    a->signal(SIGINT);
    EXPECT_EQ(a->wait(), 0) << a->err;
    for (const std::vector<std::string>& nodes : {std::vector<std::string>{"a"}, {"b", "a"}}) {
        std::vector<std::string> arguments{"replay"};
        arguments.insert(arguments.end(), nodes.begin(), nodes.end());
        const Outcome again = run(arguments);
        EXPECT_EQ(again.code, 0) << again.out << again.err;
        EXPECT_THAT(again.out, HasSubstr("equal bits"));
    }
}

TEST_F(Up, WhoNormalisesOverBatchesIsToldWhatThatMeansForSeveralNodes) {
    folder.write("resnet.toml",
                 "[model]\nkind = \"resnet18\"\nnorm = \"batch\"\n[data]\nkind = \"synthetic\"\nshape = [3, 8, 8]\n"
                 "samples = 64\n[train]\nsteps = 1000000\nbatch = 2\nthreads = 1\neval_every = 0\n");
    const auto a = start({"up", "resnet.toml", "--dir", "a", "--listen", "127.0.0.1:0"});
    EXPECT_TRUE(a->wait_for_output("depends on how a batch is divided")) << a->err;
    const std::size_t at = a->out.find("listens at ") + std::string("listens at ").size();
    const auto b = start({"join", a->out.substr(at, a->out.find('\n', at) - at), "--dir", "b"});
    EXPECT_TRUE(b->wait_for_output("depends on how a batch is divided")) << b->err;
}

TEST_F(Up, WhoNeverJoinedIsAskedByWhom) {
    std::string address;
    const auto a = found(address);
    const Outcome refused = run({"join", "--dir", "b"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("say by whom it joins"));
}

TEST_F(Up, TheReadmesLinesRunAsTheyStand) {
    const std::string readme = *read_file(CHAOS_SOURCE "/README.md");
    const std::string before = "Training together:\n\n```sh\n";
    ASSERT_NE(readme.find(before), std::string::npos);
    const std::size_t begin = readme.find(before) + before.size();
    std::istringstream block(readme.substr(begin, readme.find("```", begin) - begin));
    std::filesystem::create_directory_symlink(CHAOS_SOURCE "/examples", folder / "examples");
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "It was said " + std::to_string(i) + " times. ";
    folder.write("texts.txt", text);

    std::string address;
    std::vector<std::unique_ptr<Process>> nodes;
    for (std::string line; std::getline(block, line);) {
        std::istringstream words(line.substr(0, line.find('#')));
        const std::vector<std::string> command{std::istream_iterator<std::string>(words), {}};
        SCOPED_TRACE(line);
        ASSERT_GE(command.size(), 3U);
        if (command[0] == "cp") {
            ASSERT_EQ(command[2], ".");
            std::filesystem::copy(folder / command[1], folder.path());
            continue;
        }
        ASSERT_EQ(command[0], "chaos");
        std::vector<std::string> arguments(command.begin() + 1, command.end());
        // Where something else of this machine has the port, the founder says which other it took.
        for (std::string& argument : arguments)
            if (argument == "127.0.0.1:7440") argument = address;
        if (arguments[0] != "up" && arguments[0] != "join") {
            const Outcome told = run(arguments);
            EXPECT_EQ(told.code, 0) << told.out << told.err;
            continue;
        }
        nodes.push_back(start(arguments));
        Process& node = *nodes.back();
        ASSERT_TRUE(node.wait_for_output(arguments[0] == "up" ? "join with" : "trains with the others"))
            << node.out << node.err;
        if (!address.empty()) continue;
        const std::size_t at = node.out.find("listens at ") + std::string("listens at ").size();
        address = node.out.substr(at, node.out.find('\n', at) - at);
    }
    ASSERT_EQ(nodes.size(), 2U);
    EXPECT_EQ(nodes[0]->wait(), 0) << nodes[0]->err;
    EXPECT_THAT(nodes[0]->out, HasSubstr("has left the cluster"));
    while (status("b")["members"].size() != 1) {
    }
}

TEST_F(Up, WhereThePortIsTakenAnotherWillDo) {
    const auto one = start({"up", "run.toml", "--dir", "one"});
    ASSERT_TRUE(one->wait_for_output("join with")) << one->err;
    const auto other = start({"up", "run.toml", "--dir", "other"});
    ASSERT_TRUE(other->wait_for_output("step ")) << other->out << other->err;
    EXPECT_NE(status("one")["node"], status("other")["node"]);
}

TEST_F(Up, AnotherRunThanTheClustersIsRefusedWithTheDifference) {
    std::string address;
    const auto a = found(address);
    std::string other = *read_file(folder / "run.toml");
    other.replace(other.find("batch = 8"), 9, "batch = 9");
    folder.write("other.toml", other);
    const Outcome refused = run({"up", "other.toml", "--dir", "b", "--join", address});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("the cluster trains another run: train.batch is 8 there, and 9 here"));
}

TEST_F(Up, WhatIsDamagedInItsFolderIsNamedWithAWayOut) {
    {
        std::string address;
        const auto a = found(address);
        ASSERT_TRUE(a->wait_for_output("saved ")) << a->err;
        a->signal(SIGKILL);
        a->wait();
    }
    const auto damaged = [&](const std::string& file) {
        const std::string sound = *read_file(folder / file);
        folder.write(file, std::string(sound.size(), 'x'));
        const Outcome refused = run({"up", "run.toml", "--dir", "a", "--listen", "127.0.0.1:0"});
        EXPECT_EQ(refused.code, 2) << file;
        folder.write(file, sound);
        return refused.err;
    };
    EXPECT_THAT(damaged("a/journal"), HasSubstr("move it away to begin another one"));
    EXPECT_THAT(damaged("a/vote"), HasSubstr("join with another folder"));
    const state::CheckpointFolder checkpoints{folder / "a/checkpoints"};
    const std::uint64_t newest = checkpoints.steps()->back();
    EXPECT_THAT(damaged("a/checkpoints/" + checkpoints.path_of(newest).filename().string()),
                HasSubstr("remove it to go on "));
    const auto again = start({"up", "run.toml", "--dir", "a", "--listen", "127.0.0.1:0"});
    EXPECT_TRUE(again->wait_for_output("goes on from step " + std::to_string(newest))) << again->err;
}

// Without a checkpoint, only the vote tells which run the folder is of.
TEST_F(Up, AFolderOfAnotherRunIsRefused) {
    std::string other = *read_file(folder / "run.toml");
    other.replace(other.find("checkpoint_every = 500"), 22, "checkpoint_every = 0");
    folder.write("run.toml", other);
    {
        std::string address;
        const auto a = found(address);
        ASSERT_TRUE(a->wait_for_output("step ")) << a->err;
        a->signal(SIGKILL);
        a->wait();
    }
    other.replace(other.find("batch = 8"), 9, "batch = 9");
    folder.write("run.toml", other);
    const Outcome refused = run({"up", "run.toml", "--dir", "a", "--listen", "127.0.0.1:0"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("a vote in the cluster of another run"));
}

TEST_F(Up, OptionsThatMakeNoSenseAreRefused) {
    for (const std::vector<std::string>& wrong : {std::vector<std::string>{"up", "run.toml", "--max-steps", "-1"},
                                                  {"up", "run.toml", "--join", "nonsense"},
                                                  {"join", "nonsense"},
                                                  {"up", "run.toml", "--address", "nonsense"},
                                                  {"up", "run.toml", "--dir", "run.toml"}}) {
        const Outcome refused = run(wrong);
        EXPECT_NE(refused.code, 0) << wrong.back();
        EXPECT_THAT(refused.err, Not(IsEmpty())) << wrong.back();
    }
}

TEST_F(Up, ANodeWithoutAnInvitationIsToldHowToGetOne) {
    const Outcome refused = run({"join", "127.0.0.1:1", "--dir", "b"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("chaos institution invite"));
}

}  // namespace
}  // namespace chaos::test
