// Whole members that train together: one founds, others join while it trains, leave, and die.
#include "elastic/participant.h"

#include "elastic/clan.h"

#include <boost/asio/post.hpp>

#include <atomic>
#include <limits>
#include <random>
#include <utility>

namespace chaos::elastic {
namespace {

using std::chrono::microseconds;

toy::ToyModel slow_model() {
    return {.parameters = 400'000, .buffers = 8, .per_sample = microseconds(1000), .before = [] {}};
}

TEST(Participant, TrainsAlone) {
    Clan clan({}, 30);
    Relative& node = clan.found(0);
    ASSERT_TRUE(clan.wait([&] { return node.has_finished; })) << clan.log;
    EXPECT_EQ(node.losses.size(), 30U);
    EXPECT_LT(node.losses.at(29), node.losses.at(0));
    EXPECT_EQ(node.saved_steps, (std::vector<std::uint64_t>{10, 20, 30}));

    // With the bits of a trainer that knows nothing of clusters.
    Trainer alone = Relative::open(clan.run, clan.model);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(alone.step());
    const auto memory = alone.engine().arena().all();
    EXPECT_TRUE(std::ranges::equal(memory, node.memory()));
    clan.expect_sound();
}

TEST(Participant, JoinsWhileTheOthersTrain) {
    Clan clan(slow_model(), 250);
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    Relative& second = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return second.trains(); })) << clan.log;
    EXPECT_GT(*second.synced_at, 0U);
    clan.expect_one_line();
    Relative& third = clan.join(2, {1});
    ASSERT_TRUE(clan.wait([&] { return third.trains(); })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

TEST(LongParticipant, SurvivesTheDeathOfOneOfThreeTwentyTimes) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Clan clan({.parameters = 60'000, .buffers = 8, .per_sample = microseconds(600), .before = [] {}}, 4000);
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    for (unsigned round = 0; round < 20; ++round) {
        ASSERT_TRUE(clan.all_reach(clan.most_steps() + random() % 3)) << clan.log;
        const auto turns = random() % 400;
        std::uint64_t turned = 0;
        ASSERT_TRUE(clan.wait([&] { return turned++ == turns; }));
        clan.kill(std::next(clan.nodes.begin(), static_cast<long>(random() % 3))->first);
        ASSERT_TRUE(clan.all_reach(clan.most_steps() + 3)) << clan.log;
        clan.expect_one_line();
        Relative& next = clan.join(3 + round, {clan.nodes.begin()->first});
        ASSERT_TRUE(clan.wait([&] { return next.trains(); })) << clan.log;
    }
    ASSERT_LT(clan.most_steps(), 3900U);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_sound();
}

// Everybody waits for the newcomer when somebody else dies.
TEST(LongParticipant, OneDiesWhileAnotherIsLetIn) {
    Clan clan({.parameters = 60'000, .buffers = 8, .per_sample = microseconds(1000), .before = [] {}}, 2000);
    ASSERT_TRUE(clan.gather(2)) << clan.log;
    for (unsigned round = 0; round < 10; ++round) {
        const unsigned oldest = clan.nodes.begin()->first;
        const unsigned second = clan.nodes.rbegin()->first;
        Relative& next = clan.join(2 + round, {oldest, second});
        ASSERT_TRUE(clan.wait([&] { return next.first && next.steps + round % 3 >= *next.first; })) << clan.log;
        clan.kill(round % 2 == 0 ? second : oldest);
        ASSERT_TRUE(clan.wait([&] { return next.trains(); })) << clan.log;
        clan.expect_one_line();
    }
    ASSERT_LT(clan.most_steps(), 1950U);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_sound();
}

TEST(Participant, LeavesWithoutLosingAStep) {
    Clan clan(slow_model(), 300);
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    clan.nodes[1]->participant->member().tell(cluster::LeaveCommand{});
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[1]->has_left; })) << clan.log;
    clan.kill(1);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    // Nothing had to be settled.
    for (const auto& [number, node] : clan.nodes) EXPECT_FALSE(node->view->settlement) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// It has yet to follow to the step that it was let in for, and takes part in that.
TEST(LongParticipant, LeavesAsSoonAsItIsLetIn) {
    Clan clan(slow_model(), 500);
    ASSERT_TRUE(clan.gather(2)) << clan.log;
    for (unsigned round = 0; round < 5; ++round) {
        Relative& next = clan.join(2 + round, {0, 1});
        ASSERT_TRUE(clan.wait([&] { return next.first.has_value(); })) << clan.log;
        next.participant->member().tell(cluster::LeaveCommand{});
        ASSERT_TRUE(clan.wait([&] { return next.has_left; })) << clan.log;
        clan.kill(2 + round);
    }
    ASSERT_LT(clan.most_steps(), 450U);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// It has yet to follow to the step that it was let in for: who leaves gives until then.
TEST(Participant, TheOnlyDonorLeavesAsSoonAsANewcomerIsLetIn) {
    Clan clan(slow_model(), 300);
    ASSERT_TRUE(clan.gather(1)) << clan.log;
    for (unsigned round = 0; round < 3; ++round) {
        Relative& next = clan.join(1 + round, {round});
        ASSERT_TRUE(clan.wait([&] { return next.first.has_value(); })) << clan.log;
        clan.nodes[round]->participant->member().tell(cluster::LeaveCommand{});
        ASSERT_TRUE(clan.wait([&] { return clan.nodes[round]->has_left; })) << clan.log;
        clan.kill(round);
        EXPECT_FALSE(next.view->settlement) << clan.log;
    }
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

TEST(LongParticipant, SeveralJoinAtOnceSomeByOnesThatJoinThemselves) {
    Clan clan(slow_model(), 250);
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    clan.join(1, {0});
    clan.join(2, {0});
    clan.join(3, {1});
    clan.join(4, {3});
    ASSERT_TRUE(clan.wait([&] {
        return std::ranges::all_of(clan.nodes,
                                   [](const auto& node) { return node.first == 0 || node.second->trains(); });
    })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// ---- joins that are disturbed

constexpr double state_bytes = 1'200'000 * 3.0 * sizeof(float);

// Its steps are slow enough for links that are slow.
toy::ToyModel large_model() {
    return {.parameters = 1'200'000, .buffers = 8, .per_sample = microseconds(30'000), .before = [] {}};
}

// Three train; a fourth has some of the state, and not all of it.
void begin_slow_join(Clan& clan) {
    clan.options.links.max_send_bytes_per_s = 32 << 20;
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    const Relative& joiner = clan.join(3, {0, 1, 2});
    ASSERT_TRUE(clan.wait([&] { return joiner.participant->joiner().progress().shards > 10; })) << clan.log;
    ASSERT_FALSE(joiner.synced_at) << clan.log;
}

TEST(Participant, JoinsAlthoughADonorDies) {
    Clan clan(large_model(), 60);
    begin_slow_join(clan);
    if (HasFatalFailure()) return;
    clan.kill(1);
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[3]->trains(); })) << clan.log;
    EXPECT_LE(static_cast<double>(clan.nodes[3]->pulled.shard_bytes), 1.05 * state_bytes) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

TEST(LongParticipant, JoinsAlthoughADonorFreezes) {
    Clan clan(large_model(), 100);
    begin_slow_join(clan);
    if (HasFatalFailure()) return;
    clan.nodes[1]->is_frozen = true;
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[3]->trains(); })) << clan.log;
    EXPECT_LE(static_cast<double>(clan.nodes[3]->pulled.shard_bytes), 1.05 * state_bytes) << clan.log;
    clan.nodes[1]->is_frozen = false;
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[1]->joins == 2 && clan.nodes[1]->trains(); })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// Results of it travel in three parts, and slower than they are made.
toy::ToyModel model_of_three_parts() {
    return {.parameters = 5'000'000, .buffers = 8, .per_sample = microseconds(80'000), .before = [] {}};
}

void begin_join_of_three_parts(Clan& clan) {
    clan.options.links.max_send_bytes_per_s = 24 << 20;
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(1)) << clan.log;
    const Relative& newcomer = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return newcomer.first.has_value(); })) << clan.log;
}

// It follows when it is already one of those who keep checkpoints.
TEST(Participant, WhoIsLetInAndFollowsSavesWholeStatesOnly) {
    Clan clan(model_of_three_parts(), 1000);
    clan.run.train.checkpoint_every = 1;
    clan.run.train.keep_checkpoints = 1000;
    begin_join_of_three_parts(clan);
    if (HasFatalFailure()) return;
    Relative& newcomer = *clan.nodes[1];
    ASSERT_TRUE(clan.wait([&] { return newcomer.steps > *newcomer.first; })) << clan.log;
    const auto kept = state::CheckpointFolder{clan.home(1).folder / "checkpoints"}.steps();
    ASSERT_TRUE(kept) << kept.error().message;
    // Up to there the other one trained alone.
    toy::ToyModel quick = clan.model;
    quick.per_sample = {};
    Trainer alone = Relative::open(clan.run, quick);
    unsigned compared = 0;
    for (std::uint64_t step = 1; step <= *newcomer.first; ++step) {
        ASSERT_TRUE(alone.step());
        if (std::ranges::find(*kept, step) == kept->end()) continue;
        Trainer saved = Relative::open(clan.run, quick);
        ASSERT_TRUE(saved.resume(state::CheckpointFolder{clan.home(1).folder / "checkpoints"}.path_of(step)));
        EXPECT_EQ(saved.shards().hashes(saved.engine().arena()), alone.shards().hashes(alone.engine().arena())) << step;
        ++compared;
    }
    EXPECT_GT(compared, 0U) << clan.log;
}

// Some of the result that it lacks next is here, and the rest will never come.
TEST(Participant, WhoIsLetInAndFollowsTakesOverWhenTheLastTrainerDies) {
    Clan clan(model_of_three_parts(), 1000);
    clan.options.core.fork_after = cluster::second;
    begin_join_of_three_parts(clan);
    if (HasFatalFailure()) return;
    Relative& newcomer = *clan.nodes[1];
    const std::uint64_t whole = clan.model.parameters * sizeof(float);
    const auto of_next = [&] {
        const std::uint64_t bytes = newcomer.participant->joiner().progress().result_bytes;
        return (bytes - std::min(bytes, newcomer.pulled.result_bytes)) % whole;
    };
    ASSERT_TRUE(clan.wait([&] { return newcomer.steps == *newcomer.first || of_next() > whole / 8; })) << clan.log;
    ASSERT_LT(newcomer.steps, *newcomer.first) << clan.log;
    clan.kill(0);
    const std::uint64_t held = newcomer.steps;
    ASSERT_TRUE(clan.wait([&] { return newcomer.has_failed || newcomer.steps > held + 1; })) << clan.log;
    EXPECT_FALSE(newcomer.has_failed) << clan.log;
    EXPECT_FALSE(newcomer.restored_at) << clan.log;
}

// The last result before the step that everybody waits in for it is answered with "not here", as if it were too late.
TEST(Participant, WhoIsLetInAndLosesTrackComesBackToIt) {
    Clan clan({.parameters = 400'000, .buffers = 8, .per_sample = microseconds(30'000), .before = [] {}}, 1000);
    clan.options.core.detect = 500 * cluster::millisecond;
    clan.options.links.max_send_bytes_per_s = 8 << 20;
    const Relative& donor = clan.found(0);
    ASSERT_TRUE(clan.all_reach(1)) << clan.log;
    const Relative& newcomer = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return newcomer.first && donor.steps == *newcomer.first; })) << clan.log;
    ASSERT_LT(newcomer.steps, *newcomer.first) << clan.log;
    const std::uint64_t before = newcomer.participant->joiner().progress().shard_bytes;
    for (unsigned transfer = 1; transfer <= 1000; ++transfer) {
        wire::Work message;
        message.mutable_part_answer()->set_transfer(transfer);
        message.mutable_part_answer()->set_absent(true);
        ASSERT_TRUE(clan.nodes[0]->participant->member().links().send_work(clan.home(1).id(), bytes_of(message)));
    }
    ASSERT_TRUE(clan.wait([&] { return newcomer.participant->joiner().progress().shard_bytes > before; })) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return newcomer.exclusions > 0 || newcomer.trains(); })) << clan.log;
    EXPECT_EQ(newcomer.exclusions, 0U) << clan.log;
    EXPECT_FALSE(newcomer.view->settlement) << clan.log;
    EXPECT_EQ(newcomer.joins, 1U) << clan.log;
}

