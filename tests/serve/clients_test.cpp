// Programs that others wrote, against our server.
#include "infer/model_text.h"
#include "infer/models.h"
#include "serve/fake_generator.h"
#include "serve/model_generator.h"
#include "serve/service.h"
#include "temporary_folder.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <array>
#include <cstdio>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>

namespace {

using namespace chaos;
using namespace chaos::serve;
using test::FakeGenerator;

// A server with a model.
template <class Model>
class Served {
public:
    explicit Served(std::unique_ptr<Model> generator, const ServiceOptions& options = {})
        : generator_(std::move(generator)) {
        auto opened = Service::open({"127.0.0.1", "0"}, options);
        if (!opened) throw std::runtime_error(opened.error().message);
        service_ = std::move(*opened);
        service_->set_generator(*generator_);
        thread_ = std::thread([this] { service_->run(); });
    }
    ~Served() {
        service_->stop();
        service_->stop();
        thread_.join();
        generator_.reset();
    }
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;

    [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(service_->port()); }
    [[nodiscard]] Model& generator() { return *generator_; }

private:
    std::unique_ptr<Service> service_;
    std::unique_ptr<Model> generator_;
    std::thread thread_;
};

using Recital = Served<FakeGenerator>;

std::unique_ptr<FakeGenerator> reciting(const FakeGenerator::Options& words = {}) {
    return std::make_unique<FakeGenerator>(words);
}

std::string text_of(Generator& generator, Task task) {
    std::string text;
    std::promise<void> done;
    const auto started = generator.start(std::move(task), [&](const Event& event) {
        if (const auto* piece = std::get_if<Piece>(&event)) text += piece->text;
        if (std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event)) done.set_value();
    });
    EXPECT_TRUE(std::holds_alternative<Ticket>(started));
    done.get_future().wait();
    return text;
}

// A small model that computes, behind a server, and a file of what it says: of texts what the reference says.
class RealModel {
public:
    static bool is_here() { return std::filesystem::exists(test::shared("models")); }
    RealModel() : loaded_(infer::test::folder(name)) {
        ModelGeneratorOptions options;
        options.name = name;
        options.context = 512;
        auto made = ModelGenerator::make(*loaded_.engine, infer::tokenizer_of(loaded_.model->file()).value(),
                                         infer::chat_format_of(loaded_.model->file()), options);
        if (!made) throw std::runtime_error(made.error().message);
        const nlohmann::json expected = infer::test::expected(name)["cases"][0];
        const std::string prompt = expected["prompt"];
        const std::size_t tokens = expected["greedy_ids"].size() - expected["ids"].size();
        constexpr const char* question = "Who is king?";
        Task task;
        task.prompt = Conversation{{{{"role", "user"}, {"content", question}}}};
        task.max_tokens = tokens;
        task.sampling.temperature = 0.0;
        const std::string answer = text_of(**made, task);
        EXPECT_NE(answer, "");
        said_ = folder_.write("said.json",
                              nlohmann::json{{"model", name},
                                             {"prompt", prompt},
                                             {"text", expected["greedy_text"].get<std::string>().substr(prompt.size())},
                                             {"tokens", tokens},
                                             {"question", question},
                                             {"answer", answer}}
                                  .dump());
        served_.emplace(std::move(*made));
    }
    // For a script's command line.
    [[nodiscard]] std::string words() const { return " " + served_->url() + " " + said_.string(); }

private:
    static constexpr const char* name = "llama3-shakespeare";
    test::TemporaryFolder folder_;
    infer::test::Loaded loaded_;
    std::filesystem::path said_;
    std::optional<Served<ModelGenerator>> served_;
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
    const Recital recital(reciting(), options);
    Recital endless(reciting({.endless = true}), options);
    std::optional<RealModel> model;
    if (RealModel::is_here()) model.emplace();
    const Outcome outcome = run(script("openai.mjs ") + folder.string() + " " + recital.url() + " " + endless.url() +
                                (model ? model->words() : ""));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    endless.generator().wait_until_cancelled(1);
}

TEST(Clients, TheChatPageInChromium) {
    if (!has_program("node")) GTEST_SKIP() << "needs node (Debian: nodejs)";
    if (!has_program("chromium")) GTEST_SKIP() << "needs chromium";
    const Recital recital(reciting());
    Recital endless(reciting({.endless = true}));
    std::optional<RealModel> model;
    if (RealModel::is_here()) model.emplace();
    const Outcome outcome =
        run(script("chat_page.mjs chromium ") + recital.url() + " " + endless.url() + (model ? model->words() : ""));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    endless.generator().wait_until_cancelled(3);
}

}  // namespace
