#include "tensor/exchange.h"

#include "base/assert.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace chaos::tensor {
namespace {

using Clock = std::chrono::steady_clock;

// So long a message is looked for before the thread sleeps, where messages usually come within that: waking it costs as
// much. Elsewhere looking would only keep others from computing.
constexpr std::chrono::microseconds spinning{200};
// Some times what it takes to fetch some weights.
constexpr std::chrono::microseconds long_wait{500};
constexpr double wait_gain = 0.125;
constexpr std::chrono::milliseconds longest_sleep{100};
// Messages of a member that may come before ours: two sums, the end of a pass, and the next sum.
constexpr std::uint64_t most_ahead = 4;

std::size_t frames_of(std::uint64_t bytes) {
    return static_cast<std::size_t>((bytes + net::max_bulk_bytes - 1) / net::max_bulk_bytes);
}

void put_number(std::vector<std::byte>& bytes, std::uint64_t number) {
    const auto* from = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), from, from + sizeof number);
}

// What each member has to say: a list of place | bytes, with their number.
void put_entry(std::vector<std::byte>& list, std::uint64_t place, std::span<const std::byte> bytes) {
    put_number(list, place);
    put_number(list, bytes.size());
    list.insert(list.end(), bytes.begin(), bytes.end());
}

// Takes a number, or as many bytes as a number says, off the front.
bool take_number(std::span<const std::byte>& bytes, std::uint64_t& number) {
    if (bytes.size() < sizeof number) return false;
    std::memcpy(&number, bytes.data(), sizeof number);
    bytes = bytes.subspan(sizeof number);
    return true;
}
bool take_bytes(std::span<const std::byte>& bytes, std::vector<std::byte>& taken) {
    std::uint64_t count = 0;
    if (!take_number(bytes, count) || count > bytes.size()) return false;
    taken.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    return true;
}

}  // namespace

// ---- messages

// Whoever sent it is not one to go on with.
Error LinkExchange::nonsense() {
    interrupt("a member sends what makes no sense");
    return Error{error_};
}

std::vector<NodeId> LinkExchange::others() const {
    std::vector<NodeId> result = group_.members;
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(group_.self));
    return result;
}

std::vector<NodeId> LinkExchange::children() const {
    std::vector<NodeId> result;
    for (std::size_t place = 0; place < group_.parents.size(); ++place)
        if (place != group_.self && group_.parents[place] == group_.self) result.push_back(group_.members[place]);
    return result;
}

void LinkExchange::begin(Group group) {
    CHAOS_ASSERT(group.self < group.members.size() &&
                 (group.parents.empty() || group.parents.size() == group.members.size()));
    bury(incoming_.end());
    group_ = std::move(group);
    error_.clear();
    number_ = 0;
    finished_ = 0;
    sums_.clear();
    told_.assign(group_.members.size(), {});
    attached_.assign(group_.members.size(), {});
    for (const NodeId peer : others()) links_->resume(peer);
}

void LinkExchange::interrupt(const std::string& why) {
    if (error_.empty()) error_ = why;
}

void LinkExchange::send(NodeId to, std::uint64_t number, Way way, const Bytes& bytes) {
    // A peer whose link is gone gets nothing; whoever hears of that interrupts us.
    for (std::size_t frame = 0; frame < frames_of(bytes->size()); ++frame) {
        const std::size_t first = frame * net::max_bulk_bytes;
        const std::size_t count = std::min<std::size_t>(net::max_bulk_bytes, bytes->size() - first);
        (void)links_->send_bulk(to,
                                {.kind = net::BulkKind::gradients,
                                 .bytes = static_cast<std::uint32_t>(count),
                                 .first = group_.generation,
                                 .second = number,
                                 .third = bytes->size(),
                                 .fourth = way,
                                 .fifth = static_cast<std::uint32_t>(frame)},
                                std::span(*bytes).subspan(first, count), net::any_lane, bytes);
    }
}

bool LinkExchange::is_waited_for(NodeId from, std::uint32_t way) const {
    const auto found = std::ranges::find(group_.members, from);
    const auto place = static_cast<std::size_t>(found - group_.members.begin());
    if (found == group_.members.end() || place == group_.self) return false;
    if (is_direct()) return way == up;
    if (way == up) return group_.parents[place] == group_.self;
    return way == down && group_.parents[group_.self] == place;
}

net::BulkReceiver::Place LinkExchange::place_for(NodeId from, const net::BulkHead& head) {
    if (head.first > group_.generation) return {.kind = Place::Kind::wait};
    const std::uint64_t first = std::uint64_t{head.fifth} * net::max_bulk_bytes;
    if (head.first < group_.generation || !error_.empty() || !is_waited_for(from, head.fourth) ||
        head.second <= finished_ || head.second > finished_ + most_ahead || head.third > group_.max_message_bytes ||
        first >= head.third || head.bytes != std::min<std::uint64_t>(net::max_bulk_bytes, head.third - first))
        return {.kind = Place::Kind::skip};
    Incoming& message = incoming_[{head.second, from, head.fourth}];
    if (message.memory == nullptr) {
        message.memory = std::make_unique_for_overwrite<std::byte[]>(head.third);
        message.bytes = {message.memory.get(), head.third};
        message.frames.resize(frames_of(head.third));
    }
    if (message.bytes.size() != head.third || message.frames[head.fifth]) return {.kind = Place::Kind::skip};
    message.frames[head.fifth] = true;
    ++message.being_read;
    return {.kind = Place::Kind::here, .at = message.bytes.subspan(first, head.bytes)};
}

