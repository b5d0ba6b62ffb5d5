// Runs the same computation with every instruction set that was compiled and that this machine has.
#pragma once

#include "infer/kernels.h"

#include <hwy/targets.h>

#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace chaos::infer::test {

template <class Work>
void on_every_target(const Work& work) {
    for (const std::int64_t target : compiled_targets()) {
        if ((hwy::SupportedTargets() & target) == 0) continue;
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        work(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

struct Products {
    std::vector<float> results;
    std::vector<std::int64_t> sums;
};

inline Products plain_products(const Activations& activations, const Matrix& matrix, std::size_t block_columns) {
    Products products;
    products.results.resize(activations.rows() * matrix.rows);
    products.sums.resize(products.results.size());
    PanelJob job{.activations = &activations, .matrix = matrix, .last_panel = panels_of(matrix.rows)};
    job.stride = matrix.rows;
    job.block_columns = activation_columns;
    job.results = products.results.data();
    portable::multiply_panels(job);
    job.block_columns = block_columns;
    job.results = nullptr;
    job.sums = products.sums.data();
    portable::multiply_panels(job);
    return products;
}

}  // namespace chaos::infer::test
