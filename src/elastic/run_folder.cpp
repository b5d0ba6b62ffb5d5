#include "elastic/run_folder.h"

#include "base/file.h"
#include "state/hugging_face.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace chaos::elastic {
namespace {

constexpr const char* tokenizer_config = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n";

Result<void> copy_atomically(const std::filesystem::path& from, const std::filesystem::path& to) {
    CHAOS_TRY(const std::string content, read_file(from));
    return write_file_atomically(to, content);
}

// The tokenizer and, where it lies in a Hugging Face folder, the files that say how it is used.
Result<void> describe_tokenizer(const std::filesystem::path& tokenizer, const std::filesystem::path& target) {
    if (tokenizer.empty()) {
        CHAOS_CHECK(write_file_atomically(target / "tokenizer.json", state::byte_tokenizer_json()));
        return write_file_atomically(target / "tokenizer_config.json", tokenizer_config);
    }
    CHAOS_CHECK(copy_atomically(tokenizer, target / "tokenizer.json"));
    const std::filesystem::path folder = tokenizer.parent_path();
    for (const char* name : tokenizer_companions)
        if (std::filesystem::exists(folder / name)) CHAOS_CHECK(copy_atomically(folder / name, target / name));
    if (!std::filesystem::exists(target / "tokenizer_config.json"))
        return write_file_atomically(target / "tokenizer_config.json", tokenizer_config);
    return {};
}

}  // namespace

Result<RunFolder> RunFolder::open(const std::filesystem::path& path) {
    CHAOS_CHECK(make_folder(path / "checkpoints"));
    const std::filesystem::path lock_path = path / "lock";
    const int lock = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (lock < 0) return Error{"cannot write " + lock_path.string() + ": " + std::strerror(errno)};
    RunFolder folder(path, lock);
    if (::flock(lock, LOCK_EX | LOCK_NB) != 0)
        return Error{path.string() + " is in use by another process; choose another folder with --dir"};
    return folder;
}

RunFolder::~RunFolder() {
    if (lock_ >= 0) ::close(lock_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

RunFolder& RunFolder::operator=(RunFolder&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(lock_, other.lock_);
    return *this;
}

Result<void> RunFolder::describe(const std::filesystem::path& run_file, const Trainer& trainer) const {
    CHAOS_CHECK(copy_atomically(run_file, path_ / "run.toml"));
    const run::Run& run = trainer.run();
    if (run.model.kind != "llama") return {};
    const std::filesystem::path target = path_ / "hugging_face";
    CHAOS_CHECK(make_folder(target));
    CHAOS_CHECK(write_file_atomically(target / "config.json", state::llama_config_json(run.model.llama)));
    if (run.data.kind != "text") return {};
    return describe_tokenizer(run.data.tokenizer, target);
}

Result<void> export_run(const std::filesystem::path& run_folder, const std::filesystem::path& target, Choice choice) {
    const state::CheckpointFolder checkpoints{run_folder / "checkpoints"};
    if (!std::filesystem::exists(run_folder / "run.toml"))
        return Error{run_folder.string() + " is not a run's folder: it has no run.toml"};
    if (!std::filesystem::exists(run_folder / "hugging_face/config.json"))
        return Error{run_folder.string() + " does not hold a llama model; only those can be exported"};
    CHAOS_TRY(const std::vector<std::uint64_t> steps, checkpoints.steps());
    if (steps.empty()) return Error{run_folder.string() + " has no checkpoint yet"};
    if (choice == Choice::best && !std::filesystem::exists(checkpoints.best()))
        return Error{run_folder.string() + " has no best checkpoint: the run did not evaluate held-out samples"};
    std::error_code code;
    if (std::filesystem::exists(target, code) && !std::filesystem::is_empty(target, code))
        return Error{target.string() + " exists and is not empty; choose another folder"};

    // Beside the target, and renamed when it is whole: a failed export leaves nothing that looks like a model.
    const std::filesystem::path unfinished = target.string() + ".tmp-" + std::to_string(::getpid());
    const auto fill = [&]() -> Result<void> {
        CHAOS_CHECK(make_folder(unfinished));
        CHAOS_TRY(const std::vector<std::string> names, list_folder(run_folder / "hugging_face"));
        for (const std::string& name : names)
            CHAOS_CHECK(copy_atomically(run_folder / "hugging_face" / name, unfinished / name));
        CHAOS_CHECK(state::write_weights(
            choice == Choice::best ? checkpoints.best() : checkpoints.path_of(steps.back()), unfinished));
        std::filesystem::rename(unfinished, target, code);
        if (code) return Error{"cannot write " + target.string() + ": " + code.message()};
        return {};
    };
    Result<void> filled = fill();
    std::error_code ignored;
    if (!filled) std::filesystem::remove_all(unfinished, ignored);
    return filled;
}

}  // namespace chaos::elastic
