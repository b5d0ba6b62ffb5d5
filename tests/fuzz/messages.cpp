// The cluster's encoding: whatever bytes arrive, they are refused, or they are the one encoding of what was read. And
// what a message says of a view is judged without falling over. The same for what a node finds on its disk.
#include "fuzz/overheard.h"
#include "fuzz/seeds.h"

namespace {

using namespace chaos;
using namespace chaos::cluster;

ViewPtr small_view() {
    Founding founding;
    founding.batch = 64;
    founding.founder.id = {.node = Village::node(0), .incarnation = 1000};
    founding.founder.institution = Village::institution();
    founding.institutions = {{.root = Village::institution()}};
    return found(founding);
}

void check_shares(const View& view, std::uint64_t step) {
    std::uint64_t samples = 0;
    for (const Share& share : shares_of(view, step))
        for (const SampleRange& range : share.ranges) samples += range.end - range.begin;
    CHAOS_ASSERT(samples == view.batch);
}

// As if it followed a view that we know.
void follow(const Delta& said) {
    static const ViewPtr parent = small_view();
    Delta delta = said;
    delta.parent = parent->name;
    delta.epoch = parent->epoch + 1;
    const Result<ViewPtr> next = apply(*parent, parent.get(), delta);
    if (!next) return;
    CHAOS_ASSERT(check(**next));
    const Result<ViewPtr> again = decode_view(encode(**next));
    CHAOS_ASSERT(again && encode(**again) == encode(**next));
    if ((*next)->redo_known) check_shares(**next, (*next)->first_step);
}

void judge(std::span<const std::uint8_t> bytes) {
    const Result<ViewPtr> view = decode_view(bytes);
    if (!view) return;
    CHAOS_ASSERT(check(**view) && std::ranges::equal(encode(**view), bytes));
    for (const MemberInfo& member : (*view)->members) (void)eccentricity(**view, member.id.node);
    check_shares(**view, (*view)->first_step + 1);
    // Its youngest member fails in the middle of its first step.
    Delta delta;
    delta.parent = (*view)->name;
    delta.epoch = (*view)->epoch + 1;
    delta.first_step = (*view)->first_step;
    delta.settlement =
        Settlement{.applied = delta.first_step, .holders = {}, .founded = false, .lineage = {}, .from_joiners = false};
    delta.removals = {{.node = (*view)->by_standing().back(), .reason = Reason::failed}};
    const Result<ViewPtr> next = apply(**view, view->get(), delta);
    if (next && (*next)->redo_known) check_shares(**next, (*next)->first_step);
}

// Of a node that starts again with it.
void start_again(std::span<const std::uint8_t> bytes) {
    const Result<DiskRecord> record = decode_disk_record(bytes);
    if (!record) return;
    CHAOS_ASSERT(std::ranges::equal(encode(*record), bytes));
    const PlainSigner signer(Village::node(0));
    Identity identity;
    identity.member = {.node = Village::node(0), .incarnation = 9000};
    Member member({}, identity, signer, *record, std::nullopt, 0);
    for (Nanoseconds now = 0; now < 2 * second; now += 250 * millisecond) (void)member.step(Tick{}, now);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> bytes(data, size);
    judge(bytes);
    start_again(bytes);
    const Result<MessagePtr> message = decode_message(bytes);
    if (!message) return 0;
    const Body& body = (*message)->body;
    CHAOS_ASSERT(std::ranges::equal(make_message(body)->bytes, bytes));
    const PlainSigner signer(Village::node(0));
    CHAOS_ASSERT(!signature_fits(**message, signer) || stamp_of(body) != nullptr);
    if (const auto* accept = std::get_if<Accept>(&body)) follow(accept->delta);
    if (const auto* history = std::get_if<History>(&body); history != nullptr && history->view) judge(*history->view);
    return 0;
}

namespace {

// On disk after a failure, with shares that are redone.
DiskRecord redone() {
    Village village;
    village.found(0);
    village.join(1, 0);
    village.join(2, 0);
    CHAOS_ASSERT(village.until([&] { return village.settled({0, 1, 2}) && village.advanced({0, 1, 2}, 20); }));
    village.crash(2);
    CHAOS_ASSERT(village.until([&] { return village.settled({0, 1}); }));
    CHAOS_ASSERT(!village.member(0).view()->redo.empty());
    return *village.house(0).disk;
}

}  // namespace

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    for (const MessagePtr& message : overheard()) {
        seeds.push_back(message->bytes);
        if (const auto* history = std::get_if<History>(&message->body); history != nullptr && history->view)
            seeds.push_back(*history->view);
    }
    const DiskRecord record = redone();
    seeds.push_back(encode(*record.view));
    seeds.push_back(encode(record));
    return seeds;
}
