// state/ is all that is needed to go on: the memory of parameters, optimizer moments and buffers, the rules that
// update it, and the files it is saved to. No model, no LibTorch: the simulator and a joiner use the same code.
//
// The manifest says what lies where. Parameters are packed one after the other in the order the model lists them,
// without padding, and buffers likewise in a range of their own:
//
//   arena:   | parameters | slot 0 | slot 1 | ... | buffers |      slots: optimizer moments, as long as the parameters
//   result:  | gradient                          | buffers |      R(s): what a step's update needs
//
#pragma once

#include "base/hash.h"

#include <cstdint>
#include <string>
#include <vector>

namespace chaos::state {

struct TensorInfo {
    std::string name;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  // in floats, from the start of the parameters or of the buffers
    bool decay = true;        // parameters: whether weight decay applies (norms and biases are left alone)

    [[nodiscard]] std::uint64_t elements() const {
        std::uint64_t n = 1;
        for (const std::int64_t extent : shape) n *= static_cast<std::uint64_t>(extent);
        return n;
    }
};

struct Manifest {
    std::vector<TensorInfo> parameters;
    std::vector<TensorInfo> buffers;

    // Append a tensor behind those already listed.
    void add_parameter(std::string name, std::vector<std::int64_t> shape, bool decay);
    void add_buffer(std::string name, std::vector<std::int64_t> shape);

    [[nodiscard]] std::uint64_t parameter_elements() const;
    [[nodiscard]] std::uint64_t buffer_elements() const;
    [[nodiscard]] Digest hash() const;
};

}  // namespace chaos::state
