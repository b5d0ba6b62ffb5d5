#include "tensor/division.h"

#include "base/words.h"
#include "infer/engine.h"
#include "infer/scheduler.h"
#include "infer/tensor_model.h"
#include "plan/integers.h"
#include "tensor/wire.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <string_view>

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
// So many that a pass has room for a token of each, and for a guess at its next one.
constexpr std::uint64_t max_sequences = infer::Engine::max_tokens / 2;
// Of what members say: beyond these nobody computes anything, and plans would leave their numbers.
constexpr std::uint64_t least_weight_bytes_per_s = 1000;
constexpr std::uint64_t most_told_ns = 600'000'000'000;
constexpr std::uint64_t max_told_links = 256;
constexpr std::uint64_t most_memory_bytes = std::uint64_t{1} << 50;
// A division of as many members as there may be, with words for people.
constexpr std::size_t max_division_bytes = 64 << 10;
constexpr std::size_t max_reasons = 128;
constexpr std::size_t max_reason_bytes = 256;

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

// Whether extents, in any order, are all of the whole, each part once.
bool make_up(std::vector<infer::Extent> extents, const infer::Extent& whole) {
    std::erase_if(extents, [](const infer::Extent& each) { return each.count == 0; });
    std::ranges::sort(extents, {}, &infer::Extent::first);
    std::int64_t at = whole.first;
    for (const infer::Extent& each : extents) {
        if (each.first != at) return false;
        at = each.end();
    }
    return at == whole.end();
}

// Whether sums come from everybody to one root. Those that nobody is below are taken away, and then those that were
// above these alone: of a tree the root is left.
bool is_tree(const wire::Division& division) {
    const auto count = static_cast<std::uint32_t>(division.members_size());
    const auto parent_of = [&](std::uint32_t place) { return division.members(static_cast<int>(place)).parent(); };
    std::vector<std::uint32_t> below(count);
    std::uint32_t roots = 0;
    for (std::uint32_t place = 0; place < count; ++place) {
        const std::uint32_t parent = parent_of(place);
        if (parent >= count) return false;
        if (parent == place) ++roots;
        ++below[parent];
    }
    std::vector<std::uint32_t> taken;
    for (std::uint32_t place = 0; place < count; ++place)
        if (below[place] == 0) taken.push_back(place);
    for (std::size_t i = 0; i < taken.size(); ++i)
        if (const std::uint32_t parent = parent_of(taken[i]); --below[parent] == 0) taken.push_back(parent);
    return roots == 1 && taken.size() == count - 1;
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

Result<plan::TensorPlan> plan_once(plan::TensorRequest request) {
    auto planned = plan::plan_tensor(request);
    // One that has no room for any part must not keep the others from theirs.
    if (!planned && request.everyone) {
        request.everyone = false;
        planned = plan::plan_tensor(request);
    }
    return planned;
}

}  // namespace

Result<PromptPlan> plan_prompts(std::size_t sequences,
                                const std::function<plan::TensorRequest(std::size_t batch)>& request_of) {
    const std::size_t least = infer::Scheduler::min_batch(sequences);
    const std::size_t many = std::max(least, batch_tokens);
    const auto plan_for = [&](std::size_t batch, bool halves) -> Result<PromptPlan> {
        PromptPlan planned{.request = request_of(batch), .plan = {}, .batch = batch, .halves = halves};
        CHAOS_TRY(planned.plan, plan_once(planned.request));
        return planned;
    };
    auto full = plan_for(many, true);
    const bool limited = std::ranges::any_of(
        request_of(many).devices, [](const plan::TensorDevice& each) { return each.memory_bytes != plan::unlimited; });
    if (!limited) return full;
    auto lean = plan_for(least, false);
    const auto streams = [](const plan::TensorShare& each) { return each.streamed_bytes > 0; };
    const bool fits = full && std::ranges::none_of(full->plan.shares, streams) &&
                      (!lean || full->plan.predicted_ns <= lean->plan.predicted_ns);
    const std::string at_once = " tokens at once";
    if (fits || !lean) {
        if (full)
            full->plan.reasons.push_back("prompts: " + std::to_string(many) + at_once +
                                         ", by halves: whoever computes has room for both beside its weights");
        return full;
    }
    lean->plan.reasons.push_back("prompts: " + std::to_string(least) + at_once +
                                 ", not by halves: somebody has no room for " + std::to_string(many) +
                                 " beside its weights");
    return lean;
}

