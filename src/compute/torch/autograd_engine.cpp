#include "compute/torch/autograd_engine.h"

#include "compute/torch/guard.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <malloc.h>

namespace chaos::compute {

namespace {

// A step frees what it computed, and the next one asks for as much again. Left alone, glibc gives large blocks back to
// the kernel in between, which has to clear every page anew.
void keep_freed_memory() {
#ifdef __GLIBC__
    constexpr int largest_mmap_threshold = 32 << 20;
    mallopt(M_MMAP_THRESHOLD, largest_mmap_threshold);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

// A buffer that the members of a step can average.
bool is_averaged(const torch::Tensor& buffer) {
    return buffer.scalar_type() == torch::kFloat32 && torch::isfinite(buffer).all().item<bool>();
}

bool is_counter(const std::string& name) {
    return name.ends_with("num_batches_tracked");
}

torch::Tensor view_of(std::span<float> floats, const state::TensorInfo& info) {
    return torch::from_blob(floats.subspan(info.begin, info.elements()).data(), info.shape);
}

torch::Tensor view_of(std::span<float> floats) {
    return torch::from_blob(floats.data(), {static_cast<std::int64_t>(floats.size())});
}

Result<state::Manifest> make_manifest(const Network& network) {
    state::Manifest manifest;
    bool trainable = false;
    for (const auto& [name, tensor] : network.parameters) {
        if (tensor.scalar_type() != torch::kFloat32 || tensor.layout() != torch::kStrided) {
            return Error{"the parameter " + name + " is " + c10::toString(tensor.scalar_type()) +
                         ": only float32 parameters can be trained"};
        }
        // A frozen parameter gets no gradient; without decay no update rule moves it.
        manifest.add_parameter(name, tensor.sizes().vec(), tensor.dim() >= 2 && tensor.requires_grad());
        trainable = trainable || tensor.requires_grad();
    }
    if (!trainable) return Error{"the model has no parameters to train"};
    for (const auto& [name, tensor] : network.buffers) {
        if (is_averaged(tensor)) manifest.add_buffer(name, tensor.sizes().vec());
    }
    return manifest;
}

}  // namespace

Result<std::unique_ptr<Engine>> AutogradEngine::make(Network network, const EngineOptions& options) {
    return guarded(options.threads, [&]() -> Result<std::unique_ptr<Engine>> {
        CHAOS_TRY(state::Manifest manifest, make_manifest(network));
        keep_freed_memory();
        return std::unique_ptr<Engine>(new AutogradEngine(std::move(network), options, std::move(manifest)));
    });
}

AutogradEngine::AutogradEngine(Network network, const EngineOptions& options, state::Manifest manifest)
    : network_(std::move(network)),
      sample_(options.sample),
      seed_(options.seed),
      threads_(options.threads),
      manifest_(std::move(manifest)),
      arena_(manifest_, options.slots),
      result_(manifest_.parameter_elements() + manifest_.buffer_elements()),
      scratch_(torch::zeros({static_cast<std::int64_t>(manifest_.buffer_elements())})) {
    const torch::NoGradGuard no_gradient;
    adopt_parameters();
    adopt_buffers();
    watch_gradients();
}

void AutogradEngine::adopt_parameters() {
    for (std::size_t i = 0; i < network_.parameters.size(); ++i) {
        torch::Tensor& parameter = network_.parameters[i].tensor;
        torch::Tensor view = view_of(arena_.parameters(), manifest_.parameters[i]);
        view.copy_(parameter);
        parameter.set_data(view);
        // Autograd adds to a gradient that is already there, in place.
        if (parameter.requires_grad()) parameter.mutable_grad() = view_of(result(), manifest_.parameters[i]);
    }
}

// Autograd goes through the model from its end to its beginning, and so do gradients become final.
void AutogradEngine::watch_gradients() {
    const torch::AutoGradMode with_gradient(true);
    for (std::size_t i = 0; i < network_.parameters.size(); ++i) {
        const torch::Tensor& parameter = network_.parameters[i].tensor;
        if (!parameter.requires_grad()) continue;
        std::shared_ptr<torch::autograd::Node> accumulator = torch::autograd::impl::grad_accumulator(parameter);
        accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, i](const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
                gradient_done(i);
                return outputs;
            }));
        accumulators_.push_back(std::move(accumulator));
    }
}

void AutogradEngine::gradient_done(std::size_t parameter) {
    if (!ready_) return;
    awaited_[parameter] = false;
    std::size_t first = awaited_.size();
    while (first > 0 && !awaited_[first - 1]) --first;
    if (first <= parameter) ready_(manifest_.parameters[first].begin);
}

void AutogradEngine::adopt_buffers() {
    const std::span<float> scratch(scratch_.data_ptr<float>(), manifest_.buffer_elements());
    auto info = manifest_.buffers.begin();
    for (NamedTensor& buffer : network_.buffers) {
        if (is_averaged(buffer.tensor)) {
            torch::Tensor view = view_of(scratch, *info++);
            view.copy_(buffer.tensor);
            buffer.tensor.set_data(view);
        } else {
            constants_.push_back({buffer, buffer.tensor.clone(), is_counter(buffer.name)});
        }
    }
    view_of(arena_.buffers()).copy_(scratch_);
}

