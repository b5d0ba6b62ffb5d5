// live/ is a node's part in a cluster, for real: it drives the cluster's core (cluster/member.h) with links, the clock
// and the disk. Whoever trains or serves stands on it. It decides nothing itself: what happens goes into the core, and
// what the core answers is done, or handed to the worker.
//
//        links ──► events ──┐                     ┌──► links: send, dial, close
//        clock ──► ticks ───┼──► cluster::Member ─┼──► disk: the vote, before anything that follows from it
//     commands ─────────────┘                     └──► Worker: start a step, stop it, take a result, ...
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "base/slot_file.h"
#include "cluster/member.h"
#include "live/watch.h"
#include "net/limited_lines.h"
#include "net/links.h"
#include "net/signer.h"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::live {

using cluster::NodeId;
using cluster::ViewPtr;

struct Options {
    cluster::Options core;
    net::LinkOptions links;
    std::vector<std::string> listen;    // none: this node dials, and nobody dials it
    std::string address;                // where others reach it; empty: where it listens first
    std::vector<std::string> contacts;  // by whom it is going to join: the way there tells how others reach it
    // Where its vote is kept; empty: nowhere, and a process that comes back has no vote (tests and benches).
    std::filesystem::path folder;
    std::optional<cluster::Checkpoint> checkpoint;  // the newest stable one on this node's disk
    cluster::Name settings{};                       // as cluster::Identity's
    // Whom else this node turns away, besides those who may not be in; unset: nobody.
    std::function<bool(NodeId)> turns_away;
};

// What the cluster asks for: cluster/member.h says what each means.
class Worker {
public:
    virtual ~Worker() = default;
    virtual void adopted(const ViewPtr& view) = 0;
    virtual void start_step(std::uint64_t step, const ViewPtr& view) = 0;
    virtual void stop_step() = 0;
    virtual void take_result(std::uint64_t step, const std::vector<NodeId>& holders) = 0;
    virtual void restore(std::uint64_t applied, const cluster::Name& lineage) = 0;
    virtual void begin_sync(const ViewPtr& view) = 0;
    virtual void activated(std::uint64_t first_step, const ViewPtr& view) = 0;
    virtual void excluded(const std::string& why, bool final) = 0;
    virtual void left() = 0;
    virtual void stable(std::uint64_t steps) = 0;  // so many steps are stable now

    // Connections come and go; what is between workers travels over them too.
    virtual void link_up(NodeId peer) = 0;
    virtual void link_down(NodeId peer) = 0;
    virtual void received(NodeId from, std::span<const std::uint8_t> message) = 0;

    virtual void note(const std::string& text) = 0;  // for the log; one sentence, and not too many of them
    // Likewise: this node refused somebody, or was refused. Who keeps no account of that has one more line.
    virtual void refused(const std::string& text, bool /*by_others*/) { note(text); }
    // What somebody told this node to do about a link with `peer` does not come about.
    virtual void link_refused(NodeId /*peer*/, bool /*connect*/, const std::string& text) { note(text); }
    virtual void failed(const Error& why) = 0;  // the node cannot go on: its vote cannot be kept
};

class Member final : private net::LinkEvents {
public:
    // `receiver` takes bulk data. Nothing happens before start().
    Member(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
           const cluster::Name& run, const Options& options, Worker& worker, net::BulkReceiver& receiver);
    ~Member() override;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // Listens, and takes up what an earlier life left on disk. After an error nothing runs.
    [[nodiscard]] Result<void> start();
    void found(std::uint32_t batch, bool strict);
    // By whoever is at these addresses. Each is tried again, ever later, until somebody answers there, or this node is
    // in.
    void join(std::vector<std::string> addresses);
    void tell(const cluster::Event& event);

    [[nodiscard]] NodeId id() const { return id_; }
    [[nodiscard]] const cluster::Member& core() const { return *core_; }
    [[nodiscard]] net::Links& links() { return links_; }
    [[nodiscard]] const net::Links& links() const { return links_; }
    [[nodiscard]] std::string address() const { return identity_.address; }
    // This thread's CPU time that events took, from reaching the core to what follows from them being in force. What
    // goes on all the time (heartbeats, measures, steps that are done) does not count.
    [[nodiscard]] std::chrono::nanoseconds handling_cpu() const { return handling_cpu_; }

    // Control messages since it started.
    [[nodiscard]] std::uint64_t messages_sent() const { return messages_sent_; }
    [[nodiscard]] std::uint64_t messages_received() const { return messages_received_; }

    // Closes everything. No call of the worker follows, but for failed() where a vote could not be kept: the member
    // then stopped itself.
    void stop();

private:
    struct Contact {
        std::string address;
        std::chrono::milliseconds pause{0};
        std::unique_ptr<net::asio::steady_timer> timer;
        bool reached = false;
    };

    Result<void> admit(const net::Proven& peer) override;
    void link_up(NodeId peer) override;
    void link_closed(NodeId peer, const std::string& why) override;
    void dial_failed(NodeId peer, const std::string& address, const std::string& why) override;
    void answered(NodeId peer, const std::string& address) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void received_work(NodeId from, std::span<const std::uint8_t> message) override;
    void turned_away(const std::string& who, const std::string& why) override;

    [[nodiscard]] bool trains(NodeId node) const;
    [[nodiscard]] bool is_in() const;
    [[nodiscard]] Result<std::optional<cluster::DiskRecord>> kept_vote();
    void drain();
    void handle(const cluster::Event& event);
    void schedule_tick();
    void carry_out(cluster::Action& action);
    void persist(const cluster::DiskRecord& record);
    void dial(NodeId peer, const std::string& address);
    void note(const std::string& text, cluster::About about = cluster::About::event);
    void contact(std::size_t number);

    net::asio::io_context& loop_;
    NodeId id_;
    net::KeySigner signer_;
    cluster::Name institution_;
    Options options_;
    Worker& worker_;
    net::LimitedLines lines_{net::Allowance::Clock::now()};  // others may cause most of them
    cluster::Identity identity_;
    std::optional<SlotFile> vote_;  // none: nothing is kept
    std::unique_ptr<cluster::Member> core_;
    net::asio::steady_timer tick_;
    std::deque<cluster::Event> inbox_;
    std::vector<Contact> contacts_;
    bool draining_ = false;
    bool stopped_ = false;
    // False once it is stopped: for timers that have expired by then, when this object may be gone.
    std::shared_ptr<bool> runs_ = std::make_shared<bool>(true);
    std::uint64_t stable_ = 0;
    cluster::Name started_under_{};  // the view of the last step that was started
    std::chrono::nanoseconds handling_cpu_{0};
    std::uint64_t messages_sent_ = 0;
    std::uint64_t messages_received_ = 0;
    net::Links links_;
    Watch watch_;
};

}  // namespace chaos::live
