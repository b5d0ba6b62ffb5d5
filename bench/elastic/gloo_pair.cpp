// gloo_pair FOLDER NUMBER ADDRESS FLOATS: one of two processes, 0 and 1, between which Gloo sums so many floats. They
// find each other in the folder, and listen at their addresses. Prints the seconds of an all-reduce.
#include "gloo_rival.h"
#include "report.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

constexpr int processes = 2;
constexpr int rounds = 9;

double all_reduce_s(const std::string& folder, int number, const std::string& address, std::size_t floats) {
    using Clock = std::chrono::steady_clock;
    chaos::bench::GlooRival gloo(folder, number, processes, address);
    std::vector<float> input(floats, 1.0F);
    std::vector<float> output(floats);
    std::vector<double> seconds;
    for (int round = 0; round < rounds + 1; ++round) {  // the first warms up
        gloo.barrier();
        const auto begun = Clock::now();
        gloo.all_reduce(input, output);
        if (round > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begun).count());
    }
    gloo.barrier();
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
