#include "sim/toy.h"

#include "base/assert.h"
#include "base/random.h"

#include <algorithm>
#include <string>

namespace chaos::sim {
namespace {

constexpr unsigned slots = 2;  // of adamw

std::uint64_t sample_hash(const Toy& toy, std::uint64_t step, std::uint32_t sample) {
    return random_bits(toy.seed, step, sample);
}

}  // namespace

Toy make_toy(std::uint64_t seed, std::uint32_t batch) {
    Toy toy;
    toy.seed = seed;
    toy.batch = batch;
    toy.run.optimizer.learning_rate = 1.0 / 64;
    toy.run.optimizer.weight_decay = 1.0 / 128;
    toy.run.optimizer.clip_norm = 1.0;
    toy.run.train.batch = batch;
    toy.manifest.add_parameter("toy", {static_cast<std::int64_t>(toy.parameters)}, true);
    toy.name = sha256("toy " + std::to_string(seed));
    return toy;
}

std::uint64_t whole_batch(const Toy& toy, std::uint64_t step) {
    std::uint64_t sum = 0;
    for (std::uint32_t sample = 0; sample < toy.batch; ++sample) sum += sample_hash(toy, step, sample);
    return sum;
}

void add_samples(const Toy& toy, std::uint64_t step, std::span<const float> parameters, SampleRange range,
                 Gradient& gradient) {
    gradient.values.resize(toy.parameters);
    for (std::uint32_t sample = range.begin; sample < range.end; ++sample) {
        const std::uint64_t hash = sample_hash(toy, step, sample);
        gradient.sample_sum += hash;
        ++gradient.samples;
        std::uint64_t bits = hash;
        for (std::uint32_t i = 0; i < toy.parameters; ++i) {
            bits = bits * 6364136223846793005U + 1442695040888963407U;
            gradient.values[i] += (parameters[i] - random_unit(bits)) * 0.5F;
        }
    }
}

ResultPtr make_result(const Toy& toy, std::uint64_t step, const Digest& view, const Digest& lineage_before,
                      Gradient mean) {
    auto result = std::make_shared<StepResult>();
    const state::ResultDigest digest = state::digest_result(mean.values, toy.parameters);
    result->record.step = step;
    result->record.view = view;
    result->record.index = step * toy.batch;
    result->record.samples = mean.samples;
    result->record.norm = digest.norm;
    result->record.scalars = state::update_scalars(toy.run, step, digest.norm);
    result->record.result_hash = digest.hash;
    result->lineage_before = lineage_before;
    result->lineage = state::extend_lineage(lineage_before, result->record);
    result->mean = std::move(mean);
    return result;
}

ToyState::ToyState(const Toy& toy) : toy_(&toy), arena_(toy.manifest, slots), lineage_(toy.name) {
    for (std::uint32_t i = 0; i < toy.parameters; ++i)
        arena_.parameters()[i] = random_unit(random_bits(toy.seed, 0x746f79, i));
}

std::uint64_t ToyState::hash() const {
    return xxh3(std::as_bytes(arena_.all()));
}

void ToyState::apply(const StepResult& result) {
    CHAOS_ASSERT(result.record.step == applied_);
    state::apply_update(toy_->run.optimizer, toy_->manifest, result.record.scalars, result.mean.values, arena_);
    lineage_ = result.lineage;
    ++applied_;
}

Snapshot ToyState::snapshot() const {
    return {.applied = applied_, .lineage = lineage_, .floats = {arena_.all().begin(), arena_.all().end()}};
}

void ToyState::load(const Snapshot& snapshot) {
    std::copy(snapshot.floats.begin(), snapshot.floats.end(), arena_.all().begin());
    applied_ = snapshot.applied;
    lineage_ = snapshot.lineage;
}

std::vector<float> take_shard(const Toy& toy, std::span<const float> floats, std::uint32_t shard) {
    const std::uint32_t begin = toy.shard_begin(shard);
    const std::uint32_t end = toy.shard_begin(shard + 1);
    std::vector<float> taken;
    taken.reserve(std::size_t{end - begin} * (1 + slots));
    for (unsigned part = 0; part <= slots; ++part) {
        const auto piece = floats.subspan(std::size_t{part} * toy.parameters + begin, end - begin);
        taken.insert(taken.end(), piece.begin(), piece.end());
    }
    return taken;
}

void put_shard(const Toy& toy, std::span<const float> shard_floats, std::uint32_t shard, std::span<float> floats) {
    const std::uint32_t begin = toy.shard_begin(shard);
    const std::uint32_t count = toy.shard_begin(shard + 1) - begin;
    CHAOS_ASSERT(shard_floats.size() == std::size_t{count} * (1 + slots));
    for (unsigned part = 0; part <= slots; ++part) {
        const auto piece = shard_floats.subspan(std::size_t{part} * count, count);
        std::copy(piece.begin(), piece.end(), floats.begin() + std::ptrdiff_t{part} * toy.parameters + begin);
    }
}

std::vector<std::uint64_t> shard_hashes(const Toy& toy, std::span<const float> floats) {
    std::vector<std::uint64_t> hashes(toy.shards);
    for (std::uint32_t shard = 0; shard < toy.shards; ++shard) {
        const std::vector<float> taken = take_shard(toy, floats, shard);
        hashes[shard] = xxh3(std::as_bytes(std::span(taken)));
    }
    return hashes;
}

Digest root_of(std::span<const std::uint64_t> shard_hashes) {
    return Sha256().add(std::as_bytes(shard_hashes)).finish();
}

}  // namespace chaos::sim
