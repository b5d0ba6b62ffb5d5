// The world of one run: hosts, the network between them, the events to come, the faults, and the watchers.
#pragma once

#include "sim/faults.h"
#include "sim/invariants.h"
#include "sim/network.h"
#include "sim/node.h"
#include "sim/planner.h"
#include "sim/scenario.h"

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace chaos::sim {

struct Statistics {
    Time ended_at = 0;
    std::uint64_t events = 0;
    std::uint64_t messages = 0;  // of the core
    std::uint64_t bytes = 0;     // of those
    std::uint64_t steps = 0;     // committed, of all lines
    std::uint64_t views = 0;
    std::uint64_t forks = 0;
    std::uint64_t foundings = 0;
    Time stalled = 0;         // node-nanoseconds in which a step was stopped
    Time resumed = 0;         // from the end of the faults until a step was committed again
    Time recovered = 0;       // likewise until all train in one view
    Time resume_allowed = 0;  // I3: what these two may be
    Time recovery_allowed = 0;
    bool stopped_rightly = false;  // strict, and a quorum is gone for good
    struct Kind {
        std::string_view name;
        std::uint64_t messages = 0;
        std::uint64_t bytes = 0;
    };
    std::array<Kind, std::variant_size_v<cluster::Body>> kinds;  // in the order of cluster::Body
};

// What most bytes were sent for: "Heartbeat 62 %, Decide 20 %, Accept 9 %".
[[nodiscard]] std::string busiest_kinds(const Statistics& statistics);

// What a report is drawn from.
struct Sample {
    Time at = 0;
    std::uint32_t running = 0;
    std::uint32_t active = 0;
    std::uint32_t lines = 0;
    std::uint64_t steps = 0;
    std::uint64_t messages = 0;
    Time stalled = 0;
};
struct Mark {
    Time at = 0;
    std::string text;
};

struct Watching {
    bool trace = false;       // lines to stdout
    bool trace_hash = false;  // of those lines, without printing them
    bool timeline = false;
};

class World {
public:
    World(const Setup& setup, const Watching& watching);
    ~World();
    void run();

    [[nodiscard]] const std::optional<std::string>& failure() const { return invariants_.failure(); }
    [[nodiscard]] Statistics statistics() const;
    // Of every line of the trace; 0 unless asked for.
    [[nodiscard]] std::uint64_t trace_hash() const { return trace_hash_; }
    // Of the states that nodes hold in the end.
    [[nodiscard]] std::uint64_t state_hash() const;
    [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
    [[nodiscard]] const std::vector<Mark>& marks() const { return marks_; }

    // ---- for nodes
    [[nodiscard]] Time now() const { return now_; }
    [[nodiscard]] const Setup& setup() const { return setup_; }
    [[nodiscard]] const Toy& toy() const { return toy_; }
    Planner& planner(Host host) { return planners_[planners_.size() == 1 ? 0 : host]; }
    Invariants& invariants() { return invariants_; }
    Node& node(Host host) { return *nodes_[host]; }
    [[nodiscard]] bool tracing() const { return watching_.trace || watching_.trace_hash; }
    void trace(Host host, const std::string& text);
    void adopted(Host host, const cluster::ViewPtr& view);
    void applied(Host host, const AppliedStep& step);
    [[nodiscard]] std::vector<cluster::Candidate> contacts_for(Host host) const;
    [[nodiscard]] cluster::Founding founding() const;

    // Connections (wires.cpp).
    void send(Host from, Host to, const cluster::MessagePtr& message);
    void send_bulk(Host from, Host to, const BulkPtr& bulk);
    void dial(Host from, Host to);
    void close(Host from, Host to);
    void wake(Host host, Time at, TrainerTimer timer, std::uint64_t tag);
    void tick(Host host, Time at);

private:
    struct Event {
        enum class Kind : std::uint8_t {
            message,
            garbled,
            bulk,
            closed,
            dialled,
            answered,
            dial_failed,
            tick,
            timer,
            fault,
            poll
        };
        Kind kind = Kind::poll;
        TrainerTimer timer = TrainerTimer::compute;
        std::uint8_t attempt = 0;
        bool queued = false;     // has waited for its turn at a slow node
        Host host = 0;           // where it happens
        Host peer = 0;           // who caused it
        std::uint64_t tag = 0;   // connection, dial, timer or fault
        std::uint64_t life = 0;  // of the process it is for
        std::shared_ptr<const void> payload;
    };

    // ---- wires.cpp
    void handle(Event& event);
    void on_message(Event& event);
    void on_bulk(Event& event);
    void on_closed(const Event& event);
    void on_dialled(Event& event);
    void on_answered(const Event& event);
    void forget_connection(Host host, std::uint64_t connection);
    void hang_up(Host from, std::uint64_t connection, Time at_least);
    void refuse(const Event& event);
    [[nodiscard]] const std::pair<Host, std::uint64_t>* find_connection(Host host, Host peer) const;

    // ---- striking.cpp
    void strike(const Fault& fault);
    void strike_process(const Fault& fault, Node& node);
    void strike_network(const Fault& fault);
    void ask(const Fault& fault, Node& node);
    void heal();

    // ---- ending.cpp
    [[nodiscard]] static bool leaves_quorum(const Node& node);
    void check_single(Host host);
    [[nodiscard]] bool somebody_must_wait() const;
    [[nodiscard]] std::size_t liars_about_steps() const;
    void allow_recovery();
    void check_recovered();
    void check_patience();
    [[nodiscard]] bool train_together();
    [[nodiscard]] bool somebody_leaves() const;
    [[nodiscard]] bool leavers_are_last() const;
    [[nodiscard]] bool is_barred(Host host) const;
    [[nodiscard]] bool quorum_is_gone() const;
    void explain_stuck();

    // ---- world.cpp
    void trace_line(const std::string& who, const std::string& text);
    void boot(Host host, bool founds);
    void end(Host host, bool silently);
    void poll();
    void prepare_cluster();
    void check_fork(Host host, const cluster::View& view);
    void check_trust(Host host, const cluster::View& view);

    Setup setup_;
    Watching watching_;
    Toy toy_;
    std::vector<Planner> planners_;  // one for all, or one each
    Network network_;
    Invariants invariants_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::vector<Event>> frozen_;  // what waits for a frozen node
    std::vector<Connection> wires_;
    Queue<Event> queue_;
    Time now_ = 0;
    bool done_ = false;
    bool healed_ = false;
    bool together_ = false;  // all are active; from then on steps are counted
    std::uint64_t steps_wanted_ = 0;
    std::uint64_t dials_ = 0;
    std::vector<Time> last_commit_;          // by host
    std::vector<std::uint32_t> commits_;     // by host, before the first crash
    std::set<cluster::Revocation> revoked_;  // by institutions
    Host struck_ = 0;                        // by the first crash
    bool quorum_left_ = false;
    std::uint32_t slowest_at_end_ = 1;  // how slow the slowest node was when the faults ended
    Time struck_at_ = 0;
    Time slowest_step_ = 0;  // before that
    Statistics statistics_;
    std::uint64_t trace_hash_ = 0;
    std::vector<Sample> samples_;
    std::vector<Mark> marks_;
};

}  // namespace chaos::sim
