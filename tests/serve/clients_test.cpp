// Programs that others wrote, against our server.
#include "serve/fake_generator.h"
#include "serve/service.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <array>
#include <cstdio>
#include <filesystem>
#include <thread>

namespace {

using namespace chaos;
using namespace chaos::serve;
using test::FakeGenerator;

// A server with a model that recites.
class Recital {
public:
    Recital(const FakeGenerator::Options& words, const ServiceOptions& options) : generator_(words) {
        auto opened = Service::open({"127.0.0.1", "0"}, options);
        if (!opened) throw std::runtime_error(opened.error().message);
        service_ = std::move(*opened);
        service_->set_generator(generator_);
        thread_ = std::thread([this] { service_->run(); });
    }
    ~Recital() {
        service_->stop();
        service_->stop();
        thread_.join();
    }
    Recital(const Recital&) = delete;
    Recital& operator=(const Recital&) = delete;

    [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(service_->port()); }
    [[nodiscard]] FakeGenerator& generator() { return generator_; }

private:
    std::unique_ptr<Service> service_;
    FakeGenerator generator_;
    std::thread thread_;
};

struct Outcome {
    int status = -1;
    std::string output;
};

Outcome run(const std::string& command) {
    Outcome outcome;
    std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return outcome;
    std::array<char, 4096> buffer{};
    for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
        outcome.output.append(buffer.data(), got);
    const int status = ::pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
}

bool has_program(const std::string& name) {
    return run("command -v " + name).status == 0;
}

std::string script(const std::string& name) {
    return std::string("timeout 120 node ") + CHAOS_SOURCE + "/tests/serve/" + name;
}

TEST(Clients, OpenAiInJavaScript) {
    const std::filesystem::path folder = std::filesystem::path(CHAOS_SOURCE) / "build" / "openai";
    if (!has_program("node")) GTEST_SKIP() << "needs node (Debian: nodejs)";
    if (!std::filesystem::exists(folder / "node_modules" / "openai"))
        GTEST_SKIP() << "needs OpenAI's client: npm install --prefix build/openai openai@6";
    ServiceOptions options;
    options.keys = {"sesame"};
    const Recital recital({}, options);
    Recital endless({.endless = true}, options);
    const Outcome outcome = run(script("openai.mjs ") + folder.string() + " " + recital.url() + " " + endless.url());
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    endless.generator().wait_until_cancelled(1);
}

TEST(Clients, TheChatPageInChromium) {
    if (!has_program("node")) GTEST_SKIP() << "needs node (Debian: nodejs)";
    if (!has_program("chromium")) GTEST_SKIP() << "needs chromium";
    const Recital recital({}, {});
    Recital endless({.endless = true}, {});
    const Outcome outcome = run(script("chat_page.mjs chromium ") + recital.url() + " " + endless.url());
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    endless.generator().wait_until_cancelled(1);
}

}  // namespace
