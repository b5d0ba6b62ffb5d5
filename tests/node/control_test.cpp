#include "node/control.h"

#include "node/clients.h"
#include "node/fake_node.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace chaos::node {
namespace {

using test::ask_all;
using test::error_of;
using test::FakeNode;
using test::json;
using test::Listener;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

// A client that does what it should not.
class RawClient {
public:
    explicit RawClient(const std::filesystem::path& dir) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, (dir / "control.sock").c_str(), sizeof address.sun_path - 1);
        EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
            << std::strerror(errno);
    }
    ~RawClient() { hang_up(); }
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    void send(const std::string& text) const {
        std::size_t from = 0;
        while (from < text.size()) {
            const ssize_t sent = ::send(socket_, text.data() + from, text.size() - from, MSG_NOSIGNAL);
            if (sent < 0) return;  // the node has closed
            from += static_cast<std::size_t>(sent);
        }
    }
    void finish_talking() const { ::shutdown(socket_, SHUT_WR); }
    void hang_up() {
        if (socket_ >= 0) ::close(std::exchange(socket_, -1));
    }
    // Everything up to the end.
    [[nodiscard]] std::string read_all() const {
        std::string text;
        std::array<char, 4096> buffer{};
        for (ssize_t got = 0; (got = ::recv(socket_, buffer.data(), buffer.size(), 0)) > 0;)
            text.append(buffer.data(), static_cast<std::size_t>(got));
        return text;
    }
    [[nodiscard]] std::string read_line() const {
        std::string text;
        for (char letter = 0; ::recv(socket_, &letter, 1, 0) == 1 && letter != '\n';) text += letter;
        return text;
    }

private:
    int socket_;
};

