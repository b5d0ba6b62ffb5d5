// Every combination computes the same tokens in three ways: all at once, in pieces of 7, one by one.
#include "base/hash.h"
#include "infer/engine.h"
#include "infer/packed_file.h"
#include "infer/window.h"
#include "linked.h"
#include "sections.h"
#include "slices.h"
#include "temporary_folder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using infer::Slice;

constexpr std::size_t compared_tokens = 40;
constexpr std::array<std::size_t, 3> piece_tokens = {compared_tokens, 7, 1};

std::vector<fs::path> model_files(const Wish& wish) {
    std::vector<fs::path> files;
    for (const char* name : {"gguf/llama2-tiny-q4_0.gguf", "gguf/llama3-shakespeare-q4_k_m.gguf", "qwen2-tiny",
                             "gguf/qwen3-tiny-q8_0.gguf"})
        files.push_back(wish.models / name);
    if (wish.quick) return files;
    for (const char* name :
         {"llama2-tiny", "llama3-shakespeare", "qwen3-tiny", "gguf/llama2-tiny-q8_0.gguf", "gguf/qwen3-tiny-f16.gguf",
          "gguf/llama3-shakespeare-q5_k_m.gguf", "gguf/qwen3-tiny-q4_0.gguf"})
        files.push_back(wish.models / name);
    return files;
}

std::vector<infer::TokenId> some_tokens(const infer::Config& config) {
    std::vector<infer::TokenId> tokens;
    for (std::size_t i = 0; i < compared_tokens; ++i)
        tokens.push_back(static_cast<infer::TokenId>((i * 7919 + 13) % static_cast<std::size_t>(config.vocab)));
    return tokens;
}

Result<Digest> hash_of_logits(infer::Engine& engine) {
    const std::vector<infer::TokenId> all = some_tokens(engine.config());
    Sha256 hash;
    for (const std::size_t step : piece_tokens) {
        CHAOS_TRY(infer::KvCache cache, infer::KvCache::make(engine.part(), all.size(), infer::KvType::f16));
        for (std::size_t at = 0; at < all.size(); at += step) {
            const auto tokens = std::span(all).subspan(at, std::min(step, all.size() - at));
            const infer::Piece piece{&cache, tokens, tokens.size()};
            CHAOS_TRY(const auto logits, engine.forward({&piece, 1}));
            hash.add(std::as_bytes(logits));
        }
    }
    return hash.finish();
}

// ---- how the model is divided

// [0, all) cut at random multiples of `unit`: some parts may be empty.
std::vector<infer::Extent> cut_at_random(std::int64_t all, std::int64_t unit, std::size_t members,
                                         std::mt19937& random) {
    std::vector<std::int64_t> cuts = {0, all};
    std::uniform_int_distribution<std::int64_t> where(0, all / unit);
    while (cuts.size() < members + 1) cuts.push_back(where(random) * unit);
    std::ranges::sort(cuts);
    std::vector<infer::Extent> parts;
    for (std::size_t i = 0; i < members; ++i) parts.push_back({cuts[i], cuts[i + 1] - cuts[i]});
    return parts;
}

std::vector<Slice> divide_at_random(const infer::Config& config, std::size_t members, std::mt19937& random) {
    const auto heads = cut_at_random(config.heads, infer::head_unit(config), members, random);
    const auto ffn = cut_at_random(config.ffn, infer::ffn_unit(config), members, random);
    const auto vocab = cut_at_random(config.vocab, 1, members, random);
    std::vector<Slice> slices;
    for (std::size_t i = 0; i < members; ++i) slices.push_back({heads[i], ffn[i], vocab[i]});
    return slices;
}

struct Shape {
    const char* name;
    std::vector<std::size_t> parents{};
};
std::vector<Shape> shapes_of(std::size_t members) {
    std::vector<Shape> shapes = {{"direct"}};
    if (members == 1) return shapes;
    shapes.push_back({"star", std::vector<std::size_t>(members, members - 1)});
    if (members == 2) return shapes;
    // Each has the one before it for a parent.
    Shape chain{"chain"};
    for (std::size_t place = 0; place < members; ++place) chain.parents.push_back(place == 0 ? 0 : place - 1);
    shapes.push_back(chain);
    return shapes;
}

// Who has a window: a quarter of its weights in memory.
enum class Windows { none, some, all };
const char* name_of(Windows windows) {
    if (windows == Windows::none) return "all in memory";
    return windows == Windows::all ? "a quarter in memory" : "a quarter in memory of every second one";
}
std::vector<Windows> windows_of(std::size_t members) {
    if (members == 1) return {Windows::none, Windows::all};
    return {Windows::none, Windows::some, Windows::all};
}

// ---- one member

