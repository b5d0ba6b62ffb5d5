// The commands to a running node, as a user runs them.
#include "cli/process.h"
#include "node/fake_node.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace chaos::test {
namespace {

using ::testing::HasSubstr;

class ControlCommands : public ::testing::Test {
protected:
    ControlCommands() : node(dir()) {
        ::unsetenv("CHAOS_DIR");
        node.on("status", [](const json& request, const node::Reply& reply) {
            reply.send({{"node", "4711ab0155aa"}, {"role", "active"}, {"step", 1}});
            if (!request.at("watch").get<bool>()) return reply.end();
            reply.subscribe("status");
        });
        node.on("events", [](const json& request, const node::Reply& reply) {
            for (std::uint64_t number = request.value("last", 3U); number > 0; --number)
                reply.send({{"time", 0}, {"kind", "note"}, {"text", std::to_string(number) + " left"}});
            if (!request.at("follow").get<bool>()) return reply.end();
            reply.subscribe("events");
        });
        node.on("why", [](const json&, const node::Reply& reply) {
            reply.answer({{"why", "waits for nobody"}, {"details", {"it is alone"}}});
        });
        node.on("leave", [this](const json&, const node::Reply& reply) {
            reply.send({{"text", "leaving after step 7"}});
            node.replies().push_back(reply);
        });
        node.on("recover", [this](const json& request, const node::Reply& reply) {
            reply.send({{"text", "not here: 93aa0177"}});
            if (!request.at("force").get<bool>()) return reply.answer({{"text", "nothing was changed"}});
            node.replies().push_back(reply);
        });
        node.on("institution", [](const json& request, const node::Reply& reply) {
            const std::string change = request.at("change");
            if (change == "remove") return reply.refuse("it is the only institution of this cluster");
            reply.answer(
                {{"text", change + " " + request.at(change == "admit" ? "root" : "revocation").get<std::string>()}});
        });
        node.on("link", [](const json& request, const node::Reply& reply) {
            if (request.at("b") == "ff") return reply.refuse("no node's id begins with ff");
            reply.answer(
                {{"text", request.at("change").get<std::string>() + " " + request.at("a").get<std::string>()}});
        });
    }

    std::filesystem::path dir() const {
        std::filesystem::create_directories(folder.path() / "run");
        return folder.path() / "run";
    }
    Outcome run(const std::vector<std::string>& arguments) const { return run_chaos(arguments, folder.path()); }

    TemporaryFolder folder;
    FakeNode node;
};

TEST_F(ControlCommands, StatusIsForPeopleAndForPrograms) {
    const Outcome text = run({"status"});  // the only node below the current folder
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.out, "node 4711ab01: active\nrun : step 1\n");
    const Outcome object = run({"status", "--dir", "run", "--json"});
    EXPECT_EQ(object.out, "{\"node\":\"4711ab0155aa\",\"role\":\"active\",\"step\":1}\n");
}

TEST_F(ControlCommands, StatusIsWatchedUntilTheNodeStops) {
    Process watching({"status", "--watch", "--json"}, folder.path());
    ASSERT_TRUE(watching.wait_for_output("\"step\":1}"));
    node.publish("status", {{"step", 2}});
    ASSERT_TRUE(watching.wait_for_output("{\"step\":2}\n"));
    node.in_loop([this] { node.control().stop(); });
    EXPECT_EQ(watching.wait(), 0) << watching.err;
}

TEST_F(ControlCommands, EventsAreListedAndFollowed) {
    EXPECT_THAT(run({"events"}).out, HasSubstr("3 left"));
    const Outcome last = run({"events", "--last", "1", "--json"});
    EXPECT_EQ(last.out, "{\"kind\":\"note\",\"text\":\"1 left\",\"time\":0}\n");
    Process following({"events", "--follow"}, folder.path());
    ASSERT_TRUE(following.wait_for_output("1 left"));
    node.publish("events", {{"time", 0}, {"kind", "joined"}, {"text", "somebody came"}});
    ASSERT_TRUE(following.wait_for_output("somebody came\n"));
}

TEST_F(ControlCommands, WhyExplains) {
    EXPECT_EQ(run({"why"}).out, "waits for nobody\n  it is alone\n");
}

TEST_F(ControlCommands, LeavingTakesUntilTheNodeHasLeft) {
    Process leaving({"leave"}, folder.path());
    ASSERT_TRUE(leaving.wait_for_output("leaving after step 7\n"));
    node.in_loop([this] { node.replies().front().answer({{"text", "left"}}); });
    EXPECT_EQ(leaving.wait(), 0);
    EXPECT_EQ(leaving.out, "leaving after step 7\nleft\n");
}

TEST_F(ControlCommands, RecoveringExplainsUnlessItIsForced) {
    EXPECT_EQ(run({"recover"}).out, "not here: 93aa0177\nnothing was changed\n");
    Process forced({"recover", "--force", "--dir", "run"}, folder.path());
    ASSERT_TRUE(forced.wait_for_output("not here: 93aa0177\n"));
    node.in_loop([this] { node.replies().front().answer({{"text", "recovered"}}); });
    EXPECT_EQ(forced.wait(), 0);
    EXPECT_EQ(forced.out, "not here: 93aa0177\nrecovered\n");
}

TEST_F(ControlCommands, InstitutionsChange) {
    EXPECT_EQ(run({"institution", "admit", "00ff"}).out, "admit 00ff\n");
    EXPECT_EQ(run({"institution", "remove", "00ff", "--dir", "run"}).err,
              "chaos: it is the only institution of this cluster\n");
    EXPECT_EQ(run({"institution", "revoke", "chaos-revoke-00"}).out, "revoke chaos-revoke-00\n");
}

TEST_F(ControlCommands, LinksChange) {
    EXPECT_EQ(run({"link", "add", "47", "93"}).out, "add 47\n");
    EXPECT_EQ(run({"link", "remove", "47", "93", "--dir", "run"}).out, "remove 47\n");
    const Outcome refused = run({"link", "add", "47", "ff"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.err, "chaos: no node's id begins with ff\n");
    EXPECT_EQ(run({"link", "add", "47"}).code, 2);
}

TEST_F(ControlCommands, TheEnvironmentNamesTheFolder) {
    const Outcome elsewhere =
        run_chaos({"why"}, "/", [this] { ::setenv("CHAOS_DIR", (folder.path() / "run").c_str(), 1); });
    EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
    const Outcome nowhere = run({"why", "--dir", "nowhere"});
    EXPECT_EQ(nowhere.code, 2);
    EXPECT_EQ(nowhere.err, "chaos: the folder nowhere does not exist\n");
}

}  // namespace
}  // namespace chaos::test
