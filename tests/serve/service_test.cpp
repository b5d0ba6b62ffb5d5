#include "serve/service.h"

#include "serve/client.h"
#include "serve/fake_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <mutex>
#include <thread>

namespace {

using namespace chaos;
using namespace chaos::serve;
using nlohmann::json;
using test::Answer;
using test::Client;
using test::FakeGenerator;
using testing::HasSubstr;

class ServiceTest : public testing::Test {
protected:
    void start(const FakeGenerator::Options& fake = {}, ServiceOptions options = {}) {
        open(std::move(options));
        generator_ = std::make_unique<FakeGenerator>(fake);
        service_->set_generator(*generator_);
    }
    void open(ServiceOptions options) {
        options.grace = std::chrono::milliseconds(0);
        auto opened = Service::open({"127.0.0.1", "0"}, options);
        ASSERT_TRUE(opened) << opened.error().message;
        service_ = std::move(*opened);
        thread_ = std::thread([this] { service_->run(); });
    }
    void TearDown() override {
        if (thread_.joinable()) {
            service_->stop();
            thread_.join();
        }
        generator_.reset();
    }
    [[nodiscard]] std::uint16_t port() const { return service_->port(); }
    Answer get(const std::string& path, const std::string& fields = "") const {
        Client client(port());
        client.get(path, fields);
        return client.read_answer();
    }
    Answer post(const std::string& path, const std::string& body, const std::string& fields = "") const {
        Client client(port());
        client.post(path, body, fields);
        return client.read_answer();
    }

    std::unique_ptr<Service> service_;
    std::unique_ptr<FakeGenerator> generator_;
    std::thread thread_;
};

const std::string hello = R"({"messages": [{"role": "user", "content": "Hello"}]})";
const std::string streamed = R"({"messages": [{"role": "user", "content": "Hello"}], "stream": true})";

std::string code_of(const Answer& answer) {
    const json code = json::parse(answer.body)["error"]["code"];
    return code.is_null() ? "" : code.get<std::string>();
}

TEST_F(ServiceTest, Chats) {
    start();
    const Answer answer = post("/v1/chat/completions", hello);
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.head, HasSubstr("Content-Type: application/json"));
    const json body = json::parse(answer.body);
    EXPECT_EQ(body["choices"][0]["message"]["content"], "one two three");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(body["usage"]["total_tokens"], 8);
    EXPECT_EQ(generator_->last_task().client, "127.0.0.1");
}

TEST_F(ServiceTest, Streams) {
    start();
    const Answer answer = post("/v1/chat/completions", streamed);
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/event-stream"));
    EXPECT_THAT(answer.body, HasSubstr(R"("delta":{"content":" two"})"));
    EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(ServiceTest, CompletesTexts) {
    start();
    const Answer answer = post("/v1/completions", R"({"prompt": "Count:", "max_tokens": 2, "logprobs": 2})");
    const json body = json::parse(answer.body);
    EXPECT_EQ(body["choices"][0]["text"], "one two");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(body["choices"][0]["logprobs"]["top_logprobs"][1]["other"], -1.5);
}

TEST_F(ServiceTest, NamesItsModel) {
    start();
    EXPECT_EQ(json::parse(get("/v1/models").body)["data"][0]["id"], "parrot");
    EXPECT_EQ(json::parse(get("/v1/models/parrot").body)["id"], "parrot");
    EXPECT_EQ(json::parse(get("/v1/models/p%61rr%6Ft").body)["id"], "parrot");
    for (const char* no_id : {"parrot%", "parrot%6", "parro%zz", "%ff", "parrot%00"})
        EXPECT_EQ(get(std::string("/v1/models/") + no_id).status, 404) << no_id;
    const Answer other = get("/v1/models/gpt-4o");
    EXPECT_EQ(other.status, 404);
    EXPECT_EQ(code_of(other), "model_not_found");
}

TEST_F(ServiceTest, MistakesHaveTheirStatus) {
    start();
    EXPECT_EQ(post("/v1/chat/completions", "{").status, 400);
    EXPECT_EQ(post("/v1/chat/completions", R"({"model": "x"})").status, 404);
    EXPECT_EQ(get("/nowhere").status, 404);
    EXPECT_EQ(code_of(get("/nowhere")), "unknown_url");
    const Answer method = get("/v1/chat/completions");
    EXPECT_EQ(method.status, 405);
    EXPECT_THAT(method.head, HasSubstr("Allow: POST"));
    EXPECT_EQ(post("/", "").status, 405);
    Client garbage(port());
    garbage.send("nonsense\r\n\r\n");
    const Answer answer = garbage.read_answer();
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(json::parse(answer.body)["error"]["type"], "invalid_request_error");
}

TEST_F(ServiceTest, FailuresAreTold) {
    start({.refusal = "1001 tokens do not fit"});
    for (const std::string& body : {hello, streamed}) {
        const Answer answer = post("/v1/chat/completions", body);
        EXPECT_EQ(answer.status, 400);
        EXPECT_EQ(code_of(answer), "context_length_exceeded");
        EXPECT_THAT(answer.body, HasSubstr("1001 tokens"));
    }
}

TEST_F(ServiceTest, FailuresOnTheWayAreTold) {
    start({.failure = "the logits are not numbers"});
    EXPECT_EQ(post("/v1/chat/completions", hello).status, 500);
    const Answer answer = post("/v1/chat/completions", streamed);
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, HasSubstr(R"("message":"the logits are not numbers")"));
    EXPECT_THAT(answer.body, testing::Not(HasSubstr("[DONE]")));
}

