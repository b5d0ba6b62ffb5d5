#include "compute/torch/torchscript.h"

#include "base/random.h"
#include "compute/torch/guard.h"

#include <torch/csrc/jit/runtime/graph_executor.h>

namespace chaos::compute {

namespace {

constexpr std::int64_t probe_samples = 2;

// A tensor of the module and where the module keeps it.
struct Slot {
    torch::jit::Module owner;
    std::string attribute;
    NamedTensor named;
};

// `list` gives the tensors that a module has itself, without its submodules'.
template <class List>
std::vector<Slot> slots_of(const torch::jit::Module& module, List list) {
    std::vector<Slot> slots;
    for (const auto& part : module.named_modules()) {
        for (const auto& tensor : list(part.value)) {
            const std::string name = part.name.empty() ? tensor.name : part.name + "." + tensor.name;
            slots.push_back({part.value, tensor.name, {name, tensor.value}});
        }
    }
    return slots;
}

// One tensor under two names (tied weights) comes out of a file as two tensors that share memory. They become one
// again, under the first name: otherwise they would part ways once each has its own place in the arena.
void join_tied(std::vector<Slot>& slots) {
    std::vector<Slot> distinct;
    for (Slot& slot : slots) {
        const torch::Tensor& tensor = slot.named.tensor;
        const auto twin = std::find_if(distinct.begin(), distinct.end(), [&](const Slot& other) {
            const torch::Tensor& first = other.named.tensor;
            return tensor.numel() > 0 && first.data_ptr() == tensor.data_ptr() && first.sizes() == tensor.sizes() &&
                   first.strides() == tensor.strides();
        });
        if (twin == distinct.end()) {
            distinct.push_back(std::move(slot));
        } else {
            slot.owner.setattr(slot.attribute, twin->named.tensor);
        }
    }
    slots = std::move(distinct);
}

std::vector<NamedTensor> named(const std::vector<Slot>& slots) {
    std::vector<NamedTensor> tensors;
    for (const Slot& slot : slots) tensors.push_back(slot.named);
    return tensors;
}

// TorchScript may assign a new tensor to a buffer instead of changing it. Its value goes into the tensor that the
// engine knows, which takes its place again.
void settle_buffers(std::vector<Slot>& slots) {
    const torch::NoGradGuard no_gradient;
    for (Slot& slot : slots) {
        const torch::Tensor current = slot.owner.attr(slot.attribute).toTensor();
        torch::Tensor& known = slot.named.tensor;
        if (current.is_same(known)) continue;
        slot.owner.setattr(slot.attribute, known);
        TORCH_CHECK(current.sizes() == known.sizes() && current.scalar_type() == known.scalar_type(),
                    "the model changes the shape or type of its buffer ", slot.named.name);
        known.copy_(current);
    }
}

torch::jit::IValue run(torch::jit::Module& module, const Call& call, Loss loss) {
    // The optimizing executor profiles the first runs and rewrites the graph after them, so that equal steps give
    // different bits early and late in a process. The plain one runs what the file says, every time.
    const torch::jit::GraphOptimizerEnabledGuard plain_executor(false);
    // The module may write to its input.
    std::vector<torch::jit::IValue> inputs = {call.input.clone()};
    if (loss == Loss::module) inputs.emplace_back(call.target.clone());
    return module.forward(std::move(inputs));
}

std::string text(torch::IntArrayRef shape) {
    std::string result = "{";
    for (std::size_t i = 0; i < shape.size(); ++i) result += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    return result + "}";
}

Result<torch::jit::Module> load(const std::filesystem::path& path) {
    if (!std::filesystem::is_regular_file(path)) return Error{"there is no such file"};
    try {
        return torch::jit::load(path.string(), torch::kCPU);
    } catch (const std::exception& error) {
        return Error{"it cannot be loaded as TorchScript: " + readable_error(error).message};
    }
}

Result<void> check_arity(const torch::jit::Module& module, Loss loss) {
    const auto method = module.find_method("forward");
    if (!method) return Error{"it has no method forward"};
    const auto& arguments = method->function().getSchema().arguments();  // the first is the module itself
    const std::size_t given = loss == Loss::module ? 2 : 1;
    const auto required = static_cast<std::size_t>(
        std::count_if(arguments.begin() + 1, arguments.end(), [](const auto& a) { return !a.default_value(); }));
    if (required <= given && given < arguments.size()) return {};
    return Error{"forward takes " + std::to_string(required) + (required == 1 ? " input" : " inputs") +
                 ", but it must be " + (loss == Loss::module ? "forward(input, target)" : "forward(input)")};
}

Call make_probe(const data::SampleShape& sample) {
    std::vector<std::int64_t> shape = {probe_samples};
    shape.insert(shape.end(), sample.input.begin(), sample.input.end());
    Call call;
    call.input = torch::zeros(shape, sample.tokens ? torch::kInt64 : torch::kFloat32);
    // The largest token finds an embedding that is smaller than the vocabulary.
    if (sample.tokens) call.input.view({-1})[-1] = sample.classes - 1;
    shape = {probe_samples};
    if (sample.target_per_position) shape.push_back(sample.targets());
    call.target = torch::zeros(shape, torch::kInt64);
    return call;
}

Result<void> check_output(const torch::Tensor& output, const Call& call, Loss loss, std::int64_t classes) {
    const std::vector<std::int64_t> found = output.sizes().vec();
    std::vector<std::int64_t> leading = found;
    std::string expected;
    bool fits = false;
    if (loss == Loss::module) {
        expected = "a scalar, the mean loss";
        fits = found.empty();
    } else if (loss == Loss::mse) {
        expected = "{2} or {2, 1} for loss = \"mse\"";
        fits = call.target.dim() == 1 && output.size(0) == probe_samples && output.numel() == probe_samples;
        if (call.target.dim() != 1) expected += ", which needs data with one target a sample";
    } else {
        std::string shape = text(call.target.sizes());
        shape.back() = ',';
        expected = shape + " classes} with at least the " + std::to_string(classes) + " classes of the data";
        if (!found.empty()) leading.pop_back();
        fits = found.size() > 1 && call.target.sizes() == leading && found.back() >= classes;
    }
    if (fits && output.is_floating_point()) return {};
    return Error{"for two samples of shape " + text(call.input.sizes()) + " its output is " +
                 c10::toString(output.scalar_type()) + " " + text(found) + ", but it must be " + expected};
}

Result<void> probe(torch::jit::Module& module, const data::SampleShape& sample, Loss loss) {
    CHAOS_CHECK(check_arity(module, loss));
    const torch::NoGradGuard no_gradient;
    const Call call = make_probe(sample);
    torch::jit::IValue output;
    try {
        module.eval();
        output = run(module, call, loss);
    } catch (const std::exception& error) {
        return Error{"forward fails for two samples, an input of shape " + text(call.input.sizes()) + ": " +
                     readable_error(error).message};
    }
    if (!output.isTensor()) return Error{"forward gives a " + output.tagKind() + ", but it must give a tensor"};
    return check_output(output.toTensor(), call, loss, sample.classes);
}

Result<Network> load_network(const EngineOptions& options) {
    CHAOS_TRY(const Loss loss, find_loss(options.model.loss));
    CHAOS_TRY(torch::jit::Module module, load(options.model.path));
    CHAOS_CHECK(probe(module, options.sample, loss));

    auto parameters = slots_of(module, [](const auto& part) { return part.named_parameters(/*recurse=*/false); });
    auto buffers = slots_of(module, [](const auto& part) { return part.named_buffers(/*recurse=*/false); });
    join_tied(parameters);
    join_tied(buffers);
    Network network;
    network.parameters = named(parameters);
    network.buffers = named(buffers);
    network.loss = loss;
    network.forward = [module, loss, training = false](const Call& call) mutable {
        if (call.training != training) module.train(call.training);
        training = call.training;
        if (call.training) torch::manual_seed(random_bits(call.seed, call.step, call.samples.front()));
        return run(module, call, loss).toTensor();
    };
    network.settle = [buffers]() mutable { settle_buffers(buffers); };
    return network;
}

}  // namespace

Result<Network> load_torchscript_network(const EngineOptions& options) {
    return guarded(options.threads, [&]() -> Result<Network> {
        auto network = load_network(options);
        if (network.ok()) return network;
        return Error{"model.path = \"" + options.model.path.string() + "\": " + network.error().message};
    });
}

}  // namespace chaos::compute
