// One simulated process and its host: the core, the trainer, a clock, a disk. It carries out what the core decides and
// tells it what happens.
#pragma once

#include "cluster/member.h"
#include "sim/clock.h"
#include "sim/signer.h"
#include "sim/trainer.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace chaos::sim {

class World;

struct Disk {
    std::optional<cluster::DiskRecord> record;
    std::deque<Snapshot> checkpoints;  // the newest last
};

// A process may come back without a restart: each life of a node has this many incarnations.
inline constexpr std::uint64_t incarnations_per_life = 1 << 20;

class Node final : public TrainerEdge {
public:
    Node(World& world, Host host);

    // ---- the process
    void boot(bool founds);
    void end();  // everything but the disk is gone
    [[nodiscard]] bool running() const { return member_ != nullptr; }
    [[nodiscard]] std::uint64_t life() const { return life_; }
    void feed(cluster::Event event);
    void on_bulk(cluster::NodeId from, const BulkPtr& bulk);
    void on_timer(TrainerTimer timer, std::uint64_t tag);
    void on_tick();
    void reschedule();  // after the clock changed

    [[nodiscard]] const cluster::Member& member() const { return *member_; }
    [[nodiscard]] const Trainer& trainer() const { return *trainer_; }
    Trainer& trainer() { return *trainer_; }

    // ---- the host
    Clock clock;
    Disk disk;
    bool started = false;  // was ever booted
    bool frozen = false;
    bool silent = false;           // down without a sign
    bool finished = false;         // left, expelled or revoked: it need not come back
    bool asked_to_leave = false;   // this process, not one before it
    bool for_good = false;         // is down and stays so
    std::uint64_t blank_life = 0;  // the last life that began with an empty disk
    std::uint32_t slowness = 1;
    std::uint32_t lies = 0;
    std::uint32_t double_votes = 0;                           // how often it voted twice in one ballot
    Time busy_until = 0;                                      // a slow node handles one message after the other
    std::vector<std::pair<Host, std::uint64_t>> connections;  // peer and number, of those that stand here
    std::vector<std::pair<Host, std::uint64_t>> dials;        // under way

    // ---- figures
    Time stopped_at = -1;
    Time stalled = 0;

    // ---- TrainerEdge
    [[nodiscard]] Time now() const override;
    [[nodiscard]] cluster::NodeId self() const override { return id_; }
    [[nodiscard]] bool linked(cluster::NodeId peer) const override;
    [[nodiscard]] std::vector<cluster::NodeId> linked_peers() const override;
    void send(cluster::NodeId to, BulkPtr bulk) override;
    void wake_after(Time delay, TrainerTimer timer, std::uint64_t tag) override;
    void tell(cluster::Event event) override;
    [[nodiscard]] std::uint64_t stable() const override;
    [[nodiscard]] cluster::ViewPtr governing(std::uint64_t step) const override;
    void keep_checkpoint(const Snapshot& snapshot) override;
    [[nodiscard]] const Snapshot* checkpoint(std::uint64_t applied, const Digest& lineage) const override;
    void observe(const AppliedStep& step) override;
    void observe_synced(std::uint64_t applied, const Digest& lineage, std::uint64_t state_hash) override;
    void note(std::string text) override;
    void broken(std::string text) override;

private:
    void drain();
    void carry_out(cluster::Action& action);
    void send_control(cluster::Send& send);
    void check_vote(const cluster::DiskRecord& next);
    void check_promise(std::uint64_t step);
    [[nodiscard]] cluster::MessagePtr own_lie(const cluster::Message& message, std::uint64_t draw);
    [[nodiscard]] cluster::MessagePtr meddling(std::uint64_t draw);
    [[nodiscard]] cluster::MessagePtr false_word(std::uint64_t draw);
    [[nodiscard]] std::vector<std::uint8_t> credential();
    void tell_lies(Host to, const cluster::Message& message);
    void schedule_tick();

    World& world_;
    Host host_;
    cluster::NodeId id_;
    Signer signer_;
    std::unique_ptr<cluster::Member> member_;
    std::optional<Trainer> trainer_;
    std::uint64_t life_ = 0;
    std::uint64_t incarnation_ = 0;
    std::deque<cluster::Event> inbox_;
    bool draining_ = false;
    std::uint64_t stable_seen_ = 0;
    Time tick_at_ = -1;  // of the tick that is in the queue
};

}  // namespace chaos::sim
