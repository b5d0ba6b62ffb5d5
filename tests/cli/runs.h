// Run files small enough for a test.
#pragma once

#include <string>

namespace chaos::test {

// A few milliseconds per step.
inline std::string mlp_run(const std::string& train) {
    return R"([model]
kind = "mlp"
hidden = [16]
[data]
kind = "synthetic"
shape = [12]
samples = 200
[train]
threads = 2
batch = 8
)" + train;
}

inline std::string text_run(const std::string& train) {
    return R"([model]
width = 16
layers = 1
heads = 2
[data]
files = "text.txt"
context = 16
[train]
threads = 2
batch = 4
)" + train;
}

}  // namespace chaos::test
