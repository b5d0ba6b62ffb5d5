// How much memory each side needs at its peak. Each side trains a few steps in a process of its own, a copy of this
// program, with the same libraries and the same data.
#pragma once

#include "base/result.h"
#include "run/run.h"

#include <cstdint>
#include <string>

namespace chaos::bench {

// How the program is called as such a child: `--train-alone SIDE MODEL TEXT`, where SIDE is chaos or plain. It prints
// what train_alone returns.
inline constexpr const char* train_alone_flag = "--train-alone";

// The peak resident memory of this process, in bytes, after a few steps of one side.
[[nodiscard]] Result<std::uint64_t> train_alone(const std::string& side, const run::Run& run);

// The same number, from a child.
[[nodiscard]] Result<std::uint64_t> peak_of_child(const std::string& side, const std::string& model,
                                                  const std::string& text);

}  // namespace chaos::bench