// It is synced in the step in which it was let in, which everybody does under the view before.
TEST(Participant, TheJournalOfWhoFollowsHasTheViewsOfAllItsSteps) {
    Clan clan({.parameters = 20'000, .buffers = 8, .per_sample = microseconds(20'000), .before = [] {}}, 1000);
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(1)) << clan.log;
    const Relative& newcomer = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return newcomer.trains(); })) << clan.log;
    std::set<cluster::Name> adopted;
    unsigned followed = 0;
    for (const journal::TimedEntry& timed : clan.home(1).journal) {
        if (const auto* entry = std::get_if<journal::Adopted>(&timed.entry)) adopted.insert(entry->view->name);
        const auto* step = std::get_if<journal::Applied>(&timed.entry);
        if (step == nullptr || step->how != journal::How::followed) continue;
        EXPECT_TRUE(adopted.contains(step->record.view)) << "step " << step->record.step << "\n" << clan.log;
        ++followed;
    }
    EXPECT_GT(followed, 0U) << clan.log;
}

TEST(LongParticipant, NobodyNoticesAJoinerThatDies) {
    Clan clan(large_model(), 60);
    begin_slow_join(clan);
    if (HasFatalFailure()) return;
    clan.kill(3);
    ASSERT_TRUE(clan.wait([&] {
        return std::ranges::all_of(clan.nodes, [](const auto& entry) {
            const Donor::Load load = entry.second->participant->donor().load();
            return entry.second->view->members.size() == 3 && load.wishes == 0 && load.results <= 1 &&
                   load.bytes_on_their_way == 0;
        });
    })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    for (const auto& [number, node] : clan.nodes) EXPECT_EQ(node->exclusions, 0U) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// All that the spoiler holds is wrong, it stays a member until the joiner is in, and links are slow enough for a joiner
// to need every donor: it cannot but pull something wrong.
TEST(Participant, AWrongShardIsNamedAndPulledElsewhere) {
    Clan clan(slow_model(), 200);
    clan.run.train.verify_every = 0;
    clan.options.links.max_send_bytes_per_s = 16 << 20;
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(1)) << clan.log;
    std::atomic<bool> spoil = false;
    Relative* spoiler = nullptr;
    toy::ToyModel spoilt = clan.model;
    spoilt.before = [&] {
        if (!spoil.exchange(false)) return;
        for (float& one : spoiler->trainer.engine().arena().all()) one += 0.01F;
    };
    spoiler = &clan.join(1, {0}, spoilt);
    ASSERT_TRUE(clan.wait([&] { return spoiler->trains(); })) << clan.log;
    Relative& third = clan.join(2, {0, 1});
    ASSERT_TRUE(clan.wait([&] { return third.trains(); })) << clan.log;
    spoil = true;
    ASSERT_TRUE(clan.wait([&] { return !spoil; }));
    Relative& joiner = clan.join(3, {1});
    ASSERT_TRUE(clan.wait([&] { return joiner.trains(); })) << clan.log;
    EXPECT_NE(joiner.notes.find(cluster::brief(clan.home(1).id()) + " sent a wrong shard"), std::string::npos)
        << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    EXPECT_TRUE(joiner.gone_astray.contains(clan.home(1).id())) << clan.log;
    for (const auto& [number, node] : clan.nodes) EXPECT_EQ(node->memory(), joiner.memory()) << "node " << number;
}

// Its shards and its results fit each other, and nobody else's.
TEST(Participant, ADonorWithALineageOfItsOwnIsNamedAndKeepsNobodyOut) {
    Clan clan(slow_model(), 400);
    clan.run.train.verify_every = 0;
    clan.options.links.max_send_bytes_per_s = 16 << 20;
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(1)) << clan.log;
    std::atomic<bool> lie = false;
    Relative* liar = nullptr;
    toy::ToyModel lying = clan.model;
    lying.before = [&] {
        if (!lie.exchange(false)) return;
        cluster::Name own{};
        own.fill(0xab);
        liar->trainer.arrive(liar->trainer.progress().step, own);
    };
    liar = &clan.join(1, {0}, lying);
    ASSERT_TRUE(clan.wait([&] { return liar->trains(); })) << clan.log;
    const Relative& third = clan.join(2, {0, 1});
    ASSERT_TRUE(clan.wait([&] { return third.trains(); })) << clan.log;
    lie = true;
    ASSERT_TRUE(clan.wait([&] {
        const auto honest = clan.nodes[0]->lineages.find(liar->steps);
        return honest != clan.nodes[0]->lineages.end() && honest->second != liar->lineages.at(liar->steps);
    })) << clan.log;
    const Relative& joiner = clan.join(3, {0, 1, 2});
    ASSERT_TRUE(clan.wait([&] { return joiner.trains(); })) << clan.log;
    EXPECT_NE(joiner.notes.find(cluster::brief(clan.home(1).id()) + " gave "), std::string::npos) << clan.log;
    const std::uint64_t both = std::min(joiner.steps, clan.nodes[0]->steps);
    EXPECT_EQ(joiner.lineages.at(both), clan.nodes[0]->lineages.at(both)) << clan.log;
}

