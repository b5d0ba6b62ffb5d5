#include "all_reduce.h"

#include "gloo_rival.h"
#include "peer.h"
#include "processes.h"
#include "report.h"
#include "temporary_folder.h"

#include <chrono>
#include <filesystem>
#include <limits>
#include <thread>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Whole numbers, small enough that every order of addition gives the same bits.
float summand(unsigned number, std::size_t i) {
    return static_cast<float>((i * 7919 + number * 104'729) % 65'536);
}

void link_all(Peer& peer, Meeting& meeting, unsigned number, unsigned count) {
    meeting.tell_port(number, peer.listen("127.0.0.1:0"));
    for (unsigned other = 0; other < number; ++other)
        peer.connect(other, "127.0.0.1:" + std::to_string(meeting.port_of(other)));
    peer.await_links(count - 1);
}

// Nobody ends before everybody is done.
void part(Peer& peer, Meeting& meeting) {
    meeting.wait([&] { peer.run_briefly(); });
    meeting.wait([] { std::this_thread::yield(); });
}

void check(const std::vector<float>& sums, unsigned count) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
        float expected = 0;
        for (unsigned number = 0; number < count; ++number) expected += summand(number, i);
        if (sums[i] != expected) give_up("a wrong sum");
    }
}

template <class AllReduce>
double seconds_of(const AllReduce& all_reduce, std::vector<std::vector<float>>& outputs, unsigned repeats) {
    const auto begun = Clock::now();
    for (unsigned i = 0; i < repeats; ++i) all_reduce(outputs[i % outputs.size()]);
    return std::chrono::duration<double>(Clock::now() - begun).count() / repeats;
}

std::vector<double> take_part(Meeting& meeting, const fs::path& folder, unsigned number, unsigned count,
                              std::size_t floats, bool tls, unsigned rounds, unsigned repeats) {
    GlooRival gloo(folder.string(), static_cast<int>(number), static_cast<int>(count), "localhost");
    Peer peer(number, !tls, 1);
    link_all(peer, meeting, number, count);
    const plan::SyncShape shape = peer.plan(count, floats, collective::Encoding::fp32);

    std::vector<float> input(floats);
    for (std::size_t i = 0; i < floats; ++i) input[i] = summand(number, i);
    std::vector<std::vector<float>> outputs(2, std::vector<float>(floats));  // a result stays for one more step
    std::vector<double> ours;
    std::vector<double> theirs;
    for (unsigned round = 0; round < rounds + 1; ++round) {  // the first warms up
        for (const bool gloo_turn : {round % 2 == 0, round % 2 != 0}) {
            for (auto& output : outputs) std::ranges::fill(output, std::numeric_limits<float>::quiet_NaN());
            gloo.barrier();
            const double seconds =
                gloo_turn ? seconds_of([&](auto& output) { gloo.all_reduce(input, output); }, outputs, repeats)
                          : seconds_of([&](auto& output) { peer.all_reduce(input, output); }, outputs, repeats);
            meeting.wait([&] { peer.run_briefly(); });
            for (const auto& output : outputs) check(output, count);
            if (round > 0) (gloo_turn ? theirs : ours).push_back(seconds);
        }
    }
    part(peer, meeting);
    return {median(ours), median(theirs), static_cast<double>(shape)};
}

}  // namespace

AllReduceFigures compare_all_reduce(unsigned processes, std::size_t floats, bool tls, unsigned rounds,
                                    unsigned repeats) {
    const test::TemporaryFolder folder;  // for Gloo's processes to find each other in
    const std::vector<double> seen = run_together(processes, [&](Meeting& meeting, unsigned number) {
        return take_part(meeting, folder.path(), number, processes, floats, tls, rounds, repeats);
    });
    return {.chaos_s = seen[0],
            .gloo_s = seen[1],
            .shape = plan::name_of(static_cast<plan::SyncShape>(static_cast<int>(seen[2])))};
}

double int8_bytes_ratio(std::size_t floats) {
    const std::vector<double> seen = run_together(2, [&](Meeting& meeting, unsigned number) {
        Peer peer(number, true, 1);
        link_all(peer, meeting, number, 2);
        std::vector<float> input(floats);
        for (std::size_t i = 0; i < floats; ++i) input[i] = summand(number, i);
        std::vector<std::vector<float>> outputs(2, std::vector<float>(floats));
        std::vector<double> received{0};  // all of it, once the result is there
        for (const auto encoding : {collective::Encoding::fp32, collective::Encoding::int8}) {
            (void)peer.plan(2, floats, encoding);
            peer.all_reduce(input, outputs[received.size() % 2]);
            meeting.wait([&] { peer.run_briefly(); });
            received.push_back(static_cast<double>(peer.links.figures(id_of(1 - number)).bulk_received_bytes));
        }
        part(peer, meeting);
        return std::vector<double>{received[1] / (received[2] - received[1])};
    });
    return seen[0];
}

}  // namespace chaos::bench