// A quarter of a slice's weights in memory, or as much more as the least ring takes.
Result<infer::Model> in_window(infer::ModelFile file, const Slice& slice, const fs::path& cache, infer::Pool& pool) {
    constexpr std::uint64_t part_bytes = 20'000;
    const auto tensors = infer::packed_tensors(file, slice);
    const std::uint64_t all = infer::packed_bytes(tensors);
    const auto parts = infer::parts_of(tensors, part_bytes);
    const std::array batches = {infer::Batch{infer::Engine::max_tokens, 0}};
    for (std::uint64_t budget = all / 4; budget < all; budget += all / 8) {
        const auto plan = infer::plan_window({.budget_bytes = budget, .batches = batches, .parts = parts});
        if (!plan) continue;
        CHAOS_TRY(const fs::path packed, infer::packed_file(file, tensors, {.path = cache}, pool, {}));
        CHAOS_TRY(auto window, infer::Window::open(packed, parts, *plan, {}));
        return infer::Model::in_window(std::move(file), slice, std::move(window));
    }
    return infer::Model::load(std::move(file), slice, pool, {});
}

Result<Digest> hash_of_member(const fs::path& path, const Slice& slice, const std::optional<fs::path>& cache,
                              tensor::LinkExchange& exchange) {
    CHAOS_TRY(auto file, infer::ModelFile::open(path));
    infer::Pool pool(1);
    CHAOS_TRY(const infer::Model model, cache ? in_window(std::move(file), slice, *cache, pool)
                                              : infer::Model::load(std::move(file), slice, pool, {}));
    infer::Engine engine(model, pool, &exchange);
    return hash_of_logits(engine);
}

Result<Digest> hash_alone(const fs::path& path) {
    CHAOS_TRY(auto file, infer::ModelFile::open(path));
    infer::Pool pool(2);
    CHAOS_TRY(const infer::Model model, infer::Model::load(std::move(file), pool, {}));
    infer::Engine engine(model, pool);
    return hash_of_logits(engine);
}

// ---- all of it

struct Count {
    std::size_t all = 0;
    std::size_t same = 0;
};

Result<void> compare(const fs::path& path, LinkedMembers& members, std::mt19937& random, Count& count) {
    CHAOS_TRY(const Digest wanted, hash_alone(path));
    CHAOS_TRY(const auto file, infer::ModelFile::open(path));
    using Division = std::pair<const char*, std::vector<Slice>>;
    std::vector<Division> divisions = {{"even", even_slices(file.config(), members.count())}};
    if (members.count() > 1) divisions.emplace_back("uneven", divide_at_random(file.config(), members.count(), random));
    const test::TemporaryFolder folder;
    for (const auto& [division, slices] : divisions) {
        for (const Shape& shape : shapes_of(members.count())) {
            for (const Windows windows : windows_of(members.count())) {
                const std::string what = path.filename().string() + ", " + std::to_string(members.count()) +
                                         " nodes, " + division + ", " + shape.name + ", " + name_of(windows);
                std::vector<Digest> hashes(members.count());
                const Result<void> computed = members.together(
                    shape.parents, [&](std::size_t place, tensor::LinkExchange& exchange) -> Result<void> {
                        const bool window = windows == Windows::all || (windows == Windows::some && place % 2 == 1);
                        const auto cache = window ? std::optional(folder.path()) : std::nullopt;
                        CHAOS_TRY(hashes[place], hash_of_member(path, slices[place], cache, exchange));
                        return {};
                    });
                const bool same =
                    computed && std::ranges::all_of(hashes, [&](const Digest& each) { return each == wanted; });
                ++count.all;
                count.same += same ? 1 : 0;
                if (!same)
                    std::fprintf(stderr, "  %s: %s\n", what.c_str(),
                                 computed ? "other logits" : computed.error().message.c_str());
            }
        }
    }
    return {};
}

}  // namespace

Result<void> measure_same(const Wish& wish, Findings& findings) {
    if (!fs::exists(wish.models)) return Error{wish.models.string() + " is not there; --models names another folder"};
    std::mt19937 random(1);
    Count count;
    for (const std::size_t nodes : {1U, 2U, 3U, 5U}) {
        CHAOS_TRY(const auto members, LinkedMembers::start(nodes));
        for (const fs::path& path : model_files(wish)) {
            CHAOS_CHECK(compare(path, *members, random, count));
            std::fprintf(stderr, "  %zu nodes, %s: %zu of %zu combinations have the one hash\n", nodes,
                         path.filename().c_str(), count.same, count.all);
        }
    }
    findings.add("combinations", static_cast<double>(count.all), 0);
    findings.add("combinations_with_the_one_hash", static_cast<double>(count.same), 0, std::to_string(count.all));
    findings.add("same_logits", count.same == count.all ? 1.0 : 0.0, 0, "1");
    return {};
}

}  // namespace chaos::bench
