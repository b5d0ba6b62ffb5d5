// Whole nodes on one loop: found again from their votes, take steps together, and go on when one of them dies.
#include "live/member.h"

#include "base/file.h"
#include "live/hermit.h"
#include "temporary_folder.h"
#include "toy_node/toy_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace chaos::toy {
namespace {

using net::asio::io_context;

class Village {
public:
    // Those from number `hidden` on cannot be dialled.
    explicit Village(unsigned count, unsigned hidden = ~0U, std::size_t floats = 50'000) {
        for (unsigned number = 0; number < count; ++number)
            cluster.addresses.push_back(number < hidden ? "127.0.0.1:" + std::to_string(free_port()) : "");
        cluster.floats = floats;
        cluster.speed = 10'000;
        for (unsigned number = 0; number < count; ++number) start(number);
    }

    void start(unsigned number) {
        nodes[number] = std::make_unique<ToyNode>(
            loop, cluster, number, folder(number),
            ToyEvents{.applied =
                          [this, number](std::uint64_t step, const cluster::Name& lineage) {
                              lineages[step][number] = lineage;
                              applied[number] = step + 1;
                          },
                      .note = [this, number](
                                  const std::string& text) { notes += std::to_string(number) + ": " + text + "\n"; },
                      .link_down = [](NodeId) {},
                      .adopted = [this, number](const cluster::ViewPtr& view) { views[number] = view; }});
        const auto started = nodes[number]->start();
        ASSERT_TRUE(started) << started.error().message;
    }

    [[nodiscard]] std::filesystem::path folder(unsigned number) const {
        const auto own = folder_.path() / std::to_string(number);
        std::filesystem::create_directories(own);
        return own;
    }

    bool wait(const std::function<bool()>& condition) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > limit) return false;
            loop.restart();
            loop.run_one_for(std::chrono::milliseconds(100));
        }
        return true;
    }

    // Everybody who is there has taken so many steps.
    bool reach(std::uint64_t steps) {
        return wait([&] {
            return std::ranges::all_of(nodes, [&](const auto& entry) { return applied[entry.first] >= steps; });
        });
    }

    // Whoever applied a step came to the same state by it, and every sum was right.
    void expect_agreement() {
        for (const auto& [step, by] : lineages)
            for (const auto& [number, lineage] : by) EXPECT_EQ(lineage, by.begin()->second) << "step " << step;
        for (const auto& [number, node] : nodes) EXPECT_EQ(node->learner().wrong(), 0U);
    }

    static std::uint16_t free_port() {
        io_context scratch;
        const net::tcp::acceptor acceptor(scratch, {net::asio::ip::address_v4::loopback(), 0});
        return acceptor.local_endpoint().port();
    }

    io_context loop{1};
    ToyCluster cluster;
    std::map<unsigned, std::unique_ptr<ToyNode>> nodes;
    std::map<unsigned, std::uint64_t> applied;
    std::map<unsigned, cluster::ViewPtr> views;
    std::map<std::uint64_t, std::map<unsigned, cluster::Name>> lineages;
    std::string notes;

private:
    test::TemporaryFolder folder_;
};

TEST(Member, TakesStepsWithOthers) {
    Village village(3);
    ASSERT_TRUE(village.reach(5)) << village.notes;
    village.expect_agreement();
}

TEST(Member, GoesOnWhenOneOfThemDies) {
    Village village(4);
    ASSERT_TRUE(village.reach(3)) << village.notes;
    const std::uint64_t before = village.applied[0];
    village.nodes.erase(2);
    ASSERT_TRUE(village.reach(before + 5)) << village.notes;
    EXPECT_EQ(village.views[0]->active_count(), 3U);
    village.expect_agreement();
}

TEST(Member, OneEndOfALinkThatCanBeDialledIsEnough) {
    Village village(3, 2);
    ASSERT_TRUE(village.reach(5)) << village.notes;
    EXPECT_EQ(village.views[0]->active_count(), 3U);
    village.expect_agreement();
}