void say(Relative& from, const Home& to, const wire::Work& message) {
    ASSERT_TRUE(from.participant->member().links().send_work(to.id(), bytes_of(message)));
}

// Nobody has the next result for them, and nobody ever will.
TEST(Participant, ShardsOfAStepThatNobodyHasDoneKeepNobodyOut) {
    Clan clan(slow_model());
    clan.options.links.max_send_bytes_per_s = 8 << 20;
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    Relative& liar = *clan.nodes[1];
    const Relative& joiner = clan.join(3, {0, 1, 2});
    const auto asked_last = [&] { return joiner.participant->joiner().progress().shards + 40; };
    unsigned turns = 0;
    ASSERT_TRUE(clan.wait([&] {
        if (joiner.joins > 0 && !joiner.synced_at && ++turns % 20 == 0 && turns < 2000 &&
            liar.participant->member().links().linked(clan.home(3).id())) {
            for (unsigned transfer = 1; transfer <= asked_last(); ++transfer) {
                wire::Work message;
                wire::ShardAnswer& answer = *message.mutable_shard_answer();
                answer.set_transfer(transfer);
                answer.set_applied(liar.steps + 5000);
                answer.set_lineage(to_wire(cluster::Name{}));
                say(liar, clan.home(3), message);
            }
        }
        return joiner.trains();
    })) << clan.log;
    EXPECT_NE(joiner.notes.find(cluster::brief(clan.home(1).id()) + " gave shards of a step that most donors"),
              std::string::npos)
        << clan.log;
    clan.expect_one_line();
}

