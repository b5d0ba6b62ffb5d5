// The toy engine as a compute plugin (compute/plugin_entry.h): the real program trains states of any size at any speed.
// It has as many parameters as the run's mlp. CHAOS_TOY_SAMPLE_US says how many microseconds a sample takes: a number,
// or the path of a file that holds one, which is read before each part of a gradient.
#include "base/file.h"
#include "compute/plugin_entry.h"
#include "toy_engine/toy_engine.h"

#include <charconv>
#include <cstdlib>
#include <string>

namespace chaos::compute {
namespace {

std::uint64_t parameters_of(const EngineOptions& options) {
    std::uint64_t parameters = 0;
    auto inputs = static_cast<std::uint64_t>(options.sample.input_elements());
    const auto add_layer = [&](std::int64_t width) {
        parameters += (inputs + 1) * static_cast<std::uint64_t>(width);
        inputs = static_cast<std::uint64_t>(width);
    };
    for (const std::int64_t width : options.model.hidden) add_layer(width);
    add_layer(options.model.classes);
    return parameters;
}

Result<std::chrono::microseconds> microseconds_in(const std::string& number_or_path) {
    std::string text = number_or_path;
    if (number_or_path.starts_with('/')) {
        CHAOS_TRY(text, read_file(number_or_path));
    }
    std::int64_t micros = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), micros);
    if (problem != std::errc{} || end != text.data() + text.size() || micros < 0)
        return Error{"CHAOS_TOY_SAMPLE_US is not a number of microseconds: " + text};
    return std::chrono::microseconds(micros);
}

Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options) {
    if (options.model.kind != "mlp") return Error{"the toy engine computes mlps only"};
    toy::ToyModel model;
    model.parameters = parameters_of(options);
    model.buffers = 0;
    if (const char* wished = std::getenv("CHAOS_TOY_SAMPLE_US"); wished != nullptr) {
        const std::string text = wished;
        CHAOS_CHECK(microseconds_in(text));
        model.pace = [text] { return *microseconds_in(text); };
    }
    return toy::make_toy_engine(model)(options);
}

}  // namespace

const char* chaos_engine_version() {
    return CHAOS_ENGINE_VERSION;
}

void chaos_make_engine(const EngineOptions& options, Result<std::unique_ptr<Engine>>* out) {
    *out = make_engine(options);
}

}  // namespace chaos::compute
