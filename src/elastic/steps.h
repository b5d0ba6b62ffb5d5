// A member's part in the steps of a cluster, as the core orders them: it computes its share of the gradient, takes part
// in the all-reduce, applies the result; and stops, redoes or takes a result when a view says so.
//
//   start_step ──┬──► compute what is missing of the share ────────┬──► R(s) ──► committed ──► applied
//                │     (compute thread)   bucket, bucket, ...      │                       (compute thread)
//                └──► all-reduce (loop): each bucket when it is computed
//
// What arrives of R(s) is digested while the rest is on its way, whenever the compute thread has nothing else to do.
//
// A step is committed when its result R(s) is here: from then on it cannot turn out otherwise, and the cluster is told.
// Applying it is a computation like any other, done before the next.
//
// The share g(s) and R(s) are kept until the next result is here: on a redo only what was added to the share is
// computed; and whoever lacks R(s) can have it from here.
//
// Everything is called in the loop's thread; the learner works on a thread of its own.
#pragma once

#include "collective/engine.h"
#include "collective/live.h"
#include "elastic/compute_thread.h"
#include "elastic/gradient_plan.h"
#include "elastic/learner.h"
#include "elastic/work.h"
#include "live/member.h"
#include "net/limited_lines.h"
#include "net/transfers.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace chaos::elastic {

using cluster::NodeId;

// A result that was applied to the state.
struct AppliedStep {
    std::uint64_t step = 0;
    ViewPtr view;
    cluster::Name before{};  // the lineage of the state
    cluster::Name lineage{};
    bool taken = false;  // from a holder
    std::shared_ptr<const std::vector<float>> result;
};

// What a step waits for just now.
struct StepWait {
    enum class For : std::uint8_t {
        nothing,      // no step is ordered
        computing,    // this node's own work
        pause,        // it is held back for a newcomer
        connections,  // with `whom`
        sums,         // which come by `whom`: what they and those behind them contribute
        results,      // which come by `whom`
        taking,       // the result, from `whom`
    };
    For what = For::nothing;
    std::uint64_t step = 0;
    std::vector<NodeId> whom;
    std::chrono::steady_clock::time_point since;
    std::uint64_t bytes = 0;  // taking: that are here
    std::uint64_t of_bytes = 0;
};

// What the state in memory is.
struct StateLabel {
    std::uint64_t applied = 0;
    cluster::Name lineage{};

    friend bool operator==(const StateLabel&, const StateLabel&) = default;
};

class Steps final : public net::BulkReceiver {
public:
    struct Callbacks {
        std::function<void(const AppliedStep& step)> applied;
        // So many samples took so long.
        std::function<void(std::uint64_t samples, std::chrono::nanoseconds took)> computed;
        std::function<void(const std::string& text)> note;  // for the log; one sentence
        std::function<void(const Error& why)> failed;       // the learner cannot go on
    };

    Steps(net::asio::io_context& loop, ComputeThread& thread, Learner& learner, const ResultShape& result,
          collective::Encoding encoding, Callbacks callbacks);
    ~Steps() override;

    // Once, before the member starts: who it works for.
    void connect(live::Member& member);

    // From where it goes on: at the beginning, and when the state is replaced. The learner may be at work: what it
    // computes then counts for nothing. `replace`, if any, is called by the compute thread once it is done with that,
    // and before anything else.
    void begin_at(std::uint64_t applied, const cluster::Name& lineage, std::function<void()> replace = {});

    // The state was brought this far by other means, and nothing else is under way.
    void follow(const StateLabel& state);

    // As live::Worker's.
    void start_step(std::uint64_t step, const ViewPtr& view);
    void stop_step();
    // Nothing of a further step is begun, which holds up everybody; or is again.
    void hold_back(bool held);
    void take_result(std::uint64_t step, const std::vector<NodeId>& holders);
    void link_up(NodeId peer);
    void link_down(NodeId peer);
    // An error: it is not for steps.
    [[nodiscard]] Result<void> received(NodeId from, const wire::Work& message);

    [[nodiscard]] std::uint64_t committed() const { return committed_; }
    [[nodiscard]] StepWait waits() const;
    // As long as it does not change (compute_thread.h).
    [[nodiscard]] StateLabel label() const;
    // Large things of others travel here too.
    [[nodiscard]] net::Transfers& transfers() { return transfers_; }

