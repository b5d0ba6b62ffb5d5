#include "cli/commands.h"

#include "elastic/run_folder.h"

#include <cstdio>

namespace chaos::cli {

Result<void> export_model(const ExportOptions& options) {
    CHAOS_CHECK(elastic::export_run(options.run_folder, options.target,
                                    options.best ? elastic::Choice::best : elastic::Choice::newest));
    std::printf("wrote %s\n", options.target.c_str());
    return {};
}

}  // namespace chaos::cli
