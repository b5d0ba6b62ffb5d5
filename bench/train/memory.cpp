#include "memory.h"

#include "elastic/trainer.h"
#include "plain_library.h"
#include "workload.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace chaos::bench {
namespace {

constexpr int steps = 3;

Result<std::uint64_t> peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        std::uint64_t kibibytes = 0;
        if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
    }
    return Error{"/proc/self/status tells no peak of resident memory (VmHWM)"};
}

Result<void> train_chaos(const run::Run& run) {
    CHAOS_TRY(elastic::Trainer trainer, elastic::Trainer::open(run));
    for (int i = 0; i < steps; ++i) CHAOS_CHECK(trainer.step());
    return {};
}

Result<void> train_plain(const PlainLibrary& library, const run::Run& run) {
    CHAOS_TRY(const auto dataset, data::open_dataset(run.data, nullptr));
    CHAOS_TRY(const auto loop, library.make_loop(run));
    data::Position position;
    data::Batch batch;
    for (int i = 0; i < steps; ++i) {
        fetch_batch(run, *dataset, position, batch);
        (void)loop->step(batch);
        position = data::advance(position, static_cast<std::uint64_t>(run.train.batch), dataset->train_samples());
    }
    return {};
}

// What a child wrote until it ended, and how it ended.
struct Output {
    std::string text;
    int status = 0;
};

Result<Output> run_self(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/proc/self/exe");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);

    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return Error{"cannot make a pipe to a child process"};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t child = 0;
    const int failed = ::posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);

    Output output;
    std::array<char, 256> part{};
    for (ssize_t count = 0; failed == 0 && (count = ::read(ends[0], part.data(), part.size())) > 0;)
        output.text.append(part.data(), static_cast<std::size_t>(count));
    ::close(ends[0]);
    if (failed != 0 || ::waitpid(child, &output.status, 0) != child) return Error{"cannot run a child process"};
    return output;
}

}  // namespace

Result<std::uint64_t> train_alone(const std::string& side, const run::Run& run) {
    CHAOS_TRY(const PlainLibrary library, PlainLibrary::load());
    CHAOS_CHECK(side == "chaos" ? train_chaos(run) : train_plain(library, run));
    return peak_bytes();
}

Result<std::uint64_t> peak_of_child(const std::string& side, const std::string& model, const std::string& text) {
    CHAOS_TRY(const Output output, run_self({train_alone_flag, side, model, text}));
    const std::uint64_t bytes = std::strtoull(output.text.c_str(), nullptr, 10);
    if (output.status != 0 || bytes == 0) return Error{"the child process that trains " + model + " failed"};
    return bytes;
}

}  // namespace chaos::bench
