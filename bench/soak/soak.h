// Real nodes on this machine train while faults happen to them at random, one after the other and several at once.
// Training must go on within I3's bound, and nodes that live for long must neither grow nor keep descriptors that they
// have no use for; in the end the journals must show that the invariants held, and the run computed again must have
// the same bits. ./dev soak does it for long, with a toy; ./dev bench elastic with real models.
#pragma once

#include "nodes/local_cluster.h"
#include "soak/lateness.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace chaos::bench {

enum class Fault : std::uint8_t { kill, kill_two, freeze, sever, part, remove_link, add_link, leave, all_down };
[[nodiscard]] std::string name_of(Fault fault);

struct SoakOptions {
    unsigned faults = 500;
    unsigned nodes = 8;
    std::uint64_t seed = 0;
    std::filesystem::path folder{};  // new or empty
    std::string run{};               // a run file's content; empty: a toy's
    std::filesystem::path data{};    // where its data files are; empty: it has none
    std::uint64_t until_step = 0;    // no more faults then; 0: all of them happen
    bool strict = false;             // the policy, instead of continue
    bool all_may_fall = true;        // all at once, now and then: the run goes back to a checkpoint
    // Beyond I3: all nodes share this machine's cores, with processes that begin or compute a run again.
    double scheduling_s = 0.5;
};

struct SoakReport {
    std::uint64_t steps = 0;
    unsigned faults = 0;
    std::uint64_t views = 0;
    struct Kind {
        unsigned times = 0;
        double longest_pause_s = 0.0;  // between two steps of a node that the fault did not hit
    };
    std::map<Fault, Kind> kinds;
    double longest_pause_over_bound = 0.0;  // where I3 was closest to its bound, scheduling included
    double longest_pause_over_i3 = 0.0;     // likewise, to what I3 says and no more
    unsigned eldest_hurt = 0;               // times that a fault hit the longest-standing member
    std::optional<double> memory_growth;    // of the node for which it is largest, relative; none: too short to say
    std::int64_t descriptors_growth = 0;    // likewise, beyond those of its links
    std::uint64_t replayed = 0;             // steps that had the same bits when they were computed again
};

class Soak {
public:
    explicit Soak(const SoakOptions& options);
    // An error: something is not as it must be; the nodes' folders show what happened.
    [[nodiscard]] Result<SoakReport> run();

private:
    [[nodiscard]] Result<void> begin();
    [[nodiscard]] bool goes_on();
    // I3: detection, two round trips and a step.
    [[nodiscard]] double i3_bound_s(double step_s) const;
    // As it is held to: the machine is shared, too.
    [[nodiscard]] double pause_bound_s(double step_s) const;
    [[nodiscard]] Fault choose();
    [[nodiscard]] Result<void> happen(Fault fault);
    [[nodiscard]] Result<void> kill(unsigned count);
    [[nodiscard]] Result<void> freeze();
    [[nodiscard]] Result<void> change_link(Fault fault);
    [[nodiscard]] Result<void> part();
    [[nodiscard]] Result<void> leave();
    [[nodiscard]] Result<void> all_down();
    [[nodiscard]] Result<void> judge_pause(Fault fault);
    [[nodiscard]] Result<void> until_all_train(std::chrono::seconds patience);
    [[nodiscard]] Result<bool> all_train();
    [[nodiscard]] Result<void> until_steps_advance();
    [[nodiscard]] Result<void> measure_processes();
    [[nodiscard]] Result<void> measure_memory(const std::string& name);
    [[nodiscard]] Result<void> measure_descriptors(const std::string& name);
    [[nodiscard]] Result<std::int64_t> descriptors(NodeProcess& node);
    [[nodiscard]] Result<void> end();

    // Those who train, the longest-standing first: it proposes, and writes the checkpoints.
    [[nodiscard]] Result<std::vector<std::string>> by_standing();
    [[nodiscard]] Result<void> spare_the_youngest();
    // Who is not hurt yet, `spared_` among them or not; often the longest-standing. It is hurt now.
    [[nodiscard]] Result<std::string> victim(bool spared_too);
    void hurt(const std::string& name);
    [[nodiscard]] std::vector<std::string> unhurt() const;
    [[nodiscard]] unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }
    void say(const std::string& text) const;

    struct Process {  // a node's life, as the system sees it
        pid_t pid = 0;
        unsigned seen = 0;
        std::uint64_t warm_bytes = 0;
        std::int64_t warm_descriptors = 0;
    };

    SoakOptions options_;
    LocalCluster cluster_;
    std::mt19937_64 random_;
    std::vector<std::string> names_;
    std::set<std::string> spared_;  // their processes are never ended, so that something runs for long
    std::string eldest_;            // the longest-standing member when the last fault happened
    std::set<std::string> hurt_;    // by the faults since all trained together last
    double since_ = 0.0;            // when the first of these happened
    Lateness lateness_;
    double round_trip_s_ = 0.0;  // the longest that a node measures between two faults
    unsigned happened_ = 0;
    bool second_half_ = false;
    std::map<std::string, Process> processes_;
    SoakReport report_;
};

}  // namespace chaos::bench
