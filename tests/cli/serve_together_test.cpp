// Real processes that compute one small model together, and a client that must not notice when one of them is gone.
#include "cli/process.h"
#include "serve/client.h"
#include "shared.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

namespace chaos::test {
namespace {

using nlohmann::json;

class ServeTogether : public testing::Test {
protected:
    // A node of its own folder, by the port at which it answers.
    struct Node {
        std::unique_ptr<Process> process;
        std::uint16_t port = 0;
    };
    void SetUp() override { CHAOS_NEED_SHARED("models"); }

    static constexpr const char* model = "models/llama3-shakespeare";

    // All of them compute, small as the model is.
    Node start(const std::string& name, const std::vector<std::string>& more, bool files = true,
               std::uint16_t port = 0) {
        return answering(launch(name, more, files, port));
    }
    std::unique_ptr<Process> launch(const std::string& name, const std::vector<std::string>& more, bool files,
                                    std::uint16_t port) {
        std::vector<std::string> words = {
            "serve",     "--dir", name,          "--listen", "127.0.0.1:" + std::to_string(port),
            "--threads", "1",     "--detect-ms", "500",      "--everyone"};
        if (files) words.insert(words.begin() + 1, shared(model).string());
        words.insert(words.end(), more.begin(), more.end());
        return std::make_unique<Process>(words, folder_.path(), [this] { home(); });
    }
    static Node answering(std::unique_ptr<Process> process) {
        Node node;
        node.process = std::move(process);
        EXPECT_TRUE(node.process->wait_for_output("--join 127.0.0.1:")) << node.process->err;
        EXPECT_TRUE(node.process->wait_for_output("/v1")) << node.process->err;
        const std::size_t at = node.process->out.find("--join 127.0.0.1:") + 17;
        node.port = static_cast<std::uint16_t>(std::stoi(node.process->out.substr(at)));
        return node;
    }
    static std::vector<std::string> joining(const Node& node) {
        return {"--join", "127.0.0.1:" + std::to_string(node.port)};
    }
    // Where one of the other processes of --local answers, when it does.
    static std::uint16_t port_of_local(const Node& node, std::size_t number) {
        const std::string before = "/local-" + std::to_string(number) + "; others join with --join 127.0.0.1:";
        EXPECT_TRUE(node.process->wait_for_output(before)) << node.process->err;
        const std::size_t at = node.process->out.find(before) + before.size();
        const int port = std::stoi(node.process->out.substr(at));
        EXPECT_TRUE(node.process->wait_for_output("http://127.0.0.1:" + std::to_string(port) + "/v1"));
        return static_cast<std::uint16_t>(port);
    }
    // Where nobody listens now.
    static std::uint16_t free_port() {
        boost::asio::io_context loop;
        boost::asio::ip::tcp::acceptor acceptor(
            loop, {boost::asio::ip::address_v4::loopback(), boost::asio::ip::port_type{0}});
        return acceptor.local_endpoint().port();
    }
    // Until it computes with so many others.
    static ::testing::AssertionResult computes_with(const Node& node, std::size_t others) {
        if (node.process->wait_for_output("computes with " + std::to_string(others) + " other"))
            return ::testing::AssertionSuccess();
        return ::testing::AssertionFailure() << node.process->out << node.process->err;
    }
    static std::string text_of(std::uint16_t port, std::size_t tokens) {
        Client client(port);
        client.post("/v1/completions", request(tokens, false));
        const Answer answer = client.read_answer();
        EXPECT_EQ(answer.status, 200) << answer.body;
        return json::parse(answer.body)["choices"][0]["text"].get<std::string>();
    }
    static std::string request(std::size_t tokens, bool stream) {
        return json{{"prompt", "Once upon"}, {"max_tokens", tokens}, {"temperature", 0.8}, {"seed", 7},
                    {"ignore_eos", true},    {"stream", stream}}
            .dump();
    }
    // The pieces of a stream put together.
    static std::string joined(const std::string& stream) {
        std::string text;
        for (std::size_t at = stream.find("data: {"); at != std::string::npos; at = stream.find("data: {", at + 1)) {
            const json piece = json::parse(stream.substr(at + 6, stream.find('\n', at) - at - 6));
            EXPECT_FALSE(piece.contains("error")) << piece;
            if (piece.contains("choices") && !piece["choices"].empty())
                text += piece["choices"][0].value("text", std::string());
        }
        return text;
    }

    // What a command says of a node.
    std::string said(const std::vector<std::string>& words) {
        Process command(words, folder_.path(), [this] { home(); });
        EXPECT_EQ(command.wait(), 0) << command.err;
        return command.out;
    }
    void home() const {
        ::setenv("CHAOS_HOME", (folder_.path() / "home").c_str(), 1);
        ::setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
    }

