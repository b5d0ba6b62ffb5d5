#include "toy_engine/toy_engine.h"

#include "base/random.h"

#include <algorithm>
#include <array>
#include <thread>

namespace chaos::toy {
namespace {

constexpr std::size_t period = 1021;

class ToyEngine final : public compute::Engine {
public:
    ToyEngine(const ToyModel& model, unsigned slots, std::uint64_t seed)
        : model_(model), manifest_(manifest_of(model)), arena_(manifest_, slots) {
        result_.resize(model.parameters + model.buffers);
        std::vector<float> first(std::min<std::size_t>(model.parameters, 65'536));
        for (std::size_t i = 0; i < first.size(); ++i) first[i] = 0.1F * random_normal(seed, 0, i);
        for (std::size_t i = 0; i < model.parameters; ++i) arena_.parameters()[i] = first[i % 65'536];
    }

    const state::Manifest& manifest() const override { return manifest_; }
    state::Arena& arena() override { return arena_; }
    std::span<float> result() override { return result_; }

    Result<compute::Measure> forward_backward(const data::Batch& batch, const compute::Part& part) override {
        model_.before();
        const auto begun = std::chrono::steady_clock::now();
        const std::array<float, period> pattern = pattern_of(batch, part.step);
        if (part.first) std::ranges::fill(result_, 0.0F);
        for (std::size_t i = 0; i < model_.parameters; ++i)
            result_[i] += part.weight * (0.3F * arena_.parameters()[i] + pattern[i % period]);
        for (std::size_t i = 0; i < model_.buffers; ++i)
            result_[model_.parameters + i] += part.weight * pattern[i % period];
        std::this_thread::sleep_until(begun + (model_.pace ? model_.pace() : model_.per_sample) * batch.count);
        return measure(batch, pattern);
    }
    Result<compute::Measure> evaluate(const data::Batch& batch) override {
        compute::Measure all;
        for (const std::uint64_t sample : batch.samples) {
            data::Batch one;
            one.count = 1;
            one.samples = {sample};
            all.loss += measure(one, pattern_of(one, 0)).loss / static_cast<double>(batch.count);
        }
        all.correct = 0;
        all.targets = static_cast<std::uint64_t>(batch.count);
        return all;
    }
    Result<std::vector<float>> outputs(const data::Batch&) override { return Error{"a toy has no outputs"}; }

private:
    static state::Manifest manifest_of(const ToyModel& model) {
        state::Manifest manifest;
        const std::uint64_t plain = model.parameters / 8;  // without weight decay
        manifest.add_parameter("weights", {static_cast<std::int64_t>(model.parameters - plain)}, true);
        manifest.add_parameter("biases", {static_cast<std::int64_t>(plain)}, false);
        if (model.buffers > 0) manifest.add_buffer("means", {static_cast<std::int64_t>(model.buffers)});
        return manifest;
    }

    // What these samples are, on average.
    static std::array<float, period> pattern_of(const data::Batch& batch, std::uint64_t step) {
        std::array<float, period> pattern{};
        for (const std::uint64_t sample : batch.samples)
            for (std::size_t i = 0; i < period; ++i)
                pattern[i] += 0.01F * random_normal(sample, step, i) / static_cast<float>(batch.count);
        return pattern;
    }

    compute::Measure measure(const data::Batch& batch, const std::array<float, period>& pattern) const {
        double loss = 0.0;
        for (std::size_t i = 0; i < period && i < model_.parameters; ++i) {
            const double miss = arena_.parameters()[i] + pattern[i];
            loss += miss * miss / period;
        }
        return {.loss = loss, .correct = 0, .targets = static_cast<std::uint64_t>(batch.count)};
    }

    ToyModel model_;
    state::Manifest manifest_;
    state::Arena arena_;
    std::vector<float> result_;
};

}  // namespace

elastic::Trainer::MakeEngine make_toy_engine(const ToyModel& model) {
    return [model](const compute::EngineOptions& options) -> Result<std::unique_ptr<compute::Engine>> {
        return std::unique_ptr<compute::Engine>(std::make_unique<ToyEngine>(model, options.slots, options.seed));
    };
}

run::Run toy_run(std::int64_t steps, std::int64_t batch) {
    run::Run run;
    run.model.kind = "mlp";
    run.data.kind = "synthetic";
    run.data.shape = {4};
    run.data.samples = 1000;
    run.optimizer.weight_decay = 0.01;
    run.optimizer.clip_norm = 1.0;
    run.train.steps = steps;
    run.train.batch = batch;
    run.train.threads = 1;
    run.train.eval_every = 0;
    run.train.checkpoint_every = 10;
    return run;
}

}  // namespace chaos::toy
