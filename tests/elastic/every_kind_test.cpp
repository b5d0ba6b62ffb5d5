// Every kind of model and data that can be trained is trained by several members, one of which dies; and the run
// computed again in one process has the same bits.
#include "compute/plugin.h"
#include "elastic/clan.h"
#include "elastic/runs.h"

#include <atomic>
#include <mutex>

namespace chaos::elastic {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds slow_step{10};

// The engines of members that share a process take turns: LibTorch has one generator per process. While members come,
// a step takes long enough for them to come in time.
class InTurn final : public compute::Engine {
public:
    InTurn(std::unique_ptr<compute::Engine> engine, const std::atomic<bool>& hurry)
        : engine_(std::move(engine)), hurry_(hurry) {}

    const state::Manifest& manifest() const override { return engine_->manifest(); }
    state::Arena& arena() override { return engine_->arena(); }
    std::span<float> result() override { return engine_->result(); }
    Result<compute::Measure> forward_backward(const data::Batch& batch, const compute::Part& part) override {
        const auto begun = std::chrono::steady_clock::now();
        auto measure = [&] {
            const std::lock_guard turn(turns);
            return engine_->forward_backward(batch, part);
        }();
        if (!hurry_) std::this_thread::sleep_until(begun + slow_step);
        return measure;
    }
    Result<compute::Measure> evaluate(const data::Batch& batch) override {
        const std::lock_guard turn(turns);
        return engine_->evaluate(batch);
    }
    Result<std::vector<float>> outputs(const data::Batch& batch) override {
        const std::lock_guard turn(turns);
        return engine_->outputs(batch);
    }

private:
    static inline std::mutex turns;

    std::unique_ptr<compute::Engine> engine_;
    const std::atomic<bool>& hurry_;
};

struct Kind {
    const char* name;
    std::string run;
    std::int64_t steps;  // enough for all to come while it trains
    unsigned members;
};

void PrintTo(const Kind& kind, std::ostream* out) {
    *out << kind.name;
}

class EveryKind : public ::testing::TestWithParam<Kind> {};

TEST_P(EveryKind, IsTrainedTogetherAndHasEqualBitsWhenComputedAgain) {
    const test::TemporaryFolder folder;
    run::Run run = parse(folder, GetParam().run);
    run.train.threads = 1;
    run.train.steps = GetParam().steps;
    run.train.eval_every = run.train.steps / 2;
    std::atomic<bool> hurry = false;
    const auto plugin = compute::Plugin::load();
    ASSERT_TRUE(plugin) << plugin.error().message;
    Clan clan(run, [&](const compute::EngineOptions& options) -> Result<std::unique_ptr<compute::Engine>> {
        CHAOS_TRY(auto engine, plugin->make_engine(options));
        return std::unique_ptr<compute::Engine>(std::make_unique<InTurn>(std::move(engine), hurry));
    });
    ASSERT_TRUE(clan.gather(GetParam().members)) << clan.log;
    hurry = true;
    clan.kill(0);
    const Relative& survivor = *clan.nodes.begin()->second;
    ASSERT_TRUE(clan.wait([&] {
        return survivor.view->members.size() < GetParam().members && survivor.steps > survivor.view->first_step;
    })) << clan.log;
    ASSERT_LT(survivor.view->first_step, static_cast<std::uint64_t>(run.train.steps)) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

const auto name_of_kind = [](const ::testing::TestParamInfo<Kind>& kind) { return std::string(kind.param.name); };

INSTANTIATE_TEST_SUITE_P(Small, EveryKind,
                         ::testing::Values(Kind{"LlamaOnText", text_llama, 200, 3},
                                           Kind{"LlamaOnSyntheticTokens", token_llama, 200, 3},
                                           Kind{"MlpOnSyntheticValues", synthetic_mlp, 200, 3},
                                           Kind{"MlpOnIdx", idx_mlp, 200, 3}, Kind{"MlpOnCifar10", cifar10_mlp, 200, 3},
                                           Kind{"TorchScriptWithDropout", torchscript, 200, 3},
                                           Kind{"ResNetWithBatchNorm", batchnorm_resnet, 30, 2}),
                         name_of_kind);

INSTANTIATE_TEST_SUITE_P(LongLarge, EveryKind,
                         ::testing::Values(Kind{"ResNetWithGroupNorm", groupnorm_resnet, 30, 3},
                                           Kind{"AlexNetWithDropout", synthetic_alexnet, 30, 2},
                                           Kind{"VggWithBatchNormAndDropout", synthetic_vgg, 20, 2}),
                         name_of_kind);

}  // namespace
}  // namespace chaos::elastic
