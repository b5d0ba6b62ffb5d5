// The entry points of the plugin: see compute/plugin_entry.h.
#include "compute/plugin_entry.h"

#include "compute/torch/autograd_engine.h"
#include "compute/torch/guard.h"
#include "compute/torch/models.h"
#include "compute/torch/torchscript.h"
#include "compute/torch/vision.h"

namespace chaos::compute {

namespace {

Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options) {
    if (options.threads < 1) return Error{"an engine needs at least one thread"};
    return guarded(options.threads, [&]() -> Result<std::unique_ptr<Engine>> {
        if (options.model.kind == "llama") return make_llama_engine(options);
        CHAOS_TRY(Network network, options.model.kind == "torchscript" ? load_torchscript_network(options)
                                                                       : make_vision_network(options));
        return AutogradEngine::make(std::move(network), options);
    });
}

}  // namespace

const char* chaos_engine_version() {
    return CHAOS_ENGINE_VERSION;
}

void chaos_make_engine(const EngineOptions& options, Result<std::unique_ptr<Engine>>* out) {
    *out = make_engine(options);
}

}  // namespace chaos::compute
