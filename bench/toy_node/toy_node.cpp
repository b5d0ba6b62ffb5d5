#include "toy_node/toy_node.h"

#include "base/slot_file.h"

#include <array>
#include <chrono>
#include <thread>

namespace chaos::toy {
namespace {

constexpr unsigned values = 97;
constexpr std::int64_t half = 48;

cluster::Name toy_run() {
    return sha256("toy");
}

// What one sample adds to element `i`, which depends on i % values only.
std::int64_t value_of(std::uint64_t step, std::uint64_t sample, std::uint64_t element) {
    return static_cast<std::int64_t>((step * 31 + sample * 7 + element) % values) - half;
}

std::array<float, values> sums_of(std::uint64_t step, std::uint32_t begin, std::uint32_t end) {
    std::array<float, values> sums{};
    for (unsigned i = 0; i < values; ++i) {
        std::int64_t sum = 0;
        for (std::uint32_t sample = begin; sample < end; ++sample) sum += value_of(step, sample, i);
        sums[i] = static_cast<float>(sum);
    }
    return sums;
}

// A vote as an earlier life of the cluster left it: everybody active, all linked with all, nothing done yet.
cluster::DiskRecord prepared_vote(const ToyCluster& toy) {
    auto view = std::make_shared<cluster::View>();
    view->name = sha256("prepared");
    view->founder = sha256("toy founder");
    view->run = toy_run();
    view->batch = toy.batch;
    view->epoch = 1;
    for (unsigned i = 0; i < toy.addresses.size(); ++i) {
        view->members.push_back({.id = {.node = id_of(i), .incarnation = 1},
                                 .since_epoch = i,
                                 .institution = bench::numbered_institution().public_key(),
                                 .standing = cluster::Standing::active,
                                 .speed = toy.speed,
                                 .address = toy.addresses[i]});
        for (unsigned j = 0; j < i; ++j) view->links.push_back({.id = cluster::link_between(id_of(i), id_of(j))});
    }
    std::ranges::sort(view->members, {}, [](const cluster::MemberInfo& member) { return member.id.node; });
    std::ranges::sort(view->links, {}, &cluster::LinkInfo::id);
    view->institutions = {{.root = bench::numbered_institution().public_key()}};
    cluster::complete(*view);
    cluster::DiskRecord record;
    record.view = view;
    return record;
}

live::Options options_of(const ToyCluster& toy, unsigned number, const std::filesystem::path& folder) {
    live::Options options;
    options.core.detect = toy.detect;
    options.core.heartbeat = toy.detect / 4;
    options.core.found_after = cluster::second;
    options.core.links_wanted = static_cast<std::uint32_t>(toy.addresses.size() - 1);
    options.links.bulk_connections = toy.bulk_connections;
    if (!toy.addresses[number].empty()) options.listen = {toy.addresses[number]};
    options.folder = folder;
    options.checkpoint = cluster::Checkpoint{};
    return options;
}

}  // namespace

Result<std::chrono::nanoseconds> ToyLearner::compute(const Task& task, std::span<float> into) {
    const auto begun = std::chrono::steady_clock::now();
    std::uint64_t count = 0;
    for (const auto [begin, end] : task.more) {
        const auto sums = sums_of(task.step, begin, end);
        for (std::size_t i = 0; i < into.size(); ++i) into[i] += sums[i % values];
        count += end - begin;
    }
    std::this_thread::sleep_until(begun + std::chrono::nanoseconds(count * 1'000'000'000 / cluster_.speed));
    return std::chrono::steady_clock::now() - begun;
}

cluster::Name ToyLearner::apply(std::uint64_t step, const cluster::View&, std::span<const float> result,
                                const state::ResultDigest&) {
    const auto sums = sums_of(step, 0, cluster_.batch);
    std::uint64_t differing = 0;
    for (std::size_t i = 0; i < result.size(); ++i) differing += result[i] != sums[i % values] ? 1 : 0;
    if (differing > 0) ++wrong_;
    Sha256 chain;
    chain.add(std::as_bytes(std::span(lineage_)));
    const std::uint64_t hash = xxh3(std::as_bytes(result));
    chain.add(std::as_bytes(std::span(&hash, 1)));
    lineage_ = chain.finish();
    return lineage_;
}

ToyNode::ToyNode(net::asio::io_context& loop, const ToyCluster& cluster, unsigned number,
                 const std::filesystem::path& folder, ToyEvents events)
    : events_(std::move(events)),
      learner_(cluster),
      thread_(loop),
      steps_(loop, thread_, learner_, {.gradient = cluster.floats, .rest = 0}, collective::Encoding::fp32,
             {.applied = [this](const elastic::AppliedStep& step) { events_.applied(step.step, step.lineage); },
              .computed = [](std::uint64_t, std::chrono::nanoseconds) {},
              .note = [this](const std::string& text) { note(text); },
              .failed = [this](const Error& why) { failed(why); }}),
      member_(loop, bench::key_of(number), bench::credential_of(number), toy_run(), options_of(cluster, number, folder),
              *this, steps_) {
    steps_.connect(member_);
    const std::vector<std::uint8_t> vote = encode(prepared_vote(cluster));
    Result<SlotFile> file = SlotFile::open(folder / "vote");
    CHAOS_ASSERT(file && file->write({reinterpret_cast<const char*>(vote.data()), vote.size()}));
}

Result<void> ToyNode::start() {
    return member_.start();
}

void ToyNode::adopted(const cluster::ViewPtr& view) {
    events_.adopted(view);
}
void ToyNode::start_step(std::uint64_t step, const cluster::ViewPtr& view) {
    steps_.start_step(step, view);
}
void ToyNode::stop_step() {
    steps_.stop_step();
}
void ToyNode::take_result(std::uint64_t step, const std::vector<NodeId>& holders) {
    steps_.take_result(step, holders);
}
void ToyNode::restore(std::uint64_t applied, const cluster::Name& lineage) {
    steps_.begin_at(applied, lineage, [this, lineage] { learner_.restore(lineage); });
}
void ToyNode::begin_sync(const cluster::ViewPtr&) {
    note("a toy cannot join");
}
void ToyNode::activated(std::uint64_t, const cluster::ViewPtr&) {}
void ToyNode::excluded(const std::string& why, bool) {
    note("is out: " + why);
}
void ToyNode::left() {
    note("has left");
}
void ToyNode::stable(std::uint64_t) {}
void ToyNode::link_up(NodeId peer) {
    steps_.link_up(peer);
}
void ToyNode::link_down(NodeId peer) {
    events_.link_down(peer);
    steps_.link_down(peer);
}
void ToyNode::received(NodeId from, std::span<const std::uint8_t> message) {
    const auto work = elastic::work_from(message);
    const auto taken = work ? steps_.received(from, *work) : Result<void>(work.error());
    if (!taken) note("ignores " + cluster::brief(from) + ": " + taken.error().message);
}
void ToyNode::note(const std::string& text) {
    events_.note(text);
}
void ToyNode::failed(const Error& why) {
    note("cannot go on: " + why.message);
}

}  // namespace chaos::toy
