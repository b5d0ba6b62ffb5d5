// A node that computes a model with others: its place in the cluster (live/member.h), the rounds that keep that going,
// and the session. The loop's thread does everything but load: it runs the loop and, when there is something to
// compute, computes, running the loop while it waits for the others.
//
//   run(): ──► loop: messages, views, texts ──► session: compute ──► exchange: loop ──► ...
#pragma once

#include "live/member.h"
#include "tensor/exchange.h"
#include "tensor/gateway.h"
#include "tensor/rounds.h"
#include "tensor/session.h"

#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::tensor {

struct MemberOptions {
    live::Options live;             // `folder` stays empty: nothing that was agreed outlives the cluster
    std::vector<std::string> join;  // by whom; none: begin alone
    SessionOptions session;
    cluster::Name model{};  // what is computed: others that compute something else are refused
};

class Member final : private live::Worker {
public:
    struct Callbacks {
        // As the session's (session.h).
        std::function<Result<LoadedSlice>(const infer::Slice& slice, std::size_t batch)> load;
        std::function<void()> whole;
        std::function<void(const std::string& text)> note;
    };

    Member(asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
           const MemberOptions& options, const infer::Config& config, Callbacks callbacks);
    ~Member() override;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // Listens, and begins or joins.
    [[nodiscard]] Result<void> start();
    // Until it has left, or cannot go on.
    [[nodiscard]] Result<void> run();
    // From any thread: goes when the others can do without it. A second time: at once.
    void leave();

    // For texts, by another thread; one.
    [[nodiscard]] std::unique_ptr<infer::Writer> writer();
    [[nodiscard]] live::Member& live() { return member_; }
    [[nodiscard]] const Session& session() const { return session_; }

private:
    void adopted(const ViewPtr& view) override;
    void start_step(std::uint64_t step, const ViewPtr& view) override;
    void stop_step() override;
    void take_result(std::uint64_t step, const std::vector<NodeId>& holders) override;
    void restore(std::uint64_t applied, const cluster::Name& lineage) override;
    void begin_sync(const ViewPtr& view) override;
    void activated(std::uint64_t first_step, const ViewPtr& view) override;
    void excluded(const std::string& why, bool final) override;
    void left() override;
    void stable(std::uint64_t steps) override;
    void link_up(NodeId peer) override;
    void link_down(NodeId peer) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void note(const std::string& text) override;
    void failed(const Error& why) override;

    [[nodiscard]] bool is_alone() const;
    void go();
    void end(Result<void> how);

    asio::io_context& loop_;
    MemberOptions options_;
    Callbacks callbacks_;
    std::shared_ptr<Gateway::Told> told_ = std::make_shared<Gateway::Told>();
    std::size_t context_;
    std::int64_t vocab_;
    asio::steady_timer leave_limit_;
    LinkExchange exchange_;
    live::Member member_;
    Rounds rounds_;
    Session session_;
    bool leaving_ = false;
    std::optional<Result<void>> ended_;
};

}  // namespace chaos::tensor
