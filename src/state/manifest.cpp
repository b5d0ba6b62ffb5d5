#include "state/manifest.h"

#include <utility>

namespace chaos::state {
namespace {

std::uint64_t end_of(const std::vector<TensorInfo>& tensors) {
    return tensors.empty() ? 0 : tensors.back().begin + tensors.back().elements();
}

void add_to_hash(Sha256& hash, const char* kind, const std::vector<TensorInfo>& tensors) {
    for (const TensorInfo& tensor : tensors) {
        hash.add(kind).add(" ").add(tensor.name);
        for (const std::int64_t extent : tensor.shape) hash.add(" ").add(std::to_string(extent));
        hash.add(tensor.decay ? " decay\n" : "\n");
    }
}

}  // namespace

void Manifest::add_parameter(std::string name, std::vector<std::int64_t> shape, bool decay) {
    parameters.push_back({std::move(name), std::move(shape), end_of(parameters), decay});
}

void Manifest::add_buffer(std::string name, std::vector<std::int64_t> shape) {
    buffers.push_back({std::move(name), std::move(shape), end_of(buffers), false});
}

std::uint64_t Manifest::parameter_elements() const {
    return end_of(parameters);
}

std::uint64_t Manifest::buffer_elements() const {
    return end_of(buffers);
}

Digest Manifest::hash() const {
    Sha256 hash;
    add_to_hash(hash, "parameter", parameters);
    add_to_hash(hash, "buffer", buffers);
    return hash.finish();
}

}  // namespace chaos::state
