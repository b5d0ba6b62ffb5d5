// A model divided into slices that compute together gives the logits of the whole, bit by bit.
#include "infer/candidates.h"
#include "infer/models.h"
#include "infer/scheduler.h"
#include "infer/small_model.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <utility>

namespace chaos::infer {
namespace {

using nlohmann::json;
using test::expected;
using test::gguf;
using test::Ids;

// Members in threads of one process that meet at every exchange.
class Meeting {
public:
    Meeting(std::size_t members, bool whole_heads)
        : whole_heads_(whole_heads), sums_(members), told_(members), all_here_(static_cast<std::ptrdiff_t>(members)) {}

    class Member final : public Exchange {
    public:
        Member(Meeting& meeting, std::size_t place) : meeting_(meeting), place_(place) {}
        [[nodiscard]] bool whole_heads() const override { return meeting_.whole_heads_; }
        void meanwhile(const std::function<void()>& work) override {
            if (place_ % 2 == 1) work();
        }
        Result<void> begin_sum(std::span<std::int64_t> sums, bool last) override {
            EXPECT_FALSE(under_way_.size() == 1 && was_last_);
            was_last_ = last;
            EXPECT_LT(under_way_.size(), 2U);
            under_way_.push_back(sums);
            return {};
        }
        Result<void> end_sum() override {
            const std::span<std::int64_t> ours = under_way_.front();
            under_way_.pop_front();
            meeting_.sums_[place_] = std::vector(ours.begin(), ours.end());
            meeting_.all_here_.arrive_and_wait();
            std::ranges::fill(ours, 0);
            for (const auto& each : meeting_.sums_)
                for (std::size_t i = 0; i < ours.size(); ++i) ours[i] += each[i];
            meeting_.all_here_.arrive_and_wait();
            return {};
        }
        Result<std::span<const std::vector<std::byte>>> collect(std::vector<std::byte> ours) override {
            EXPECT_TRUE(was_last_);
            EXPECT_FALSE(meeting_.whole_heads_);
            meeting_.told_[place_] = std::move(ours);
            meeting_.all_here_.arrive_and_wait();
            heard_ = meeting_.told_;
            meeting_.all_here_.arrive_and_wait();
            return std::span<const std::vector<std::byte>>(heard_);
        }

