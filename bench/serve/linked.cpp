#include "linked.h"

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

LinkedMember::LinkedMember(unsigned number)
    : key_(key_of(number)), exchange_(loop_), links_(loop_, key_, credential_of(number), {}, *this, exchange_) {
    exchange_.connect(links_);
}

Result<void> LinkedMember::admit(const net::Proven& peer) {
    cluster::View view;
    view.institutions = {{.root = numbered_institution().public_key()}};
    return net::admit(&view, peer, today);
}

Result<std::unique_ptr<LinkedMembers>> LinkedMembers::start(std::size_t count) {
    return start(std::vector<Home>(count, {.address = "127.0.0.1"}));
}

Result<std::unique_ptr<LinkedMembers>> LinkedMembers::start(const std::vector<Home>& homes) {
    std::unique_ptr<LinkedMembers> made(new LinkedMembers(homes));
    auto& members = made->members_;
    std::vector<std::string> addresses(homes.size());
    for (std::size_t place = 0; place < homes.size(); ++place)
        members.push_back(std::make_unique<LinkedMember>(static_cast<unsigned>(place)));
    CHAOS_CHECK(made->each_at_home([&](std::size_t place) -> Result<void> {
        CHAOS_TRY(const auto where, members[place]->links_.listen(homes[place].address + ":0"));
        addresses[place] = net::to_text(where);
        return {};
    }));
    std::atomic<std::size_t> linked = 0;
    CHAOS_CHECK(made->each_at_home([&](std::size_t place) -> Result<void> {
        LinkedMember& member = *members[place];
        for (std::size_t other = 0; other < place; ++other)
            member.links_.dial(id_of(static_cast<unsigned>(other)), addresses[other]);
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        bool counted = false;
        while (linked < homes.size()) {
            if (!counted && member.links_.peers().size() == homes.size() - 1) {
                counted = true;
                ++linked;
            }
            if (std::chrono::steady_clock::now() > limit) return Error{"members of one process do not get linked"};
            member.loop_.run_one_for(std::chrono::milliseconds(1));
        }
        return {};
    }));
    return made;
}

Result<void> LinkedMembers::each_at_home(const std::function<Result<void>(std::size_t place)>& work) {
    std::vector<Result<void>> results(homes_.size());
    std::vector<std::jthread> threads;
    for (std::size_t place = 0; place < homes_.size(); ++place)
        threads.emplace_back([&, place] {
            results[place] = testbed::enter(homes_[place].place);
            if (results[place]) results[place] = work(place);
        });
    threads.clear();
    for (const Result<void>& each : results) CHAOS_CHECK(each);
    return {};
}

// The others would wait for whoever has failed. Some may have ended by then, and be at the next generation.
void LinkedMembers::tell_all(const std::string& why) {
    for (const auto& each : members_)
        boost::asio::post(each->loop_, [member = each.get(), generation = generation_, why] {
            if (member->generation_ == generation) member->exchange_.interrupt(why);
        });
}

Result<void> LinkedMembers::together(const std::vector<std::size_t>& parents, const Work& work) {
    ++generation_;
    tensor::Group group{.generation = generation_,
                        .members = {},
                        .self = 0,
                        .parents = parents,
                        .max_message_bytes = max_message_bytes};
    for (std::size_t place = 0; place < count(); ++place) group.members.push_back(id_of(static_cast<unsigned>(place)));
    std::atomic<std::size_t> done = 0;
    return each_at_home([&](std::size_t place) {
        LinkedMember& member = *members_[place];
        tensor::Group mine = group;
        mine.self = place;
        member.generation_ = generation_;
        member.exchange_.begin(std::move(mine));
        Result<void> result = work(place, member.exchange_);
        if (!result) tell_all(result.error().message);
        ++done;
        // The others may still need what it sent.
        while (done < count()) member.loop_.run_one_for(std::chrono::milliseconds(1));
        return result;
    });
}

}  // namespace chaos::bench
