#include "tensor/rehearsal.h"

#include "infer/models.h"

#include <gtest/gtest.h>

namespace chaos::tensor {
namespace {

class OfASlice : public testing::Test {
protected:
    void load(const infer::Slice& slice) { model_.emplace(infer::Model::load(file(), slice, pool_, {}).value()); }
    static infer::ModelFile file() { return infer::ModelFile::open(infer::test::gguf("qwen3-tiny-q4_0")).value(); }
    std::unique_ptr<Rehearsal> rehearsal(std::function<bool()> go_on, bool whole_heads = false) {
        return Rehearsal::make(*model_, pool_, {.most_context = 32, .whole_heads = whole_heads}, std::move(go_on))
            .value();
    }
    infer::Pool pool_{1};
    std::optional<infer::Model> model_;
};

TEST_F(OfASlice, TellsWhatATokenTakes) {
    CHAOS_NEED_SHARED("models");
    infer::Slice slice = infer::whole(file().config());
    const infer::Slice all = slice;
    slice.heads.count /= 2;
    slice.vocab.count = 0;
    for (const infer::Slice& each : {all, slice}) {
        load(each);
        std::size_t asked = 0;
        const auto rehearses = rehearsal([&] {
            ++asked;
            return true;
        });
        EXPECT_FALSE(rehearses->rehearsed());
        std::size_t passes = 1;
        while (rehearses->pass()) ++passes;
        EXPECT_EQ(asked, passes * 2 * static_cast<std::size_t>(file().config().layers));
        const auto rehearsed = rehearses->rehearsed();
        ASSERT_TRUE(rehearsed);
        EXPECT_GT(rehearsed->token_s, 0.0);
        EXPECT_GT(rehearsed->share_permille, 0U);
        EXPECT_LE(rehearsed->share_permille, 1000U);
    }
}

TEST_F(OfASlice, MayHaveTheWholeHead) {
    CHAOS_NEED_SHARED("models");
    infer::Slice slice = infer::whole(file().config());
    slice.ffn.count = 0;
    load(slice);
    const auto rehearses = rehearsal([] { return true; }, true);
    while (rehearses->pass()) {
    }
    ASSERT_TRUE(rehearses->rehearsed());
    EXPECT_GT(rehearses->rehearsed()->token_s, 0.0);
}

TEST_F(OfASlice, EndsAtOnceWhereSomethingElseIsToBeDone) {
    CHAOS_NEED_SHARED("models");
    load(infer::whole(file().config()));
    std::size_t asked = 0;
    const auto rehearses = rehearsal([&] { return ++asked < 2; });
    EXPECT_FALSE(rehearses->pass());
    EXPECT_EQ(asked, 2U);
    EXPECT_FALSE(rehearses->rehearsed());
}

}  // namespace
}  // namespace chaos::tensor