LinkExchange::Incoming* LinkExchange::being_read(NodeId from, const net::BulkHead& head) {
    const auto found = incoming_.find({head.second, from, head.fourth});
    if (head.first != group_.generation || found == incoming_.end() || found->second.being_read == 0) return nullptr;
    return &found->second;
}

void LinkExchange::arrived(NodeId from, const net::BulkHead& head) {
    Incoming* message = being_read(from, head);
    if (message == nullptr) return let_go(from, head);
    --message->being_read;
    message->arrived += head.bytes;
}

void LinkExchange::dropped(NodeId from, const net::BulkHead& head) {
    Incoming* message = being_read(from, head);
    if (message == nullptr) return let_go(from, head);
    --message->being_read;
    message->frames[head.fifth] = false;
}

void LinkExchange::let_go(NodeId from, const net::BulkHead& head) {
    const auto found = buried_.find({head.first, {head.second, from, head.fourth}});
    if (found != buried_.end() && --found->second.being_read == 0) buried_.erase(found);
}

void LinkExchange::bury(std::map<Key, Incoming>::iterator end) {
    for (auto each = incoming_.begin(); each != end; ++each)
        if (each->second.being_read > 0)
            buried_.emplace(std::pair(group_.generation, each->first), std::move(each->second));
    incoming_.erase(incoming_.begin(), end);
}

std::optional<std::span<const std::byte>> LinkExchange::here(std::uint64_t number, NodeId from, Way way) const {
    const auto found = incoming_.find({number, from, way});
    const bool whole = found != incoming_.end() && found->second.arrived == found->second.bytes.size();
    return whole ? std::optional<std::span<const std::byte>>(found->second.bytes) : std::nullopt;
}

bool LinkExchange::all_here(std::uint64_t number, std::span<const NodeId> from) const {
    return std::all_of(from.begin(), from.end(), [&](NodeId each) { return here(number, each, up).has_value(); });
}

// It is over: what came of it, and of those before, is not needed any more.
void LinkExchange::forget(std::uint64_t number) {
    finished_ = number;
    bury(incoming_.lower_bound({number + 1, {}, up}));
}

// Runs the loop until it is done: looking for what comes at first, then asleep.
template <class Done>
Result<void> LinkExchange::wait(const Done& done) {
    const auto began = Clock::now();
    auto now = began;
    while (error_.empty() && !done()) {
        if (loop_.stopped()) return Error{"the node ends"};
        if (now - began < spinning && usual_wait_s_ < std::chrono::duration<double>(spinning).count())
            loop_.poll();
        else
            loop_.run_one_for(longest_sleep);
        now = Clock::now();
    }
    const double waited = std::chrono::duration<double>(now - began).count();
    waited_s_ += waited;
    usual_wait_s_ += wait_gain * (waited - usual_wait_s_);
    if (!error_.empty()) return Error{error_};
    return {};
}

// ---- sums

void LinkExchange::meanwhile(const std::function<void()>& work) {
    if (usual_wait_s_ < std::chrono::duration<double>(long_wait).count()) return;
    const auto began = Clock::now();
    work();
    waited_s_ += std::chrono::duration<double>(Clock::now() - began).count();
}

// A message is the sums, and, with the last ones, a list of what was attached.
LinkExchange::Bytes LinkExchange::message_of(const Sum& sum) {
    const std::span<const std::byte> sums = std::as_bytes(sum.ours);
    std::vector<std::byte> bytes;
    bytes.reserve(sums.size() + sum.attached.size());
    bytes.insert(bytes.end(), sums.begin(), sums.end());
    bytes.insert(bytes.end(), sum.attached.begin(), sum.attached.end());
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

Result<std::span<const std::byte>> LinkExchange::attached_to(const Sum& sum, std::span<const std::byte> message) {
    const std::size_t sums = sum.ours.size_bytes();
    if (message.size() < sums || (!sum.last && message.size() > sums)) return nonsense();
    return message.subspan(sums);
}

Result<void> LinkExchange::begin_sum(std::span<std::int64_t> sums, bool last) {
    if (!error_.empty()) return Error{error_};
    Sum& sum = sums_.emplace_back(Sum{.number = ++number_, .ours = sums, .last = last, .attached = {}, .told = false});
    if (last && attachment_)
        if (const auto attachment = attachment_(); !attachment.empty())
            put_entry(sum.attached, group_.self, attachment);
    if (group_.members.size() == 1) return {};
    if (!is_direct()) return advance(sum);
    const Bytes message = message_of(sum);
    for (const NodeId peer : others()) send(peer, number_, up, message);
    return {};
}

Result<void> LinkExchange::add(Sum& sum, std::span<const NodeId> from) {
    for (const NodeId peer : from) {
        const std::span<const std::byte> theirs = *here(sum.number, peer, up);
        CHAOS_TRY(const auto attached, attached_to(sum, theirs));
        sum.attached.insert(sum.attached.end(), attached.begin(), attached.end());
        const auto* values = reinterpret_cast<const std::int64_t*>(theirs.data());
        for (std::size_t i = 0; i < sum.ours.size(); ++i)
            sum.ours[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum.ours[i]) +
                                                    static_cast<std::uint64_t>(values[i]));
    }
    return {};
}

