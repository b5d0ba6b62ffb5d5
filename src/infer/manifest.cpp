#include "infer/manifest.h"

#include "base/file.h"
#include "run/limits.h"

#include "proto/model.pb.h"

#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

namespace chaos::infer {
namespace {

// Another one where the same model would be cut otherwise.
constexpr std::string_view identity_version = "chaos model 1";
constexpr std::size_t max_eos_tokens = 1024;
constexpr std::array<std::string_view, 4> kinds = {"llama", "mistral", "qwen2", "qwen3"};

template <class T>
void add_value(Sha256& hash, const T& value) {
    static_assert(std::is_arithmetic_v<T>);
    hash.add(std::as_bytes(std::span(&value, 1)));
}

void add_text(Sha256& hash, std::string_view text) {
    add_value(hash, std::uint64_t{text.size()});
    hash.add(text);
}

void add_outline(Sha256& hash, const Outline& outline) {
    const Config& config = outline.config;
    add_text(hash, identity_version);
    add_text(hash, config.kind);
    for (const std::int64_t size : {config.vocab, config.width, config.layers, config.heads, config.kv_heads,
                                    config.head_width, config.ffn, config.max_context})
        add_value(hash, size);
    for (const double value : {config.norm_epsilon, config.rope.theta, config.rope.linear_factor})
        add_value(hash, value);
    add_value(hash, std::uint64_t{config.rope.divisors.size()});
    for (const float divisor : config.rope.divisors) add_value(hash, divisor);
    for (const bool flag : {config.tied_head, config.head_norm, config.qkv_bias, config.output_bias, config.ffn_bias,
                            config.bos_token.has_value(), outline.paired})
        add_value(hash, static_cast<std::uint8_t>(flag));
    add_value(hash, config.bos_token.value_or(0));
    add_value(hash, std::uint64_t{config.eos_tokens.size()});
    for (const std::int64_t token : config.eos_tokens) add_value(hash, token);
    for (const StoredType type : outline.types) add_value(hash, blocks_of(type).gguf_type);
    add_value(hash, std::uint64_t{outline.texts.size()});
    for (const TextFile& text : outline.texts) {
        add_text(hash, text.name);
        add_value(hash, text.bytes);
    }
    add_value(hash, outline.unit_bytes);
}

wire::Config to_wire(const Config& config) {
    wire::Config message;
    message.set_kind(config.kind);
    message.set_vocab(config.vocab);
    message.set_width(config.width);
    message.set_layers(config.layers);
    message.set_heads(config.heads);
    message.set_kv_heads(config.kv_heads);
    message.set_head_width(config.head_width);
    message.set_ffn(config.ffn);
    message.set_max_context(config.max_context);
    message.set_norm_epsilon(config.norm_epsilon);
    message.set_rope_theta(config.rope.theta);
    message.set_rope_linear_factor(config.rope.linear_factor);
    message.mutable_rope_divisors()->Add(config.rope.divisors.begin(), config.rope.divisors.end());
    message.set_tied_head(config.tied_head);
    message.set_head_norm(config.head_norm);
    message.set_qkv_bias(config.qkv_bias);
    message.set_output_bias(config.output_bias);
    message.set_ffn_bias(config.ffn_bias);
    if (config.bos_token) message.set_bos_token(*config.bos_token);
    message.mutable_eos_tokens()->Add(config.eos_tokens.begin(), config.eos_tokens.end());
    return message;
}

// The limits of what files may say (config.h).
bool in_limits(const Config& config) {
    const auto between = [](std::int64_t value, std::int64_t most) { return value >= 1 && value <= most; };
    return std::ranges::find(kinds, config.kind) != kinds.end() && between(config.vocab, run::max_vocab) &&
           between(config.width, run::max_width) && between(config.layers, run::max_layers) &&
           between(config.heads, run::max_heads) && between(config.kv_heads, run::max_heads) &&
           between(config.head_width, run::max_head_width) && between(config.ffn, run::max_ffn) &&
           between(config.max_context, run::max_context) && config.eos_tokens.size() <= max_eos_tokens &&
           (config.rope.divisors.empty() ||
            config.rope.divisors.size() == static_cast<std::size_t>(config.head_width / 2));
}

Result<Config> config_from(const wire::Config& message, const std::string& name) {
    Config config;
    config.kind = message.kind();
    config.vocab = message.vocab();
    config.width = message.width();
    config.layers = message.layers();
    config.heads = message.heads();
    config.kv_heads = message.kv_heads();
    config.head_width = message.head_width();
    config.ffn = message.ffn();
    config.max_context = message.max_context();
    config.norm_epsilon = message.norm_epsilon();
    config.rope.theta = message.rope_theta();
    config.rope.linear_factor = message.rope_linear_factor();
    config.rope.divisors.assign(message.rope_divisors().begin(), message.rope_divisors().end());
    config.tied_head = message.tied_head();
    config.head_norm = message.head_norm();
    config.qkv_bias = message.qkv_bias();
    config.output_bias = message.output_bias();
    config.ffn_bias = message.ffn_bias();
    if (message.has_bos_token()) config.bos_token = message.bos_token();
    config.eos_tokens.assign(message.eos_tokens().begin(), message.eos_tokens().end());
    if (!in_limits(config)) return Error{name + " describes a model that makes no sense"};
    CHAOS_CHECK(check_config(config, name));
    return config;
}

Result<Digest> key_of(const ModelFile& file, const Layout& layout) {
    Sha256 hash;
    add_outline(hash, layout.outline);
    std::vector<std::filesystem::path> paths = file.weight_paths();
    if (file.gguf() == nullptr)
        for (const TextFile& text : layout.outline.texts) paths.push_back(file.path() / text.name);
    for (const std::filesystem::path& path : paths) {
        struct stat info{};
        if (::stat(path.c_str(), &info) != 0)
            return Error{"cannot read " + path.string() + ": " + std::strerror(errno)};
        add_value(hash, static_cast<std::uint64_t>(info.st_size));
        add_value(hash, static_cast<std::int64_t>(info.st_mtim.tv_sec));
        add_value(hash, static_cast<std::int64_t>(info.st_mtim.tv_nsec));
    }
    for (const PlacedTensor& tensor : layout.tensors) {
        const std::span<const std::byte> bytes = file.tensor(tensor.shape.name).bytes;
        hash.add(bytes.first(std::min<std::size_t>(bytes.size(), 4096)));
        release_mapped(bytes);
    }
    return hash.finish();
}

Result<Manifest> make_manifest(const FileUnits& units, Pool& pool, const Progress& progress) {
    constexpr std::size_t units_at_once = 128;
    const Layout& layout = units.layout();
    Manifest manifest{.outline = layout.outline, .hashes = std::vector<Digest>(layout.units.size())};
    std::optional<Error> error;
    std::mutex told;  // threads of the pool may fail at once
    for (std::size_t first = 0; first < layout.units.size(); first += units_at_once) {
        const std::size_t count = std::min(units_at_once, layout.units.size() - first);
        pool.run(count, [&](std::size_t i) {
            std::vector<std::byte> bytes(layout.units[first + i].bytes);
            if (const auto read = units.read(first + i, bytes); !read) {
                const std::lock_guard lock(told);
                error = read.error();
            }
            manifest.hashes[first + i] = hash_of(bytes);
        });
        if (error) return *error;
        units.release();
        if (progress) progress(layout.units[first + count - 1].end(), layout.bytes);
    }
    return manifest;
}

// Of a file that begins with its identity; nothing where it is not what was written, and has to be made anew.
std::optional<Manifest> whole_manifest(std::string_view kept, const std::string& name) {
    Digest identity{};
    if (kept.size() < identity.size()) return std::nullopt;
    std::memcpy(identity.data(), kept.data(), identity.size());
    auto manifest = decode_manifest(kept.substr(identity.size()), name);
    if (!manifest || identity_of(*manifest) != identity) return std::nullopt;
    return std::move(*manifest);
}

}  // namespace

Digest hash_of(std::span<const std::byte> bytes) {
    return Sha256().add(bytes).finish();
}

Digest identity_of(const Manifest& manifest) {
    Sha256 hash;
    add_outline(hash, manifest.outline);
    hash.add(std::as_bytes(std::span(manifest.hashes)));
    return hash.finish();
}

std::string encode(const Manifest& manifest) {
    wire::Manifest message;
    *message.mutable_config() = to_wire(manifest.outline.config);
    message.set_paired(manifest.outline.paired);
    std::string types;
    for (const StoredType type : manifest.outline.types) types += static_cast<char>(blocks_of(type).gguf_type);
    message.set_types(std::move(types));
    for (const TextFile& text : manifest.outline.texts) {
        wire::Manifest::Text& file = *message.add_texts();
        file.set_name(text.name);
        file.set_bytes(text.bytes);
    }
    message.set_unit_bytes(manifest.outline.unit_bytes);
    std::string hashes;
    hashes.reserve(manifest.hashes.size() * sizeof(Digest));
    for (const Digest& hash : manifest.hashes) hashes.append(reinterpret_cast<const char*>(hash.data()), hash.size());
    message.set_hashes(std::move(hashes));
    return message.SerializeAsString();
}

Result<Manifest> decode_manifest(std::string_view bytes, const std::string& name) {
    wire::Manifest message;
    if (bytes.size() > max_manifest_bytes || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return Error{name + " is no description of a model"};
    Manifest manifest;
    CHAOS_TRY(manifest.outline.config, config_from(message.config(), name));
    manifest.outline.paired = message.paired();
    for (const char number : message.types()) {
        const auto type = stored_type_of_gguf(static_cast<std::uint8_t>(number));
        if (!type) return Error{name + " has weights of a type that is not supported"};
        manifest.outline.types.push_back(*type);
    }
    for (const wire::Manifest::Text& text : message.texts())
        manifest.outline.texts.push_back({text.name(), text.bytes()});
    manifest.outline.unit_bytes = message.unit_bytes();
    const auto layout = layout_of(manifest.outline);
    if (!layout) return Error{name + ": " + layout.error().message};
    if (message.hashes().size() != layout->units.size() * sizeof(Digest))
        return Error{name + " does not have one hash for each unit"};
    manifest.hashes.resize(layout->units.size());
    std::memcpy(manifest.hashes.data(), message.hashes().data(), message.hashes().size());
    return manifest;
}

Result<Manifest> manifest_of(const ModelFile& file, const FileUnits& units, const std::filesystem::path& folder,
                             Pool& pool, const Progress& progress) {
    CHAOS_TRY(const Digest key, key_of(file, units.layout()));
    const std::filesystem::path path = folder / (hex(std::span(key).first(16)) + ".manifest");
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
        CHAOS_TRY(const std::string kept, read_file(path));
        if (auto manifest = whole_manifest(kept, path.string())) return std::move(*manifest);
    }
    CHAOS_TRY(Manifest manifest, make_manifest(units, pool, progress));
    CHAOS_CHECK(make_folder(folder));
    const Digest identity = identity_of(manifest);
    CHAOS_CHECK(write_file_atomically(
        path, std::string(reinterpret_cast<const char*>(identity.data()), identity.size()) + encode(manifest)));
    return manifest;
}

}  // namespace chaos::infer
