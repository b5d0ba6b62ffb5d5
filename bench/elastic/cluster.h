// A cluster of real nodes in a testbed, with the toy engine, that somebody is to join:
//
//   d0 ─── d1          donors: linked to each other by fast links, and each to j at a rate of its own
//    │ ╲ ╱ │
//    │  ╳  │
//    j ────┘           the host of the joiner
#pragma once

#include "base/result.h"
#include "nodes/nodes.h"
#include "temporary_folder.h"
#include "testbed/testbed.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::bench {

struct ClusterSpec {
    std::uint64_t state_bytes = 0;     // optimizer included
    std::vector<double> rates_mbit{};  // of each donor's link to the joiner, both ways
    double between_donors_mbit = 2000.0;
    double donor_cpus = 0.15;
    double joiner_cpus = 0.6;
    std::uint64_t batch = 8;
    std::chrono::microseconds per_sample{0};
    bool quiet = false;  // no step ends any more once the cluster stands
};

inline constexpr const char* joiner_host = "j";
[[nodiscard]] std::string donor_host(std::size_t number);

class Cluster {
public:
    // All donors are active members, linked with each other.
    static Result<std::unique_ptr<Cluster>> start(const ClusterSpec& spec);

    [[nodiscard]] testbed::Testbed& box() { return box_; }
    [[nodiscard]] std::vector<NodeProcess>& donors() { return donors_; }
    [[nodiscard]] std::uint64_t state_bytes() const { return state_bytes_; }

    // From the next gradient on, on all nodes.
    [[nodiscard]] Result<void> set_pace(std::chrono::microseconds per_sample);
    // A new node asks all donors to be let in.
    [[nodiscard]] Result<NodeProcess> join();
    // Kills it; the donors have gone on without it.
    [[nodiscard]] Result<void> lose(NodeProcess& joiner);

    // A donor that was killed, in its folder.
    [[nodiscard]] Result<void> restart(std::size_t donor);
    // Waits until all donors take part in steps, and nobody else does.
    [[nodiscard]] Result<void> all_train();

    // What iperf3 carries from all donors at once to the joiner's host, bytes per second.
    [[nodiscard]] Result<double> ingress_limit(std::chrono::seconds duration);
    // Of control messages between donors, in seconds: the mean.
    [[nodiscard]] Result<double> round_trip();

private:
    Cluster(const ClusterSpec& spec, testbed::Testbed box);
    [[nodiscard]] Result<NodeProcess> start_node(const std::string& host, const std::string& dir, unsigned at_port,
                                                 const std::vector<std::string>& join);
    [[nodiscard]] Result<Line> wait_for(std::size_t donor, const Wanted& wanted, std::size_t from);
    [[nodiscard]] Result<void> quieten();
    [[nodiscard]] Result<void> set_up();

    ClusterSpec spec_;
    test::TemporaryFolder folder_;
    testbed::Testbed box_;
    std::uint64_t state_bytes_;
    unsigned joiners_ = 0;
    std::vector<NodeProcess> donors_;
};

}  // namespace chaos::bench
