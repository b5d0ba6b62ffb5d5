#include "sim/donor.h"

#include <algorithm>

namespace chaos::sim {

using cluster::NodeId;

namespace {

constexpr std::size_t max_followers = 64;
constexpr std::size_t max_waiting = 256;
constexpr std::uint64_t small_bytes = 64;

BulkPtr bulk(BulkBody body, std::uint64_t bytes) {
    return std::make_shared<const Bulk>(Bulk{std::move(body), bytes});
}

}  // namespace

bool Donor::describe(std::uint64_t applied, Follow& follow) const {
    const Snapshot* state = store_.state_at(applied);
    if (state == nullptr) return false;
    follow.applied = applied;
    follow.lineage = state->lineage;
    follow.hashes = shard_hashes(store_.toy(), state->floats);
    if ((lies_ & lie_hashes) != 0) follow.hashes[applied % follow.hashes.size()] ^= 1;
    follow.root = root_of(follow.hashes);
    return true;
}

void Donor::on_ask(NodeId from, const ShardAsk& ask) {
    const Snapshot* state = store_.state_at(edge_.stable());
    if (state == nullptr || ask.shard >= store_.toy().shards) return;
    ShardData data{.sync = ask.sync,
                   .shard = ask.shard,
                   .applied = state->applied,
                   .lineage = state->lineage,
                   .floats = take_shard(store_.toy(), state->floats, ask.shard)};
    if ((lies_ & lie_shards) != 0) data.floats[0] += 1.0F;
    edge_.send(from, bulk(std::move(data), store_.toy().state_bytes / store_.toy().shards));
}

void Donor::on_ask(NodeId from, const FollowAsk& ask) {
    forget(from);
    Follow follow;
    follow.sync = ask.sync;
    if (followers_.size() == max_followers || !describe(edge_.stable(), follow)) return;
    followers_.push_back({from, ask.sync, follow.applied});
    edge_.send(from, bulk(std::move(follow), small_bytes));
}

void Donor::on_ask(NodeId from, const ResultAsk& ask) {
    const ResultPtr held = store_.result(ask.step);
    if (held != nullptr || ask.step < store_.applied()) {
        edge_.send(from, bulk(ResultReply{ask.step, held}, held ? store_.toy().result_bytes : small_bytes));
        return;
    }
    const std::pair entry{ask.step, from};
    if (waiting_.size() < max_waiting && std::find(waiting_.begin(), waiting_.end(), entry) == waiting_.end())
        waiting_.push_back(entry);
}

void Donor::applied(std::uint64_t step) {
    if (waiting_.empty()) return;
    const ResultPtr held = store_.result(step);
    for (const auto& [wanted, node] : waiting_)
        if (wanted == step) edge_.send(node, bulk(ResultReply{step, held}, store_.toy().result_bytes));
    std::erase_if(waiting_, [&](const auto& entry) { return entry.first <= step; });
}

void Donor::stable(std::uint64_t count) {
    for (Follower& follower : followers_) {
        while (follower.sent < count) {
            Follow follow;
            follow.sync = follower.sync;
            follow.result = store_.result(follower.sent);
            if (follow.result == nullptr || !describe(follower.sent + 1, follow)) {
                follower.sent = ~std::uint64_t{0};  // it fell too far behind, and asks again
                break;
            }
            ++follower.sent;
            edge_.send(follower.node, bulk(std::move(follow), store_.toy().result_bytes));
        }
    }
    std::erase_if(followers_, [](const Follower& f) { return f.sent == ~std::uint64_t{0}; });
}

void Donor::adopted(const cluster::View& view) {
    std::erase_if(followers_, [&](const Follower& f) {
        const cluster::MemberInfo* info = view.find(f.node);
        return info == nullptr || info->standing == cluster::Standing::active;
    });
}

void Donor::forget(NodeId peer) {
    std::erase_if(followers_, [&](const Follower& f) { return f.node == peer; });
    std::erase_if(waiting_, [&](const auto& entry) { return entry.second == peer; });
}

void Donor::clear() {
    followers_.clear();
    waiting_.clear();
}

}  // namespace chaos::sim
