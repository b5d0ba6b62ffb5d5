// Models that bring an engine of their own instead of running on autograd_engine.h.
#pragma once

#include "compute/engine.h"

#include <memory>

namespace chaos::compute {

// Throws c10::Error or std::exception where the options do not fit; plugin.cpp turns it into an Error.
[[nodiscard]] std::unique_ptr<Engine> make_llama_engine(const EngineOptions& options);

}  // namespace chaos::compute
