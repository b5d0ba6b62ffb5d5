#include "state/checkpoint.h"

#include "base/file.h"

#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

namespace chaos::state {
namespace {

constexpr const char* format_name = "chaos-checkpoint-1";
const std::string no_hash(64, '0');
constexpr std::string_view in_use = "step-";
constexpr std::string_view aside = "aside-step-";

// Of the checkpoints whose names begin so, ascending.
Result<std::vector<std::uint64_t>> steps_of(const std::filesystem::path& folder, std::string_view begin) {
    CHAOS_TRY(const std::vector<std::string> names, list_folder(folder));
    std::vector<std::uint64_t> found;
    for (const std::string& name : names) {
        std::uint64_t step = 0;
        if (!name.starts_with(begin)) continue;
        const auto [end, error] = std::from_chars(name.data() + begin.size(), name.data() + name.size(), step);
        if (error == std::errc{} && std::string_view(end) == ".safetensors") found.push_back(step);
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::filesystem::path path_in(const std::filesystem::path& folder, std::string_view begin, std::uint64_t step) {
    std::string digits = std::to_string(step);
    digits.insert(0, digits.size() < 12 ? 12 - digits.size() : 0, '0');
    return folder / (std::string(begin) + digits + ".safetensors");
}

std::vector<FloatTensor> tensors_of(const Manifest& manifest, const Arena& arena) {
    std::vector<FloatTensor> tensors;
    const auto add = [&](const std::string& prefix, const std::vector<TensorInfo>& infos, std::span<const float> all) {
        for (const TensorInfo& info : infos)
            tensors.push_back({prefix + info.name, info.shape, all.subspan(info.begin, info.elements())});
    };
    add("", manifest.parameters, arena.parameters());
    for (unsigned slot = 0; slot < arena.slots(); ++slot)
        add("slot" + std::to_string(slot) + "/", manifest.parameters, arena.slot(slot));
    add("", manifest.buffers, arena.buffers());
    return tensors;
}

// Shortest text that reads back as the same number.
std::string exact(double value) {
    char text[32];
    const auto [end, code] = std::to_chars(text, text + sizeof text, value);
    return {text, end};
}

template <class Number>
Result<Number> number(const Safetensors& file, const char* key, const std::string& name) {
    const auto found = file.metadata().find(key);
    Number value{};
    if (found != file.metadata().end()) {
        const std::string& text = found->second;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (code == std::errc{} && end == text.data() + text.size()) return value;
    }
    return Error{name + " is a damaged checkpoint: its metadata lacks a valid \"" + key + "\""};
}

Result<Digest> digest_from_hex(const std::string& text, const std::string& name) {
    Digest digest{};
    if (text.size() == 2 * digest.size()) {
        bool good = true;
        for (std::size_t i = 0; i < digest.size(); ++i) {
            const char* begin = text.data() + 2 * i;
            good = good && std::from_chars(begin, begin + 2, digest[i], 16).ptr == begin + 2;
        }
        if (good) return digest;
    }
    return Error{name + " is a damaged checkpoint: its metadata lacks a valid \"lineage\""};
}

std::string text_of(const Safetensors& file, const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
}

Result<void> check_hash(const Safetensors& file, const std::string& name) {
    const std::string claimed = text_of(file, "sha256");
    std::string header(reinterpret_cast<const char*>(file.header().data()), file.header().size());
    const std::size_t at = claimed.size() == no_hash.size() ? header.find(claimed) : std::string::npos;
    if (at == std::string::npos) return Error{name + " is a damaged checkpoint: its metadata lacks a valid \"sha256\""};
    header.replace(at, claimed.size(), no_hash);
    if (hex(Sha256().add(header).add(file.data()).finish()) != claimed)
        return Error{name + " is damaged: its content does not match its SHA-256"};
    return {};
}

// Says in words how the run that wrote a checkpoint differs from this one.
Result<void> check_identity(const std::string& stored, const run::Identity& mine, const std::string& name) {
    const auto parsed = nlohmann::json::parse(stored, nullptr, false);
    if (!parsed.is_object()) return Error{name + " is a damaged checkpoint: its metadata lacks a valid \"identity\""};
    run::Identity theirs;
    for (const auto& [key, value] : parsed.items()) theirs[key] = value.is_string() ? value.get<std::string>() : "";
    if (theirs == mine) return {};
    const auto value_in = [](const run::Identity& identity, const std::string& key) {
        const auto found = identity.find(key);
        return found == identity.end() ? std::string("unset") : found->second;
    };
    run::Identity all = mine;
    all.insert(theirs.begin(), theirs.end());
    for (const auto& [key, ignored] : all)
        if (value_in(theirs, key) != value_in(mine, key))
            return Error{name + " is a checkpoint of another run: it was trained with " + key + " = " +
                         value_in(theirs, key) + ", this run has " + value_in(mine, key) +
                         "; choose another folder with --dir, or restore the run file"};
    CHAOS_ASSERT(false && "different identities without a different key");
    return {};
}

}  // namespace

std::filesystem::path CheckpointFolder::path_of(std::uint64_t step) const {
    return path_in(folder, in_use, step);
}

Result<std::vector<std::uint64_t>> CheckpointFolder::steps() const {
    return steps_of(folder, in_use);
}

Result<void> CheckpointFolder::prune(std::uint64_t keep) const {
    CHAOS_TRY(const std::vector<std::string> names, list_folder(folder));
    std::error_code ignored;  // a file that cannot be removed costs disk space, not the run
    for (const std::string_view kind : {in_use, aside}) {
        CHAOS_TRY(const std::vector<std::uint64_t> all, steps_of(folder, kind));
        for (std::size_t i = 0; i + keep < all.size(); ++i)
            std::filesystem::remove(path_in(folder, kind, all[i]), ignored);
    }
    const std::string temporary = ".tmp-";
    const std::string of_this_process = temporary + std::to_string(::getpid());
    for (const std::string& name : names)
        if (name.find(temporary) != std::string::npos && !name.ends_with(of_this_process))
            std::filesystem::remove(folder / name, ignored);
    return {};
}

Result<std::vector<std::uint64_t>> CheckpointFolder::set_aside_after(std::uint64_t step) const {
    CHAOS_TRY(std::vector<std::uint64_t> later, steps());
    std::erase_if(later, [&](std::uint64_t one) { return one <= step; });
    for (const std::uint64_t one : later) {
        std::error_code code;
        std::filesystem::rename(path_of(one), path_in(folder, aside, one), code);
        if (code) return Error{"cannot rename " + path_of(one).string() + ": " + code.message()};
    }
    return later;
}

Result<void> CheckpointFolder::mark_best(std::uint64_t step) const {
    const std::filesystem::path temporary = best().string() + ".tmp-" + std::to_string(::getpid());
    std::error_code code;
    std::filesystem::remove(temporary, code);
    std::filesystem::create_hard_link(path_of(step), temporary, code);
    if (code) std::filesystem::copy_file(path_of(step), temporary, code);  // a file system without hard links
    if (!code) std::filesystem::rename(temporary, best(), code);
    if (code) return Error{"cannot write " + best().string() + ": " + code.message()};
    return {};
}

Result<void> save_checkpoint(const std::filesystem::path& path, const run::Identity& identity, const Manifest& manifest,
                             const Arena& arena, const Progress& progress) {
    std::map<std::string, std::string> metadata = {
        {"format", format_name},
        {"step", std::to_string(progress.step)},
        {"pass", std::to_string(progress.pass)},
        {"index", std::to_string(progress.index)},
        {"lineage", hex(progress.lineage)},
        {"identity", nlohmann::json(identity).dump()},
        {"manifest", hex(manifest.hash())},
        {"threads", std::to_string(progress.threads)},
        {"sha256", no_hash},
    };
    if (progress.best_loss) metadata["best_loss"] = exact(*progress.best_loss);
    const std::vector<FloatTensor> tensors = tensors_of(manifest, arena);
    const std::span<const std::byte> data = std::as_bytes(arena.all());
    const std::string unsigned_header = safetensors_header(tensors, metadata);
    metadata["sha256"] = hex(Sha256().add(unsigned_header).add(data).finish());
    const std::string header = safetensors_header(tensors, metadata);
    return write_file_atomically(path, [&](const Sink& sink) -> Result<void> {
        CHAOS_CHECK(sink(std::as_bytes(std::span(header))));
        return sink(data);
    });
}

Result<Safetensors> open_checkpoint(const std::filesystem::path& path) {
    const std::string name = path.string();
    CHAOS_TRY(auto file, Safetensors::open(path));
    if (text_of(file, "format") != format_name)
        return Error{name + " is not a checkpoint of Chaos (its metadata has no format \"" + format_name + "\")"};
    CHAOS_CHECK(check_hash(file, name));
    return file;
}

Result<Progress> load_checkpoint(const std::filesystem::path& path, const run::Identity& identity,
                                 const Manifest& manifest, Arena& arena) {
    const std::string name = path.string();
    CHAOS_TRY(const auto file, open_checkpoint(path));
    CHAOS_CHECK(check_identity(text_of(file, "identity"), identity, name));
    if (text_of(file, "manifest") != hex(manifest.hash()) || file.data().size() != arena.all().size_bytes())
        return Error{name + " holds other tensors than this run's model has"};

    Progress progress;
    CHAOS_TRY(progress.step, number<std::uint64_t>(file, "step", name));
    CHAOS_TRY(progress.pass, number<std::uint64_t>(file, "pass", name));
    CHAOS_TRY(progress.index, number<std::uint64_t>(file, "index", name));
    CHAOS_TRY(progress.threads, number<std::uint64_t>(file, "threads", name));
    CHAOS_TRY(progress.lineage, digest_from_hex(text_of(file, "lineage"), name));
    if (file.metadata().contains("best_loss")) {
        CHAOS_TRY(progress.best_loss, number<double>(file, "best_loss", name));
    }
    std::memcpy(arena.all().data(), file.data().data(), file.data().size());
    return progress;
}

}  // namespace chaos::state
