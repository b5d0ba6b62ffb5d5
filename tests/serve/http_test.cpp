#include "serve/http.h"

#include "serve/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace {

using namespace chaos;
using namespace chaos::serve;
using namespace std::chrono_literals;
using test::Answer;
using test::Client;
using testing::HasSubstr;

// Says what was asked; /early says so by the header alone; /hold keeps the answer in the test's hands; /stream begins
// one there.
class Echo : public HttpHandler {
public:
    std::optional<HttpAnswer> answer_head(const HttpRequest& head) override {
        if (head.path != "/early") return {};
        return HttpAnswer{.status = 401, .content_type = "text/plain", .body = head.method + " early", .fields = {}};
    }
    void answer(HttpRequest request, const HttpReply& reply) override {
        if (request.path == "/forget") return;
        if (request.path == "/hold" || request.path == "/stream") {
            if (request.path == "/stream") reply.begin({.content_type = "text/plain", .body = "first;", .fields = {}});
            reply.on_gone([this] {
                const std::scoped_lock lock(mutex_);
                ++gone_;
                changed_.notify_all();
            });
            const std::scoped_lock lock(mutex_);
            held_.push_back(reply);
            changed_.notify_all();
            return;
        }
        reply.answer({.content_type = "text/plain",
                      .body = request.method + " " + request.path + " " + request.client + " " +
                              std::string(request.field("x-word")) + " " + request.body,
                      .fields = {{"X-Made-By", "echo"}}});
    }
    HttpAnswer refuse(unsigned status, const std::string& sentence) override {
        return {.status = status, .content_type = "text/plain", .body = sentence, .fields = {}};
    }

    HttpReply wait_for_held(std::size_t index) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return held_.size() > index; });
        return held_[index];
    }
    void wait_for_gone(int count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return gone_ == count; });
    }
    void let_go() { held_.clear(); }

private:
    std::mutex mutex_;  // the server's thread answers, the test waits
    std::condition_variable changed_;
    std::vector<HttpReply> held_;
    int gone_ = 0;
};

class Http : public testing::Test {
protected:
    void start(const HttpLimits& limits = {}) {
        auto opened = HttpServer::open({"127.0.0.1", "0"}, echo_, limits);
        ASSERT_TRUE(opened) << opened.error().message;
        server_ = std::move(*opened);
        port_ = server_->port();
        thread_ = std::thread([this] { server_->run(); });
    }
    void stop() {
        if (!thread_.joinable()) return;
        server_->stop(0ms);
        thread_.join();
    }
    // In the server's thread, and done when this returns.
    void in_loop(const std::function<void()>& call) {
        std::atomic<bool> done = false;
        server_->post([&] {
            call();
            done = true;
            done.notify_all();
        });
        done.wait(false);
    }
    void TearDown() override {
        stop();
        echo_.let_go();
    }

    Echo echo_;
    std::unique_ptr<HttpServer> server_;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

TEST_F(Http, AnswersOneRequestAfterTheOther) {
    start();
    Client client(port_);
    client.send("GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-Word: hello\r\n\r\n");
    Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "GET /a 127.0.0.1 hello ");
    EXPECT_THAT(answer.head, HasSubstr("Connection: keep-alive"));
    EXPECT_THAT(answer.head, HasSubstr("X-Made-By: echo"));
    client.post("/b", "body");
    answer = client.read_answer();
    EXPECT_EQ(answer.body, "POST /b 127.0.0.1  body");
    client.send("POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    EXPECT_EQ(client.read_answer().body, "POST /c 127.0.0.1  abcde");
}

TEST_F(Http, AnswersRequestsThatWereSentAheadInTheirOrder) {
    start();
    Client client(port_);
    std::string all;
    for (int i = 0; i < 100; ++i) all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send(all);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(client.read_answer().body, "GET /" + std::to_string(i) + " 127.0.0.1  ");
}

TEST_F(Http, TakesRequestsInAnyPieces) {
    start();
    Client client(port_);
    for (const char letter : std::string("POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"))
        ASSERT_TRUE(client.send({&letter, 1}));
    EXPECT_EQ(client.read_answer().body, "POST /slow 127.0.0.1  abc");
}

TEST_F(Http, ClosesWhenTheClientWantsThat) {
    start();
    Client client(port_);
    client.get("/", "Connection: close\r\n");
    EXPECT_THAT(client.read_all(), HasSubstr("Connection: close"));
    Client old(port_);
    old.send("GET / HTTP/1.0\r\n\r\n");
    EXPECT_THAT(old.read_all(), HasSubstr("GET / 127.0.0.1"));
    Client half(port_);  // says what it wants, and that this was all
    half.get("/");
    half.finish();
    EXPECT_THAT(half.read_all(), HasSubstr("GET / 127.0.0.1"));
}

TEST_F(Http, HeadHasNoBody) {
    start();
    Client client(port_);
    client.send("HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Content-Length: 19"));
    EXPECT_EQ(client.read_answer().body, "GET /b 127.0.0.1  ");
}

