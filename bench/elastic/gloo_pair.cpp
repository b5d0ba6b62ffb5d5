// gloo_pair FOLDER NUMBER ADDRESS FLOATS: one of two processes, 0 and 1, between which Gloo sums so many floats. They
// find each other in the folder, and listen at their addresses. Prints the seconds of an all-reduce.
#include "report.h"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int processes = 2;
constexpr int rounds = 9;

double all_reduce_s(const std::string& folder, int number, const std::string& address, std::size_t floats) {
    using Clock = std::chrono::steady_clock;
    gloo::transport::tcp::attr here;
    here.hostname = address;
    auto device = gloo::transport::tcp::CreateDevice(here);
    gloo::rendezvous::FileStore store(folder);
    const auto context = std::make_shared<gloo::rendezvous::Context>(number, processes);
    context->connectFullMesh(store, device);

    std::vector<float> input(floats, 1.0F);
    std::vector<float> output(floats);
    std::vector<double> seconds;
    for (int round = 0; round < rounds + 1; ++round) {  // the first warms up
        gloo::BarrierOptions barrier(context);
        gloo::barrier(barrier);
        const auto begun = Clock::now();
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setInput(input.data(), input.size());
        options.setOutput(output.data(), output.size());
        options.setReduceFunction(
            [](void* sum, const void* a, const void* b, std::size_t size) { gloo::sum<float>(sum, a, b, size); });
        gloo::allreduce(options);
        if (round > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begun).count());
    }
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    return chaos::bench::median(seconds);
}

}  // namespace

int main(int count, char** values) {
    if (count != 5) return 2;
    try {
        std::printf("%.9f\n", all_reduce_s(values[1], std::stoi(values[2]), values[3], std::stoul(values[4])));
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "gloo_pair: %s\n", error.what());
        return 1;
    }
}
