// Everything a member does with messages. A village has two honest members; the fuzzer speaks for a third, a traitor
// with a key of its own, and for a stranger who is no member. They say again what they have overheard, changed here and
// there, signed with their own keys or not at all, while time passes, links break and people give commands. Whatever
// they say, no assertion fires, nobody runs in circles and memory stays bounded.
#include "fuzz/overheard.h"
#include "fuzz/seeds.h"

#include <fuzzer/FuzzedDataProvider.h>
#include <sanitizer/allocator_interface.h>

#include <deque>

namespace {

using namespace chaos;
using namespace chaos::cluster;

constexpr unsigned traitor = 2;
constexpr unsigned stranger = 3;
constexpr std::size_t max_deeds = 48;
constexpr std::size_t max_sent = 20'000;  // by all together
constexpr std::size_t max_village_bytes = 64U << 20;

class Play {
public:
    explicit Play(FuzzedDataProvider& input) : input_(input) {
        village_.overhear = [this](NodeId, const Send& send) {
            CHAOS_ASSERT(++sent_ < max_sent);
            pool_.push_back(send.message);
            if (pool_.size() > 256) pool_.pop_front();
        };
        village_.strict = input.ConsumeBool();
        village_.step_time = 300 * millisecond;
        set_the_scene(input.ConsumeIntegralInRange(0, 6));
        befriend(0, stranger);
        befriend(1, stranger);
        village_.pass(20 * millisecond);
        for (std::size_t deed = 0; deed < max_deeds && input_.remaining_bytes() > 0; ++deed) act();
        for (int i = 0; i < 4; ++i) village_.pass(second);
    }

private:
    void set_the_scene(int scene) {
        village_.add(stranger);
        village_.found(0);
        village_.join(1, 0);
        village_.join(traitor, 0);
        if (scene == 0) return village_.pass(30 * millisecond);  // joining
        if (scene == 1) return village_.pass(700 * millisecond);
        const bool settled = village_.until([&] { return village_.settled({0, 1, traitor}); });
        CHAOS_ASSERT(settled);
        epoch_ = village_.member(0).view()->epoch;
        if (scene == 2) return;
        if (scene == 3) village_.crash(1);  // a flush
        if (scene == 4) village_.tell(1, LeaveCommand{});
        if (scene == 5) village_.tell(0, DisconnectCommand{Village::node(traitor)});
        if (scene == 6) {
            village_.pass(second);
            village_.crash(0);
            village_.crash(1);
            village_.pass(100 * millisecond);
            village_.restart(0, true);
            village_.restart(1, true);
        }
        // Until a proposal is on its way.
        village_.until([&] { return voting(); }, 2 * second);
    }

    [[nodiscard]] bool voting() const {
        return std::ranges::any_of(pool_, [&](const MessagePtr& message) {
            const auto* accept = std::get_if<Accept>(&message->body);
            return accept != nullptr && accept->delta.epoch > epoch_;
        });
    }

    void befriend(unsigned one, unsigned other) {
        village_.links.insert(link_between(Village::node(one), Village::node(other)));
        village_.tell(one, LinkUp{Village::node(other)});
        village_.tell(other, LinkUp{Village::node(one)});
    }

    void act() {
        const unsigned victim = input_.ConsumeIntegralInRange(0U, 1U);
        switch (input_.ConsumeIntegralInRange(0, 16)) {
            case 0:
                return village_.pass(input_.ConsumeIntegralInRange<Nanoseconds>(1, 20) * 100 * millisecond);
            case 1:
                return village_.pass(input_.ConsumeIntegralInRange<Nanoseconds>(1, 50) * millisecond);
            case 2:
                return village_.tell(victim, LeaveCommand{});
            case 3:
                return village_.tell(victim, ConnectCommand{some_node()});
            case 4:
                return village_.tell(victim, DisconnectCommand{some_node()});
            case 5:
                return village_.tell(
                    victim, InstitutionCommand{.kind = input_.PickValueInArray({RequestKind::admit_institution,
                                                                                RequestKind::remove_institution,
                                                                                RequestKind::revoke_node}),
                                               .root = some_name(),
                                               .revocation = revocation_of(some_node(), Village::institution())});
            case 6: {
                const unsigned friend_of = input_.PickValueInArray({traitor, stranger, 1 - victim});
                village_.links.erase(link_between(Village::node(victim), Village::node(friend_of)));
                village_.tell(victim, LinkClosed{Village::node(friend_of)});
                return village_.tell(friend_of, LinkClosed{Village::node(victim)});
            }
            case 7:
                return befriend(victim, input_.PickValueInArray({traitor, stranger}));
            case 8:
                if (village_.house(victim).up) return village_.crash(victim);
                return village_.restart(victim, input_.ConsumeBool());
            case 9:
                if (input_.ConsumeBool()) return village_.tell(victim, RecoverCommand{});
                return village_.tell(victim, FoundOffender{some_node()});
            default:
                return speak(victim);
        }
    }

    void speak(unsigned victim) {
        const unsigned speaker = input_.PickValueInArray({traitor, stranger});
        Bytes bytes = some_message()->bytes;
        const int edits = input_.ConsumeIntegralInRange(0, 4);
        for (int i = 0; i < edits && !bytes.empty(); ++i) edit(bytes);
        Result<MessagePtr> message = decode_message(bytes);
        if (!message) return village_.tell(victim, ReceivedGarbage{Village::node(speaker)});
        MessagePtr said = *message;
        if (stamp_of(said->body) != nullptr && input_.ConsumeBool()) {
            Body body = said->body;
            sign_inside(body);
            said = make_signed(std::move(body), identity_of(speaker), 0, PlainSigner(Village::node(speaker)));
        }
        village_.tell(victim, Received{.from = Village::node(speaker), .message = said});
        village_.pass(20 * millisecond);
    }

