#include "all_reduce.h"

#include "peer.h"

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A folder that the processes meet in.
class MeetingPlace {
public:
    MeetingPlace() {
        std::string name = (fs::temp_directory_path() / "chaos-bench-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) std::abort();
        path_ = name;
    }
    ~MeetingPlace() { fs::remove_all(path_); }
    MeetingPlace(const MeetingPlace&) = delete;
    MeetingPlace& operator=(const MeetingPlace&) = delete;
    [[nodiscard]] const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

std::shared_ptr<gloo::Context> meet_by_gloo(const fs::path& folder, unsigned number, unsigned count) {
    gloo::transport::tcp::attr loopback;
    loopback.hostname = "localhost";
    auto device = gloo::transport::tcp::CreateDevice(loopback);
    auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(number), static_cast<int>(count));
    gloo::rendezvous::FileStore store(folder.string());
    context->connectFullMesh(store, device);
    return context;
}

// Waits for the file that tells where another process listens.
std::string address_in(const fs::path& file) {
    std::string address;
    while (!(std::ifstream(file) >> address)) std::this_thread::yield();
    return address;
}

void meet_by_links(Peer& peer, const fs::path& folder, unsigned number, unsigned count) {
    const std::uint16_t port = peer.listen("127.0.0.1:0");
    const fs::path draft = folder / ("draft" + std::to_string(number));
    std::ofstream(draft) << "127.0.0.1:" << port;
    fs::rename(draft, folder / ("peer" + std::to_string(number)));
    for (unsigned other = 0; other < number; ++other)
        peer.connect(other, address_in(folder / ("peer" + std::to_string(other))));
    peer.await_links(count - 1);
}

double seconds_since(Clock::time_point begun) {
    return std::chrono::duration<double>(Clock::now() - begun).count();
}

double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
}

AllReduceFigures take_part(const fs::path& folder, unsigned number, unsigned count, std::size_t floats, bool tls,
                           unsigned rounds, unsigned repeats) {
    const auto context = meet_by_gloo(folder, number, count);
    Peer peer(number, !tls, 1);
    meet_by_links(peer, folder, number, count);
    peer.plan(count, floats, collective::Encoding::fp32);

    std::vector<float> input(floats, static_cast<float>(number + 1));
    std::vector<std::vector<float>> outputs(2, std::vector<float>(floats));  // what is sent stays for one more step
    std::size_t turn = 0;
    std::vector<float> in_place(floats);
    std::vector<double> chaos_s;
    std::vector<double> gloo_s;
    gloo::BarrierOptions barrier(context);
    for (unsigned round = 0; round < rounds + 1; ++round) {  // the first warms up
        gloo::barrier(barrier);
        auto begun = Clock::now();
        for (unsigned i = 0; i < repeats; ++i) peer.all_reduce(input, outputs[turn++ % 2]);
        const double ours = seconds_since(begun) / repeats;
        peer.barrier(count);  // its loop must run until everybody has what it owes them

        gloo::barrier(barrier);
        begun = Clock::now();
        for (unsigned i = 0; i < repeats; ++i) {
            gloo::AllreduceOptions options(context);
            options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
            options.setInput(input.data(), floats);
            options.setOutput(in_place.data(), floats);
            options.setReduceFunction(
                [](void* sum, const void* a, const void* b, std::size_t size) { gloo::sum<float>(sum, a, b, size); });
            gloo::allreduce(options);
        }
        const double theirs = seconds_since(begun) / repeats;
        if (round == 0) continue;
        chaos_s.push_back(ours);
        gloo_s.push_back(theirs);
    }
    const float expected = static_cast<float>(count * (count + 1) / 2);
    for (const float value : outputs[0])
        if (value != expected) {
            std::fprintf(stderr, "bench links: a wrong sum\n");
            std::exit(2);
        }
    gloo::barrier(barrier);
    return {.chaos_s = median(chaos_s), .gloo_s = median(gloo_s)};
}

}  // namespace

AllReduceFigures compare_all_reduce(unsigned processes, std::size_t floats, bool tls, unsigned rounds,
                                    unsigned repeats) {
    const MeetingPlace place;
    std::vector<pid_t> others;
    for (unsigned number = 1; number < processes; ++number) {
        const pid_t child = ::fork();
        if (child == 0) {
            (void)take_part(place.path(), number, processes, floats, tls, rounds, repeats);
            std::_Exit(0);
        }
        others.push_back(child);
    }
    // In a process of its own too: what it leaves behind should not slow down the next comparison.
    int report[2];
    if (::pipe(report) != 0) std::abort();
    const pid_t first = ::fork();
    if (first == 0) {
        const AllReduceFigures figures = take_part(place.path(), 0, processes, floats, tls, rounds, repeats);
        if (::write(report[1], &figures, sizeof figures) != sizeof figures) std::_Exit(2);
        std::_Exit(0);
    }
    others.push_back(first);
    ::close(report[1]);
    AllReduceFigures figures;
    const bool whole = ::read(report[0], &figures, sizeof figures) == sizeof figures;
    ::close(report[0]);
    bool failed = !whole;
    for (const pid_t child : others) {
        int status = 0;
        ::waitpid(child, &status, 0);
        failed = failed || status != 0;
    }
    if (failed) {
        std::fprintf(stderr, "bench links: an all-reduce did not finish\n");
        std::exit(2);
    }
    return figures;
}

}  // namespace chaos::bench
