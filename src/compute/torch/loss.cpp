#include "compute/torch/loss.h"

#include "base/words.h"

#include <array>

namespace chaos::compute {

Result<Loss> find_loss(const std::string& name) {
    if (name == "cross_entropy") return Loss::cross_entropy;
    if (name == "nll") return Loss::nll;
    if (name == "mse") return Loss::mse;
    if (name == "module") return Loss::module;
    constexpr std::array<std::string_view, 4> names = {"cross_entropy", "nll", "mse", "module"};
    return Error{"model.loss = \"" + name + "\" is unknown: it is one of " + one_of(names)};
}

bool has_classes(Loss loss) {
    return loss == Loss::cross_entropy || loss == Loss::nll;
}

torch::Tensor mean_loss(Loss loss, const torch::Tensor& output, const torch::Tensor& target) {
    switch (loss) {
        case Loss::cross_entropy:
            return torch::cross_entropy_loss(output.flatten(0, -2), target.flatten());
        case Loss::nll:
            return torch::nll_loss(output.flatten(0, -2), target.flatten());
        case Loss::mse:
            return torch::mse_loss(output.flatten(), target.flatten().to(output.scalar_type()));
        case Loss::module:
            break;
    }
    return output;
}

std::optional<std::uint64_t> count_correct(Loss loss, const torch::Tensor& output, const torch::Tensor& target) {
    if (!has_classes(loss)) return std::nullopt;
    const torch::NoGradGuard no_gradient;
    return static_cast<std::uint64_t>(output.argmax(-1).eq(target).sum().item<std::int64_t>());
}

}  // namespace chaos::compute
