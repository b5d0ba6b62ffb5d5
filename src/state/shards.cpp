#include "state/shards.h"

#include "base/assert.h"

#include <algorithm>

namespace chaos::state {

Shards::Shards(const Manifest& manifest, unsigned slots, std::uint64_t parameters_per_shard)
    : parameters_(manifest.parameter_elements()),
      buffers_(manifest.buffer_elements()),
      slots_(slots),
      per_shard_(parameters_per_shard),
      count_(static_cast<std::uint32_t>((parameters_ + per_shard_ - 1) / per_shard_) + (buffers_ > 0 ? 1 : 0)) {
    CHAOS_ASSERT(per_shard_ > 0);
}

FloatRange Shards::parameters_of(std::uint32_t shard) const {
    const std::uint64_t begin = std::min(parameters_, shard * per_shard_);
    return {.begin = begin, .end = std::min(parameters_, begin + per_shard_)};
}

bool Shards::fits(ShardSpan span) const {
    return span.count > 0 && span.first < count_ && span.count <= count_ - span.first;
}

std::uint64_t Shards::floats(ShardSpan span) const {
    CHAOS_ASSERT(fits(span));
    const std::uint32_t last = span.first + span.count - 1;
    const std::uint64_t parameters = parameters_of(last).end - parameters_of(span.first).begin;
    return parameters * (1 + slots_) + (is_buffers(last) ? buffers_ : 0);
}

FloatRange Shards::in_result(ShardSpan span) const {
    CHAOS_ASSERT(fits(span));
    const std::uint32_t last = span.first + span.count - 1;
    return {.begin = parameters_of(span.first).begin,
            .end = is_buffers(last) ? parameters_ + buffers_ : parameters_of(last).end};
}

void Shards::copy_out(const Arena& arena, ShardSpan span, std::span<float> to) const {
    CHAOS_ASSERT(to.size() == floats(span));
    auto at = to.begin();
    for (std::uint32_t shard = span.first; shard < span.first + span.count; ++shard) {
        if (is_buffers(shard)) {
            at = std::ranges::copy(arena.buffers(), at).out;
            continue;
        }
        const FloatRange range = parameters_of(shard);
        at = std::ranges::copy(arena.parameters().subspan(range.begin, range.count()), at).out;
        for (unsigned slot = 0; slot < slots_; ++slot)
            at = std::ranges::copy(arena.slot(slot).subspan(range.begin, range.count()), at).out;
    }
}

void Shards::copy_in(std::span<const float> from, ShardSpan span, Arena& arena) const {
    CHAOS_ASSERT(from.size() == floats(span));
    const auto take = [&](std::span<float> to) {
        std::ranges::copy(from.first(to.size()), to.begin());
        from = from.subspan(to.size());
    };
    for (std::uint32_t shard = span.first; shard < span.first + span.count; ++shard) {
        if (is_buffers(shard)) {
            take(arena.buffers());
            continue;
        }
        const FloatRange range = parameters_of(shard);
        take(arena.parameters().subspan(range.begin, range.count()));
        for (unsigned slot = 0; slot < slots_; ++slot) take(arena.slot(slot).subspan(range.begin, range.count()));
    }
}

void Shards::apply(const run::Optimizer& optimizer, const Manifest& manifest, const UpdateScalars& scalars,
                   ShardSpan span, std::span<const float> part, Arena& arena) const {
    const FloatRange range = in_result(span);
    CHAOS_ASSERT(part.size() == range.count());
    const std::uint64_t gradient = std::min(range.end, parameters_) - std::min(range.begin, parameters_);
    apply_update_to(optimizer, manifest, scalars, std::min(range.begin, parameters_), part.first(gradient), arena);
    if (range.end > parameters_ && scalars.clip_scale != 0.0)
        std::ranges::copy(part.subspan(gradient), arena.buffers().begin());
}

std::vector<std::uint64_t> Shards::hashes(const Arena& arena) const {
    std::vector<std::uint64_t> hashes(count_);
#pragma omp parallel for schedule(static)
    for (std::uint32_t shard = 0; shard < count_; ++shard) {
        if (is_buffers(shard)) {
            hashes[shard] = xxh3(std::as_bytes(arena.buffers()));
            continue;
        }
        const FloatRange range = parameters_of(shard);
        std::vector<std::uint64_t> parts;
        parts.push_back(xxh3(std::as_bytes(arena.parameters().subspan(range.begin, range.count()))));
        for (unsigned slot = 0; slot < slots_; ++slot)
            parts.push_back(xxh3(std::as_bytes(arena.slot(slot).subspan(range.begin, range.count()))));
        hashes[shard] = xxh3(std::as_bytes(std::span(parts)));
    }
    return hashes;
}

Digest root_of(std::span<const std::uint64_t> shard_hashes) {
    return Sha256().add(std::as_bytes(shard_hashes)).finish();
}

}  // namespace chaos::state