    TemporaryFolder folder_;
};

TEST_F(ServeTogether, EveryMemberAnswersAsOneAlone) {
    const Node first = start("a", {});
    const std::string alone = text_of(first.port, 60);
    const Node second = start("b", joining(first));
    const Node third = start("c", joining(second));
    ASSERT_TRUE(computes_with(third, 2));
    for (const Node* node : {&first, &second, &third}) EXPECT_EQ(text_of(node->port, 60), alone);
    third.process->signal(SIGTERM);
    EXPECT_EQ(third.process->wait(), 0) << third.process->err;
    EXPECT_EQ(text_of(second.port, 60), alone);
}

TEST_F(ServeTogether, AStreamSurvivesTheLossOfOthers) {
    constexpr std::size_t tokens = 400;
    const Node first = start("a", {});
    const std::string alone = text_of(first.port, tokens);
    const Node second = start("b", joining(first));
    const Node third = start("c", joining(first));
    ASSERT_TRUE(computes_with(third, 2));
    for (const int how : {SIGKILL, SIGSTOP}) {
        const Node& victim = how == SIGKILL ? third : second;
        Client client(first.port);
        client.post("/v1/completions", request(tokens, true));
        std::string stream = client.read_until("data: ");
        for (int i = 0; i < 5; ++i) stream += client.read_until("\n\n");
        victim.process->signal(how);
        stream += client.read_until("data: [DONE]");
        EXPECT_EQ(joined(stream), alone);
    }
    // Who was only frozen comes back by itself.
    second.process->signal(SIGCONT);
    ASSERT_TRUE(second.process->wait_for_output("is out: "));
    std::string& said = second.process->out;
    said.erase(0, said.find("is out: "));
    EXPECT_TRUE(computes_with(second, 1));
}

TEST_F(ServeTogether, TheOneThatLeadsMayGoToo) {
    constexpr std::size_t tokens = 400;
    const Node first = start("a", {});
    const std::string alone = text_of(first.port, tokens);
    const Node second = start("b", joining(first));
    ASSERT_TRUE(computes_with(second, 1));
    Client client(second.port);
    client.post("/v1/completions", request(tokens, true));
    std::string stream = client.read_until("data: ");
    for (int i = 0; i < 5; ++i) stream += client.read_until("\n\n");
    first.process->signal(SIGKILL);
    stream += client.read_until("data: [DONE]");
    EXPECT_EQ(joined(stream), alone);
}

TEST_F(ServeTogether, OnlyOneNodeNeedsTheModelsFiles) {
    const Node first = start("a", {});
    const std::string alone = text_of(first.port, 60);
    {
        const Node second = start("b", joining(first), false);
        ASSERT_TRUE(computes_with(second, 1));
        EXPECT_EQ(text_of(second.port, 60), alone);
        ASSERT_TRUE(second.process->wait_for_output("has all of the model")) << second.process->out;
        second.process->signal(SIGTERM);
        EXPECT_EQ(second.process->wait(), 0) << second.process->err;
    }
    // The next time it starts without a transfer.
    const Node second = start("b", joining(first), false);
    ASSERT_TRUE(computes_with(second, 1));
    EXPECT_EQ(text_of(second.port, 60), alone);
    EXPECT_EQ(second.process->out.find("of the model from others"), std::string::npos) << second.process->out;
}

// Two of them have all of the model on their disks, and the node with its files does not come back.
TEST_F(ServeTogether, ACopyOfTheModelIsEnoughToBegin) {
    std::string alone;
    {
        const Node first = start("a", {});
        alone = text_of(first.port, 60);
        const Node second = start("b", joining(first), false);
        ASSERT_TRUE(second.process->wait_for_output("has all of the model")) << second.process->out;
    }
    const Node second = start("b", {}, false);
    EXPECT_EQ(text_of(second.port, 60), alone);
    const Node third = start("c", joining(second), false);
    ASSERT_TRUE(computes_with(third, 1));
    EXPECT_EQ(text_of(third.port, 60), alone);
}

TEST_F(ServeTogether, WhoHasOnlyAPartOfTheModelAndNobodyElseSaysSo) {
    Process nothing({"serve", "--dir", "a", "--listen", "127.0.0.1:0"}, folder_.path(), [this] { home(); });
    EXPECT_EQ(nothing.wait(), 2);
    EXPECT_THAT(nothing.err, testing::HasSubstr("name a model; or, with --join"));
    Process unknown({"serve", "shakespeare", "--dir", "a", "--listen", "127.0.0.1:0"}, folder_.path(),
                    [this] { home(); });
    EXPECT_EQ(unknown.wait(), 2);
    EXPECT_THAT(unknown.err, testing::HasSubstr("there is no model shakespeare"));
}

// One line of a service file is right for every start.
TEST_F(ServeTogether, WhoStartsAgainFindsItsClusterByItself) {
    const std::array ports = {free_port(), free_port()};
    Node first = start("a", {}, true, ports[0]);
    Node second = start("b", joining(first), true, ports[1]);
    ASSERT_TRUE(computes_with(second, 1));
    first.process->signal(SIGKILL);
    (void)first.process->wait();
    first = start("a", {}, true, ports[0]);
    EXPECT_TRUE(computes_with(first, 1));
    EXPECT_EQ(first.process->out.find("founds a cluster\n"), std::string::npos) << first.process->out;
    // All were down, and come back at once.
    for (const Node* node : {&first, &second}) {
        node->process->signal(SIGKILL);
        (void)node->process->wait();
    }
    std::array<std::unique_ptr<Process>, 2> both;
    both[0] = launch("a", {}, true, ports[0]);
    both[1] = launch("b", {}, true, ports[1]);
    first = answering(std::move(both[0]));
    second = answering(std::move(both[1]));
    EXPECT_TRUE(computes_with(first, 1));
    EXPECT_TRUE(computes_with(second, 1));
}

TEST_F(ServeTogether, OneOfThemMayHaveLittleMemory) {
    const std::string prompt(400, 'a');
    const auto text = [&](const Node& node) {
        Client client(node.port);
        client.post("/v1/completions",
                    json{{"prompt", prompt}, {"max_tokens", 30}, {"temperature", 0}, {"ignore_eos", true}}.dump());
        const Answer answer = client.read_answer();
        EXPECT_EQ(answer.status, 200) << answer.body;
        return json::parse(answer.body)["choices"][0]["text"].get<std::string>();
    };
    const Node first = start("a", {});
    const std::string alone = text(first);
    const Node second = start("b", {"--join", "127.0.0.1:" + std::to_string(first.port), "--memory", "60MB"});
    ASSERT_TRUE(computes_with(first, 1));
    EXPECT_EQ(text(first), alone);
    EXPECT_EQ(text(second), alone);
}

TEST_F(ServeTogether, OneWithoutRoomForAnythingIsInNobodysWay) {
    const Node first = start("a", {});
    const std::string alone = text_of(first.port, 60);
    const Node second = start("b", {"--join", "127.0.0.1:" + std::to_string(first.port), "--memory", "1MB"});
    const Node third = start("c", joining(first));
    for (const Node* node : {&first, &second, &third}) EXPECT_EQ(text_of(node->port, 60), alone);
    // Not only the one that leads knows why.
    EXPECT_THAT(said({"why", "--dir", "b"}),
                testing::AllOf(testing::HasSubstr("does not compute: "), testing::HasSubstr(" is left out: ")));
}

TEST_F(ServeTogether, WhoBeginsWithoutRoomWaitsForOthers) {
    Process first({"serve", shared(model).string(), "--dir", "a", "--listen", "127.0.0.1:0", "--threads", "1",
                   "--detect-ms", "500", "--memory", "1MB"},
                  folder_.path(), [this] { home(); });
    ASSERT_TRUE(first.wait_for_output("waits for others")) << first.out << first.err;
    ASSERT_TRUE(first.wait_for_output("--join 127.0.0.1:")) << first.out << first.err;
    const auto port = static_cast<std::uint16_t>(std::stoi(first.out.substr(first.out.find("--join 127.0.0.1:") + 17)));
    const Node second = start("b", {"--join", "127.0.0.1:" + std::to_string(port)});
    ASSERT_TRUE(first.wait_for_output("/v1")) << first.out << first.err;
    EXPECT_EQ(text_of(port, 60), text_of(second.port, 60));
}

// The same way as by Ctrl-C.
TEST_F(ServeTogether, WhoLeavesEndsItsAnswersFirst) {
    constexpr std::size_t tokens = 400;
    const Node first = start("a", {});
    const std::string alone = text_of(first.port, tokens);
    const Node second = start("b", joining(first));
    ASSERT_TRUE(computes_with(second, 1));
    Client client(first.port);
    client.post("/v1/completions", request(tokens, true));
    std::string stream = client.read_until("data: ");
    EXPECT_NE(said({"leave", "--dir", "a"}).find("leaves when the answers under way have ended"), std::string::npos);
    stream += client.read_until("data: [DONE]");
    EXPECT_EQ(joined(stream), alone);
    EXPECT_EQ(first.process->wait(), 0) << first.process->err;
    EXPECT_EQ(text_of(second.port, tokens), alone);
}

TEST_F(ServeTogether, ANodeWithAnotherModelIsTold) {
    const Node first = start("a", {});
    Process other({"serve", shared("models/qwen3-tiny").string(), "--dir", "b", "--listen", "127.0.0.1:0", "--join",
                   "127.0.0.1:" + std::to_string(first.port)},
                  folder_.path(), [this] { home(); });
    EXPECT_EQ(other.wait(), 2);
    EXPECT_THAT(other.err, testing::HasSubstr("serve llama3-shakespeare"));
}

TEST_F(ServeTogether, ANodeTellsItsStatus) {
    const Node first = start("a", {});
    const Node second = start("b", joining(first));
    ASSERT_TRUE(computes_with(first, 1));
    EXPECT_FALSE(text_of(first.port, 60).empty());
    const json status = json::parse(said({"status", "--dir", "a", "--json"}));
    EXPECT_EQ(status["model"], "llama3-shakespeare");
    EXPECT_EQ(status["members"].size(), 2U);
    EXPECT_EQ(status["together"].size(), 2U);
    EXPECT_EQ(status["exchange"], "direct");
    EXPECT_TRUE(status["whole"].get<bool>());
    EXPECT_GT(status["passes"].get<int>(), 0);
    EXPECT_GT(status["predicted_ms_per_token"].get<double>(), 0.0);
    EXPECT_GT(status["share"]["weight_bytes"].get<int>(), 0);
    EXPECT_THAT(said({"status", "--dir", "a"}), testing::HasSubstr("computed by 2 nodes (direct)"));
    EXPECT_THAT(said({"why", "--dir", "a"}), testing::HasSubstr("waits for requests"));
    EXPECT_THAT(said({"events", "--dir", "a", "--json"}), testing::HasSubstr("\"kind\":\"joined\""));
    (void)said({"leave", "--dir", "b"});
    EXPECT_EQ(second.process->wait(), 0) << second.process->err;
    EXPECT_FALSE(text_of(first.port, 20).empty());
}

TEST_F(ServeTogether, SeveralProcessesOfOneMachineAreOneCommand) {
    std::string alone;
    {
        const Node node = start("alone", {});
        alone = text_of(node.port, 60);
    }
    const Node node = start("a", {"--local", "3"});
    ASSERT_TRUE(computes_with(node, 2));
    for (const std::uint16_t port : {node.port, port_of_local(node, 1), port_of_local(node, 2)})
        EXPECT_EQ(text_of(port, 60), alone);
    node.process->signal(SIGTERM);
    EXPECT_EQ(node.process->wait(), 0) << node.process->err;
}

// Else each would plan with all of it.
TEST_F(ServeTogether, ProcessesOfOneMachineShareItsMemory) {
    const Node node = start("a", {"--local", "2"});
    ASSERT_TRUE(computes_with(node, 1));
    const std::string pid = std::to_string(node.process->pid());
    std::string child;
    std::ifstream("/proc/" + pid + "/task/" + pid + "/children") >> child;
    std::ifstream file("/proc/" + child + "/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    const auto at = std::ranges::find(words, "--memory");
    ASSERT_LT(at - words.begin(), std::ssize(words) - 1);
    std::ifstream meminfo("/proc/meminfo");
    std::string name;
    std::uint64_t kibibytes = 0;
    meminfo >> name >> kibibytes;
    ASSERT_EQ(name, "MemTotal:");
    EXPECT_GT(std::stoull(*(at + 1)), 0U);
    EXPECT_LE(std::stoull(*(at + 1)), kibibytes * 1024 / 2);
}

TEST_F(ServeTogether, AllProcessesOfOneMachineNeedTheKey) {
    const Node node = start("a", {"--local", "2", "--api-key", "sesame"});
    ASSERT_TRUE(computes_with(node, 1));
    for (const std::uint16_t port : {node.port, port_of_local(node, 1)}) {
        const auto status = [port](const std::string& fields) {
            Client client(port);
            client.get("/v1/models", fields);
            return client.read_answer().status;
        };
        EXPECT_EQ(status(""), 401);
        EXPECT_EQ(status("Authorization: Bearer a/local-1\r\n"), 401);
        EXPECT_EQ(status("Authorization: Bearer sesame\r\n"), 200);
    }
}

}  // namespace
}  // namespace chaos::test