TEST_F(ServiceTest, SaysWhenItIsBusy) {
    start({.max_tasks = 1, .held = true});
    Client first(port());
    first.post("/v1/chat/completions", hello);
    generator_->wait_until_running(1);
    const Answer second = post("/v1/chat/completions", hello);
    EXPECT_EQ(second.status, 429);
    EXPECT_THAT(second.head, HasSubstr("Retry-After: 7"));
    EXPECT_EQ(code_of(second), "rate_limit_exceeded");
    generator_->release();
    EXPECT_EQ(first.read_answer().status, 200);
}

TEST_F(ServiceTest, WhoGoesIsNotWrittenFor) {
    start({.endless = true});
    Client stream(port());
    stream.post("/v1/chat/completions", streamed);
    stream.read_until(" two");
    stream.close();
    generator_->wait_until_cancelled(1);
    Client whole(port());
    whole.post("/v1/chat/completions", hello);
    generator_->wait_until_running(1);
    whole.close();
    generator_->wait_until_cancelled(2);
    EXPECT_THAT(get("/metrics").body, HasSubstr("chaos_cancelled_total 2\n"));
}

TEST_F(ServiceTest, WhoDoesNotReadIsNotWrittenFor) {
    ServiceOptions options;
    options.limits.max_unread_bytes = 10'000;
    start({.endless = true}, options);
    Client stream(port(), 4096);
    stream.post("/v1/chat/completions", streamed);
    generator_->wait_until_cancelled(1);
}

TEST_F(ServiceTest, KeysAreNeeded) {
    ServiceOptions options;
    options.keys = {"sesame", "open"};
    start({}, options);
    const Answer none = post("/v1/chat/completions", hello);
    EXPECT_EQ(none.status, 401);
    EXPECT_THAT(none.head, HasSubstr("WWW-Authenticate: Bearer"));
    EXPECT_EQ(code_of(none), "invalid_api_key");
    EXPECT_EQ(post("/v1/chat/completions", hello, "Authorization: Bearer wrong\r\n").status, 401);
    EXPECT_EQ(post("/v1/chat/completions", hello, "Authorization: Basic sesame\r\n").status, 401);
    EXPECT_EQ(post("/v1/chat/completions", hello, "Authorization: Bearer open\r\n").status, 200);
    EXPECT_EQ(get("/v1/models").status, 401);
    EXPECT_EQ(get("/metrics").status, 401);
    EXPECT_EQ(get("/metrics", "authorization: Bearer sesame\r\n").status, 200);
    EXPECT_EQ(get("/").status, 200);
    EXPECT_EQ(get("/livez").status, 200);
    EXPECT_EQ(get("/readyz").status, 200);
}

TEST_F(ServiceTest, StrangersAreRefusedBeforeTheirBodiesAreRead) {
    ServiceOptions options;
    options.keys = {"sesame"};
    start({}, options);
    const auto status = [this](const std::string& path, const std::string& fields) {
        Client client(port());
        client.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n" + fields + "\r\n");
        return client.read_answer().status;
    };
    EXPECT_EQ(status("/v1/chat/completions", ""), 401);
    EXPECT_EQ(status("/v1/completions", "Authorization: Bearer wrong\r\n"), 401);
    EXPECT_EQ(status("/v1/completions", "Origin: https://evil.example\r\n"), 403);
    EXPECT_EQ(status("/", ""), 405);
    EXPECT_EQ(status("/nowhere", ""), 404);
}

