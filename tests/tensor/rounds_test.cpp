// Rounds among neighbours that the test plays, some of which say what is not so.
#include "tensor/rounds.h"

#include "tensor/wire.h"

#include <gtest/gtest.h>

namespace chaos::tensor {
namespace {

const NodeId self{1, 0};
const NodeId other{2, 0};
const NodeId third{3, 0};
const NodeId fourth{4, 0};
const NodeId stranger{9, 0};
constexpr std::uint64_t never = std::uint64_t{1} << 63;

// All are active but `syncing`.
ViewPtr view_of(const std::vector<NodeId>& nodes, std::optional<NodeId> syncing = std::nullopt) {
    auto view = std::make_shared<cluster::View>();
    view->epoch = 1;
    for (const NodeId node : nodes) {
        cluster::MemberInfo member;
        member.id.node = node;
        member.standing = node == syncing ? cluster::Standing::syncing : cluster::Standing::active;
        view->members.push_back(member);
    }
    cluster::complete(*view);
    return view;
}

wire::Round round(std::uint64_t step, const std::vector<NodeId>& done) {
    wire::Round message;
    message.set_epoch(1);
    message.set_step(step);
    for (const NodeId node : done) *message.add_done() = to_wire(node);
    return message;
}

class Neighbours : public testing::Test {
protected:
    // Until this node has said what it is done with.
    wire::Round next_told() {
        told_.clear();
        while (told_.empty()) loop_.run_one();
        return told_.back();
    }
    using Steps = std::vector<std::uint64_t>;

    boost::asio::io_context loop_{1};
    std::vector<wire::Round> told_;
    Steps applied_, synced_;
    Rounds rounds_{loop_,
                   self,
                   {.tell = [this](const wire::Round& message) { told_.push_back(message); },
                    .applied = [this](std::uint64_t step) { applied_.push_back(step); },
                    .synced = [this](std::uint64_t applied) { synced_.push_back(applied); }}};
};

TEST_F(Neighbours, AreDoneTogether) {
    const ViewPtr view = view_of({self, other});
    rounds_.adopted(view);
    rounds_.start_step(5, view);
    (void)next_told();
    EXPECT_TRUE(applied_.empty());
    rounds_.received(other, round(5, {other}));
    EXPECT_EQ(applied_, Steps{5});
    // Somebody saw the end of it.
    rounds_.start_step(6, view);
    (void)next_told();
    rounds_.received(other, round(7, {}));
    EXPECT_EQ(applied_, (Steps{5, 6}));
}

TEST_F(Neighbours, AreNotBelievedWhatCannotBe) {
    const ViewPtr view = view_of({self, other});
    rounds_.adopted(view);
    for (const std::uint64_t step : {5U, 6U}) {
        rounds_.start_step(step, view);
        rounds_.received(other, round(never, {other}));
        rounds_.received(stranger, round(step + 1, {other}));
        rounds_.received(stranger, round(step, {other}));
        rounds_.received(other, round(step, {stranger}));
        EXPECT_EQ(next_told().done_size(), 1);
        EXPECT_EQ(applied_.size(), step - 5) << "step " << step;
        rounds_.received(other, round(step, {other}));
        EXPECT_EQ(applied_.size(), step - 4);
    }
}

// It is a member of the view that the round belongs to, and of none after it.
TEST_F(Neighbours, AreHeardUntilTheirLastRound) {
    const ViewPtr view = view_of({self, other});
    rounds_.start_step(5, view);
    rounds_.adopted(view_of({self}));
    (void)next_told();
    rounds_.received(other, round(5, {other}));
    EXPECT_EQ(applied_, Steps{5});
}

TEST_F(Neighbours, MayBeAnywhereWhereTheyGoOnWithoutIt) {
    rounds_.start_step(5, view_of({self, other}));
    rounds_.adopted(view_of({other}));
    (void)next_told();
    rounds_.received(other, round(50, {other}));
    EXPECT_EQ(applied_, Steps{5});
}

TEST_F(Neighbours, DoNotLeadANewcomerAstray) {
    rounds_.adopted(view_of({self, other, third, fourth}, self));
    rounds_.begin_sync();
    rounds_.received(other, round(never, {}));
    rounds_.received(stranger, round(never, {}));
    rounds_.received(third, round(41, {}));
    EXPECT_TRUE(synced_.empty());
    rounds_.received(fourth, round(42, {}));
    EXPECT_EQ(synced_, Steps{42});
    rounds_.adopted(view_of({self, other, third, fourth}));
    rounds_.activated(45);
    EXPECT_TRUE(applied_.empty());
    rounds_.received(third, round(44, {}));
    EXPECT_EQ(applied_, (Steps{42, 43}));
    rounds_.received(fourth, round(45, {}));
    EXPECT_EQ(applied_, (Steps{42, 43, 44}));
}

// Not all have a link with it.
TEST_F(Neighbours, TellANewcomerWhereTheyAre) {
    rounds_.adopted(view_of({self, other, third}, self));
    rounds_.begin_sync();
    while (synced_.empty()) rounds_.received(other, round(7, {}));
    EXPECT_EQ(synced_, Steps{7});
}

}  // namespace
}  // namespace chaos::tensor
