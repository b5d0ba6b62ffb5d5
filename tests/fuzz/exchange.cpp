// The collective engine of one member, with exchanges that run: chunks of any name and content from anybody, in any
// order, whole or cut off, while peers are lost and come back. Places that were given stay valid, every exchange ends
// once at most, and memory stays within what the schedule says.
#include "collective/engine.h"
#include "fuzz/seeds.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <set>

namespace {

using namespace chaos;
using namespace chaos::collective;

constexpr std::size_t max_deeds = 400;
constexpr std::size_t max_open = 16;  // places given and not yet filled: so many connections

// Chunks that leave: the last few are kept as the network would.
struct Wires final : Transport {
    void send(NodeId, const ChunkHeader& header, std::span<const std::byte> payload,
              std::shared_ptr<const void> owner) override {
        CHAOS_ASSERT(header.bytes == payload.size());
        waiting.push_back({payload, std::move(owner)});
        if (waiting.size() <= 8) return;
        for (const std::byte byte : waiting.front().payload) read = read + std::to_integer<unsigned>(byte);
        waiting.pop_front();
    }
    void resume(NodeId) override {}
    void cancel(ExchangeId) override {}

    struct Waiting {
        std::span<const std::byte> payload;
        std::shared_ptr<const void> owner;
    };
    std::deque<Waiting> waiting;
    unsigned read = 0;
};

struct Open {
    NodeId from;
    ChunkHeader header;
    std::span<std::byte> bytes;
};

class Play {
public:
    explicit Play(FuzzedDataProvider& input) : input_(input) {
        const auto count = input_.ConsumeIntegralInRange<std::uint32_t>(1, 5);
        for (std::uint32_t i = 0; i < count; ++i) members_.push_back({.high = (i * 7 + 3) % 5, .low = i});
        self_ = members_[input_.ConsumeIntegralInRange<std::size_t>(0, members_.size() - 1)];
        begin();
        for (std::size_t deed = 0; deed < max_deeds && input_.remaining_bytes() > 0; ++deed) act();
        while (!open_.empty()) close(0, input_.ConsumeBool());
    }

private:
    std::shared_ptr<const Schedule> some_schedule() {
        plan::SyncPlan plan;
        plan.hash = input_.ConsumeIntegralInRange(0, 1);
        std::uint64_t at = 0;
        const auto trees = input_.ConsumeIntegralInRange(1, 3);
        for (int i = 0; i < trees; ++i) {
            plan::SyncTree& tree = plan.trees.emplace_back();
            tree.first_byte = at;
            tree.bytes = 4 * input_.ConsumeIntegralInRange<std::uint64_t>(1, 500);
            at += tree.bytes;
            const auto root = input_.ConsumeIntegralInRange<std::uint32_t>(0, count() - 1);
            const auto relay = input_.ConsumeIntegralInRange<std::uint32_t>(0, count() - 1);
            tree.parent.assign(count(), relay);
            tree.parent[relay] = root;
            tree.parent[root] = root;
        }
        const ScheduleOptions options{
            .view = 1,
            .encoding = input_.PickValueInArray({Encoding::fp32, Encoding::fp16, Encoding::bf16, Encoding::int8}),
            .chunk_bytes = 512,
            .window_chunks = input_.ConsumeIntegralInRange<std::uint32_t>(1, 4)};
        Result<Schedule> schedule = make_schedule(plan, members_, self_, options);
        CHAOS_ASSERT(schedule);
        return std::make_shared<const Schedule>(std::move(*schedule));
    }

    void begin() {
        const std::shared_ptr<const Schedule> schedule = some_schedule();
        ExchangeId id = id_;
        if (input_.ConsumeBool()) ++id.epoch;
        ++id.step;
        auto floats = std::make_shared<std::vector<float>>(3 * schedule->floats, 0.5F);
        const std::span<float> all(*floats);
        const Result<void> begun = engine_.begin(id, schedule,
                                                 {.input = all.first(schedule->floats),
                                                  .output = all.subspan(schedule->floats, schedule->floats),
                                                  .residual = all.last(schedule->floats),
                                                  .owner = floats});
        if (!begun) return;
        id_ = id;
        schedule_ = schedule;
        most_bytes_ = std::max(most_bytes_, schedule->result_bytes + schedule->max_staging_bytes());
    }

