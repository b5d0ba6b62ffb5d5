// Loads the library of plain.h from beside the program.
#pragma once

#include "base/result.h"
#include "plain.h"

#include <memory>

namespace chaos::bench {

class PlainLibrary {
public:
    // Loads the compute plugin first, which brings the BLAS that both sides compute with; LibTorch would otherwise
    // take whichever the system prefers. Both stay loaded until the process ends.
    static Result<PlainLibrary> load();

    [[nodiscard]] Result<std::unique_ptr<PlainLoop>> make_loop(const run::Run& run) const;

private:
    explicit PlainLibrary(MakePlainLoopEntry* make) : make_(make) {}
    MakePlainLoopEntry* make_;
};

}  // namespace chaos::bench