// What newcomers followed after they were synced is compared, too.
TEST(Participant, StatesAreComparedWhenANewcomerTakesPartForTheFirstTime) {
    Clan clan(slow_model(), 200);
    clan.run.train.verify_every = 0;
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    const Relative& newcomer = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return newcomer.trains(); })) << clan.log;
    ASSERT_TRUE(clan.nodes[0]->roots.contains(*newcomer.first)) << clan.log;
    EXPECT_EQ(clan.nodes[0]->roots, newcomer.roots) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_sound();
}

// ---- joiners that want too much

TEST(Participant, AJoinerThatReadsNothingTakesLittleMemory) {
    Clan clan(large_model(), 1000);
    clan.options.links.max_send_bytes_per_s = 32 << 20;
    ASSERT_TRUE(clan.gather(1)) << clan.log;
    Relative& joiner = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return joiner.participant->joiner().progress().shards > 10; })) << clan.log;
    Relative& donor = *clan.nodes[0];
    constexpr unsigned asks = 100;
    for (unsigned i = 0; i < asks; ++i) {
        wire::Work message;
        wire::PartAsk& ask = *message.mutable_part_ask();
        ask.set_transfer(1'000'000 + i);
        ask.set_step(donor.steps - 1);
        ask.set_count(donor.trainer.shards().count());
        say(joiner, clan.home(0), message);
        ask.set_step(donor.steps + 1000);
        for (unsigned far = 0; far < 3; ++far) say(joiner, clan.home(0), message);
    }
    const auto load = [&] { return donor.participant->donor().load(); };
    const std::uint64_t begun = donor.steps;
    ASSERT_TRUE(clan.wait([&] { return load().wishes > asks / 2 || donor.steps > begun + 5; })) << clan.log;
    joiner.is_frozen = true;
    const std::uint64_t frozen = donor.steps;
    ASSERT_TRUE(clan.wait([&] { return donor.steps > frozen; })) << clan.log;
    EXPECT_GT(load().wishes, asks / 2) << "whoever reads nothing is given all results that it asks for\n" << clan.log;
    EXPECT_LT(load().wishes, 2 * asks) << "steps that nobody will do soon are waited for\n" << clan.log;
    EXPECT_LE(load().bytes_on_their_way, 160U << 20) << clan.log;
    clan.kill(1);
    ASSERT_TRUE(clan.wait([&] { return load().wishes == 0 && load().bytes_on_their_way == 0; })) << clan.log;
}