    void act() {
        switch (input_.ConsumeIntegralInRange(0, 15)) {
            case 0:
                return begin();
            case 1:
                return engine_.peer_lost(some_node());
            case 2:
                return engine_.peer_back(some_node());
            case 3:
                return engine_.abandon();
            case 4:
                (void)engine_.result(id_);
                return wires_.waiting.clear();
            case 5:
            case 6:
                if (!open_.empty()) close(input_.ConsumeIntegralInRange<std::size_t>(0, open_.size() - 1), false);
                return;
            case 7:
            case 8:
            case 9:
                if (!open_.empty()) close(input_.ConsumeIntegralInRange<std::size_t>(0, open_.size() - 1), true);
                return;
            default:
                return chunk();
        }
    }

    // A chunk that may well be awaited, unless the input spoils it.
    void chunk() {
        ChunkHeader header{.exchange = id_, .plan = schedule_->hash};
        header.tree = input_.ConsumeIntegralInRange<std::uint32_t>(0, static_cast<std::uint32_t>(trees()) - 1);
        const Branch& branch = schedule_->branches[header.tree];
        header.chunk = input_.ConsumeIntegralInRange<std::uint32_t>(0, branch.chunks - 1);
        header.bytes = static_cast<std::uint32_t>(schedule_->bytes_of(header.tree, header.chunk).count);
        header.down = input_.ConsumeBool();
        NodeId from = header.down && branch.parent ? *branch.parent : some_node();
        switch (input_.ConsumeIntegralInRange(0, 15)) {
            case 0:
                from = some_node();
                break;
            case 1:
                header.tree = input_.ConsumeIntegral<std::uint32_t>();
                break;
            case 2:
                header.chunk = input_.ConsumeIntegral<std::uint32_t>();
                break;
            case 3:
                header.bytes = input_.ConsumeIntegral<std::uint32_t>();
                break;
            case 4:
                header.plan = input_.ConsumeIntegral<std::uint64_t>();
                break;
            case 5:
                header.exchange.epoch += input_.ConsumeIntegral<std::uint64_t>();
                break;
            case 6:
                header.exchange.step += input_.ConsumeIntegral<std::uint64_t>();
                break;
            default:
                break;
        }
        const Place place = engine_.place_for(from, header);
        check_memory();
        if (place.verdict != Place::Verdict::take) return;
        CHAOS_ASSERT(place.bytes.size() == header.bytes);
        open_.push_back({from, header, place.bytes});
        if (open_.size() > max_open || input_.ConsumeBool()) close(open_.size() - 1, true);
    }

    void close(std::size_t index, bool whole) {
        const Open ended = open_[index];
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
        const auto filling = input_.ConsumeIntegral<std::uint8_t>();
        const std::size_t length = whole ? ended.bytes.size() : ended.bytes.size() / 2;
        std::ranges::fill(ended.bytes.first(length), std::byte{filling});
        if (whole) {
            engine_.arrived(ended.from, ended.header);
        } else {
            engine_.dropped(ended.from, ended.header);
        }
        check_memory();
    }

    void check_memory() const {
        const std::uint64_t exchanges = Engine::max_running + 1 + open_.size() + wires_.waiting.size();
        CHAOS_ASSERT(engine_.pool().used_bytes() <= exchanges * (most_bytes_ + 4096));
    }

    NodeId some_node() {
        const auto index = input_.ConsumeIntegralInRange<std::size_t>(0, members_.size());
        return index == members_.size() ? NodeId{.high = 99, .low = 99} : members_[index];
    }
    [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(members_.size()); }
    [[nodiscard]] std::size_t trees() const { return schedule_->branches.size(); }

    FuzzedDataProvider& input_;
    std::vector<NodeId> members_;
    NodeId self_;
    Wires wires_;
    std::set<ExchangeId> ended_;
    Engine engine_{wires_,
                   {.ended = [this](ExchangeId id, const Outcome&) { CHAOS_ASSERT(ended_.insert(id).second); },
                    .refused = [](const Refusal& refusal) { (void)say(refusal); }}};
    ExchangeId id_{.epoch = 1, .step = 0};
    std::shared_ptr<const Schedule> schedule_;
    std::uint64_t most_bytes_ = 0;
    std::vector<Open> open_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    FuzzedDataProvider input(data, size);
    const Play play(input);
    return 0;
}

// Deeds of every kind. Numbers are taken from the end.
std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    for (unsigned turn = 0; turn < 16; ++turn) {
        Bytes seed;
        for (unsigned i = 0; i < 600; ++i) seed.push_back(static_cast<std::uint8_t>(i * (2 * turn + 1) * 29 + turn));
        seeds.push_back(seed);
    }
    return seeds;
}