TEST(Control, AnswersOneLineOrMany) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path());
    const json request = {{"command", "echo"}, {"text", "grüße\n"}};
    const auto echoed = ask_all(folder.path(), request);
    ASSERT_TRUE(echoed) << echoed.error().message;
    EXPECT_THAT(*echoed, ElementsAre(request));
    const auto counted = ask_all(folder.path(), {{"command", "count"}, {"to", 20'000}});
    ASSERT_TRUE(counted) << counted.error().message;
    ASSERT_EQ(counted->size(), 20'000);
    EXPECT_EQ(counted->back(), json({{"number", 19'999}}));
    const auto none = ask_all(folder.path(), {{"command", "count"}, {"to", 0}});
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_THAT(*none, IsEmpty());
}

TEST(Control, OneLineMayBeLongerThanWhatMayWait) {
    const TemporaryFolder folder;
    FakeNode node(folder.path(), {.max_unread_bytes = 1000});
    const std::string text(3 << 20, 'x');
    node.on("long", [&text](const json&, const Reply& reply) { reply.answer({{"text", text}}); });
    const auto answer = ask_all(folder.path(), {{"command", "long"}});
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_THAT(*answer, ElementsAre(json({{"text", text}})));
}

TEST(Control, ErrorsAreSentences) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path());
    EXPECT_EQ(error_of(folder.path(), {{"command", "dance"}}), "there is no command \"dance\"");
    EXPECT_EQ(error_of(folder.path(), {{"command", 7}}), "the request names no command");
    EXPECT_EQ(error_of(folder.path(), {{"commend", "echo"}}), "the request names no command");
    EXPECT_EQ(error_of(folder.path(), json::array()), "the request is not a JSON object");
    EXPECT_THAT(error_of(folder.path(), {{"command", "count"}, {"to", "many"}}),
                HasSubstr("the request is not what the command takes"));
    EXPECT_EQ(error_of(folder.path(), {{"command", "forget"}}), "the node has no answer to this");
}

TEST(Control, GarbageIsRefused) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path(), {.max_request_bytes = 50'000});
    for (const std::string& garbage : {std::string("\n"), std::string("{\"command\": \"ec\n"),
                                       std::string("\0\xff\n", 3), std::string("GET / HTTP/1.1\r\n\r\n")}) {
        const RawClient client(folder.path());
        client.send(garbage);
        EXPECT_EQ(client.read_all(), "{\"error\":\"the request is not JSON\"}\n\n");
    }
    const RawClient deep(folder.path());
    deep.send("{\"command\":" + std::string(40'000, '[') + std::string(5'000, ']') + "\n");
    EXPECT_EQ(deep.read_all(), "{\"error\":\"the request is nested too deeply\"}\n\n");
    const RawClient long_winded(folder.path());
    long_winded.send(std::string(1 << 20, ' '));
    EXPECT_EQ(long_winded.read_all(), "{\"error\":\"the request is longer than 50000 bytes\"}\n\n");
    EXPECT_TRUE(ask_all(folder.path(), {{"command", "echo"}}));
}

TEST(Control, AClientThatHasFinishedTalkingIsAnswered) {
    const TemporaryFolder folder;
    FakeNode node(folder.path());
    const RawClient client(folder.path());
    client.send("{\"command\":\"listen\",\"topic\":\"news\"}");  // without an end of the line
    client.finish_talking();
    EXPECT_EQ(client.read_line(), "{\"listening\":\"news\"}");
    node.publish("news", {{"number", 1}});
    EXPECT_EQ(client.read_line(), "{\"number\":1}");
}

TEST(Control, AClientThatSaysNothingIsDropped) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path(), {.request_limit = 20ms});
    const RawClient client(folder.path());
    client.send("{\"command\":");
    EXPECT_EQ(client.read_all(), "");
}

TEST(Control, ManyClientsAtOnce) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path());
    std::vector<std::thread> clients;
    std::atomic<int> wrong = 0;
    for (int client = 0; client < 8; ++client)
        clients.emplace_back([&wrong, &folder, client] {
            for (int round = 0; round < 50; ++round) {
                const auto lines = ask_all(folder.path(), {{"command", "count"}, {"to", client * 20}});
                if (!lines || lines->size() != static_cast<std::size_t>(client * 20)) ++wrong;
            }
        });
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Control, TooManyClientsAreRefused) {
    const TemporaryFolder folder;
    FakeNode node(folder.path(), {.max_connections = 3});
    std::vector<std::unique_ptr<RawClient>> waiting;
    for (std::size_t number = 0; number < 3; ++number) {
        waiting.push_back(std::make_unique<RawClient>(folder.path()));
        waiting.back()->send("{\"command\":\"later\"}\n");
        node.wait([&] { return node.replies().size() == number + 1; });
    }
    EXPECT_EQ(error_of(folder.path(), {{"command", "echo"}}),
              "the node serves 3 commands already; end one of them first");
    waiting.pop_back();
    node.wait([&] { return !node.replies().back().open(); });
    while (!ask_all(folder.path(), {{"command", "echo"}})) std::this_thread::yield();
}

TEST(Control, AReplyMayComeLater) {
    const TemporaryFolder folder;
    FakeNode node(folder.path());
    Listener client(folder.path(), {{"command", "later"}});
    node.wait([&] { return node.replies().size() == 1; });
    EXPECT_TRUE(ask_all(folder.path(), {{"command", "echo"}}));  // others are not held up
    node.in_loop([&] {
        const Reply reply = node.replies().front();
        reply.send({{"number", 1}});
        reply.answer({{"number", 2}});
        EXPECT_FALSE(reply.open());
        reply.send({{"number", 3}});  // too late
        reply.end();
    });
    EXPECT_EQ(client.wait(), "");
    EXPECT_EQ(client.last(), 2);
}

TEST(Control, AClientThatVanishesIsNoticed) {
    const TemporaryFolder folder;
    FakeNode node(folder.path());
    RawClient client(folder.path());
    client.send("{\"command\":\"later\"}\n");
    RawClient listener(folder.path());
    listener.send("{\"command\":\"listen\",\"topic\":\"news\"}\n");
    node.wait([&] { return node.replies().size() == 1 && node.control().has_listeners("news"); });
    client.hang_up();
    listener.hang_up();
    node.wait([&] { return !node.replies().front().open() && !node.control().has_listeners("news"); });
    node.in_loop([&] { node.replies().front().answer({{"number", 1}}); });
    node.publish("news", {{"number", 1}});
}

TEST(Control, TopicsReachTheirListeners) {
    const TemporaryFolder folder;
    FakeNode node(folder.path());
    std::vector<std::unique_ptr<Listener>> listeners;
    for (int number = 0; number < 4; ++number)
        listeners.push_back(std::make_unique<Listener>(
            folder.path(), json{{"command", "listen"}, {"topic", number % 2 == 0 ? "even" : "odd"}}));
    for (const auto& listener : listeners) listener->wait_for_lines(1);
    for (int number = 0; number < 100; ++number) node.publish(number % 2 == 0 ? "even" : "odd", {{"number", number}});
    for (const auto& listener : listeners) listener->wait_for_lines(51);
    node.in_loop([&] { node.control().stop(); });
    for (std::size_t number = 0; number < listeners.size(); ++number) {
        EXPECT_EQ(listeners[number]->wait(), "");
        EXPECT_EQ(listeners[number]->last(), number % 2 == 0 ? 98 : 99);
    }
}

TEST(Control, WhoDoesNotReadIsDroppedAndOthersAreNot) {
    const TemporaryFolder folder;
    FakeNode node(folder.path(), {.max_unread_bytes = 100'000});
    const RawClient sleeper(folder.path());
    sleeper.send("{\"command\":\"listen\",\"topic\":\"slow\"}\n");
    node.wait([&] { return node.control().has_listeners("slow"); });
    Listener awake(folder.path(), {{"command", "listen"}, {"topic", "news"}});
    awake.wait_for_lines(1);
    const std::string text(10'000, 'x');
    for (int number = 0; node.in_loop([&] { return node.control().has_listeners("slow"); }); ++number) {
        ASSERT_LT(number, 1000);  // what the system holds and what we hold is less
        node.publish("slow", {{"text", text}});
    }
    node.publish("news", {{"number", 1}});
    awake.wait_for_lines(2);
    const std::string heard = sleeper.read_all();
    EXPECT_NE(heard.substr(heard.size() - 2), "\n\n");  // it can tell that this is not all
    node.in_loop([&] { node.control().stop(); });
    EXPECT_EQ(awake.wait(), "");
}

TEST(Control, WhoReadsNothingForLongIsDropped) {
    const TemporaryFolder folder;
    FakeNode node(folder.path(), {.unread_limit = 20ms});
    const std::string text(3 << 20, 'x');
    node.on("long", [&](const json&, const Reply& reply) {
        reply.send({{"text", text}});
        node.replies().push_back(reply);
    });
    const RawClient sleeper(folder.path());
    sleeper.send("{\"command\":\"long\"}\n");
    node.wait([&] { return !node.replies().empty() && !node.replies().front().open(); });
}

TEST(Control, WhatChangesOftenIsPublishedNowAndThen) {
    const TemporaryFolder folder;
    FakeNode node(folder.path(), {.refresh_interval = 30ms});
    std::vector<std::chrono::steady_clock::time_point> made;
    int number = 0;
    const auto change_often = [&] {
        node.in_loop([&] {
            for (int round = 0; round < 100; ++round) {
                ++number;
                node.control().refresh("status", [&] {
                    made.push_back(std::chrono::steady_clock::now());
                    return json{{"number", number}};
                });
            }
        });
    };
    change_often();
    Listener listener(folder.path(), {{"command", "listen"}, {"topic", "status"}});
    listener.wait_for_lines(1);
    EXPECT_EQ(node.in_loop([&] { return made.size(); }), 0);  // nobody listened
    change_often();
    listener.wait_for_lines(2);
    EXPECT_EQ(listener.last(), 200);
    change_often();
    listener.wait_for_lines(3);
    EXPECT_EQ(listener.last(), 300);
    node.in_loop([&] { node.control().stop(); });
    EXPECT_EQ(listener.wait(), "");
    ASSERT_EQ(made.size(), 2);
    EXPECT_GE(made[1] - made[0], 30ms);
}

TEST(Control, StoppingEndsWhatIsPending) {
    const TemporaryFolder folder;
    FakeNode node(folder.path());
    Listener client(folder.path(), {{"command", "later"}});
    node.wait([&] { return node.replies().size() == 1; });
    node.in_loop([&] {
        node.control().stop();
        node.replies().front().answer({{"number", 1}});
    });
    EXPECT_EQ(client.wait(), "the node stopped before it could answer");
    EXPECT_FALSE(std::filesystem::exists(folder / "control.sock"));
}

TEST(Control, WhatWasSentArrivesAlthoughTheLoopEnds) {
    const TemporaryFolder folder;
    auto node = std::make_unique<FakeNode>(folder.path());
    Listener client(folder.path(), {{"command", "later"}});
    node->wait([&] { return node->replies().size() == 1; });
    node->in_loop([&] {
        node->replies().front().answer({{"number", 1}});
        node->control().stop();
    });
    node.reset();
    EXPECT_EQ(client.wait(), "");
    EXPECT_EQ(client.last(), 1);
}

TEST(Control, TheSocketIsForItsUserAlone) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path());
    struct stat info{};
    ASSERT_EQ(::stat((folder / "control.sock").c_str(), &info), 0);
    EXPECT_TRUE(S_ISSOCK(info.st_mode));
    EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST(Control, ASocketOfADeadProcessIsReplaced) {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "control.sock";
    const std::filesystem::path aside = folder / "aside";
    {
        const FakeNode node(folder.path());
        std::filesystem::rename(path, aside);  // so that it stays when the node stops
    }
    std::filesystem::rename(aside, path);
    folder.write("lock");
    EXPECT_EQ(error_of(folder.path(), {{"command", "echo"}}), "no node runs in " + folder.path().string() +
                                                                  " (start one: chaos up RUN.toml --dir " +
                                                                  folder.path().string() + ")");
    const FakeNode node(folder.path());
    EXPECT_TRUE(ask_all(folder.path(), {{"command", "echo"}}));
}

TEST(Control, WhatIsNoSocketIsNotReplaced) {
    const TemporaryFolder folder;
    folder.write("control.sock", "precious");
    boost::asio::io_context loop;
    class : public ControlHandler {
        void answer(const json&, const Reply&) override {}
    } handler;
    const auto opened = ControlSocket::open(loop, folder.path(), handler);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().message, (folder / "control.sock").string() + " is in the way: it is not a socket");
}

TEST(Control, PathsMayBeLong) {
    const TemporaryFolder folder;
    const std::filesystem::path dir = folder.path() / std::string(100, 'a') / std::string(200, 'b');
    std::filesystem::create_directories(dir);
    {
        const FakeNode node(dir);
        EXPECT_TRUE(ask_all(dir, {{"command", "echo"}}));
        EXPECT_TRUE(std::filesystem::exists(dir / "control.sock"));
    }
    EXPECT_FALSE(std::filesystem::exists(dir / "control.sock"));
}

}  // namespace
}  // namespace chaos::node