    Place place_for(NodeId from, const net::BulkHead& head) override;
    void arrived(NodeId from, const net::BulkHead& head) override;
    void dropped(NodeId from, const net::BulkHead& head) override;

private:
    using Vector = std::shared_ptr<std::vector<float>>;
    using SchedulePtr = std::shared_ptr<const collective::Schedule>;
    using DigesterPtr = std::shared_ptr<state::ResultDigester>;

    struct Order {  // the step that is to be done
        std::uint64_t step = 0;
        ViewPtr view;
        SchedulePtr schedule;
        std::vector<SampleRange> share;
        Vector output;  // of its all-reduce, once that has begun
        DigesterPtr digester{};
        std::uint64_t unread_bytes = 0;  // that arrived since it was last read from
    };
    struct Held {  // g(s)
        std::uint64_t step = 0;
        std::vector<SampleRange> ranges;  // in the order in which they were added
        Vector gradient;
        cluster::Name view{};  // under which it was brought up to date
    };
    struct Kept {  // R(s)
        std::uint64_t step = 0;
        ViewPtr view;
        cluster::Name lineage{};  // of the state that it applies to
        Vector floats;
        std::span<const std::byte> encoded;
        std::shared_ptr<const void> encoded_owner;
        DigesterPtr digester;  // has read some of it; the compute thread's, once it was made
        bool taken = false;
        bool applied = false;
    };
    struct Taking {  // a result from a holder
        std::uint64_t step = 0;
        std::vector<NodeId> holders;
        std::size_t turn = 0;
        NodeId holder;             // whose turn it is
        bool second_hand = false;  // it takes the result itself first
        std::uint64_t transfer = 0;
        std::uint64_t progress = 0;
        bool answered = false;
        cluster::Name lineage{};  // as answered: of the state that it applies to
        bool useless = false;     // the answer does not fit
        std::optional<net::Transfers::Arrived> bytes;
        ViewPtr view;  // under which it came about
        SchedulePtr schedule;
    };

    void note_limited(const std::string& text);
    void advance();
    void advance_soon();
    void compute(std::vector<SampleRange> more);
    void begin_exchange(std::optional<std::size_t> parts_ready);
    [[nodiscard]] std::function<void(std::size_t)> teller_of_ready_parts();
    void read_ahead();
    void apply();
    [[nodiscard]] std::function<void()> unless_replaced(std::function<void()> then);
    void ended(collective::ExchangeId id, const collective::Outcome& outcome);
    void commit(Kept result);
    void stop_taking();
    void give_up_transfer();
    void choose_holder();
    void ask_next();
    void watch_transfer(std::chrono::milliseconds patience);
    void taken();
    void refuse_taken();
    void stop_giving(NodeId to);
    void give_result(NodeId to, std::uint64_t step, std::uint64_t transfer);
    [[nodiscard]] net::BulkReceiver& receiver_of(const net::BulkHead& head);
    [[nodiscard]] Vector fresh_vector();
    [[nodiscard]] SchedulePtr schedule_of(const ViewPtr& view);
    [[nodiscard]] std::vector<NodeId> unconnected() const;

    net::asio::io_context& loop_;
    ComputeThread& thread_;
    Learner& learner_;
    ResultShape shape_;
    collective::Encoding encoding_;
    Callbacks callbacks_;
    net::LimitedLines lines_{net::Allowance::Clock::now()};  // about what others send
    live::Member* member_ = nullptr;
    collective::LiveTransport transport_;
    collective::Engine engine_;
    net::Transfers transfers_;
    std::chrono::steady_clock::time_point waits_since_;  // for others
    std::uint64_t committed_ = 0;
    cluster::Name lineage_{};  // of the state, with everything applied that was
    std::optional<Order> order_;
    Held held_;
    std::optional<Kept> kept_;
    std::optional<Taking> taking_;
    std::map<NodeId, std::uint64_t> giving_;  // the last result that each was given: its transfer
    std::uint64_t beginnings_ = 0;            // what was computed before the last one counts for nothing
    bool abandoning_ = false;
    bool holds_back_ = false;
    std::vector<Vector> vectors_;  // those nobody else holds are free
    cluster::Name scheduled_{};    // the view that schedule_ is of
    SchedulePtr schedule_;
    net::asio::steady_timer patience_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::elastic
