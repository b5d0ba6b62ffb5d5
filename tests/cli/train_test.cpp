#include "cli/process.h"
#include "cli/runs.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <nlohmann/json.hpp>

namespace chaos::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<nlohmann::json> events_of(const std::string& out, const std::string& kind) {
    std::vector<nlohmann::json> events;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
        auto event = nlohmann::json::parse(line);
        if (event["event"] == kind) events.push_back(std::move(event));
    }
    return events;
}

std::string lineage_of(const Outcome& outcome) {
    const auto ends = events_of(outcome.out, "end");
    return ends.empty() ? outcome.err : ends[0]["lineage"].get<std::string>();
}

std::size_t checkpoints_in(const std::filesystem::path& run_folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(run_folder / "checkpoints"), {}));
}

std::filesystem::path checkpoint(const TemporaryFolder& folder, const std::string& step) {
    return folder / ("run/checkpoints/step-" + std::string(12 - step.size(), '0') + step + ".safetensors");
}

// Everything a user may do wrong ends with exit code 2 and one line.
void expect_refused(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("chaos: "));
}

TEST(Train, PlainOutputPlotAndSample) {
    const TemporaryFolder folder;
    folder.write("run.toml", text_run("steps = 40\n"));
    folder.write("text.txt", std::string(3000, 'a') + std::string(3000, 'b'));
    const Outcome outcome = run_chaos({"train", "run.toml", "--plot", "--sample", "aaaa"}, folder.path());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("step 2/40  loss "), HasSubstr(" samples/s"), HasSubstr("held-out loss"),
                      HasSubstr("finished after step 40"), HasSubstr("loss by step"), HasSubstr("\naaaa")));
}

TEST(Train, JsonStaysJsonWithASample) {
    const TemporaryFolder folder;
    folder.write("run.toml", text_run("steps = 2\n"));
    folder.write("text.txt", std::string(6000, 'a'));
    const Outcome outcome = run_chaos({"train", "run.toml", "--json", "--sample", "\xff"}, folder.path());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(events_of(outcome.out, "sampled").size(), 1U);
    folder.write("mlp.toml", mlp_run(""));
    expect_refused(run_chaos({"train", "mlp.toml", "--sample", "x"}, folder.path()));
}

TEST(Train, JsonIsOneObjectPerEvent) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 7\neval_every = 3\ncheckpoint_every = 4\n"));
    const Outcome outcome = run_chaos({"train", "run.toml", "--json"}, folder.path());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(events_of(outcome.out, "start").size(), 1U);
    const auto steps = events_of(outcome.out, "step");
    ASSERT_EQ(steps.size(), 7U);
    EXPECT_EQ(steps[6]["step"], 7);
    EXPECT_EQ(events_of(outcome.out, "evaluated").size(), 3U);
    EXPECT_FALSE(events_of(outcome.out, "saved").empty());
}

TEST(Train, TenStepsAStopAndTenMoreEqualTwenty) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 20\n"));
    const Outcome straight = run_chaos({"train", "run.toml", "--json", "--dir", "straight"}, folder.path());
    ASSERT_EQ(run_chaos({"train", "run.toml", "--max-steps", "10"}, folder.path()).code, 0);
    const Outcome second = run_chaos({"train", "run.toml", "--json"}, folder.path());
    EXPECT_EQ(events_of(second.out, "step").size(), 10U);
    EXPECT_EQ(lineage_of(second), lineage_of(straight));
}

TEST(Train, AFinishedRunHasNothingLeftToDo) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 5\n"));
    const Outcome first = run_chaos({"train", "run.toml", "--json"}, folder.path());
    const Outcome again = run_chaos({"train", "run.toml", "--json"}, folder.path());
    EXPECT_EQ(again.code, 0);
    EXPECT_TRUE(events_of(again.out, "step").empty());
    EXPECT_EQ(lineage_of(again), lineage_of(first));
}

TEST(Train, KeepsTheLastCheckpointsAndTheBest) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 10\ncheckpoint_every = 2\nkeep_checkpoints = 2\neval_every = 10\n"));
    ASSERT_EQ(run_chaos({"train", "run.toml"}, folder.path()).code, 0);
    EXPECT_EQ(checkpoints_in(folder / "run"), 3U);
    EXPECT_TRUE(std::filesystem::exists(checkpoint(folder, "8")));
    EXPECT_TRUE(std::filesystem::exists(checkpoint(folder, "10")));
    EXPECT_TRUE(std::filesystem::exists(folder / "run/checkpoints/best.safetensors"));
}