// A contact may have dialled the newcomer first.
TEST(Member, JoinsByWhoeverThereIsALinkWith) {
    io_context loop{1};
    elastic::Hermit founder(loop);
    founder.member.found(elastic::batch, false);
    elastic::Hermit newcomer(loop);
    const auto linked = [&] {
        return founder.member.links().linked(newcomer.member.id()) &&
               newcomer.member.links().linked(founder.member.id());
    };
    founder.member.links().dial(newcomer.member.id(), newcomer.member.address());
    ASSERT_TRUE(founder.wait(linked));
    newcomer.member.join({founder.member.address()});
    EXPECT_TRUE(founder.wait([&] { return newcomer.let_in; })) << founder.notes << newcomer.notes;
}

// Its neighbours go on dialling a node that did not come about.
TEST(Member, AStartThatFailsLeavesNothingBehind) {
    Village village(3);
    ASSERT_TRUE(village.reach(1)) << village.notes;
    village.nodes.erase(2);
    const auto folder = village.folder(2);
    ToyNode failing(village.loop, village.cluster, 2, folder,
                    ToyEvents{.applied = [](std::uint64_t, const cluster::Name&) {},
                              .note = [](const std::string&) {},
                              .link_down = [](NodeId) {},
                              .adopted = [](const cluster::ViewPtr&) {}});
    ASSERT_TRUE(write_file_atomically(folder / "vote", "not a vote"));
    EXPECT_FALSE(failing.start());
    village.nodes[0]->member().links().dial(id_of(2), village.cluster.addresses[2]);
    ASSERT_TRUE(village.reach(village.applied[0] + 5)) << village.notes;
    EXPECT_FALSE(village.nodes[0]->member().links().linked(id_of(2)));
}

// It would go on with that run's members and its batch.
TEST(Member, AVoteInAnotherRunIsNotTakenUp) {
    Village village(1);
    ASSERT_TRUE(village.reach(1)) << village.notes;
    village.nodes.clear();
    for (const bool same : {false, true}) {
        elastic::Hermit other(village.loop);
        live::Options options;
        options.folder = village.folder(0);
        live::Member member(village.loop, bench::key_of(0), bench::credential_of(0), sha256(same ? "toy" : "another"),
                            options, other, other);
        const Result<void> started = member.start();
        EXPECT_THAT(started ? "" : started.error().message, testing::HasSubstr(same ? "" : "choose another folder"));
        EXPECT_EQ(started.ok(), same);
    }
}

// Real transfers tell; where there are none to speak of, a probe does.
TEST(Member, MeasuresItsLinks) {
    for (const std::size_t floats : {std::size_t{200'000}, std::size_t{100}}) {
        Village village(2, ~0U, floats);
        ASSERT_TRUE(village.reach(1)) << village.notes;
        ASSERT_TRUE(village.wait([&] {
            const net::LinkFigures figures = village.nodes[0]->member().links().figures(id_of(1));
            return figures.receive_bytes_per_s > 0 && figures.round_trips.mean().count() > 0;
        })) << floats;
    }
}

// A busy machine is no reason to accuse anybody.
TEST(Member, SuspectsNobodyWhileAllCoresAreBusy) {
    std::atomic<bool> over{false};
    std::vector<std::jthread> busy;
    for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
        busy.emplace_back([&over] {
            while (!over) {
            }
        });
    Village village(3);
    ASSERT_TRUE(village.reach(1)) << village.notes;
    const cluster::ViewPtr before = village.views[0];
    const auto begun = std::chrono::steady_clock::now();
    const bool passed = village.wait([&] {
        return std::chrono::steady_clock::now() > begun + 4 * std::chrono::nanoseconds(village.cluster.detect);
    });
    over = true;
    EXPECT_TRUE(passed);
    EXPECT_EQ(village.views[0], before) << village.notes;
}

}  // namespace
}  // namespace chaos::toy
