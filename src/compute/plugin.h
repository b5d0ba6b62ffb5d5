// Finds and loads the compute plugin. The `chaos` program itself does not link LibTorch, which costs most of a second
// and hundreds of libraries at start; only commands that train call this.
#pragma once

#include "base/result.h"
#include "compute/engine.h"

#include <filesystem>
#include <memory>
#include <string>

namespace chaos::compute {

class Plugin {
public:
    // Loads libchaos_torch.so from beside the program, or from ../lib/chaos seen from there; the environment variable
    // CHAOS_PLUGIN names another file. The plugin stays loaded until the process ends.
    static Result<Plugin> load();

    [[nodiscard]] Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options) const;

    // What would make training faster on this machine, in one sentence; empty when nothing would.
    [[nodiscard]] const std::string& advice() const { return advice_; }

private:
    using MakeEngine = void(const EngineOptions&, Result<std::unique_ptr<Engine>>*);
    Plugin(MakeEngine* make, std::string advice) : make_(make), advice_(std::move(advice)) {}
    MakeEngine* make_;
    std::string advice_;
};

}  // namespace chaos::compute
