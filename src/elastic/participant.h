// A member's training side, whole: steps with the others, shards for whoever joins, the state from the others when it
// joins itself, checkpoints. What happens is told to an observer; what is to happen, the cluster's core decides.
//
//                      ┌── Steps    compute, all-reduce, apply; flush, take, redo
//   live::Member ◄───► ├── Donor    shards and results for joiners
//                      ├── Joiner   the state, from all neighbours at once
//                      └── checkpoints of stable steps, by those who stand longest
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "elastic/compute_thread.h"
#include "elastic/describer.h"
#include "elastic/donor.h"
#include "elastic/joiner.h"
#include "elastic/journal.h"
#include "elastic/offences.h"
#include "elastic/steps.h"
#include "elastic/trainer.h"
#include "live/member.h"
#include "state/checkpoint.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace chaos::elastic {

class Observer {
public:
    virtual ~Observer() = default;
    virtual void adopted(const ViewPtr& view) = 0;
    // The step that is told of next was committed under this view, which was over before this joiner adopted its first.
    virtual void followed(const ViewPtr& view) = 0;
    // A step is in the state. `outcome` is only what a joiner knows of it where it followed. After the run's last step
    // there is one more that leaves the state and its lineage as they are: it brings what everybody evaluated last.
    virtual void applied(const Outcome& outcome, const StateLabel& state, journal::How how) = 0;
    virtual void joining(const ViewPtr& view) = 0;
    // Of a run that is over it is what its last step made.
    virtual void synced(const StateLabel& state, const cluster::Name& root) = 0;
    virtual void activated(std::uint64_t first_step) = 0;
    virtual void restored(const StateLabel& state) = 0;
    virtual void stable(std::uint64_t steps) = 0;
    virtual void hashed(const StateLabel& state, const cluster::Name& root) = 0;
    // This member's state was another than most members' (bad memory, say). It goes, and pulls the state again.
    virtual void astray(NodeId node, const StateLabel& state) = 0;
    // By the results of the last steps, this member is a repeat offender (offences.h). It is going to be expelled.
    virtual void offender(NodeId node, std::uint64_t step) = 0;
    virtual void saved(std::uint64_t step, const std::filesystem::path& path) = 0;
    virtual void excluded(const std::string& why, bool final) = 0;
    virtual void left() = 0;
    // The run's last step is applied, everybody has it, and its checkpoint is on this node's disk.
    virtual void finished() = 0;
    virtual void note(const std::string& text) = 0;
    // As live::Worker's.
    virtual void refused(const std::string& text, bool /*by_others*/) { note(text); }
    virtual void link_refused(NodeId /*peer*/, bool /*connect*/, const std::string& text) { note(text); }
    virtual void failed(const Error& why) = 0;  // the node cannot go on
};

class Participant final : private live::Worker {
public:
    // `options.checkpoint` is filled in here. Checkpoints that are found must be the trainer's run's. `description` is
    // what newcomers are told of the run (describer.h).
    static Result<std::unique_ptr<Participant>> open(net::asio::io_context& loop, const net::SecretKey& key,
                                                     const net::Credential& credential, live::Options options,
                                                     Trainer& trainer, const state::CheckpointFolder& checkpoints,
                                                     const Result<std::string>& description, Observer& observer);
    ~Participant() override;
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

    [[nodiscard]] live::Member& member() { return member_; }
    [[nodiscard]] const live::Member& member() const { return member_; }
    [[nodiscard]] StateLabel state() const { return steps_.label(); }
    [[nodiscard]] const Joiner& joiner() const { return joiner_; }
    [[nodiscard]] const Donor& donor() const { return donor_; }
    [[nodiscard]] const Steps& steps() const { return steps_; }
    [[nodiscard]] bool is_over() const { return over_; }
    // Before the process ends: where nobody else goes on, no further step is begun, and the state becomes a checkpoint
    // once the step in flight is applied or given up. `then` may come at once.
    void save_if_alone(std::function<void(const Result<void>&)> then);
    // Measured on this node; 0: not known.
    [[nodiscard]] double samples_per_s() const { return samples_per_s_; }

    // Nothing is called afterwards. The state stays as it is.
    void stop();

private:
    Participant(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
                const live::Options& options, Trainer& trainer, const state::CheckpointFolder& checkpoints,
                const Result<std::string>& description, Observer& observer);

    void adopted(const ViewPtr& view) override;
    void start_step(std::uint64_t step, const ViewPtr& view) override;
    void stop_step() override;
    void take_result(std::uint64_t step, const std::vector<NodeId>& holders) override;
    void restore(std::uint64_t applied, const cluster::Name& agreed) override;
    void begin_sync(const ViewPtr& view) override;
    void activated(std::uint64_t first_step, const ViewPtr& view) override;
    void excluded(const std::string& why, bool final) override;
    void left() override;
    void stable(std::uint64_t steps) override;
    void link_up(NodeId peer) override;
    void link_down(NodeId peer) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void note(const std::string& text) override;
    void refused(const std::string& text, bool by_others) override;
    void link_refused(NodeId peer, bool connect, const std::string& text) override;
    void failed(const Error& why) override;

    void step_applied(const AppliedStep& step);
    void computed(std::uint64_t samples, std::chrono::nanoseconds took);
    void set_checkpoints_aside(std::uint64_t applied);
    void state_synced(const StateLabel& state, const cluster::Name& root);
    void state_rolled(const StateLabel& state, const state::StepRecord& record);
    void end_join_if_there();
    void end_join();
    void stop_training();
    void begin_sync_if_still();
    void tell_stable();
    [[nodiscard]] bool keeps_checkpoints() const;
    [[nodiscard]] bool may_save() const;
    void save_if_due();
    void save_at_the_end();
    void publish_checkpoint();
    void finish_if_over();

    struct Unstable {  // a checkpoint that is written, of a step that may still be undone
        StateLabel state;
        bool written = false;
    };

    Trainer& trainer_;
    state::CheckpointFolder checkpoints_;
    Observer& observer_;
    bool stopped_ = false;
    bool over_ = false;
    bool ends_ = false;                                    // no step is begun any more
    std::function<void(const Result<void>&)> at_the_end_;  // when the state is saved
    bool has_failed_ = false;
    bool astray_ = false;                      // what is in memory is not the cluster's, and nothing to be saved
    bool awaits_sync_ = false;                 // the join begins when nothing is being computed any more
    std::optional<std::uint64_t> first_step_;  // this joiner was let in for
    std::set<cluster::Name> told_views_;       // since this join began
    unsigned computed_ = 0;                    // times that samples were
    double samples_per_s_ = 0.0;
    std::uint32_t told_speed_ = 0;
    std::uint64_t synced_ = 0;  // steps of the state that donors said is stable
    std::uint64_t last_saved_ = 0;
    std::uint64_t agreed_ = 0;  // steps of the state when it was last known to be what the others have
    std::uint64_t told_stable_ = 0;
    std::optional<Unstable> unstable_;
    Offences offences_;
    ComputeThread thread_;
    Steps steps_;
    Donor donor_;
    Joiner joiner_;
    Describer describer_;
    live::Member member_;
};

}  // namespace chaos::elastic
