#include "state/record.h"

#include <bit>

namespace chaos::state {
namespace {

void add_integer(Sha256& hash, std::uint64_t value) {
    std::array<std::byte, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
    hash.add(bytes);
}

void add_real(Sha256& hash, double value) {
    add_integer(hash, std::bit_cast<std::uint64_t>(value));
}

}  // namespace

Digest extend_lineage(const Digest& before, const StepRecord& record) {
    Sha256 hash;
    hash.add(std::as_bytes(std::span(before)));
    add_integer(hash, record.step);
    hash.add(std::as_bytes(std::span(record.view)));
    add_integer(hash, record.pass);
    add_integer(hash, record.index);
    add_integer(hash, record.samples);
    add_real(hash, record.scalars.learning_rate);
    add_real(hash, record.scalars.clip_scale);
    add_real(hash, record.scalars.bias_correction1);
    add_real(hash, record.scalars.bias_correction2);
    add_real(hash, record.norm);
    add_real(hash, record.loss);
    add_integer(hash, record.result_hash);
    return hash.finish();
}

}  // namespace chaos::state
