// What the host (compute/plugin.h) and a compute plugin agree on: the two functions the host looks up by name after
// it has opened the plugin's file. Host and plugin pass C++ objects to each other, so both must be built from the same
// headers by the same compiler; the version tells a stale plugin apart before it is given any object.
#pragma once

#include "compute/engine.h"

#include <memory>

// Counts up by one, by hand, whenever compute/engine.h or a struct it passes changes.
#define CHAOS_ENGINE_VERSION "3"

namespace chaos::compute {

inline constexpr const char* engine_version_entry = "chaos_engine_version";
inline constexpr const char* make_engine_entry = "chaos_make_engine";

extern "C" {
const char* chaos_engine_version();
// Overwrites `out` with an engine, or with the reason why there is none. Throws nothing, and neither do the methods
// of the engine.
void chaos_make_engine(const EngineOptions& options, Result<std::unique_ptr<Engine>>* out);
}

using EngineVersionEntry = decltype(chaos_engine_version);
using MakeEngineEntry = decltype(chaos_make_engine);

}  // namespace chaos::compute