TEST(Train, TheBestLossIsKeptWhenARunIsLengthened) {
    const TemporaryFolder folder;
    const auto losses = [&](const std::string& steps) {
        folder.write("run.toml", "[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.3\n" +
                                     mlp_run("eval_every = 0\ncheckpoint_every = 5\nsteps = " + steps + "\n"));
        const Outcome outcome = run_chaos({"train", "run.toml", "--json"}, folder.path());
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return events_of(outcome.out, "evaluated").at(0);
    };
    double best = losses("10")["loss"];
    for (const char* steps : {"15", "20", "25", "30", "35"}) {
        const auto event = losses(steps);
        EXPECT_EQ(event["best"].get<bool>(), event["loss"].get<double>() < best);
        best = std::min(best, event["loss"].get<double>());
    }
}

TEST(Train, CtrlCFinishesTheStepSavesAndExitsWithZero) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 1000000\ncheckpoint_every = 0\neval_every = 0\n"));
    Process process({"train", "run.toml", "--json"}, folder.path());
    ASSERT_TRUE(process.wait_for_output("\"event\":\"step\""));
    process.signal(SIGINT);
    EXPECT_EQ(process.wait(), 0) << process.err;
    const auto steps = events_of(process.out, "step");
    const auto saved = events_of(process.out, "saved");
    ASSERT_EQ(saved.size(), 1U);
    EXPECT_EQ(saved[0]["step"], steps.back()["step"]);
    EXPECT_EQ(events_of(process.out, "end")[0]["why"], "interrupted");
    EXPECT_EQ(checkpoints_in(folder / "run"), 1U);
}

// The signals a process has not been given yet, as the kernel lists them.
bool pending(pid_t pid, int signal) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("ShdPnd:")) return ((std::stoull(line.substr(7), nullptr, 16) >> (signal - 1)) & 1) != 0;
    return false;
}

TEST(Train, ASecondCtrlCExitsAtOnce) {
    const TemporaryFolder folder;
    // One step takes many seconds: the second signal comes long before its end.
    folder.write("run.toml", R"([model]
kind = "resnet101"
[data]
kind = "synthetic"
shape = [3, 64, 64]
[train]
batch = 256
)");
    Process process({"train", "run.toml", "--json"}, folder.path());
    ASSERT_TRUE(process.wait_for_output("\"event\":\"start\""));
    process.signal(SIGINT);
    while (pending(process.pid(), SIGINT)) {
    }
    process.signal(SIGINT);
    EXPECT_EQ(process.wait(), 130);
    EXPECT_EQ(checkpoints_in(folder / "run"), 0U);
}

TEST(BadInput, MisspeltKey) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("stepz = 10\n"));
    const Outcome outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("run.toml"), HasSubstr("train.stepz"), HasSubstr("\"steps\"")));
}

TEST(BadInput, WrongType) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = \"ten\"\n"));
    const Outcome outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("run.toml"), HasSubstr("train.steps")));
}

TEST(BadInput, MissingFiles) {
    const TemporaryFolder folder;
    Outcome outcome = run_chaos({"train", "none.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("none.toml"));
    folder.write("run.toml", text_run(""));
    outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("text.txt"), HasSubstr("data.files")));
    EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

constexpr const char* idx_run = R"([model]
kind = "mlp"
[data]
kind = "idx"
files = "images"
labels = "labels"
held_out = 0
[train]
batch = 1
)";

TEST(BadInput, TruncatedAndMislabelledData) {
    const TemporaryFolder folder;
    const std::string images("\0\0\10\3\0\0\0\2\0\0\0\3\0\0\0\3abcdefghi", 25);  // 2 images of 3 x 3, one is there
    const std::string labels("\0\0\10\1\0\0\0\2\0\1", 10);
    folder.write("run.toml", idx_run);
    folder.write("images", images);
    folder.write("labels", labels);
    Outcome outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("images"), HasSubstr("data.files")));
    folder.write("images", labels);
    outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("images"), HasSubstr("label"), HasSubstr("data.files")));
}

TEST(BadInput, ACheckpointOfAnotherRun) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 5\n"));
    ASSERT_EQ(run_chaos({"train", "run.toml"}, folder.path()).code, 0);
    folder.write("run.toml", mlp_run("steps = 5\nseed = 2\n"));
    const Outcome outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("step-000000000005.safetensors"), HasSubstr("train.seed = 1"),
                                   HasSubstr("this run has 2")));
    EXPECT_TRUE(std::filesystem::exists(checkpoint(folder, "5")));
}

