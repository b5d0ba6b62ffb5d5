// One node's training side. The core decides what happens; the trainer does it: computes its share of a step, takes
// part in the all-reduce, applies results, serves those who need state, and joins by pulling it.
#pragma once

#include "cluster/member.h"
#include "sim/donor.h"
#include "sim/exchange.h"
#include "sim/joiner.h"
#include "sim/planner.h"
#include "sim/store.h"
#include "sim/trainer_edge.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace chaos::sim {

struct TrainerSettings {
    std::uint32_t speed = 100;  // samples per second
    std::uint64_t checkpoint_every = 16;
    std::uint64_t checkpoint_offset = 0;  // so that not all write at once
    bool brittle = false;  // an exchange that loses a connection fails, as live ones do; else it goes on with the next
};

class Trainer {
public:
    Trainer(TrainerEdge& edge, const Toy& toy, Planner& planner, const TrainerSettings& settings);

    [[nodiscard]] const Store& store() const { return store_; }
    [[nodiscard]] bool exchanging() const { return exchange_.has_value(); }
    [[nodiscard]] bool computing() const { return job_.running; }
    void set_slowness(std::uint32_t factor) { slowness_ = factor; }
    Donor& donor() { return donor_; }

    // What the core asks for.
    void start_step(std::uint64_t step, const cluster::ViewPtr& view);
    void stop_step();
    void take_result(std::uint64_t step);
    void restore(std::uint64_t applied, const Digest& lineage);
    void begin_sync(const cluster::ViewPtr& view);
    void activated(std::uint64_t first_step, const cluster::ViewPtr& view);
    void adopted(const cluster::ViewPtr& view);
    void excluded();

    // What happens.
    void on_bulk(cluster::NodeId from, const BulkPtr& message);
    void on_timer(TrainerTimer timer, std::uint64_t tag);
    void on_link_up(cluster::NodeId peer);
    void on_link_closed(cluster::NodeId peer);
    void on_stable(std::uint64_t count);

private:
    struct Job {  // the computation under way; it is not interrupted
        bool running = false;
        std::uint64_t step = 0;
        Digest lineage{};
        std::vector<SampleRange> ranges;
        std::uint64_t number = 0;
    };
    struct Held {  // g(s): what this node has computed of its next step
        std::uint64_t step = 0;
        Digest lineage{};
        std::vector<SampleRange> ranges;
        Gradient gradient;
    };
    struct Early {
        cluster::NodeId from;
        BulkPtr message;
    };
    void compute_share();
    void take_exchange_message(cluster::NodeId from, const BulkPtr& message, const ExchangeTag& tag);
    void finish_if_complete();
    void apply(const ResultPtr& result, How how);
    void ask_results();
    void on_result(const ResultPtr& result);
    void after_sync_message();

    TrainerEdge& edge_;
    const Toy& toy_;
    Planner& planner_;
    TrainerSettings settings_;
    Store store_;
    Donor donor_;
    Joiner joiner_;
    std::optional<Exchange> exchange_;
    std::optional<Exchange> previous_;  // complete, but not yet known to have reached everybody
    Job job_;
    Held held_;
    std::vector<Early> early_;  // messages of steps and views that this node has not reached
    std::uint64_t wanted_ = 0;  // results are asked for until this many steps are applied
    std::uint64_t asks_ = 0;
    bool asking_ = false;
    bool synced_ = false;  // a joiner that follows
    bool active_ = false;
    std::uint64_t next_checkpoint_ = 0;
    std::uint32_t slowness_ = 1;
};

}  // namespace chaos::sim