TEST_F(Http, AsksForABodyThatAwaitsIt) {
    start();
    Client client(port_);
    client.send("POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("ok");
    EXPECT_EQ(client.read_answer().body, "POST /x 127.0.0.1  ok");
}

TEST_F(Http, AHeaderMayBeAnsweredWithoutItsBody) {
    start();
    Client client(port_);
    client.get("/early");
    EXPECT_EQ(client.read_answer().body, "GET early");
    client.post("/early", "a body that came with the header");
    EXPECT_EQ(client.read_answer().body, "POST early");
    client.send("HEAD /early HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 401"));
    client.get("/next");
    EXPECT_EQ(client.read_answer().body, "GET /next 127.0.0.1  ");
    // Whatever comes of a body that nobody waits for is not taken for a request.
    client.send("POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n");
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 401);
    EXPECT_THAT(answer.head, HasSubstr("Connection: close"));
    client.get("/smuggled");
    EXPECT_EQ(client.read_all(), "");
}

TEST_F(Http, HasRoomForSoMuchOfAllBodies) {
    HttpLimits limits;
    limits.max_body_bytes = 1000;
    limits.max_bodies_bytes = 1500;
    start(limits);
    const auto status = [this](std::size_t bytes) {
        Client client(port_);
        client.post("/", std::string(bytes, 'x'));
        return client.read_answer().status;
    };
    // One is being answered.
    Client answered(port_);
    answered.post("/hold", std::string(1000, 'x'));
    const HttpReply reply = echo_.wait_for_held(0);
    EXPECT_EQ(status(501), 503);
    EXPECT_EQ(status(500), 200);
    in_loop([&] { reply.answer({.content_type = "text/plain", .body = "done", .fields = {}}); });
    EXPECT_EQ(answered.read_answer().body, "done");
    EXPECT_EQ(status(1000), 200);
    // One has not come to its end; what came before others asked has been read before they are answered.
    Client slow(port_);
    slow.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + std::string(999, 'x'));
    EXPECT_EQ(status(100), 200);
    EXPECT_EQ(status(502), 503);
    EXPECT_EQ(status(501), 200);
    slow.send("x");
    EXPECT_EQ(slow.read_answer().status, 200);
    // Another one will never come to its end.
    {
        Client gone(port_);
        gone.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + std::string(999, 'x'));
    }
    int last = 0;
    while (last != 200) last = status(1000);
}

