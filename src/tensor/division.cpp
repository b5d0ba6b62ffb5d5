#include "tensor/division.h"

#include "infer/engine.h"
#include "infer/scheduler.h"
#include "infer/tensor_model.h"
#include "tensor/wire.h"

#include <algorithm>
#include <optional>

namespace chaos::tensor {
namespace {

// Of a message's time, what each end computes. Only the sum of both and of the delay is measured; this says how much of
// it is spent again for every further message.
constexpr std::uint64_t message_ns = 8'000;
// What a long message takes more than a short one, on links that are slow.
constexpr std::uint64_t slow_ns = 2'000'000;
constexpr std::uint64_t most_bytes_per_s = 1'000'000'000'000;
// Where nobody has measured a disk.
constexpr std::uint64_t likely_disk_bytes_per_s = 500'000'000;
constexpr std::uint64_t max_sequences = 1024;

const wire::Able::Link* link_of(const Fact& from, NodeId to) {
    const auto& links = from.able.links();
    const auto found =
        std::ranges::find_if(links, [&](const wire::Able::Link& link) { return node_from(link.peer()) == to; });
    return found == links.end() ? nullptr : &*found;
}

bool linked(const Fact& a, const Fact& b) {
    return link_of(a, b.node) != nullptr && link_of(b, a.node) != nullptr;
}

plan::SyncLink sync_link(const std::vector<Fact>& facts, std::uint32_t a, std::uint32_t b, std::size_t sums_bytes) {
    const wire::Able::Link& there = *link_of(facts[a], facts[b].node);
    const wire::Able::Link& back = *link_of(facts[b], facts[a].node);
    const std::uint64_t little = (there.little_ns() + back.little_ns()) / 2;
    const std::uint64_t much = (there.much_ns() + back.much_ns()) / 2;
    const std::uint64_t sums = (there.sums_ns() + back.sums_ns()) / 2;
    const auto rate_of = [&](std::size_t bytes, std::uint64_t ns) {
        return std::min(bytes * 1'000'000'000 / std::max<std::uint64_t>(1, ns - std::min(ns, little)),
                        most_bytes_per_s);
    };
    // Of a fast link, only long messages tell.
    std::uint64_t rate = rate_of(max_echo_bytes, much);
    if (much > little + slow_ns) rate = std::max(rate, rate_of(sums_bytes, sums));
    return {.a = a,
            .b = b,
            .a_to_b_bytes_per_s = rate,
            .b_to_a_bytes_per_s = rate,
            .delay_ns = little - std::min(little, 2 * message_ns)};
}

plan::TensorDevice device_of(const Fact& fact, std::uint64_t id) {
    const wire::Able& able = fact.able;
    plan::TensorDevice device;
    device.id = id;
    device.name = cluster::brief(fact.node);
    device.weight_bytes_per_s = std::max<std::uint64_t>(1, able.weight_bytes_per_s());
    device.prompt_bytes_per_s = able.prompt_bytes_per_s();
    device.phase_ns = able.phase_ns();
    if (able.share_permille() > 0) device.share_permille = std::min<std::uint64_t>(able.share_permille(), 1000);
    device.message_ns = message_ns;
    if (able.memory_bytes() > 0) {
        device.memory_bytes = able.memory_bytes();
        device.program_bytes = able.program_bytes();
        device.disk_bytes_per_s = able.disk_bytes_per_s() > 0 ? able.disk_bytes_per_s() : likely_disk_bytes_per_s;
    }
    return device;
}

void set_range(wire::Division::Range& range, const infer::Extent& extent) {
    range.set_first(static_cast<std::uint32_t>(extent.first));
    range.set_count(static_cast<std::uint32_t>(extent.count));
}

infer::Extent extent_of(const wire::Division::Range& range) {
    return {.first = range.first(), .count = range.count()};
}

// Of those who compute, by its place: the leader, if it is among them; else one that has a link with everybody, if
// there is one.
std::size_t chief_among(const std::vector<Fact>& facts, const std::vector<std::size_t>& members, NodeId leader) {
    std::optional<std::size_t> chief;
    for (std::size_t place = 0; place < members.size(); ++place) {
        const Fact& candidate = facts[members[place]];
        if (candidate.node == leader) return place;
        const bool by_all = std::ranges::all_of(
            facts, [&](const Fact& each) { return each.node == candidate.node || linked(each, candidate); });
        if (by_all && !chief) chief = place;
    }
    return chief.value_or(0);
}

plan::TensorRequest request_for(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                                const std::vector<Fact>& facts, const wire::Division& division) {
    plan::TensorRequest request = infer::tensor_request(
        config, tensors, {.context = division.context(), .sequences = division.sequences(), .batch = division.batch()},
        facts.size());
    request.devices.reserve(facts.size());
    for (std::uint32_t a = 0; a < facts.size(); ++a) {
        request.devices.push_back(device_of(facts[a], a));
        for (std::uint32_t b = 0; b < a; ++b)
            if (linked(facts[a], facts[b]))
                request.links.push_back(sync_link(facts, b, a, sums_echo_bytes(config.width)));
    }
    return request;
}

// By so many tokens of prompts at once as the division says.
Result<plan::TensorPlan> plan_once(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                                   const std::vector<Fact>& facts, bool everyone, const wire::Division& division) {
    plan::TensorRequest request = request_for(config, tensors, facts, division);
    request.everyone = everyone;
    auto planned = plan::plan_tensor(request);
    // One that has no room for any part must not keep the others from theirs.
    if (!planned && everyone) {
        request.everyone = false;
        planned = plan::plan_tensor(request);
    }
    return planned;
}

// All compute prompts in the same pieces: many tokens at once, and by halves, so that the sums of one travel while the
// other is computed; but fewer where that leaves somebody no room for its weights, who then streamed them once for
// each half.
Result<plan::TensorPlan> plan_prompts(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                                      const std::vector<Fact>& facts, bool everyone, wire::Division& division) {
    const std::size_t least = infer::Scheduler::min_batch(division.sequences());
    const std::size_t many = std::max(least, batch_tokens);
    division.set_batch(many);
    division.set_halves(true);
    auto planned = plan_once(config, tensors, facts, everyone, division);
    if (std::ranges::none_of(facts, [](const Fact& each) { return each.able.memory_bytes() > 0; })) return planned;
    wire::Division few = division;
    few.set_batch(least);
    few.set_halves(false);
    auto lean = plan_once(config, tensors, facts, everyone, few);
    const auto streams = [](const plan::TensorShare& each) { return each.streamed_bytes > 0; };
    const bool fits = planned && std::ranges::none_of(planned->shares, streams) &&
                      (!lean || planned->predicted_ns <= lean->predicted_ns);
    const std::string at_once = " tokens at once";
    if (fits || !lean) {
        if (planned)
            planned->reasons.push_back("prompts: " + std::to_string(many) + at_once +
                                       ", by halves: whoever computes has room for both beside its weights");
        return planned;
    }
    division = few;
    lean->reasons.push_back("prompts: " + std::to_string(least) + at_once +
                            ", not by halves: somebody has no room for " + std::to_string(many) +
                            " beside its weights");
    return lean;
}

}  // namespace

Result<Divided> divide(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                       std::vector<Fact> facts, NodeId leader, bool everyone) {
    std::ranges::sort(facts, {}, &Fact::node);
    Divided divided;
    wire::Division& division = divided.division;
    division.set_context(
        std::ranges::min(facts, {}, [](const Fact& each) { return each.able.context(); }).able.context());
    division.set_sequences(
        std::ranges::min(facts, {}, [](const Fact& each) { return each.able.sequences(); }).able.sequences());
    CHAOS_TRY(divided.plan, plan_prompts(config, tensors, facts, everyone, division));
    const plan::TensorPlan& plan = divided.plan;
    for (const Fact& fact : facts) divided.nodes.push_back(fact.node);

    std::vector<std::size_t> members;
    std::vector<std::uint32_t> place(facts.size());
    for (std::size_t i = 0; i < facts.size(); ++i) {
        if (!plan.shares[i].member) continue;
        place[i] = static_cast<std::uint32_t>(members.size());
        members.push_back(i);
    }
    for (const std::size_t i : members) {
        wire::Division::Member& member = *division.add_members();
        const infer::Slice slice = infer::slice_of(config, plan.shares[i]);
        *member.mutable_node() = to_wire(facts[i].node);
        set_range(*member.mutable_heads(), slice.heads);
        set_range(*member.mutable_ffn(), slice.ffn);
        set_range(*member.mutable_vocab(), slice.vocab);
        member.set_parent(plan.parent.empty() ? place[i] : place[plan.parent[i]]);
    }
    division.set_direct(plan.parent.empty());
    division.set_whole_heads(plan.whole_heads);
    division.set_chief(static_cast<std::uint32_t>(chief_among(facts, members, leader)));
    division.set_predicted_ns(plan.predicted_ns);
    division.set_exchange(plan::name_of(plan.exchange));
    return divided;
}

void predict_anew(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                  const std::map<NodeId, wire::Able>& facts, Divided& divided) {
    std::vector<Fact> known;
    known.reserve(divided.nodes.size());
    for (const NodeId node : divided.nodes) known.push_back({.node = node, .able = facts.at(node)});
    const plan::TensorRequest request = request_for(config, tensors, known, divided.division);
    divided.plan = plan::predict_anew(request, std::move(divided.plan));
    divided.division.set_predicted_ns(divided.plan.predicted_ns);
}

std::vector<NodeId> members_of(const wire::Division& division) {
    std::vector<NodeId> members;
    for (const wire::Division::Member& member : division.members()) members.push_back(node_from(member.node()));
    return members;
}

double predicted_s(const wire::Division& division) {
    return 1e-9 * static_cast<double>(division.predicted_ns());
}

Result<void> check_division(const infer::Config& config, const wire::Division& division) {
    const auto count = static_cast<std::uint32_t>(division.members_size());
    const auto most = static_cast<std::uint64_t>(config.max_context);
    const std::uint64_t sequences = division.sequences();
    if (count == 0 || division.chief() >= count || sequences == 0 || sequences > max_sequences ||
        division.context() == 0 || division.context() > most || division.batch() > infer::Engine::max_tokens ||
        division.batch() < infer::Scheduler::min_batch(sequences))
        return Error{"a division of the model makes no sense"};
    std::uint32_t roots = 0;
    for (std::size_t place = 0; place < count; ++place) {
        // Who follows its parents comes to the root.
        std::size_t at = place;
        for (std::uint32_t steps = 0; steps < count && at < count; ++steps)
            at = division.members(static_cast<int>(at)).parent();
        if (at >= count || division.members(static_cast<int>(at)).parent() != at)
            return Error{"a division of the model has no way for its sums"};
        const infer::Slice slice = slice_of(division, place);
        CHAOS_CHECK(infer::check_slice(config, slice));
        if (division.whole_heads() && slice.vocab != infer::whole(config).vocab)
            return Error{"a division of the model lacks a part of a head"};
        if (division.members(static_cast<int>(place)).parent() == place) ++roots;
    }
    if (!division.direct() && roots != 1) return Error{"a division of the model has no way for its sums"};
    return {};
}

infer::Slice slice_of(const wire::Division& division, std::size_t place) {
    const wire::Division::Member& member = division.members(static_cast<int>(place));
    return {.heads = extent_of(member.heads()), .ffn = extent_of(member.ffn()), .vocab = extent_of(member.vocab())};
}

std::size_t place_of(const wire::Division& division, NodeId node) {
    const auto& members = division.members();
    const auto found = std::ranges::find_if(
        members, [&](const wire::Division::Member& member) { return node_from(member.node()) == node; });
    return static_cast<std::size_t>(found - members.begin());
}

bool same(const wire::Division& a, const wire::Division& b) {
    const auto equal = [](const wire::Division::Member& x, const wire::Division::Member& y) {
        return x.SerializeAsString() == y.SerializeAsString();
    };
    return a.direct() == b.direct() && a.chief() == b.chief() && a.context() == b.context() &&
           a.sequences() == b.sequences() && a.batch() == b.batch() && a.halves() == b.halves() &&
           a.whole_heads() == b.whole_heads() && std::ranges::equal(a.members(), b.members(), equal);
}

}  // namespace chaos::tensor
