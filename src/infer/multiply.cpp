#include "infer/multiply.h"

#include "base/assert.h"
#include "infer/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace chaos::infer {
namespace {

// Some microseconds: many chunks for threads to take, so that none waits long for another at the end, and each longer
// than what it costs to take one. Several rows take longer, and share what is prepared for some panels at once.
std::size_t chunk_panels_for(const Activations& activations) {
    return activations.rows() == 1 ? 1 : 4;
}

template <class AnyProduct, class JobOf>
void run_products(Pool& pool, const Activations& activations, std::span<const AnyProduct> products,
                  const JobOf& job_of) {
    const std::size_t chunk_panels = chunk_panels_for(activations);
    const auto chunks_of = [&](const Matrix& matrix) {
        return (panels_of(matrix.rows) + chunk_panels - 1) / chunk_panels;
    };
    std::size_t chunks = 0;
    for (const AnyProduct& product : products) {
        const Activations::Forms forms = activations.forms();
        CHAOS_ASSERT(product.matrix.columns == activations.columns());
        CHAOS_ASSERT(is_quantized(product.matrix.format) ? forms.bytes : forms.floats);
        CHAOS_ASSERT(product.stride >= product.matrix.rows || activations.rows() <= 1);
        chunks += chunks_of(product.matrix);
    }
    const auto multiply_chunk = [&](std::size_t chunk) {
        for (const AnyProduct& product : products) {
            const std::size_t here = chunks_of(product.matrix);
            if (chunk >= here) {
                chunk -= here;
                continue;
            }
            PanelJob job = job_of(product);
            job.activations = &activations;
            job.matrix = product.matrix;
            job.first_panel = chunk * chunk_panels;
            job.last_panel = std::min(job.first_panel + chunk_panels, panels_of(product.matrix.rows));
            job.stride = product.stride;
            return multiply_panels(job);
        }
    };
    pool.run(chunks, multiply_chunk, activations.rows() * activations.columns());
}

}  // namespace

void multiply(Pool& pool, const Activations& activations, std::span<const Product> products) {
    run_products(pool, activations, products, [](const Product& product) {
        return PanelJob{.block_columns = activation_columns, .results = product.results};
    });
}

std::size_t block_columns_of(std::size_t unit) {
    CHAOS_ASSERT(unit > 0 && unit % scale_columns == 0);
    return std::min(activation_columns, std::size_t{1} << std::countr_zero(unit));
}

void multiply_fixed(Pool& pool, const Activations& activations, std::size_t block_columns,
                    std::span<const FixedProduct> products) {
    CHAOS_ASSERT(block_columns >= scale_columns && block_columns <= activation_columns);
    CHAOS_ASSERT(std::has_single_bit(block_columns));
    run_products(pool, activations, products, [&](const FixedProduct& product) {
        return PanelJob{.block_columns = block_columns, .sums = product.sums};
    });
}

std::int64_t to_fixed(float sum) {
    const double limited = static_cast<double>(std::fabs(sum) <= fixed_limit ? sum : made_fixed_beyond);
    // At 1.5 * 2^52 doubles are one apart: the sum's low bits are the rounded value.
    constexpr double ones = 0x1.8p52;
    return std::bit_cast<std::int64_t>(limited * fixed_unit + ones) - std::bit_cast<std::int64_t>(ones);
}

}  // namespace chaos::infer
