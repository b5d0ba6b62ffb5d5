#include "plain.h"

#include "plain_models.h"

namespace chaos::bench {
namespace {

// Matrices decay, norms and biases do not: two groups of parameters, as in every published recipe.
torch::optim::AdamW make_optimizer(const torch::nn::Module& module, const run::Optimizer& optimizer) {
    std::vector<torch::Tensor> matrices;
    std::vector<torch::Tensor> vectors;
    for (const torch::Tensor& parameter : module.parameters())
        (parameter.dim() > 1 ? matrices : vectors).push_back(parameter);
    const auto options = [&](double weight_decay) {
        auto group = std::make_unique<torch::optim::AdamWOptions>(optimizer.learning_rate);
        group->betas({optimizer.beta1, optimizer.beta2}).eps(optimizer.epsilon).weight_decay(weight_decay);
        return group;
    };
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(matrices, options(optimizer.weight_decay));
    groups.emplace_back(vectors, options(0.0));
    return torch::optim::AdamW(std::move(groups));
}

class TorchLoop final : public PlainLoop {
public:
    TorchLoop(PlainModel model, const run::Run& run)
        : model_(std::move(model)),
          optimizer_(make_optimizer(*model_.module, run.optimizer)),
          threads_(static_cast<int>(run.train.threads)) {}

    bool set_parameters(const state::Manifest& manifest, std::span<const float> values) override {
        const torch::NoGradGuard no_gradient;
        auto parameters = model_.module->named_parameters();
        if (parameters.size() != manifest.parameters.size()) return false;
        for (const state::TensorInfo& info : manifest.parameters) {
            torch::Tensor* parameter = parameters.find(info.name);
            if (parameter == nullptr || parameter->sizes() != torch::IntArrayRef(info.shape)) return false;
            const std::span<const float> from = values.subspan(info.begin, info.elements());
            std::copy(from.begin(), from.end(), parameter->data_ptr<float>());
        }
        return true;
    }

    double step(const data::Batch& batch) override {
        at::set_num_threads(threads_);
        model_.module->zero_grad(/*set_to_none=*/true);
        const torch::Tensor loss = model_.loss(batch);
        loss.backward();
        optimizer_.step();
        return loss.item<double>();
    }

private:
    PlainModel model_;
    torch::optim::AdamW optimizer_;
    int threads_;
};

}  // namespace

PlainLoop* chaos_bench_make_plain_loop(const run::Run& run) {
    if (run.model.kind == "llama") return std::make_unique<TorchLoop>(plain_llama(run), run).release();
    if (run.model.kind == "resnet18") return std::make_unique<TorchLoop>(plain_resnet18(run), run).release();
    return nullptr;
}

}  // namespace chaos::bench