TEST(Participant, AJoinerThatComesAgainIsNotGivenMorePauses) {
    Clan clan(large_model(), 1000);
    clan.options.links.max_send_bytes_per_s = 8 << 20;
    ASSERT_TRUE(clan.gather(1)) << clan.log;
    const auto pauses = [&] {
        const std::string begins = "begins no further step until newcomer " + cluster::brief(clan.home(1).id());
        unsigned count = 0;
        for (auto at = clan.nodes[0]->notes.find(begins); at != std::string::npos;
             at = clan.nodes[0]->notes.find(begins, at + 1))
            ++count;
        return count;
    };
    wire::Work pause;
    wire::Work go_on;
    go_on.mutable_pause_ask();
    for (unsigned life = 0; life < 2; ++life) {
        Relative& joiner = clan.join(1, {0});
        ASSERT_TRUE(clan.wait([&] { return joiner.participant->joiner().progress().shards > 2; })) << clan.log;
        for (unsigned i = 0; i < 5; ++i) {
            pause.mutable_pause_ask()->set_milliseconds(2000);
            say(joiner, clan.home(0), pause);
            say(joiner, clan.home(0), go_on);
        }
        ASSERT_TRUE(clan.wait([&] { return pauses() == 3; })) << clan.log;
        const std::uint64_t steps = clan.nodes[0]->steps;
        ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->steps > steps + 1; })) << clan.log;
        clan.kill(1);
        ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->view->members.size() == 1; })) << clan.log;
    }
    EXPECT_EQ(pauses(), 3U) << clan.log;
}

// ---- away, and back

TEST(Participant, WhoWasCutOffForAMomentPullsNoShards) {
    Clan clan({.parameters = 400'000, .buffers = 8, .per_sample = microseconds(80'000), .before = [] {}}, 20);
    clan.options.core.detect = 500 * cluster::millisecond;
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    clan.cut({2}, {0, 1});
    ASSERT_TRUE(clan.wait([&] {
        const Relative& other = *clan.nodes[0];
        return other.view->members.size() == 2 && other.steps > other.view->first_step;
    })) << clan.log;
    clan.mend();
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[2]->joins == 2 && clan.nodes[2]->trains(); })) << clan.log;
    const Joiner::Progress pulled = clan.nodes[2]->participant->joiner().progress();
    EXPECT_EQ(pulled.shard_bytes, 0U) << clan.log;
    EXPECT_GT(pulled.result_bytes, 0U) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

TEST(Participant, GoesOnFromTheNewestCheckpointWhenAllWereDown) {
    Clan clan(slow_model(), 400);
    clan.options.core.found_after = 3 * cluster::second;
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->saved_steps.size() > 1; })) << clan.log;
    const std::uint64_t saved = clan.nodes[0]->saved_steps.back();
    for (unsigned number = 0; number < 3; ++number) clan.kill(number);
    for (unsigned number = 0; number < 3; ++number) clan.start(number);
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[2]->trains(); })) << clan.log;
    const auto from = std::max(clan.nodes[0]->restored_at, clan.nodes[1]->restored_at);
    EXPECT_GE(from, saved) << clan.log;
    EXPECT_FALSE(clan.nodes[2]->restored_at) << clan.log;  // of three, two keep checkpoints
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// Of any two of three, one has a checkpoint: also of a member that was let in after the last one was due.
TEST(Participant, EveryQuorumHasACheckpoint) {
    Clan clan(slow_model(), 400);
    clan.run.train.checkpoint_every = 20;
    Relative& first = clan.found(0);
    ASSERT_TRUE(clan.wait([&] { return first.saved_steps.size() == 1 && first.steps % 20 == 3; })) << clan.log;
    Relative& second = clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return !second.saved_steps.empty(); })) << clan.log;
    EXPECT_NE(second.saved_steps.front() % 20, 0U) << clan.log;
    Relative& third = clan.join(2, {0, 1});
    ASSERT_TRUE(clan.wait([&] { return third.trains(); })) << clan.log;
    const auto kept = first.saved_steps.size();
    ASSERT_TRUE(clan.wait([&] { return first.saved_steps.size() > kept + 1; })) << clan.log;
    EXPECT_EQ(first.saved_steps.back() % 20, 0U);
    EXPECT_TRUE(third.saved_steps.empty()) << clan.log;
    clan.kill(0);
    ASSERT_TRUE(clan.wait([&] { return !third.saved_steps.empty(); })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// Those who came first have lost theirs.
TEST(Participant, TheHolderOfTheCheckpointComesLast) {
    Clan clan(slow_model(), 400);
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->saved_steps.size() > 1; })) << clan.log;
    const std::uint64_t saved = clan.nodes[0]->saved_steps.back();
    for (unsigned number = 0; number < 3; ++number) clan.kill(number);
    for (const unsigned number : {1U, 2U}) {
        std::filesystem::remove_all(clan.home(number).folder / "checkpoints");
        clan.start(number);
    }
    ASSERT_TRUE(clan.wait([&] {
        const auto waits = [&](unsigned number) {
            return clan.nodes[number]->participant->member().core().why().find("has a checkpoint") != std::string::npos;
        };
        return waits(1) || waits(2);
    })) << clan.log;
    const Relative& holder = clan.start(0);
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[1]->trains() && clan.nodes[2]->trains(); })) << clan.log;
    EXPECT_GE(holder.restored_at, saved) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// The state changes at that moment, and cannot be read.