    using Bytes = std::vector<std::uint8_t>;

    void edit(Bytes& bytes) {
        const auto at = static_cast<std::ptrdiff_t>(input_.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1));
        const auto put = [&](std::span<const std::uint8_t> what) {
            const std::size_t fits = std::min(what.size(), bytes.size() - static_cast<std::size_t>(at));
            std::copy_n(what.begin(), fits, bytes.begin() + at);
        };
        switch (input_.ConsumeIntegralInRange(0, 7)) {
            case 0:
                bytes[static_cast<std::size_t>(at)] = input_.ConsumeIntegral<std::uint8_t>();
                return;
            case 1:
                return put(some_name());
            case 2: {
                const NodeId node = some_node();
                return put(little_endian({node.high, node.low}));
            }
            case 3:
                return put(little_endian({input_.ConsumeIntegralInRange<std::uint64_t>(0, 20)}));
            case 4:
                return put(little_endian({input_.ConsumeIntegral<std::uint64_t>()}));
            case 5: {
                const Bytes& other = some_message()->bytes;
                const auto from = input_.ConsumeIntegralInRange<std::size_t>(0, other.size() - 1);
                const auto length = input_.ConsumeIntegralInRange<std::size_t>(1, other.size() - from);
                return put(std::span(other).subspan(from, length));
            }
            case 6: {
                const auto length = std::min<std::ptrdiff_t>(input_.ConsumeIntegralInRange<std::ptrdiff_t>(1, 256),
                                                             std::ssize(bytes) - at);
                bytes.erase(bytes.begin() + at, bytes.begin() + at + length);
                return;
            }
            default: {  // an element once more, with the count before it
                const auto length = std::min<std::ptrdiff_t>(input_.ConsumeIntegralInRange<std::ptrdiff_t>(1, 256),
                                                             std::ssize(bytes) - at);
                const Bytes element(bytes.begin() + at, bytes.begin() + at + length);
                bytes.insert(bytes.begin() + at, element.begin(), element.end());
                if (at >= 4) ++bytes[static_cast<std::size_t>(at) - 4];
            }
        }
    }

    static Bytes little_endian(std::initializer_list<std::uint64_t> numbers) {
        Bytes bytes;
        for (const std::uint64_t number : numbers)
            for (unsigned i = 0; i < 8; ++i) bytes.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
        return bytes;
    }

    // What is signed inside a message, and by the traitor's own hand.
    void sign_inside(Body& body) const {
        const PlainSigner signer(Village::node(traitor));
        const auto sign = [&](auto& inner) {
            if (inner.stamp.author.node != Village::node(traitor)) return;
            inner = std::get<std::decay_t<decltype(inner)>>(
                make_signed(inner, inner.stamp.author, inner.stamp.attempt, signer)->body);
        };
        if (auto* request = std::get_if<Request>(&body)) std::ranges::for_each(request->consents, sign);
        if (auto* history = std::get_if<History>(&body)) std::ranges::for_each(history->decisions, sign);
    }

    MemberId identity_of(unsigned number) {
        const Village::House& house = village_.house(number);
        return house.member ? house.member->id() : MemberId{.node = house.id, .incarnation = 1000};
    }
    MessagePtr some_message() { return pool_[input_.ConsumeIntegralInRange<std::size_t>(0, pool_.size() - 1)]; }
    NodeId some_node() {
        const unsigned number = input_.ConsumeIntegralInRange(0U, 4U);
        return number == 4 ? NodeId{} : Village::node(number);
    }
    Name some_name() {
        std::vector<Name> names = {Name{}, Village::institution(), sha256("run"), sha256("nothing")};
        for (const auto& [id, house] : village_.houses) {
            if (!house.member || !house.member->view()) continue;
            const View& view = *house.member->view();
            names.insert(names.end(), {view.name, view.parent, view.founder});
        }
        return names[input_.ConsumeIntegralInRange<std::size_t>(0, names.size() - 1)];
    }

    FuzzedDataProvider& input_;
    Village village_;
    std::deque<MessagePtr> pool_;
    std::size_t sent_ = 0;
    std::uint64_t epoch_ = 0;  // when everybody had settled
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::size_t before = __sanitizer_get_current_allocated_bytes();
    FuzzedDataProvider input(data, size);
    const Play play(input);
    CHAOS_ASSERT(__sanitizer_get_current_allocated_bytes() < before + max_village_bytes);
    return 0;
}

// Each scene, then some deeds of every kind.
std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    for (std::uint8_t scene = 0; scene <= 6; ++scene) {
        for (std::uint8_t turn = 0; turn < 4; ++turn) {
            Bytes seed;
            for (unsigned i = 0; i < 200; ++i) seed.push_back(static_cast<std::uint8_t>((i * 37 + turn * 101) ^ scene));
            // FuzzedDataProvider takes its numbers from the end.
            seed.push_back(scene);
            seed.push_back(turn % 2);
            seeds.push_back(seed);
        }
    }
    return seeds;
}
