#include "collective/all_reduce.h"

#include "base/random.h"
#include "collective/network.h"
#include "plan/seed.h"
#include "plan/sync_oracle.h"

#include <gtest/gtest.h>

namespace chaos::collective {
namespace {

using test::Holder;
using test::Network;

constexpr Encoding all_encodings[] = {Encoding::fp32, Encoding::fp16, Encoding::bf16, Encoding::int8};

std::vector<float> gradient(std::uint64_t floats, std::uint64_t seed) {
    std::vector<float> values(floats);
    for (std::uint64_t i = 0; i < floats; ++i) values[i] = random_unit(random_bits(seed, 0, i)) - 0.5F;
    return values;
}

struct Case {
    std::uint32_t members = 3;
    std::uint64_t floats = 1000;
    ScheduleOptions options;
    std::uint32_t streams = 1;
    std::uint64_t steps = 1;
};

// Some steps one after the other, every member going on at once. All must have the documented bits, and nobody may
// ever hold more than the schedule says.
void expect_sums(const Case& c, const plan::SyncPlan& plan, std::uint64_t seed) {
    SCOPED_TRACE(::testing::Message() << "members " << c.members << " floats " << c.floats << ' '
                                      << name_of(c.options.encoding) << " chunk " << c.options.chunk_bytes << " window "
                                      << c.options.window_chunks << " streams " << c.streams << " seed " << seed);
    const std::vector<NodeId> members = test::some_nodes(c.members, seed);
    Network network({.seed = seed, .streams = c.streams});
    std::vector<std::vector<std::vector<float>>> inputs(c.steps);
    std::vector<std::vector<std::shared_ptr<Holder>>> holders(c.steps, std::vector<std::shared_ptr<Holder>>(c.members));
    for (std::uint64_t step = 0; step < c.steps; ++step) {
        for (std::uint32_t i = 0; i < c.members; ++i)
            inputs[step].push_back(gradient(c.floats, seed + 1000 * step + i));
    }
    std::vector<std::shared_ptr<const Schedule>> schedules;
    for (const NodeId node : members) {
        network.add(node);
        schedules.push_back(test::schedule_for(plan, members, node, c.options));
    }
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> begun(c.members, 0);
    std::vector<std::size_t> ready(c.members, 0);
    // The next part of its vector comes about.
    const auto compute = [&](std::uint32_t i, std::uint64_t step) {
        const Range whole{0, c.floats};
        const Range part = c.options.parts.empty() ? whole : c.options.parts[ready[i]];
        std::copy_n(inputs[step][i].begin() + static_cast<std::ptrdiff_t>(part.first), part.count,
                    holders[step][i]->input.begin() + static_cast<std::ptrdiff_t>(part.first));
        network.at(members[i]).engine->ready({1, step}, ++ready[i]);
    };
    const auto begin_some = [&](bool all) {
        bool any = false;
        for (std::uint32_t i = 0; i < c.members; ++i) {
            Network::Node& node = network.at(members[i]);
            const bool computes = begun[i] > node.outcomes.size() && ready[i] < schedules[i]->parts();
            if (computes && (all || random() % 20 == 0)) {
                compute(i, begun[i] - 1);
                any = true;
                continue;
            }
            // A member computes for a while before it begins its next step.
            if (begun[i] == c.steps || begun[i] != node.outcomes.size() || (!all && random() % 50 != 0)) continue;
            const std::uint64_t step = begun[i]++;
            holders[step][i] = test::hold(std::vector<float>(c.floats, -7.0F), step % 2 == 1);
            ready[i] = 0;
            ASSERT_TRUE(node.engine->begin({1, step}, schedules[i], test::vectors_of(holders[step][i]), 0).ok());
            any = true;
        }
        if (all && any) network.run();
    };
    const std::uint64_t kept = c.options.encoding == Encoding::fp32 ? 0 : 2 * schedules[0]->result_bytes;
    for (std::uint64_t done = 0; done < c.steps * c.members * (schedules[0]->parts() + 1) + 2;) {
        begin_some(false);
        if (!network.step()) {
            begin_some(true);
            ++done;
        }
        for (std::uint32_t i = 0; i < c.members; ++i) {
            ASSERT_LE(network.at(members[i]).engine->pool().used_bytes(), schedules[i]->max_staging_bytes() + kept);
        }
    }
    for (std::uint64_t step = 0; step < c.steps; ++step) {
        const test::Reference reference(plan, members, c.options, inputs[step]);
        for (std::uint32_t i = 0; i < c.members; ++i) {
            const Network::Node& node = network.at(members[i]);
            ASSERT_TRUE(node.refusals.empty()) << say(node.refusals[0]);
            ASSERT_TRUE(node.outcomes.contains({1, step})) << "member " << i << " hangs in step " << step;
            ASSERT_TRUE(std::holds_alternative<Complete>(node.outcomes.at({1, step})));
            ASSERT_TRUE(test::same_bits(holders[step][i]->output, reference.result())) << "member " << i;
            ASSERT_TRUE(test::same_bits(holders[step][i]->input, inputs[step][i])) << "the input has changed";
            // Owners: the test, and the engine for the result it keeps.
            ASSERT_EQ(holders[step][i].use_count(), step + 1 == c.steps ? 2 : 1);
        }
    }
    for (std::uint32_t i = 0; i < c.members; ++i) {
        const Engine& engine = *network.at(members[i]).engine;
        const std::optional<EncodedResult> result = engine.result({1, c.steps - 1});
        ASSERT_TRUE(result.has_value());
        std::vector<float> decoded(c.floats);
        ASSERT_TRUE(decode_result(*schedules[i], result->bytes, decoded).ok());
        ASSERT_TRUE(test::same_bits(decoded, holders.back()[i]->output));
        ASSERT_EQ(engine.pool().used_bytes(), c.options.encoding == Encoding::fp32 ? 0 : schedules[i]->result_bytes);
    }
}

TEST(AllReduce, AnyTreesAnySizesAnyOrderGiveTheDocumentedBits) {
    const std::uint64_t seed = plan::test::fresh_seed();
    std::mt19937_64 random(seed);
    for (int round = 0; round < 150; ++round) {
        Case c;
        c.members = 1 + static_cast<std::uint32_t>(random() % 9);
        constexpr std::uint64_t sizes[] = {0, 1, 7, 129, 1000, 5003};
        c.floats = sizes[random() % 6];
        c.options.encoding = all_encodings[random() % 4];
        c.options.chunk_bytes = 512U << random() % 4;
        c.options.window_chunks = 1 + static_cast<std::uint32_t>(random() % 5);
        if (random() % 2 == 0) c.options.parts = test::random_parts(random, c.floats);
        c.streams = 1 + static_cast<std::uint32_t>(random() % 3);
        c.steps = 1 + random() % 3;
        expect_sums(c, test::random_plan(random, c.members, c.floats), random());
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(AllReduce, PlansOfThePlannerGiveTheDocumentedBits) {
    const std::uint64_t seed = plan::test::fresh_seed();
    std::mt19937_64 random(seed);
    for (int round = 0; round < 60; ++round) {
        Case c;
        c.members = 1 + static_cast<std::uint32_t>(random() % 9);
        c.floats = 1 + random() % 20000;
        c.options.encoding = all_encodings[random() % 4];
        c.options.chunk_bytes = 2048;
        c.options.window_chunks = 3;
        c.streams = 2;
        c.steps = 2;
        auto request = plan::test::random_sync_request(
            random, {.members = c.members, .extra = static_cast<std::uint32_t>(random() % 20)});
        request.bytes = c.floats * 4;
        request.align_bytes = 64;
        request.chunk_bytes = c.options.chunk_bytes;
        const auto plan = plan::plan_sync(request);
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        expect_sums(c, *plan, random());
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(AllReduce, AMillionFloatsInEveryEncoding) {
    std::mt19937_64 random(plan::test::fresh_seed());
    for (const Encoding encoding : all_encodings) {
        Case c{.members = 5, .floats = 1 << 20, .options = {.encoding = encoding, .chunk_bytes = 65536}};
        c.options.window_chunks = 4;
        expect_sums(c, test::random_plan(random, c.members, c.floats), random());
        if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(AllReduce, TheResidualIsWhatThisMembersEncodingLeftOut) {
    const std::vector<NodeId> members = test::some_nodes(2, 5);
    const plan::SyncPlan plan = test::star_plan(2, 1000);
    for (const Encoding encoding : all_encodings) {
        const ScheduleOptions options{.encoding = encoding, .chunk_bytes = 1024};
        Network network({});
        std::vector<std::shared_ptr<Holder>> holders;
        for (std::uint32_t i = 0; i < 2; ++i) {
            holders.push_back(test::hold(gradient(1000, i), true));
            network.add(members[i]);
        }
        for (std::uint32_t i = 0; i < 2; ++i) {
            const auto schedule = test::schedule_for(plan, members, members[i], options);
            ASSERT_TRUE(network.at(members[i]).engine->begin({1, 1}, schedule, test::vectors_of(holders[i])).ok());
        }
        network.run();
        for (std::size_t i = 0; i < 1000; ++i) {
            // The leaf said its value less its residual, and the root's sum was the result plus the root's residual.
            const float said = holders[1]->input[i] - holders[1]->residual[i];
            const float sum = holders[0]->input[i] + said;
            ASSERT_NEAR(holders[0]->output[i] + holders[0]->residual[i], sum, 1e-6F) << name_of(encoding);
            if (encoding == Encoding::fp32) {
                ASSERT_EQ(holders[1]->residual[i], 0.0F);
            }
        }
    }
}

TEST(AllReduce, WhateverAStrangerSaysNothingChanges) {
    std::mt19937_64 random(plan::test::fresh_seed());
    for (int round = 0; round < 20; ++round) {
        const std::vector<NodeId> members = test::some_nodes(4, random());
        const NodeId stranger{.high = random(), .low = 99};
        const plan::SyncPlan plan = test::random_plan(random, 4, 1500);
        Network network({.seed = random()});
        std::vector<std::vector<float>> inputs;
        std::vector<std::shared_ptr<Holder>> holders;
        for (const NodeId node : members) network.add(node);
        std::uint64_t hash = 0;
        for (std::uint32_t i = 0; i < 4; ++i) {
            inputs.push_back(gradient(1500, i));
            holders.push_back(test::hold(inputs[i]));
            const auto schedule = test::schedule_for(plan, members, members[i], {.chunk_bytes = 512});
            hash = schedule->hash;
            ASSERT_TRUE(network.at(members[i]).engine->begin({1, 1}, schedule, test::vectors_of(holders[i])).ok());
        }
        do {
            const auto small = [&] { return static_cast<std::uint32_t>(random() % 8); };
            const ChunkHeader lie{.exchange = {random() % 3, random() % 4},
                                  .plan = random() % 2 == 0 ? hash : random(),
                                  .tree = small(),
                                  .chunk = random() % 4 == 0 ? static_cast<std::uint32_t>(random()) : small(),
                                  .bytes = random() % 2 == 0 ? 512 : static_cast<std::uint32_t>(random()),
                                  .down = random() % 2 == 0};
            const Place place = network.at(members[random() % 4]).engine->place_for(stranger, lie);
            ASSERT_NE(place.verdict, Place::Verdict::take);
        } while (network.step());
        const test::Reference reference(plan, members, ScheduleOptions{}, inputs);
        for (std::uint32_t i = 0; i < 4; ++i) {
            ASSERT_TRUE(std::holds_alternative<Complete>(network.at(members[i]).outcomes.at({1, 1})));
            ASSERT_TRUE(test::same_bits(holders[i]->output, reference.result()));
        }
    }
}

// A fault before each thing the network does, of each node and of each link.
struct Faults {
    std::uint32_t members = 3;
    plan::SyncPlan plan;
    ScheduleOptions options;
    std::uint64_t seed = 1;
    std::uint64_t runs = 0;
    std::uint64_t completed = 0;    // runs in which a survivor had the result
    std::uint64_t interrupted = 0;  // and in which nobody had
};

struct Fault {
    std::uint32_t a = 0;
    std::optional<std::uint32_t> b;  // none: the node a dies
};

// A star over the members, none of whose links is cut; none if there is no such star.
std::optional<std::uint32_t> centre(std::uint32_t members, const Fault& fault) {
    for (std::uint32_t i = 0; i < members; ++i) {
        if (i != fault.a && i != fault.b) return i;
    }
    return std::nullopt;
}

// False: the run was over before the fault could strike.
bool strike(Faults& faults, const Fault& fault, std::uint64_t moment) {
    const std::vector<NodeId> members = test::some_nodes(faults.members, 3);
    const std::uint64_t floats = faults.plan.trees.back().first_byte / 4 + faults.plan.trees.back().bytes / 4;
    Network network({.seed = faults.seed, .streams = 2});
    std::vector<std::vector<float>> inputs;
    std::vector<std::shared_ptr<Holder>> holders;
    std::vector<std::shared_ptr<const Schedule>> schedules;
    for (std::uint32_t i = 0; i < faults.members; ++i) {
        inputs.push_back(gradient(floats, i));
        holders.push_back(test::hold(inputs[i]));
        schedules.push_back(test::schedule_for(faults.plan, members, members[i], faults.options));
        network.add(members[i]);
    }
    for (std::uint32_t i = 0; i < faults.members; ++i)
        EXPECT_TRUE(network.at(members[i]).engine->begin({1, 9}, schedules[i], test::vectors_of(holders[i])).ok());
    for (std::uint64_t i = 0; i < moment; ++i) {
        if (!network.step()) return false;
    }
    if (fault.b) {
        network.cut(members[fault.a], members[*fault.b]);
    } else {
        network.kill(members[fault.a]);
    }
    network.run();

    // The flush: whoever has not ended stops.
    const test::Reference reference(faults.plan, members, faults.options, inputs);
    std::vector<std::uint32_t> kept;
    std::optional<std::uint32_t> has_result;
    for (std::uint32_t i = 0; i < faults.members; ++i) {
        Network::Node& node = network.at(members[i]);
        if (!node.alive) continue;
        kept.push_back(i);
        // Of two, both ends know by themselves.
        EXPECT_TRUE(faults.members > 2 || node.outcomes.size() == 1) << "hangs";
        node.engine->abandon();
        EXPECT_TRUE(node.refusals.empty()) << say(node.refusals[0]);
        const auto outcome = node.outcomes.find({1, 9});
        EXPECT_NE(outcome, node.outcomes.end());
        if (const auto* interrupted = std::get_if<Interrupted>(&outcome->second)) {
            EXPECT_FALSE(node.engine->result({1, 9}).has_value());
            EXPECT_EQ(interrupted->known.size(), faults.plan.trees.size());
            for (std::uint32_t tree = 0; tree < interrupted->known.size(); ++tree) {
                for (std::uint32_t chunk = 0; chunk < interrupted->known[tree].size(); ++chunk) {
                    if (!interrupted->known[tree][chunk]) continue;
                    const Range range = schedules[i]->floats_of(tree, chunk);
                    EXPECT_TRUE(test::same_bits(std::span(holders[i]->output).subspan(range.first, range.count),
                                                std::span(reference.result()).subspan(range.first, range.count)));
                }
            }
        } else {
            EXPECT_TRUE(std::holds_alternative<Complete>(outcome->second));
            EXPECT_TRUE(test::same_bits(holders[i]->output, reference.result()));
            has_result = i;
        }
    }
    network.run();
    for (const std::uint32_t i : kept) {
        if (!std::holds_alternative<Interrupted>(network.at(members[i]).outcomes.at({1, 9}))) continue;
        EXPECT_EQ(network.at(members[i]).engine->pool().used_bytes(), 0U);
        EXPECT_EQ(holders[i].use_count(), 1) << "memory of an exchange that is over";
    }
    ++faults.runs;
    if (has_result) {
        ++faults.completed;
        const auto given = network.at(members[*has_result]).engine->result({1, 9});
        for (const std::uint32_t i : kept) {
            std::vector<float> taken(floats);
            EXPECT_TRUE(decode_result(*schedules[i], given->bytes, taken).ok());
            EXPECT_TRUE(test::same_bits(taken, reference.result()));
        }
        return true;
    }
    ++faults.interrupted;
    const auto root = centre(faults.members, fault);
    if (!root) return true;
    std::vector<NodeId> survivors;
    std::vector<std::vector<float>> again;
    for (const std::uint32_t i : kept) {
        survivors.push_back(members[i]);
        again.push_back(gradient(floats, 50 + i));
    }
    const auto place = static_cast<std::uint32_t>(std::find(kept.begin(), kept.end(), *root) - kept.begin());
    const plan::SyncPlan redo = test::star_plan(static_cast<std::uint32_t>(kept.size()), floats, place);
    std::vector<std::shared_ptr<Holder>> fresh;
    for (std::size_t i = 0; i < kept.size(); ++i) {
        fresh.push_back(test::hold(again[i]));
        const auto schedule = test::schedule_for(redo, survivors, survivors[i], faults.options);
        EXPECT_TRUE(network.at(survivors[i]).engine->begin({2, 9}, schedule, test::vectors_of(fresh[i])).ok());
        for (int k = 0; k < 5; ++k) network.step();
    }
    network.run();
    const test::Reference second(redo, survivors, faults.options, again);
    for (std::size_t i = 0; i < kept.size(); ++i) {
        EXPECT_TRUE(std::holds_alternative<Complete>(network.at(survivors[i]).outcomes.at({2, 9})));
        EXPECT_TRUE(test::same_bits(fresh[i]->output, second.result()));
    }
    return true;
}

void strike_everywhere(Faults& faults) {
    std::vector<Fault> kinds;
    for (std::uint32_t a = 0; a < faults.members; ++a) {
        kinds.push_back({a, std::nullopt});
        for (std::uint32_t b = a + 1; b < faults.members; ++b) kinds.push_back({a, b});
    }
    for (const Fault& fault : kinds) {
        for (std::uint64_t moment = 0; strike(faults, fault, moment); ++moment) {
            if (::testing::Test::HasFailure()) {
                FAIL() << "fault of " << fault.a << ", " << fault.b.value_or(99) << " at " << moment << ", seed "
                       << faults.seed;
            }
        }
    }
}

TEST(AllReduce, AFaultAtAnyMomentEndsItTypedAndTheStepIsRedoneOrCompleted) {
    const std::uint64_t seed = plan::test::fresh_seed();
    std::mt19937_64 random(seed);
    std::uint64_t runs = 0;
    std::uint64_t completed = 0;
    for (const std::uint32_t members : {2U, 3U, 4U}) {
        for (const Encoding encoding : {Encoding::fp32, Encoding::int8}) {
            for (int round = 0; round < 3; ++round) {
                Faults faults{.members = members,
                              .plan = test::random_plan(random, members, 700),
                              .options = {.encoding = encoding, .chunk_bytes = 512, .window_chunks = 2},
                              .seed = random()};
                faults.plan.trees.resize(std::min<std::size_t>(faults.plan.trees.size(), 3));
                strike_everywhere(faults);
                if (::testing::Test::HasFailure()) return;
                runs += faults.runs;
                completed += faults.completed;
            }
        }
    }
    std::cout << runs << " faults, in " << completed << " of them a survivor had the result\n";
    EXPECT_GT(completed, 0U);
    EXPECT_LT(completed, runs);
}

}  // namespace
}  // namespace chaos::collective