TEST(Participant, WhoIsStoppedWhileAStepIsAppliedSavesIt) {
    Clan clan(slow_model());
    clan.run.train.checkpoint_every = 0;
    Relative& node = clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    bool asked = false;
    std::optional<bool> done;
    node.before_applying = [&] {
        if (std::exchange(asked, true)) return;
        boost::asio::post(
            node.loop, [&] { node.participant->save_if_alone([&](const Result<void>& saved) { done = saved.ok(); }); });
    };
    ASSERT_TRUE(clan.wait([&] { return done.has_value(); })) << clan.log;
    EXPECT_TRUE(*done);
    ASSERT_EQ(node.saved_steps.size(), 1U) << clan.log;
    EXPECT_EQ(node.saved_steps.back(), node.steps);
    EXPECT_EQ(node.participant->state().applied, node.steps);
}

TEST(LongParticipant, TwoHalvesGoOnApartAndMeetAgain) {
    Clan clan(slow_model(), 900);
    clan.options.core.fork_after = cluster::second;
    ASSERT_TRUE(clan.gather(4)) << clan.log;
    clan.cut({0, 1}, {2, 3});
    const auto alone = [&](unsigned number) {
        const Relative& node = *clan.nodes[number];
        return node.view->members.size() == 2 && node.steps > node.view->first_step + 5;
    };
    ASSERT_TRUE(clan.wait([&] { return alone(0) && alone(1) && alone(2) && alone(3); })) << clan.log;
    clan.mend();
    ASSERT_TRUE(clan.wait([&] {
        return std::ranges::all_of(clan.nodes, [&](const auto& entry) {
            const Relative& node = *entry.second;
            return node.view->active_count() == 4 && node.steps > node.view->first_step + 2 &&
                   node.view->name == clan.nodes[0]->view->name;
        });
    })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_sound();
}

// A quick node, cut off, gets far ahead; the others are the majority, and theirs is the line that all go on with.
TEST(Participant, WhatItTrainedOnALineThatLostIsNotGoneOnFrom) {
    Clan clan({.parameters = 20'000, .buffers = 8, .per_sample = microseconds(2000), .before = [] {}});
    clan.options.core.fork_after = cluster::second;
    clan.options.core.found_after = 3 * cluster::second;
    ASSERT_TRUE(clan.gather(2)) << clan.log;
    toy::ToyModel quick = clan.model;
    quick.per_sample = microseconds(50);
    const Relative& alone = clan.join(2, {0, 1}, quick);
    ASSERT_TRUE(clan.wait([&] { return alone.trains(); })) << clan.log;
    clan.cut({2}, {0, 1});
    ASSERT_TRUE(clan.wait([&] {
        return alone.view->members.size() == 1 && !alone.saved_steps.empty() &&
               alone.saved_steps.back() > clan.nodes[0]->steps + 1500;
    })) << clan.log;
    const std::uint64_t lost = alone.saved_steps.back();
    clan.mend();
    ASSERT_TRUE(clan.wait([&] { return alone.joins == 2 && alone.trains(); })) << clan.log;
    ASSERT_LT(clan.most_steps(), lost) << "it was not far enough ahead\n" << clan.log;

    // Two of three are a quorum, and what both have is looked at.
    std::map<std::uint64_t, cluster::Name> line = clan.nodes[0]->lineages;
    for (unsigned number = 0; number < 3; ++number) clan.kill(number);
    for (const unsigned number : {0U, 2U}) clan.start(number);
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->restored_at && clan.nodes[2]->trains(); })) << clan.log;
    std::optional<journal::Restored> restored;
    for (const journal::TimedEntry& timed : clan.home(0).journal)
        if (const auto* entry = std::get_if<journal::Restored>(&timed.entry)) restored = *entry;
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->lineage, line[restored->applied]) << clan.log;
    clan.expect_one_line();
}

// ---- checkpoints

TEST(Participant, AnotherTakesOverTheCheckpointsWhenAWriterDies) {
    Clan clan(slow_model(), 500);
    clan.options.core.found_after = 3 * cluster::second;
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->saved_steps.size() > 1; })) << clan.log;
    // Two of three write them: one more than half.
    const std::uint64_t last_of_first = clan.nodes[0]->saved_steps.back();
    EXPECT_FALSE(clan.nodes[1]->saved_steps.empty()) << clan.log;
    EXPECT_TRUE(clan.nodes[2]->saved_steps.empty()) << clan.log;
    clan.kill(0);
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[2]->saved_steps.size() > 1; })) << clan.log;
    EXPECT_GE(clan.nodes[2]->saved_steps.front(), last_of_first) << clan.log;
    EXPECT_LE(clan.nodes[2]->saved_steps.front(), last_of_first + 20) << clan.log;

    // What it wrote is what all go on from when they were down; the first one's is not needed.
    const std::uint64_t saved = clan.nodes[2]->saved_steps.back();
    ASSERT_LT(clan.most_steps(), 450U) << clan.log;
    for (const unsigned number : {1U, 2U}) clan.kill(number);
    for (const unsigned number : {1U, 2U}) clan.start(number);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    EXPECT_GE(clan.nodes[2]->restored_at, saved) << clan.log;
    clan.expect_one_line();
    clan.expect_sound();
}

// ---- the end

TEST(Participant, WhoComesWhenAllIsOverGetsWhatWasTrained) {
    Clan clan(slow_model(), 150);
    ASSERT_TRUE(clan.gather(2)) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    Relative& late = clan.join(2, {1});
    ASSERT_TRUE(clan.wait([&] { return late.has_finished; })) << clan.log;
    for (const auto& [number, node] : clan.nodes) EXPECT_EQ(node->saved_steps.back(), 150U);
    clan.expect_one_line();
    clan.expect_sound();
}

