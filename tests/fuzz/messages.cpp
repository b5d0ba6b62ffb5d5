// The cluster's encoding: whatever bytes arrive, they are refused, or they are the one encoding of what was read. And
// what a message says of a view is judged without falling over.
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
    std::uint64_t samples = 0;
    for (const Share& share : shares_of(**next, (*next)->first_step))
        for (const SampleRange& range : share.ranges) samples += range.end - range.begin;
    CHAOS_ASSERT(samples == (*next)->batch);
}

void judge(std::span<const std::uint8_t> bytes) {
    const Result<ViewPtr> view = decode_view(bytes);
    if (!view) return;
    CHAOS_ASSERT(check(**view) && std::ranges::equal(encode(**view), bytes));
    for (const MemberInfo& member : (*view)->members) (void)eccentricity(**view, member.id.node);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> bytes(data, size);
    judge(bytes);
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

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    for (const MessagePtr& message : overheard()) {
        seeds.push_back(message->bytes);
        if (const auto* history = std::get_if<History>(&message->body); history != nullptr && history->view)
            seeds.push_back(*history->view);
    }
    return seeds;
}
