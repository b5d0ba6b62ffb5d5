#include "infer/quantize.h"

#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/progress.h"

#include <cstdio>

namespace chaos::cli {

Result<void> quantize(const QuantizeOptions& options) {
    infer::StoredType type = infer::StoredType::f16;
    if (options.type == "q8_0")
        type = infer::StoredType::q8_0;
    else if (options.type == "q4_0")
        type = infer::StoredType::q4_0;
    else if (options.type != "f16")
        return Error{"--type takes q4_0, q8_0 or f16, not \"" + options.type + "\""};
    CHAOS_TRY(const auto file, infer::ModelFile::open(options.model));
    infer::Pool pool(threads_or_all(0));
    CHAOS_CHECK(infer::quantize(file, options.target, type, pool, show_progress("quantizing")));
    std::printf("wrote %s\n", options.target.c_str());
    return {};
}

}  // namespace chaos::cli
