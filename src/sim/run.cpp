#include "sim/run.h"

#ifdef _OPENMP
extern "C" void omp_set_num_threads(int threads);  // declared here: not every compiler has OpenMP's header at hand
#endif

namespace chaos::sim {

Outcome run(World& world, const Setup& setup) {
#ifdef _OPENMP
    omp_set_num_threads(1);  // of this thread only: runs are small, and sweeps use the cores
#endif
    world.run();
    return {.seed = setup.seed,
            .scenario = setup.scenario,
            .nodes = setup.nodes,
            .strict = setup.strict,
            .failure = world.failure(),
            .statistics = world.statistics()};
}

Outcome run(const Setup& setup, const Watching& watching) {
    World world(setup, watching);
    return run(world, setup);
}

Setup shrink(const Setup& failing, std::size_t tries) {
    Setup best = failing;
    // Halves, quarters, ... single faults: whatever can go, goes.
    for (std::size_t length = std::max<std::size_t>(best.faults.size() / 2, 1); length > 0 && tries > 0; length /= 2) {
        for (std::size_t begin = 0; begin < best.faults.size() && tries > 0;) {
            Setup without = best;
            const auto first = without.faults.begin() + static_cast<std::ptrdiff_t>(begin);
            const auto last =
                without.faults.begin() + static_cast<std::ptrdiff_t>(std::min(begin + length, without.faults.size()));
            without.faults.erase(first, last);
            --tries;
            if (run(without, {}).failure)
                best = std::move(without);
            else
                begin += length;
        }
    }
    return best;
}

}  // namespace chaos::sim