// Of a tree: once the children's sums are here, they go up with ours; what the root has comes down.
Result<void> LinkExchange::advance(Sum& sum) {
    const std::vector<NodeId> below = children();
    if (!sum.told && all_here(sum.number, below)) {
        CHAOS_CHECK(add(sum, below));
        const Bytes message = message_of(sum);
        if (!is_root()) send(parent(), sum.number, up, message);
        if (is_root())
            for (const NodeId child : below) send(child, sum.number, down, message);
        sum.told = true;
    }
    return {};
}

bool LinkExchange::is_complete(const Sum& sum) const {
    if (is_direct()) return all_here(sum.number, others());
    return is_root() ? sum.told : here(sum.number, parent(), down).has_value();
}

Result<void> LinkExchange::end_sum() {
    CHAOS_ASSERT(!sums_.empty());
    Sum& sum = sums_.front();
    Result<void> advanced;
    CHAOS_CHECK(wait([&] {
        if (!is_direct())
            for (Sum& each : sums_)
                if (advanced) advanced = advance(each);
        return !advanced || is_complete(sum);
    }));
    if (!advanced) return advanced;
    if (is_direct()) {
        CHAOS_CHECK(add(sum, others()));
    } else if (!is_root()) {
        const std::span<const std::byte> all = *here(sum.number, parent(), down);
        CHAOS_TRY(const auto attached, attached_to(sum, all));
        sum.attached.assign(attached.begin(), attached.end());
        std::memcpy(sum.ours.data(), all.data(), sum.ours.size_bytes());
        const Bytes message = std::make_shared<const std::vector<std::byte>>(all.begin(), all.end());
        for (const NodeId child : children()) send(child, sum.number, down, message);
    }
    if (sum.last) {
        attached_.assign(group_.members.size(), {});
        CHAOS_CHECK(take_list(sum.attached, attached_));
    }
    forget(sum.number);
    sums_.pop_front();
    return {};
}

// ---- the end of a pass

Result<void> LinkExchange::take_list(std::span<const std::byte> list, std::vector<std::vector<std::byte>>& into) {
    while (!list.empty()) {
        std::uint64_t place = 0;
        if (!take_number(list, place) || place >= into.size() || !take_bytes(list, into[place])) return nonsense();
    }
    return {};
}

Result<std::span<const std::vector<std::byte>>> LinkExchange::collect(std::vector<std::byte> ours) {
    if (!error_.empty()) return Error{error_};
    CHAOS_ASSERT(sums_.empty());
    std::vector<std::byte> list;
    put_entry(list, group_.self, ours);
    ++number_;
    if (is_direct())
        CHAOS_CHECK(collect_directly(std::make_shared<const std::vector<std::byte>>(std::move(list))));
    else
        CHAOS_CHECK(collect_by_tree(std::move(list)));
    forget(number_);
    return std::span<const std::vector<std::byte>>(told_);
}

Result<void> LinkExchange::collect_directly(const Bytes& ours) {
    for (const NodeId peer : others()) send(peer, number_, up, ours);
    CHAOS_CHECK(wait([&] { return all_here(number_, others()); }));
    CHAOS_CHECK(take_list(*ours, told_));
    for (const NodeId peer : others()) CHAOS_CHECK(take_list(*here(number_, peer, up), told_));
    return {};
}

Result<void> LinkExchange::collect_by_tree(std::vector<std::byte> ours) {
    const std::vector<NodeId> below = children();
    CHAOS_CHECK(wait([&] { return all_here(number_, below); }));
    for (const NodeId child : below) {
        const std::span<const std::byte> theirs = *here(number_, child, up);
        ours.insert(ours.end(), theirs.begin(), theirs.end());
    }
    if (!is_root()) {
        send(parent(), number_, up, std::make_shared<const std::vector<std::byte>>(std::move(ours)));
        CHAOS_CHECK(wait([&] { return here(number_, parent(), down).has_value(); }));
        const std::span<const std::byte> theirs = *here(number_, parent(), down);
        ours.assign(theirs.begin(), theirs.end());
    }
    const Bytes all = std::make_shared<const std::vector<std::byte>>(std::move(ours));
    for (const NodeId child : below) send(child, number_, down, all);
    return take_list(*all, told_);
}

}  // namespace chaos::tensor
