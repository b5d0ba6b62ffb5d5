#include "loopback.h"

#include "net/admission.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace chaos::bench {
namespace {

constexpr std::uint64_t max_message_bytes = std::uint64_t{256} << 20;
constexpr net::UnixSeconds today = 1'800'000'000;

}  // namespace

LoopbackMember::LoopbackMember(unsigned number)
    : key_(key_of(number)), exchange_(loop_), links_(loop_, key_, credential_of(number), {}, *this, exchange_) {
    exchange_.connect(links_);
}

Result<void> LoopbackMember::admit(const net::Proven& peer) {
    cluster::View view;
    view.institutions = {{.root = numbered_institution().public_key()}};
    return net::admit(&view, peer, today);
}

Result<std::unique_ptr<LoopbackMembers>> LoopbackMembers::start(std::size_t count) {
    std::unique_ptr<LoopbackMembers> made(new LoopbackMembers);
    auto& members = made->members_;
    std::vector<std::string> addresses;
    for (std::size_t i = 0; i < count; ++i) {
        members.push_back(std::make_unique<LoopbackMember>(static_cast<unsigned>(i)));
        CHAOS_TRY(const auto where, members[i]->links_.listen("127.0.0.1:0"));
        addresses.push_back(net::to_text(where));
        for (std::size_t j = 0; j < i; ++j) members[i]->links_.dial(id_of(static_cast<unsigned>(j)), addresses[j]);
    }
    const auto all_linked = [&] {
        return std::ranges::all_of(members, [&](const auto& each) { return each->links_.peers().size() == count - 1; });
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!all_linked()) {
        if (std::chrono::steady_clock::now() > limit) return Error{"members of one process do not get linked"};
        for (const auto& each : members) each->loop_.poll();
    }
    return made;
}

// The others would wait for whoever has failed. Some may have ended by then, and be at the next generation.
void LoopbackMembers::tell_all(const std::string& why) {
    for (const auto& each : members_)
        boost::asio::post(each->loop_, [member = each.get(), generation = generation_, why] {
            if (member->generation_ == generation) member->exchange_.interrupt(why);
        });
}

Result<void> LoopbackMembers::together(const std::vector<std::size_t>& parents, const Work& work) {
    ++generation_;
    tensor::Group group{.generation = generation_,
                        .members = {},
                        .self = 0,
                        .parents = parents,
                        .max_message_bytes = max_message_bytes};
    for (std::size_t place = 0; place < count(); ++place) group.members.push_back(id_of(static_cast<unsigned>(place)));
    std::vector<Result<void>> results(count());
    std::atomic<std::size_t> done = 0;
    std::vector<std::jthread> threads;
    for (std::size_t place = 0; place < count(); ++place) {
        threads.emplace_back([&, place, mine = group]() mutable {
            LoopbackMember& member = *members_[place];
            mine.self = place;
            member.generation_ = generation_;
            member.exchange_.begin(std::move(mine));
            results[place] = work(place, member.exchange_);
            if (!results[place]) tell_all(results[place].error().message);
            ++done;
            // The others may still need what it sent.
            while (done < count()) member.loop_.run_one_for(std::chrono::milliseconds(1));
        });
    }
    threads.clear();
    for (const Result<void>& each : results) CHAOS_CHECK(each);
    return {};
}

}  // namespace chaos::bench