// ---- what is contributed

TEST(Participant, AContributionThatIsNoNumberIsLeftOutByAll) {
    Clan clan(slow_model(), 300);
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(1)) << clan.log;
    std::atomic<bool> spoil = false;
    Relative* spoiler = nullptr;
    std::optional<float> right;
    toy::ToyModel spoilt = clan.model;
    spoilt.before = [&] {
        float& parameter = spoiler->trainer.engine().arena().parameters()[7];
        if (right) parameter = *right;
        right.reset();
        if (!spoil.exchange(false)) return;
        right = parameter;
        parameter = std::numeric_limits<float>::quiet_NaN();
    };
    spoiler = &clan.join(1, {0}, spoilt);
    ASSERT_TRUE(clan.wait([&] { return spoiler->trains(); })) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return spoiler->steps % 10 == 4; }));  // no hash is taken in the next steps
    spoil = true;
    ASSERT_TRUE(clan.wait([&] {
        return std::ranges::all_of(clan.nodes, [](const auto& entry) { return !entry.second->culprits.empty(); });
    })) << clan.log;
    EXPECT_EQ(clan.nodes[0]->culprits, spoiler->culprits);
    EXPECT_EQ(clan.nodes[0]->culprits.begin()->second, clan.home(1).id());
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    EXPECT_EQ(clan.nodes[0]->culprits.size(), 1U);
    clan.expect_one_line();
    EXPECT_EQ(clan.nodes[0]->memory(), spoiler->memory());
}

TEST(Participant, AMachineThatIsBrokenForGoodIsExpelledForGood) {
    Clan clan(slow_model(), 60);
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    std::atomic<bool> broken = false;
    Relative* spoiler = nullptr;
    std::optional<float> right;
    toy::ToyModel spoilt = clan.model;
    spoilt.before = [&] {
        float& parameter = spoiler->trainer.engine().arena().parameters()[7];
        if (right) parameter = *right;
        right.reset();
        if (!broken) return;
        right = parameter;
        parameter = std::numeric_limits<float>::quiet_NaN();
    };
    spoiler = &clan.join(3, {0}, spoilt);
    ASSERT_TRUE(clan.wait([&] { return spoiler->trains(); })) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return spoiler->steps % 10 == 2; }));  // no hash is taken in the next steps
    broken = true;
    ASSERT_TRUE(clan.wait([&] { return spoiler->is_out_for_good; })) << clan.log;
    EXPECT_NE(clan.log.find("of no use, time and again"), std::string::npos) << clan.log;
    EXPECT_TRUE(clan.wait([&] { return !clan.nodes[0]->view->find(clan.home(3).id()); })) << clan.log;
    EXPECT_TRUE(clan.nodes[0]->view->revokes(clan.home(3).id(), {}));
    EXPECT_FALSE(clan.nodes[0]->view->settlement.has_value());  // no step in flight was interrupted
    const std::map<std::uint64_t, std::set<NodeId>> found = clan.nodes[0]->offenders;
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.begin()->second, std::set{clan.home(3).id()});
    // All found it by themselves, and of the same step.
    for (const unsigned number : {1U, 2U, 3U}) {
        ASSERT_FALSE(clan.nodes[number]->offenders.empty()) << clan.log;
        EXPECT_EQ(*clan.nodes[number]->offenders.begin(), *found.begin()) << number;
    }
    clan.kill(3);
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
}

// More is learnt per second than the link carries: without a pause it would never be there.
TEST(Participant, JoinsOverALinkThatCannotCarryWhatIsLearnt) {
    Clan clan(slow_model(), 400);
    clan.options.links.max_send_bytes_per_s = 4'000'000;
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    const Relative& newcomer = clan.join(1, {0});
    const Participant& donor = *clan.nodes[0]->participant;
    bool paused = false;
    bool given = false;
    ASSERT_TRUE(clan.wait([&] {
        const auto donations = newcomer.participant->joiner().donations();
        given = given || (donations.size() == 1 && donations[0].donor == donor.member().id() && donations[0].linked &&
                          donations[0].bytes_per_s > 0.0);
        paused = paused || (donor.steps().waits().what == StepWait::For::pause && donor.donor().pause() &&
                            donor.donor().pause()->newcomer == newcomer.participant->member().id());
        return newcomer.synced_at.has_value();
    })) << clan.log;
    EXPECT_TRUE(paused && given) << clan.log;
    EXPECT_NE(clan.nodes[0]->notes.find("begins no further step until newcomer"), std::string::npos) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return newcomer.trains(); })) << clan.log;
    clan.expect_one_line();
}