Call AutogradEngine::make_call(const data::Batch& batch) const {
    const auto count = static_cast<std::size_t>(batch.count);
    const auto elements = count * static_cast<std::size_t>(sample_.input_elements());
    CHAOS_ASSERT(batch.count > 0);
    CHAOS_ASSERT((sample_.tokens ? batch.tokens.size() : batch.values.size()) == elements);
    CHAOS_ASSERT(batch.targets.size() == count * static_cast<std::size_t>(sample_.targets()));
    CHAOS_ASSERT(batch.samples.size() == count);

    // LibTorch knows no read-only tensors; networks do not write to their input or target.
    const auto tensor_of = [](const auto& values, torch::IntArrayRef shape, torch::Dtype type) {
        using Value = typename std::decay_t<decltype(values)>::value_type;
        return torch::from_blob(const_cast<Value*>(values.data()), shape, type);
    };
    std::vector<std::int64_t> input_shape = {batch.count};
    input_shape.insert(input_shape.end(), sample_.input.begin(), sample_.input.end());
    std::vector<std::int64_t> target_shape = {batch.count};
    if (sample_.target_per_position) target_shape.push_back(sample_.targets());

    Call call;
    call.input = sample_.tokens ? tensor_of(batch.tokens, input_shape, torch::kInt64)
                                : tensor_of(batch.values, input_shape, torch::kFloat32);
    call.target = tensor_of(batch.targets, target_shape, torch::kInt64);
    call.seed = seed_;
    call.samples = batch.samples;
    return call;
}

void AutogradEngine::restore_buffers() {
    const torch::NoGradGuard no_gradient;
    settle();
    scratch_.copy_(view_of(arena_.buffers()));
    for (Constant& constant : constants_) {
        if (constant.counter) constant.buffer.tensor.copy_(constant.initial);
    }
}

void AutogradEngine::settle() {
    if (network_.settle) network_.settle();
}

Result<void> AutogradEngine::check_constants() {
    if (constants_checked_) return {};
    for (const Constant& constant : constants_) {
        if (constant.counter || constant.buffer.tensor.equal(constant.initial)) continue;
        return Error{"the model changes its buffer " + constant.buffer.name + " (" +
                     c10::toString(constant.initial.scalar_type()) +
                     ") while it trains: only finite float32 buffers can be averaged over the members of a step"};
    }
    constants_checked_ = true;
    return {};
}

Result<Measure> AutogradEngine::forward_backward(const data::Batch& batch, const Part& part) {
    return guarded(threads_, [&]() -> Result<Measure> {
        Call call = make_call(batch);
        call.training = true;
        call.step = part.step;
        restore_buffers();
        const torch::Tensor output = network_.forward(call);
        const torch::Tensor loss = mean_loss(network_.loss, output, call.target);
        if (!loss.requires_grad()) return Error{"the model's output depends on none of its parameters"};

        const auto elements = static_cast<std::int64_t>(manifest_.parameter_elements());
        torch::Tensor whole = view_of(result());
        if (part.first) whole.zero_();
        awaited_.clear();
        for (const NamedTensor& parameter : network_.parameters) awaited_.push_back(parameter.tensor.requires_grad());
        ready_ = part.ready;
        (loss * part.weight).backward();
        settle();
        CHAOS_CHECK(check_constants());
        whole.narrow(0, elements, scratch_.numel()).add_(scratch_, part.weight);

        return Measure{.loss = loss.item<double>(),
                       .correct = count_correct(network_.loss, output, call.target),
                       .targets = batch.targets.size()};
    });
}

Result<Measure> AutogradEngine::evaluate(const data::Batch& batch) {
    return guarded(threads_, [&]() -> Result<Measure> {
        const torch::NoGradGuard no_gradient;
        const Call call = make_call(batch);
        restore_buffers();
        const torch::Tensor output = network_.forward(call);
        return Measure{.loss = mean_loss(network_.loss, output, call.target).item<double>(),
                       .correct = count_correct(network_.loss, output, call.target),
                       .targets = batch.targets.size()};
    });
}

Result<std::vector<float>> AutogradEngine::outputs(const data::Batch& batch) {
    return guarded(threads_, [&]() -> Result<std::vector<float>> {
        if (network_.loss == Loss::module) {
            return Error{"a model with loss = \"module\" gives a loss and no outputs"};
        }
        const torch::NoGradGuard no_gradient;
        restore_buffers();
        const torch::Tensor output = network_.forward(make_call(batch)).to(torch::kFloat32).contiguous();
        const auto* values = output.data_ptr<float>();
        return std::vector<float>(values, values + output.numel());
    });
}

}  // namespace chaos::compute