TEST(BadInput, AFlippedBitInACheckpoint) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 6\ncheckpoint_every = 3\n"));
    ASSERT_EQ(run_chaos({"train", "run.toml"}, folder.path()).code, 0);
    std::fstream file(checkpoint(folder, "6"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-100, std::ios::end);
    const auto at = file.tellg();
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 4));
    file.close();
    const Outcome outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("step-000000000006.safetensors is damaged"), HasSubstr("SHA-256"),
                                   HasSubstr("step-000000000003.safetensors")));
    EXPECT_TRUE(std::filesystem::exists(checkpoint(folder, "6")));
}

TEST(BadInput, AFullDiskWhileSaving) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 6\ncheckpoint_every = 3\n"));
    ASSERT_EQ(run_chaos({"train", "run.toml", "--max-steps", "3"}, folder.path()).code, 0);
    const Outcome outcome = run_chaos({"train", "run.toml"}, folder.path(), [] {
        rlimit limit{};
        ::getrlimit(RLIMIT_FSIZE, &limit);
        limit.rlim_cur = 1500;  // run.toml fits, a checkpoint does not
        ::setrlimit(RLIMIT_FSIZE, &limit);
    });
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("cannot write"), HasSubstr("step-000000000006.safetensors"),
                                   HasSubstr("the last good checkpoint is")));
    EXPECT_EQ(checkpoints_in(folder / "run"), 1U);
    const Outcome again = run_chaos({"train", "run.toml", "--json"}, folder.path());
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(events_of(again.out, "step").size(), 3U);
}

TEST(BadInput, ALossThatIsNotANumberKeepsTheLastGoodCheckpoint) {
    const TemporaryFolder folder;
    folder.write("run.toml",
                 "[optimizer]\nkind = \"sgd\"\nlearning_rate = 1000\n" +
                     mlp_run("steps = 100\ncheckpoint_every = 1\nkeep_checkpoints = 100\neval_every = 0\n"));
    const Outcome outcome = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(outcome);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("not a finite number"), HasSubstr("the last good checkpoint is"),
                                   HasSubstr("optimizer.learning_rate")));
    EXPECT_TRUE(std::filesystem::exists(checkpoint(folder, "1")));
}

TEST(BadInput, AFolderInUse) {
    const TemporaryFolder folder;
    folder.write("run.toml", mlp_run("steps = 1000000\ncheckpoint_every = 0\neval_every = 0\n"));
    Process first({"train", "run.toml", "--json"}, folder.path());
    ASSERT_TRUE(first.wait_for_output("\"event\":\"step\""));
    const Outcome second = run_chaos({"train", "run.toml"}, folder.path());
    expect_refused(second);
    EXPECT_THAT(second.err, HasSubstr("in use by another process"));
    first.signal(SIGTERM);
    EXPECT_EQ(first.wait(), 0);
}

TEST(Export, WritesAFolderThatTrainingStartsFrom) {
    const TemporaryFolder folder;
    folder.write("run.toml", text_run("steps = 10\n"));
    folder.write("text.txt", std::string(3000, 'a') + std::string(3000, 'b'));
    ASSERT_EQ(run_chaos({"train", "run.toml"}, folder.path()).code, 0);
    const Outcome outcome = run_chaos({"export", "run", "model", "--best"}, folder.path());
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
        EXPECT_TRUE(std::filesystem::exists(folder / ("model/" + std::string(name)))) << name;
    expect_refused(run_chaos({"export", "run", "model"}, folder.path()));
    expect_refused(run_chaos({"export", "nowhere", "other"}, folder.path()));
    folder.write("more.toml",
                 "[model]\ninit = \"model\"\n[data]\nfiles = \"text.txt\"\ncontext = 16\n[train]\nsteps = 2\n");
    const Outcome more = run_chaos({"train", "more.toml"}, folder.path());
    EXPECT_EQ(more.code, 0) << more.err;
}

TEST(Export, WritesAModelThatGenerates) {
    const TemporaryFolder folder;
    folder.write("run.toml", text_run("steps = 10\n"));
    folder.write("text.txt", std::string(6000, 'a'));
    ASSERT_EQ(run_chaos({"train", "run.toml"}, folder.path()).code, 0);
    ASSERT_EQ(run_chaos({"export", "run", "model"}, folder.path()).code, 0);
    ASSERT_EQ(run_chaos({"quantize", "model", "model.gguf", "--type", "q8_0"}, folder.path()).code, 0);
    for (const char* model : {"model", "model.gguf"}) {
        const Outcome outcome =
            run_chaos({"generate", model, "--prompt", "aa", "--max-tokens", "4", "--json"}, folder.path());
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        EXPECT_EQ(nlohmann::json::parse(outcome.out)["text"], "aaaa") << model;
    }
}

}  // namespace
}  // namespace chaos::test