TEST_F(ServiceTest, PagesOfOtherSitesAreRefused) {
    start();
    EXPECT_EQ(post("/v1/chat/completions", hello, "Origin: https://evil.example\r\n").status, 403);
    EXPECT_EQ(post("/v1/chat/completions", hello, "Origin: null\r\n").status, 403);
    EXPECT_EQ(post("/v1/chat/completions", hello, "Origin: http://localhost\r\n").status, 200);
    const auto as = [this](const std::string& host) {
        Client client(port());
        client.send("GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
        return client.read_answer().status;
    };
    EXPECT_EQ(as("evil.example:8080"), 403);
    EXPECT_EQ(as("127.0.0.1:8080"), 200);
    EXPECT_EQ(as("[::1]:8080"), 200);
}

TEST_F(ServiceTest, IsReadyWhenTheModelIsLoaded) {
    open({});
    EXPECT_EQ(get("/livez").status, 200);
    EXPECT_EQ(get("/readyz").status, 503);
    EXPECT_EQ(get("/metrics").status, 200);
    const Answer early = post("/v1/chat/completions", hello);
    EXPECT_EQ(early.status, 503);
    EXPECT_THAT(early.head, HasSubstr("Retry-After"));
    EXPECT_EQ(json::parse(early.body)["error"]["type"], "server_error");
    generator_ = std::make_unique<FakeGenerator>();
    service_->set_generator(*generator_);
    EXPECT_EQ(get("/readyz").status, 200);
    EXPECT_EQ(post("/v1/chat/completions", hello).status, 200);
}

TEST_F(ServiceTest, SaysWhenNothingHasBeenWrittenForTooLong) {
    ServiceOptions options;
    options.patience = std::chrono::milliseconds(0);
    start({}, options);
    service_->set_writes(false);
    EXPECT_EQ(get("/readyz").status, 503);
    EXPECT_EQ(get("/livez").status, 200);
    EXPECT_EQ(get("/v1/models").status, 503);
    const Answer refused = post("/v1/chat/completions", hello);
    EXPECT_EQ(refused.status, 503);
    EXPECT_THAT(refused.head, HasSubstr("Retry-After"));
    EXPECT_THAT(refused.body, HasSubstr("Those who compute the model together"));
    service_->set_writes(true);
    EXPECT_EQ(get("/readyz").status, 200);
    EXPECT_EQ(post("/v1/chat/completions", hello).status, 200);
}

TEST_F(ServiceTest, WaitsForThoseWhoGoOnSoon) {
    start();
    service_->set_writes(false);
    EXPECT_EQ(get("/readyz").status, 200);
    EXPECT_EQ(post("/v1/chat/completions", hello).status, 200);
}

TEST_F(ServiceTest, CountsWhatItDoes) {
    start();
    post("/v1/chat/completions", hello);
    post("/v1/chat/completions", streamed);
    post("/v1/chat/completions", "{");
    const Answer answer = get("/metrics");
    EXPECT_THAT(answer.head, HasSubstr("text/plain; version=0.0.4"));
    EXPECT_THAT(answer.body, HasSubstr("chaos_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 2\n"));
    EXPECT_THAT(answer.body, HasSubstr("chaos_requests_total{route=\"/v1/chat/completions\",status=\"400\"} 1\n"));
    EXPECT_THAT(answer.body, HasSubstr("chaos_completion_tokens_total 6\n"));
    EXPECT_THAT(answer.body, HasSubstr("chaos_first_token_seconds_count 2\n"));
    EXPECT_THAT(answer.body, HasSubstr("chaos_between_tokens_seconds_bucket{le=\"+Inf\"} 4\n"));
    EXPECT_THAT(answer.body, HasSubstr("# TYPE chaos_running gauge\nchaos_running 0\n"));
}

TEST_F(ServiceTest, ServesThePage) {
    start();
    const Answer answer = get("/");
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/html"));
    EXPECT_THAT(answer.head, HasSubstr("Content-Security-Policy: default-src 'none'"));
    EXPECT_THAT(answer.body, HasSubstr("<!doctype html>"));
    EXPECT_THAT(answer.body, testing::Not(testing::ContainsRegex("(src|href)=\"(https?:)?//")));
}

// All ask at once; nobody's stream may run far ahead of another's.
TEST_F(ServiceTest, ServesManyAtOnce) {
    constexpr std::size_t clients = 32;
    constexpr int words = 50;
    start({.words = std::vector<std::string>(words, " word"), .held = true});
    std::mutex mutex;
    std::vector<std::size_t> order;  // whose word came when
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < clients; ++i)
        threads.emplace_back([&, i] {
            Client client(port());
            client.post("/v1/chat/completions", streamed);
            for (int word = 0; word < words; ++word) {
                EXPECT_THAT(client.read_until("\"content\":\" word\""), HasSubstr(" word"));
                const std::scoped_lock lock(mutex);
                order.push_back(i);
            }
            EXPECT_THAT(client.read_until("[DONE]"), HasSubstr("[DONE]"));
        });
    generator_->wait_until_running(clients);
    generator_->release();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(order.size(), clients * words);
    // The first to be through with half of its words was not alone in having begun.
    std::vector<int> heard(clients, 0);
    for (const std::size_t client : order)
        if (++heard[client] == words / 2) break;
    EXPECT_EQ(std::count(heard.begin(), heard.end(), 0), 0);
}

}  // namespace