// Nor would a pause that members allow be long enough: nobody waits for nothing.
TEST(Participant, WhoNeedsALongerPauseThanMembersAllowStaysOut) {
    Clan clan({.parameters = 4'000'000, .buffers = 8, .per_sample = microseconds(10'000), .before = [] {}}, 1000);
    clan.options.links.max_send_bytes_per_s = 100'000;
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(3)) << clan.log;
    const Relative& newcomer = clan.join(1, {0});
    const Participant& donor = *clan.nodes[0]->participant;
    bool paused = false;
    ASSERT_TRUE(clan.wait([&] {
        paused = paused || donor.donor().pause();
        return paused || newcomer.notes.find("tries again") != std::string::npos || clan.nodes[0]->steps > 200;
    })) << clan.log;
    EXPECT_FALSE(paused) << clan.log;
    EXPECT_NE(newcomer.notes.find("its links carry less than what is learnt"), std::string::npos) << clan.log;
    EXPECT_NE(newcomer.notes.find("s that members allow"), std::string::npos) << clan.log;
    const std::uint64_t steps = clan.most_steps();
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[0]->steps > steps + 5; })) << clan.log;
    const auto donations = newcomer.participant->joiner().donations();
    EXPECT_TRUE(std::ranges::all_of(donations, [](const auto& one) { return one.asked_bytes == 0; })) << clan.log;
    EXPECT_FALSE(newcomer.synced_at) << clan.log;
    EXPECT_EQ(newcomer.notes.find("tries again"), newcomer.notes.rfind("tries again")) << clan.log;
}

TEST(Participant, SaysWhoseContributionIsMissing) {
    Clan clan(slow_model());
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    Relative& frozen = *clan.nodes[2];
    frozen.is_frozen = true;
    const auto waits_for_it = [&](unsigned number) {
        const StepWait wait = clan.nodes[number]->participant->steps().waits();
        return wait.what == StepWait::For::sums && wait.whom == std::vector{frozen.participant->member().id()};
    };
    EXPECT_TRUE(clan.wait([&] { return waits_for_it(0) || waits_for_it(1); })) << clan.log;
    // Of whom nothing is heard, the core says; until it gives it up.
    EXPECT_TRUE(clan.wait([&] {
        const auto missed = clan.nodes[0]->participant->member().core().missed();
        return (missed.size() == 1 && missed[0].peer == frozen.participant->member().id()) ||
               clan.nodes[0]->view->members.size() == 2;
    })) << clan.log;
    frozen.is_frozen = false;
    EXPECT_TRUE(clan.wait([&] { return clan.nodes[0]->view->active_count() == 3; })) << clan.log;
}

TEST(Participant, WhoseMemoryIsBadIsNamedAndPullsWhatIsWrong) {
    Clan clan(slow_model(), 400);
    clan.found(0);
    clan.join(1, {0});
    ASSERT_TRUE(clan.wait([&] { return clan.nodes[1]->trains(); })) << clan.log;
    std::atomic<bool> spoil = false;
    Relative* sick = nullptr;
    toy::ToyModel spoilt = clan.model;
    spoilt.before = [&] {
        if (spoil.exchange(false)) sick->trainer.engine().arena().parameters()[7] += 0.01F;
    };
    sick = &clan.join(2, {0, 1}, spoilt);
    ASSERT_TRUE(clan.wait([&] { return sick->trains(); })) << clan.log;
    const std::set<NodeId> itself = {clan.home(2).id()};
    spoil = true;
    ASSERT_TRUE(clan.wait([&] {
        return std::ranges::all_of(clan.nodes, [&](const auto& entry) { return entry.second->gone_astray == itself; });
    })) << clan.log;
    ASSERT_TRUE(clan.wait([&] { return sick->joins == 2 && sick->trains(); })) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    EXPECT_EQ(clan.nodes[0]->memory(), sick->memory());
}

// It writes the checkpoints, and did so with a state that nobody else had.
TEST(Participant, WhatWasSavedWithBadMemoryIsNotGoneOnFrom) {
    Clan clan(slow_model(), 400);
    clan.run.train.verify_every = 25;
    clan.found(0);
    ASSERT_TRUE(clan.all_reach(1)) << clan.log;
    std::atomic<bool> spoil = false;
    Relative* sick = nullptr;
    toy::ToyModel spoilt = clan.model;
    spoilt.before = [&] {
        if (spoil.exchange(false)) sick->trainer.engine().arena().parameters()[7] += 0.01F;
    };
    sick = &clan.join(1, {0}, spoilt);
    ASSERT_TRUE(clan.wait([&] { return sick->trains(); })) << clan.log;
    for (unsigned number = 2; number < 4; ++number) {
        const Relative& next = clan.join(number, {0, 1});
        ASSERT_TRUE(clan.wait([&] { return next.trains(); })) << clan.log;
    }
    clan.kill(0);
    ASSERT_TRUE(clan.wait([&] { return sick->view->members.size() == 3 && sick->steps % 25 == 1; })) << clan.log;
    const std::uint64_t sound = sick->steps - 1;
    spoil = true;
    ASSERT_TRUE(clan.wait([&] { return !sick->gone_astray.empty(); })) << clan.log;
    EXPECT_GT(sick->saved_steps.back(), sound) << clan.log;
    const auto kept = state::CheckpointFolder{clan.home(1).folder / "checkpoints"}.steps();
    ASSERT_TRUE(kept) << kept.error().message;
    for (const std::uint64_t step : *kept) EXPECT_LE(step, sound) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    clan.expect_one_line();
    EXPECT_EQ(clan.nodes[2]->memory(), sick->memory());
}

TEST(Participant, EvaluatesTogether) {
    Clan clan(slow_model(), 250);
    clan.run.train.eval_every = 20;
    ASSERT_TRUE(clan.gather(3)) << clan.log;
    ASSERT_TRUE(clan.all_finish()) << clan.log;
    EXPECT_GE(clan.nodes[0]->held_out.size(), 12U);
    EXPECT_TRUE(clan.nodes[0]->held_out.contains(250));
    clan.expect_one_line();
    clan.expect_sound();
}

}  // namespace
}  // namespace chaos::elastic