Result<Divided> divide(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                       std::vector<Fact> facts, NodeId leader, bool everyone) {
    std::ranges::sort(facts, {}, &Fact::node);
    Divided divided;
    wire::Division& division = divided.division;
    division.set_context(
        std::ranges::min(facts, {}, [](const Fact& each) { return each.able.context(); }).able.context());
    division.set_sequences(
        std::ranges::min(facts, {}, [](const Fact& each) { return each.able.sequences(); }).able.sequences());
    CHAOS_TRY(PromptPlan planned, plan_prompts(division.sequences(), [&](std::size_t batch) {
                  division.set_batch(batch);
                  plan::TensorRequest request = request_for(config, tensors, facts, division);
                  request.everyone = everyone;
                  return request;
              }));
    division.set_batch(planned.batch);
    division.set_halves(planned.halves);
    divided.plan = std::move(planned.plan);
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

Result<void> check_able(const infer::Config& config, const wire::Able& able) {
    const auto words = [](const std::string& what, std::uint64_t said, std::uint64_t least, std::uint64_t most) {
        return Error{"it says that " + what + " " + std::to_string(said) + ", which is not from " +
                     std::to_string(least) + " to " + std::to_string(most)};
    };
    const struct {
        const char* what;
        std::uint64_t said, least, most;
    } ranges[] = {
        {"the bytes that it multiplies in a second are", able.weight_bytes_per_s(), least_weight_bytes_per_s,
         plan::fastest_bytes_per_s},
        {"the bytes that it multiplies in a second of a prompt are", able.prompt_bytes_per_s(), 0,
         plan::fastest_bytes_per_s},
        {"the bytes that its disk reads in a second are", able.disk_bytes_per_s(), 0, plan::fastest_bytes_per_s},
        {"the nanoseconds of its phases are", able.phase_ns(), 0, most_told_ns},
        {"the bytes of its memory are", able.memory_bytes(), 0, most_memory_bytes},
        {"the bytes of its program are", able.program_bytes(), 0, most_memory_bytes},
        {"the thousandths of the time that it computes are", able.share_permille(), 0, 1000},
        {"the tokens of a text are", able.context(), 1, static_cast<std::uint64_t>(config.max_context)},
        {"the texts at once are", able.sequences(), 1, max_sequences},
        {"its links are", static_cast<std::uint64_t>(able.links_size()), 0, max_told_links},
    };
    for (const auto& [what, said, least, most] : ranges)
        if (said < least || said > most) return words(what, said, least, most);
    for (const wire::Able::Link& link : able.links())
        for (const std::uint64_t ns : {link.little_ns(), link.much_ns(), link.sums_ns()})
            if (ns > most_told_ns) return words("the nanoseconds of a message are", ns, 0, most_told_ns);
    return {};
}

Result<void> check_division(const infer::Config& config, const wire::Division& division) {
    const auto count = static_cast<std::size_t>(division.members_size());
    const auto most = static_cast<std::uint64_t>(config.max_context);
    const std::uint64_t sequences = division.sequences();
    if (count == 0 || count > plan::max_tensor_devices || division.chief() >= count || sequences == 0 ||
        sequences > max_sequences || division.context() == 0 || division.context() > most ||
        division.batch() > infer::Engine::max_tokens || division.batch() < infer::Scheduler::min_batch(sequences))
        return Error{"a division of the model makes no sense"};
    if (division.ByteSizeLong() > max_division_bytes) return Error{"a division of the model is too long"};
    std::vector<NodeId> nodes = members_of(division);
    std::ranges::sort(nodes);
    if (std::ranges::adjacent_find(nodes) != nodes.end()) return Error{"a division of the model has a member twice"};
    if (!division.direct() && !is_tree(division)) return Error{"a division of the model has no way for its sums"};
    const infer::Slice whole = infer::whole(config);
    std::vector<infer::Extent> heads, ffn, vocab;
    for (std::size_t place = 0; place < count; ++place) {
        const infer::Slice slice = slice_of(division, place);
        CHAOS_CHECK(infer::check_slice(config, slice));
        if (division.whole_heads() && slice.vocab != whole.vocab)
            return Error{"a division of the model lacks a part of a head"};
        heads.push_back(slice.heads);
        ffn.push_back(slice.ffn);
        vocab.push_back(slice.vocab);
    }
    if (!make_up(std::move(heads), whole.heads) || !make_up(std::move(ffn), whole.ffn) ||
        (!division.whole_heads() && !make_up(std::move(vocab), whole.vocab)))
        return Error{"a division of the model has parts of it twice, or lacks some"};
    return {};
}

std::uint64_t longest_message_bytes(const infer::Config& config, const wire::Division& division) {
    const auto members = static_cast<std::uint64_t>(division.members_size());
    const auto width = static_cast<std::uint64_t>(config.width);
    const auto vocab = static_cast<std::uint64_t>(config.vocab);
    // In lists of what each member says: its place, and how many bytes follow.
    constexpr std::uint64_t entry_bytes = 2 * sizeof(std::uint64_t);
    const std::uint64_t sums = division.batch() * width * sizeof(std::int64_t);
    const std::uint64_t words = members * entry_bytes + max_work_bytes;
    if (division.whole_heads()) return sums + words;
    // Of each text the next token and what was guessed; a logit, where not all are told, with its token.
    const std::uint64_t rows = std::min<std::uint64_t>(
        division.batch(), infer::Scheduler::min_batch(division.sequences()) + division.sequences());
    constexpr std::uint64_t number_bytes = sizeof(std::uint32_t);
    const std::uint64_t logits = rows * vocab * (number_bytes + sizeof(float));
    return std::max(sums + words, members * (entry_bytes + (2 + rows) * number_bytes) + logits);
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

void set_reasons(google::protobuf::RepeatedPtrField<std::string>& to, const std::vector<std::string>& reasons) {
    to.Clear();
    for (const std::string& reason : reasons | std::views::take(max_reasons))
        to.Add(reason.substr(0, max_reason_bytes));
}

std::vector<std::string> reasons_from(const google::protobuf::RepeatedPtrField<std::string>& told) {
    std::vector<std::string> reasons;
    for (const std::string& reason : told | std::views::take(max_reasons))
        reasons.push_back(printable(std::string_view(reason).substr(0, max_reason_bytes)));
    return reasons;
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
