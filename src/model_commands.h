// What users type to let a trained model speak: generate, eval, quantize, serve, chat. main.cpp has the other commands.
#pragma once

#include "base/result.h"

#include <functional>

namespace CLI {
class App;
}

namespace chaos {

// What a command does once all that was typed is read.
using Job = std::function<Result<void>()>;

void add_model_commands(CLI::App& program, Job& job);

}  // namespace chaos