    private:
        Meeting& meeting_;
        std::size_t place_;
        bool was_last_ = false;
        std::deque<std::span<std::int64_t>> under_way_;
        std::vector<std::vector<std::byte>> heard_;
    };

private:
    bool whole_heads_;
    std::vector<std::vector<std::int64_t>> sums_;
    std::vector<std::vector<std::byte>> told_;
    std::barrier<> all_here_;
};

// Cuts `all` into extents at multiples of `unit`, some of them maybe empty.
std::vector<Extent> divided(std::int64_t all, std::int64_t unit, std::size_t members, std::mt19937& random) {
    std::vector<std::int64_t> cuts = {0, all};
    std::uniform_int_distribution<std::int64_t> where(0, all / unit);
    while (cuts.size() < members + 1) cuts.push_back(where(random) * unit);
    std::ranges::sort(cuts);
    std::vector<Extent> extents;
    for (std::size_t i = 0; i < members; ++i) extents.push_back({cuts[i], cuts[i + 1] - cuts[i]});
    return extents;
}

std::vector<Slice> divided(const Config& config, std::size_t members, std::mt19937& random) {
    const auto heads = divided(config.heads, head_unit(config), members, random);
    const auto ffn = divided(config.ffn, ffn_unit(config), members, random);
    const auto vocab = divided(config.vocab, 1, members, random);
    std::vector<Slice> slices;
    for (std::size_t i = 0; i < members; ++i) slices.push_back({heads[i], ffn[i], vocab[i]});
    return slices;
}

// What every member makes of the tokens, each in its own thread.
template <class Work>
void together(const std::filesystem::path& path, std::span<const Slice> slices, bool whole_heads, const Work& work) {
    Meeting meeting(slices.size(), whole_heads);
    std::vector<std::jthread> threads;
    for (std::size_t place = 0; place < slices.size(); ++place) {
        threads.emplace_back([&, place] {
            Pool pool(1);
            const Model model = Model::load(ModelFile::open(path).value(), slices[place], pool, {}).value();
            Meeting::Member member(meeting, place);
            Engine engine(model, pool, &member);
            work(place, engine);
        });
    }
}

std::vector<float> logits_of(Engine& engine, std::span<const TokenId> ids, std::size_t step) {
    KvCache cache = KvCache::make(engine.part(), ids.size(), KvType::f16).value();
    std::vector<float> all;
    for (std::size_t at = 0; at < ids.size(); at += step) {
        const auto tokens = ids.subspan(at, std::min(step, ids.size() - at));
        const auto some = engine.forward(std::array{Piece{&cache, tokens, tokens.size()}}).value();
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

TEST(Slices, TogetherHaveTheLogitsOfTheWhole) {
    CHAOS_NEED_SHARED("models");
    std::mt19937 random(1);
    for (const std::string name : {"llama2-tiny-q4_0", "llama3-shakespeare-q4_k_m", "qwen3-tiny-q8_0", "qwen2-tiny",
                                   "llama2-tiny", "llama3-shakespeare-f16"}) {
        const auto path =
            name.find("-q") == std::string::npos && !name.ends_with("f16") ? test::folder(name) : gguf(name);
        const auto model_name =
            name.starts_with("llama3") ? "llama3-shakespeare" : name.substr(0, name.find("tiny") + 4);
        auto ids = expected(model_name)["long"]["ids"].get<Ids>();
        ids.resize(40);
        test::Loaded alone(path);
        const auto wanted = logits_of(*alone.engine, ids, 40);
        for (const std::size_t members : {1U, 2U, 3U, 5U}) {
            auto slices = divided(alone.model->config(), members, random);
            const auto compute = [&](std::size_t place, Engine& engine) {
                EXPECT_EQ(logits_of(engine, ids, 40), wanted) << name << ", member " << place << " of " << members;
                EXPECT_EQ(logits_of(engine, ids, 7), wanted) << name << ", member " << place << " of " << members;
            };
            together(path, slices, false, compute);
            for (Slice& each : slices) each.vocab = whole(alone.model->config()).vocab;
            together(path, slices, true, compute);
        }
    }
}

// Whose others have nothing to add: how often they are heard while it computes.
class Listening final : public Exchange {
public:
    void between() override { ++heard; }
    Result<void> begin_sum(std::span<std::int64_t>, bool) override { return {}; }
    Result<void> end_sum() override { return {}; }
    Result<std::span<const std::vector<std::byte>>> collect(std::vector<std::byte> ours) override {
        told_ = std::move(ours);
        return std::span<const std::vector<std::byte>>(&told_, 1);
    }
    std::size_t heard = 0;

private:
    std::vector<std::byte> told_;
};

TEST(Slices, HearOthersWhileTheyMultiplyMuch) {
    constexpr std::size_t tokens = 256;
    Config config = test::divisible_config();
    config.width = 1024;
    config.max_context = tokens;
    const chaos::test::TemporaryFolder folder;
    const auto path = folder.path() / "model.gguf";
    auto tensors = test::small_tensors(config, StoredType::f32);
    std::mt19937 random(3);
    std::uniform_real_distribution<float> weight(-0.1F, 0.1F);
    for (GgufOutput& tensor : tensors) {
        std::size_t count = 1;
        for (const auto extent : tensor.extents) count *= static_cast<std::size_t>(extent);
        std::vector<float> weights(count);
        std::ranges::generate(weights, [&] { return weight(random); });
        tensor.write = [weights](const Sink& sink) { return sink(std::as_bytes(std::span(weights))); };
    }
    ASSERT_TRUE(write_gguf(path, test::small_metadata(config, false), tensors));
    test::Loaded alone(path);
    Listening others;
    Engine engine(*alone.model, alone.pool, &others);
    const Ids ids(tokens, 3);
    const auto one = logits_of(engine, std::span(ids).first(1), 1);
    const std::size_t heard = std::exchange(others.heard, 0);
    EXPECT_EQ(logits_of(engine, ids, tokens), logits_of(*alone.engine, ids, tokens));
    // By halves: gates and ups of one are more than is multiplied at once.
    const auto layers = static_cast<std::size_t>(config.layers);
    EXPECT_GE(others.heard, 2 * (heard - 1) + 1 + 2 * layers * 3);
}

TEST(Slices, FindDamagedWeightsWhoeverHasThem) {
    const Config config = test::divisible_config();
    const chaos::test::TemporaryFolder folder;
    const auto path = folder.path() / "model.gguf";
    // One weight of those that the first has is not a number.
    auto tensors = test::small_tensors(config, StoredType::f32);
    const auto damaged =
        std::ranges::find_if(tensors, [](const GgufOutput& each) { return each.name == "blk.0.ffn_down.weight"; });
    ASSERT_NE(damaged, tensors.end());
    std::vector<float> weights(static_cast<std::size_t>(config.width * config.ffn), 0.01F);
    weights[7] = std::nanf("");
    damaged->write = [weights](const Sink& sink) { return sink(std::as_bytes(std::span(weights))); };
    ASSERT_TRUE(write_gguf(path, test::small_metadata(config, false), tensors));
    const Ids ids = {1, 2, 3};
    const auto none = [&](Engine& engine) {
        const auto logits = logits_of(engine, ids, ids.size());
        return std::ranges::all_of(logits, [](float logit) { return std::isnan(logit); });
    };
    test::Loaded alone(path);
    EXPECT_TRUE(none(*alone.engine));
    const std::array slices = {Slice{{0, 2}, {0, 256}, {0, 4}}, Slice{{2, 2}, {256, 256}, {4, 4}}};
    together(path, slices, false, [&](std::size_t, Engine& engine) { EXPECT_TRUE(none(engine)); });
}

TEST(Slices, DrawTheSameTokensFromCandidates) {
    CHAOS_NEED_SHARED("models");
    std::mt19937 random(2);
    const auto path = gguf("qwen3-tiny-q4_0");
    const Ids prompt = expected("qwen3-tiny")["cases"][0]["ids"].get<Ids>();
    for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 0.8, .top_k = 5, .seed = 3},
                                     Sampling{.temperature = 1.2, .top_k = 40, .top_p = 0.9, .seed = 4},
                                     Sampling{.temperature = 1.0, .seed = 5}}) {
        const auto text = [&](Engine& engine) {
            auto scheduler = Scheduler::make(engine, {.sequences = 2, .context = 128}).value();
            Ids drawn;
            Request request{.prompt = prompt,
                            .max_tokens = 40,
                            .sampling = sampling,
                            .preferences = {},
                            .wanted = {},
                            .ignore_end = true};
            EXPECT_TRUE(scheduler.submit(request, {[&](const Sampled& each) {
                                                       drawn.push_back(each.token);
                                                       return true;
                                                   },
                                                   {}}));
            while (scheduler.step()) {
            }
            return drawn;
        };
        test::Loaded alone(path);
        const Ids wanted = text(*alone.engine);
        EXPECT_EQ(wanted.size(), 40U);
        const auto slices = divided(alone.model->config(), 3, random);
        together(path, slices, false, [&](std::size_t, Engine& engine) { EXPECT_EQ(text(engine), wanted); });
    }
}

TEST(Slices, KvHeadsAreSharedByThoseWhoDivideTheirQueries) {
    Config config;
    config.heads = 12;
    config.kv_heads = 3;
    config.head_width = 64;
    const Slice slice{.heads = {3, 6}, .ffn = {}, .vocab = {}};
    EXPECT_EQ(kv_heads_of(config, slice), (Extent{0, 3}));
    EXPECT_EQ(queries_of(config, slice, 0), (Extent{0, 1}));
    EXPECT_EQ(queries_of(config, slice, 1), (Extent{1, 4}));
    EXPECT_EQ(queries_of(config, slice, 2), (Extent{5, 1}));
    EXPECT_EQ(part_of(config, slice).kv_heads, 3);
    EXPECT_EQ(kv_heads_of(config, {}).count, 0);
}

TEST(Slices, AreDividedOnlyBetweenUnits) {
    Config config;
    config.heads = 6;
    config.kv_heads = 3;
    config.head_width = 16;
    config.ffn = 192;
    config.vocab = 100;
    EXPECT_EQ(head_unit(config), 2);
    EXPECT_EQ(ffn_unit(config), 64);
    EXPECT_TRUE(check_slice(config, {.heads = {2, 4}, .ffn = {64, 128}, .vocab = {99, 1}}));
    EXPECT_FALSE(check_slice(config, {.heads = {1, 2}, .ffn = {}, .vocab = {}}));
    EXPECT_FALSE(check_slice(config, {.heads = {}, .ffn = {32, 64}, .vocab = {}}));
    EXPECT_FALSE(check_slice(config, {.heads = {}, .ffn = {}, .vocab = {99, 2}}));
    EXPECT_FALSE(check_slice(config, {.heads = {4, 4}, .ffn = {}, .vocab = {}}));
}

TEST(Candidates, AreTheGreatestOfEachPart) {
    const float none = -std::numeric_limits<float>::infinity();
    const std::vector<float> ours = {1, 5, 5, 2, /* next row */ 4, 3, 2, 1};
    const std::vector<std::size_t> best = {2, 0};
    const auto told = tell_logits({3, 4}, ours, best);
    std::vector<float> logits(2 * 8, none);
    ASSERT_TRUE(hear_logits(told, 8, logits));
    EXPECT_EQ(logits,
              (std::vector<float>{none, none, none, none, 5, 5, none, none, none, none, none, 4, 3, 2, 1, none}));
}

TEST(Candidates, ThatAreNotNumbersAreAllTold) {
    const std::vector<float> ours = {1, std::nanf(""), 3};
    const std::vector<std::size_t> best = {1};
    std::vector<float> logits(3, 0.0F);
    ASSERT_TRUE(hear_logits(tell_logits({0, 3}, ours, best), 3, logits));
    EXPECT_TRUE(std::isnan(logits[1]));
    EXPECT_EQ(logits[2], 3.0F);
}

TEST(Candidates, ThatMakeNoSenseAreRefused) {
    const std::vector<float> ours = {1, 2, 3};
    const std::vector<std::size_t> best = {2};
    const auto told = tell_logits({5, 3}, ours, best);
    std::vector<float> logits(8);
    EXPECT_TRUE(hear_logits(told, 8, logits));
    EXPECT_FALSE(hear_logits(told, 7, std::span(logits).first(7)));  // outside of the vocabulary
    for (std::size_t bytes = 0; bytes < told.size(); ++bytes)
        EXPECT_FALSE(hear_logits(std::span(told).first(bytes), 8, logits)) << bytes;
    auto longer = told;
    longer.push_back({});
    EXPECT_FALSE(hear_logits(longer, 8, logits));
    auto elsewhere = told;
    elsewhere[12] = std::byte{0};  // a token that is not of this part
    EXPECT_FALSE(hear_logits(elsewhere, 8, logits));
}

}  // namespace
}  // namespace chaos::infer
