// The real server with a small model, and clients that do what clients should not.
#include "cli/process.h"
#include "serve/client.h"
#include "shared.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

namespace chaos::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class Serve : public testing::Test {
protected:
    void SetUp() override {
        CHAOS_NEED_SHARED("models");
        process_ = std::make_unique<Process>(
            std::vector<std::string>{"serve", shared("models/llama3-shakespeare").string(), "--listen", "127.0.0.1:0"},
            folder_.path());
        ASSERT_TRUE(process_->wait_for_output("/v1")) << process_->err;
        const std::size_t at = process_->out.find("127.0.0.1:") + 10;
        port_ = static_cast<std::uint16_t>(std::stoi(process_->out.substr(at)));
    }
    void TearDown() override {
        if (!process_) return;
        EXPECT_EQ(complete(R"({"prompt": "Once", "max_tokens": 2})").status, 200) << "it does not go on";
        process_->signal(SIGTERM);
        EXPECT_EQ(process_->wait(), 0) << process_->err;
        EXPECT_EQ(process_->err, "");
    }
    Answer post(const std::string& path, const std::string& body) const {
        Client client(port_);
        client.post(path, body);
        return client.read_answer();
    }
    Answer complete(const std::string& body) const { return post("/v1/completions", body); }
    Answer chat(const std::string& body) const { return post("/v1/chat/completions", body); }
    std::string metric(const std::string& name) const {
        Client client(port_);
        client.get("/metrics");
        const std::string text = client.read_answer().body;
        const std::size_t at = text.find("\n" + name + " ");
        return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    }
    void wait_until_idle() const {
        while (metric("chaos_running") != "chaos_running 0" || metric("chaos_waiting") != "chaos_waiting 0")
            std::this_thread::yield();
    }

    TemporaryFolder folder_;
    std::unique_ptr<Process> process_;
    std::uint16_t port_ = 0;
};

TEST_F(Serve, SaysThatItLoadsBeforeItSaysThatItAnswers) {
    EXPECT_TRUE(process_->out.starts_with("loading llama3-shakespeare\nllama3-shakespeare answers at "))
        << process_->out;
}

TEST(ServeTexts, AModelWhoseTemplateCannotBeUsedCompletesThem) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    for (const auto& file : std::filesystem::directory_iterator(shared("models/llama3-shakespeare")))
        if (file.path().filename() != "chat_template.jinja")
            std::filesystem::create_symlink(file.path(), folder / file.path().filename().string());
    folder.write("chat_template.jinja", "{% include 'another' %}");
    Process process({"serve", ".", "--listen", "127.0.0.1:0"}, folder.path());
    ASSERT_TRUE(process.wait_for_output("/v1")) << process.err;
    const auto port =
        static_cast<std::uint16_t>(std::stoi(process.out.substr(process.out.find("http://127.0.0.1:") + 17)));
    Client client(port);
    client.post("/v1/completions", R"({"prompt": "Once", "max_tokens": 2})");
    EXPECT_EQ(client.read_answer().status, 200);
    client.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}]})");
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 400);
    EXPECT_THAT(json::parse(answer.body)["error"]["message"].get<std::string>(), HasSubstr("include"));
    process.signal(SIGTERM);
    EXPECT_EQ(process.wait(), 0);
    EXPECT_THAT(process.err, HasSubstr("cannot chat: "));
    EXPECT_THAT(process.err, HasSubstr("include"));
    // Nor is there anything else to do in a terminal.
    const Outcome outcome = run_chaos({"chat", "."}, folder.path());
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("include"));
}

TEST_F(Serve, OutlivesThoseWhoHangUp) {
    for (int i = 0; i < 200; ++i) Client client(port_);
    for (const char* stream : {"true", "false"}) {
        for (int i = 0; i < 20; ++i) {
            Client client(port_);
            client.post("/v1/completions", std::string(R"({"prompt": "Once", "max_tokens": 1000000000000000000,
                "ignore_eos": true, "stream": )") +
                                               stream + "}");
            if (i % 2 == 0 && *stream == 't') client.read_until("data: ");
        }
    }
    wait_until_idle();
}

TEST_F(Serve, NamesEveryAbsurdParameter) {
    for (const char* wrong :
         {R"("max_tokens": 0)", R"("max_tokens": -1)", R"("max_tokens": 1e300)", R"("temperature": -1)",
          R"("temperature": 1e308)", R"("top_p": 2)", R"("top_k": -2)", R"("min_p": 5)", R"("seed": 1e30)", R"("n": 0)",
          R"("stop": [""])", R"("logit_bias": {"99999": 1})", R"("presence_penalty": 1e9)"}) {
        for (const auto& [path, prompt] :
             {std::pair{"/v1/completions", R"("prompt": "a")"},
              std::pair{"/v1/chat/completions", R"("messages": [{"role": "user", "content": "a"}])"}}) {
            const Answer answer = post(path, std::string("{") + prompt + ", " + wrong + "}");
            EXPECT_EQ(answer.status, 400) << wrong;
            const std::string name = std::string(wrong).substr(1, std::string(wrong).find('"', 1) - 1);
            EXPECT_THAT(json::parse(answer.body)["error"]["param"].get<std::string>(), HasSubstr(name)) << wrong;
        }
    }
    for (const char* fine :
         {R"("max_tokens": 1e18)", R"("top_p": 0)", R"("top_k": 1000000000000000000)", R"("min_p": 1)",
          R"("temperature": 1e-300)", R"("seed": -9223372036854775808)", R"("temperature": 2, "top_p": 1e-300)"})
        EXPECT_EQ(complete(std::string(R"({"prompt": "a", "max_tokens": 3, )") + fine + "}").status, 200) << fine;
}

TEST_F(Serve, RefusesWhatIsNoRequest) {
    for (const std::string& body :
         {std::string(), std::string("{"), std::string("null"), std::string("\xFF"), std::string(100'000, '['),
          std::string(R"({"prompt": "a", "temperature": NaN})"), std::string("{\"prompt\": \"\xC3\"}"),
          std::string(R"({"prompt": "\ud800"})"), std::string(R"({"prompt": [99999]})"),
          R"({"prompt": ")" + std::string(1'000'000, 'x') + "\"}"}) {
        const Answer answer = complete(body);
        EXPECT_EQ(answer.status, 400) << body.substr(0, 40);
        EXPECT_EQ(json::parse(answer.body)["error"]["type"], "invalid_request_error");
    }
    for (const char* messages : {"[]", "[{}]", "[1]", "{}", R"([{"role": "king", "content": "x"}])",
                                 R"([{"role": "user"}])", R"([{"role": "user", "content": 5}])"})
        EXPECT_EQ(chat(std::string(R"({"messages": )") + messages + "}").status, 400) << messages;
    EXPECT_EQ(complete(std::string(9 << 20, 'x')).status, 413);
}

TEST_F(Serve, ManyAtOnceAreAnsweredOrToldToWait) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 200; ++i) {
        clients.push_back(std::make_unique<Client>(port_));
        clients.back()->post("/v1/completions", R"({"prompt": "Once", "max_tokens": 8})");
    }
    int answered = 0;
    for (const auto& client : clients) {
        const int status = client->read_answer().status;
        EXPECT_TRUE(status == 200 || status == 429) << status;
        answered += status == 200 ? 1 : 0;
    }
    EXPECT_GE(answered, 4);
}

}  // namespace
}  // namespace chaos::test
