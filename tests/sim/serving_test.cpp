#include "sim/serving.h"

#include "plan/seed.h"

#include <gtest/gtest.h>
#include <random>

namespace chaos::sim {
namespace {

using plan::TensorExchange;
using plan::TensorModel;
using plan::TensorPlan;
using plan::TensorRequest;

constexpr std::uint64_t mega = 1'000'000;
constexpr std::uint64_t giga = 1'000 * mega;

// Llama's shapes in Q4_0, with a context of 2048.
TensorModel model_of(std::uint64_t layers, std::uint64_t width, std::uint64_t heads, std::uint64_t kv_heads,
                     std::uint64_t ffn) {
    const std::uint64_t head_width = width / heads;
    TensorModel model;
    model.layers = layers;
    model.heads = heads;
    model.kv_heads = kv_heads;
    model.query_head_bytes = 2 * head_width * width * 9 / 16;
    model.kv_head_bytes = 2 * head_width * width * 9 / 16;
    model.ffn_units = ffn / 256;
    model.ffn_unit_bytes = 3 * 256 * width * 9 / 16;
    model.vocab_units = 1000;
    model.vocab_unit_bytes = 32 * width * 9 / 16;
    model.width = width;
    model.cache_bytes = 2048 * head_width * 4;
    model.everywhere_bytes = 40 * mega;
    model.ring_bytes = 16 * mega;
    return model;
}
TensorModel large() {
    return model_of(80, 8192, 64, 8, 28672);
}
TensorModel medium() {
    return model_of(32, 4096, 32, 8, 14336);
}
TensorModel small() {
    return model_of(16, 512, 8, 4, 2048);
}

TensorRequest mesh(const TensorModel& model, std::uint32_t devices, std::uint64_t rate, std::uint64_t delay_ns) {
    TensorRequest request;
    request.model = model;
    for (std::uint32_t i = 0; i < devices; ++i) {
        request.devices.push_back({.id = i,
                                   .weight_bytes_per_s = 8 * giga,
                                   .program_bytes = 60 * mega,
                                   .phase_ns = 20'000,
                                   .message_ns = 15'000});
        for (std::uint32_t other = 0; other < i; ++other) request.links.push_back({other, i, rate, rate, delay_ns});
    }
    return request;
}

double ratio_of(const TensorRequest& request, const TensorPlan& plan) {
    const ServingOutcome outcome = simulate_serving(request, plan, 5);
    return static_cast<double>(plan.predicted_ns) / static_cast<double>(outcome.token_ns);
}

TEST(Serving, OneDeviceTakesWhatWasPredicted) {
    TensorRequest request = mesh(medium(), 1, giga, 0);
    const auto plan = plan_tensor(request);
    ASSERT_TRUE(plan.ok());
    const ServingOutcome outcome = simulate_serving(request, *plan, 4);
    EXPECT_EQ(outcome.token_ns, static_cast<Time>(plan->predicted_ns));
    EXPECT_EQ(outcome.messages, 0U);
    EXPECT_EQ(outcome.devices[0].waiting_for_others, 0);
}

TEST(Serving, SeventyBillionWeightsOnEightDevicesOf4GB) {
    TensorRequest request = mesh(large(), 8, giga / 8, 200'000);
    for (plan::TensorDevice& device : request.devices) {
        device.memory_bytes = 4 * giga;
        device.disk_bytes_per_s = giga / 2;
        device.egress_bytes_per_s = device.ingress_bytes_per_s = giga / 8;
    }
    const auto plan = plan_tensor(request);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    for (const plan::TensorShare& share : plan->shares) {
        EXPECT_TRUE(share.member);
        EXPECT_LE(share.memory_bytes, 4 * giga);
        EXPECT_GT(share.streamed_bytes, 0U);
    }
    const double ratio = ratio_of(request, *plan);
    EXPECT_GT(ratio, 0.85);
    EXPECT_LT(ratio, 1.15);
}

// What devices do adds up to the time that passes.
TEST(Serving, NoTimeIsLost) {
    TensorRequest request = mesh(medium(), 3, giga, 50'000);
    request.devices[1].memory_bytes = giga;
    request.devices[1].disk_bytes_per_s = giga;
    const auto plan = plan_tensor(request);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    ASSERT_GT(plan->shares[1].streamed_bytes, 0U);
    const ServingOutcome outcome = simulate_serving(request, *plan, 4);
    for (const ServingDevice& device : outcome.devices) {
        const Time all = device.computing + device.waiting_for_disk + device.waiting_for_others;
        EXPECT_LE(all, outcome.token_ends.back());
        EXPECT_GT(all, outcome.token_ends.back() * 99 / 100);
    }
    EXPECT_EQ(outcome.messages, 4U * (2 * 32 + 1) * 6);
}

// Nobody waits for the logits of others.
TEST(Serving, WholeHeadsSpareAnExchange) {
    TensorRequest request = mesh(small(), 2, giga, 2'000'000);
    request.everyone = true;
    request.whole_heads = true;
    for (const TensorExchange exchange : {TensorExchange::direct, TensorExchange::star}) {
        request.exchanges = {exchange};
        const auto plan = plan_tensor(request);
        ASSERT_TRUE(plan.ok()) << plan.error().message;
        ASSERT_TRUE(plan->whole_heads);
        EXPECT_EQ(simulate_serving(request, *plan, 4).messages, 4U * 2 * 16 * 2);
        const double ratio = ratio_of(request, *plan);
        EXPECT_GT(ratio, 0.95);
        EXPECT_LT(ratio, 1.05);
    }
}

TEST(Serving, IsCloseToWhatWasPredicted) {
    std::mt19937_64 random(plan::test::fresh_seed());
    const auto pick = [&](std::uint64_t least, std::uint64_t most) { return least + random() % (most - least + 1); };
    double least = 10.0;
    double most = 0.0;
    int runs = 0;
    for (const TensorModel& model : {small(), medium(), large()}) {
        for (const TensorExchange exchange :
             {TensorExchange::direct, TensorExchange::scatter, TensorExchange::star, TensorExchange::tree}) {
            for (int i = 0; i < 8; ++i) {
                const auto count = static_cast<std::uint32_t>(pick(2, 8));
                TensorRequest request = mesh(model, count, giga / 8 * pick(1, 10), pick(0, 2) * 100'000);
                request.exchanges = {exchange};
                for (plan::TensorDevice& device : request.devices) {
                    device.weight_bytes_per_s = giga * pick(4, 16);
                    device.message_ns = pick(2, 30) * 1'000;
                    if (i % 2 == 0) device.egress_bytes_per_s = device.ingress_bytes_per_s = giga / 8;
                    if (i % 4 < 2) {
                        device.memory_bytes = 200 * mega + weight_bytes(model) / count * pick(60, 150) / 100;
                        device.disk_bytes_per_s = giga / 2 * pick(1, 6);
                    }
                }
                const auto plan = plan_tensor(request);
                if (!plan || plan->exchange == TensorExchange::alone) continue;
                const double ratio = ratio_of(request, *plan);
                EXPECT_GT(ratio, 0.85) << i << ": " << plan->reasons[0] << " by " << name_of(exchange);
                EXPECT_LT(ratio, 1.15) << i << ": " << plan->reasons[0] << " by " << name_of(exchange);
                least = std::min(least, ratio);
                most = std::max(most, ratio);
                ++runs;
            }
        }
    }
    EXPECT_GT(runs, 30);
    std::cout << "predicted over simulated: " << least << " to " << most << " in " << runs << " settings\n";
}

}  // namespace
}  // namespace chaos::sim