TEST_F(Http, RefusesGarbage) {
    start();
    for (const std::string& garbage : std::vector<std::string>{
             "nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "\r\n\r\n\r\n",
             "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\n: empty\r\n\r\n",
             "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
             "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
             "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
             "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", std::string("\0\1\2\xff\r\n\r\n", 8)}) {
        Client client(port_);
        client.send(garbage);
        EXPECT_EQ(client.read_answer().status, 400) << garbage;
        EXPECT_EQ(client.read_all(), "") << garbage;
    }
    Client client(port_);
    client.get("/still");
    EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(Http, RefusesWhatIsTooLarge) {
    HttpLimits limits;
    limits.max_body_bytes = 1000;
    start(limits);
    Client header(port_);
    header.send("GET / HTTP/1.1\r\nX-Long: " + std::string(1 << 20, 'x'));
    EXPECT_EQ(header.read_answer().status, 431);
    Client body(port_);  // refused by what it announces
    body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n");
    EXPECT_EQ(body.read_answer().status, 413);
    Client chunks(port_);
    chunks.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x'));
    EXPECT_EQ(chunks.read_answer().status, 413);
    Client most(port_);
    most.post("/", std::string(1000, 'x'));
    EXPECT_EQ(most.read_answer().status, 200);
}

TEST_F(Http, DropsWhoDoesNotGoOn) {
    HttpLimits limits;
    limits.idle_limit = 50ms;
    limits.request_limit = 50ms;
    start(limits);
    Client silent(port_);
    EXPECT_EQ(silent.read_all(), "");
    Client slow(port_);
    slow.send("GET / HTTP/1.1\r\n");
    EXPECT_EQ(slow.read_all(), "");
    Client stuck(port_);
    stuck.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
    EXPECT_EQ(stuck.read_all(), "");
}

TEST_F(Http, DripsDoNotExtendTheLimit) {
    HttpLimits limits;
    limits.request_limit = 100ms;
    start(limits);
    Client client(port_);
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8000000\r\n\r\n");
    while (client.send("x")) std::this_thread::yield();  // until the server has enough of it
    SUCCEED();
}

TEST_F(Http, DropsWhoDoesNotRead) {
    HttpLimits limits;
    limits.max_unread_bytes = 100'000;
    start(limits);
    Client client(port_, 4096);
    client.get("/stream");
    const HttpReply reply = echo_.wait_for_held(0);
    bool open = true;
    while (open)
        in_loop([&] {
            reply.write(std::string(10'000, 'x'));
            open = reply.open();
        });
    echo_.wait_for_gone(1);
}

TEST_F(Http, DropsWhoStopsReading) {
    HttpLimits limits;
    limits.unread_limit = 50ms;
    start(limits);
    Client client(port_, 4096);
    client.get("/stream");
    const HttpReply reply = echo_.wait_for_held(0);
    in_loop([&] { reply.write(std::string(64 << 20, 'x')); });
    echo_.wait_for_gone(1);
}

TEST_F(Http, StreamsWhatIsWritten) {
    start();
    Client client(port_);
    client.get("/stream");
    EXPECT_THAT(client.read_until("first;\r\n"), HasSubstr("Transfer-Encoding: chunked"));
    const HttpReply reply = echo_.wait_for_held(0);
    in_loop([&] { reply.write("second"); });
    EXPECT_EQ(client.read_until("second\r\n"), "6\r\nsecond\r\n");
    client.get("/next");  // waits for its turn
    in_loop([&] {
        reply.end();
        reply.write("too late");
        EXPECT_FALSE(reply.open());
    });
    EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
    EXPECT_EQ(client.read_answer().body, "GET /next 127.0.0.1  ");
}

TEST_F(Http, StreamsToOldClientsUntilTheEnd) {
    start();
    Client client(port_);
    client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const HttpReply reply = echo_.wait_for_held(0);
    in_loop([&] {
        reply.write("second");
        reply.end();
    });
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.body, "first;second");
    EXPECT_THAT(answer.head, HasSubstr("Connection: close"));
}

TEST_F(Http, KnowsAtOnceWhoHasGone) {
    start();
    Client waiting(port_);
    waiting.get("/hold");
    (void)echo_.wait_for_held(0);
    waiting.close();
    echo_.wait_for_gone(1);
    Client listening(port_);
    listening.get("/stream");
    (void)echo_.wait_for_held(1);
    listening.read_until("first;");
    listening.close();
    echo_.wait_for_gone(2);
    in_loop([&] { EXPECT_FALSE(echo_.wait_for_held(1).open()); });
}

TEST_F(Http, KnowsWhoHasGoneAfterSendingMuchAhead) {
    start();
    Client client(port_);
    client.get("/hold");
    (void)echo_.wait_for_held(0);
    client.send("POST /next HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n" + std::string(200'000, 'x'));
    client.close();
    echo_.wait_for_gone(1);
}

TEST_F(Http, AForgottenAnswerIsAnError) {
    start();
    Client client(port_);
    client.get("/forget");
    EXPECT_EQ(client.read_answer().status, 500);
}

TEST_F(Http, HasRoomForSoMany) {
    HttpLimits limits;
    limits.max_connections = 2;
    start(limits);
    Client first(port_);
    first.get("/");
    first.read_answer();
    {
        Client second(port_);
        second.get("/");
        second.read_answer();
        Client third(port_);
        EXPECT_EQ(third.read_answer().status, 503);
        // Who has asked before it was told so can read it as well.
        Client fourth(port_);
        fourth.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
        EXPECT_EQ(fourth.read_answer().status, 503);
    }
    // There is room again as soon as the server has noticed that one has gone.
    Answer answer;
    while (answer.status != 200) {
        Client again(port_);
        again.get("/");
        answer = again.read_answer();
    }
}

TEST_F(Http, ThoseWhoSayNothingAreInNobodysWay) {
    HttpLimits limits;
    limits.max_connections = 2;
    limits.request_limit = 1h;
    start(limits);
    in_loop([&] { server_->pass_on_tls([](int socket) { ::close(socket); }); });
    Client first(port_);
    Client second(port_);
    Client speaks(port_);
    speaks.get("/");
    EXPECT_EQ(speaks.read_answer().status, 200);
    EXPECT_EQ(first.read_all(), "");
    // Nor does the end wait for them.
    server_->stop(1h);
    thread_.join();
    EXPECT_EQ(second.read_all(), "");
}

TEST_F(Http, StoppingLetsAnswersFinish) {
    start();
    Client client(port_);
    client.get("/stream");
    const HttpReply reply = echo_.wait_for_held(0);
    Client idle(port_);
    idle.get("/");
    idle.read_answer();
    server_->stop(1h);
    EXPECT_EQ(idle.read_all(), "");
    in_loop([&] {
        reply.write("last");
        reply.end();
    });
    EXPECT_EQ(client.read_answer().body, "first;last");
    client.close();
    thread_.join();
}

TEST_F(Http, StoppingTwiceWaitsForNobody) {
    start();
    Client client(port_);
    client.get("/hold");
    (void)echo_.wait_for_held(0);
    server_->stop(1h);
    server_->stop(1h);
    thread_.join();
    EXPECT_EQ(client.read_all(), "");
    echo_.wait_for_gone(1);
}

TEST_F(Http, StoppingWaitsForSoLong) {
    start();
    Client client(port_);
    client.get("/hold");
    (void)echo_.wait_for_held(0);
    server_->stop(20ms);
    thread_.join();
    echo_.wait_for_gone(1);
}

TEST_F(Http, SignalsStopIt) {
    start();
    server_->stop_on_signals(1h);
    in_loop([] {});  // it listens to signals now
    ::kill(::getpid(), SIGTERM);
    thread_.join();
}

TEST_F(Http, TheSecondSignalWaitsForNobody) {
    start();
    server_->stop_on_signals(1h);
    Client client(port_);
    client.get("/hold");
    (void)echo_.wait_for_held(0);
    ::kill(::getpid(), SIGINT);
    // Until it has been noticed, two would count as one.
    bool refused = false;
    while (!refused) refused = !Client::connects(port_);
    ::kill(::getpid(), SIGINT);
    thread_.join();
    echo_.wait_for_gone(1);
}

TEST_F(Http, AnAddressInUseIsAnError) {
    start();
    const auto second = HttpServer::open({"127.0.0.1", std::to_string(port_)}, echo_);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("127.0.0.1:" + std::to_string(port_)));
}

}  // namespace
