// A node that computes a model with others: its place in the cluster (live/member.h), the rounds that keep that going,
// what it has of the model (holdings.h), how far the others are (echoes.h), how those are reached that it has no link
// with (relay.h), and the session. The loop's thread does everything but load: it runs the loop and, when there is
// something to compute, computes, running the loop while it waits for the others.
//
//   run(): ──► loop: messages, views, texts ──► session: compute ──► exchange: loop ──► ...
#pragma once

#include "live/member.h"
#include "net/signer.h"
#include "net/transfers.h"
#include "tensor/beginning.h"
#include "tensor/echoes.h"
#include "tensor/exchange.h"
#include "tensor/gateway.h"
#include "tensor/holdings.h"
#include "tensor/relay.h"
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
    // Without `join`: where others were when this node ran last. It is alone only where none of them is in a cluster.
    std::vector<std::string> others;
    SessionOptions session;
    std::string name;  // of the model, for people; its identity is what others are refused by that compute another
};

class Member final : private live::Worker, private net::BulkReceiver {
public:
    struct Callbacks {
        // As the session's (session.h).
        std::function<Result<LoadedSlice>(const Portion& portion)> load;
        std::function<void(bool whole)> whole;
        std::function<void(const std::string& text)> note;
        std::function<void(const ViewPtr& view)> adopted = {};
    };

    Member(asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
           const MemberOptions& options, Subject subject, Source source, Callbacks callbacks);
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
    [[nodiscard]] const Holdings& holdings() const { return holdings_; }

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

    // Sums are the exchange's, units are the transfers'.
    Place place_for(NodeId from, const net::BulkHead& head) override { return receiver(head).place_for(from, head); }
    void arrived(NodeId from, const net::BulkHead& head) override { receiver(head).arrived(from, head); }
    void dropped(NodeId from, const net::BulkHead& head) override { receiver(head).dropped(from, head); }
    [[nodiscard]] net::BulkReceiver& receiver(const net::BulkHead& head);

    bool send(NodeId to, const wire::Work& message);
    [[nodiscard]] bool is_alone() const;
    void begin_again();
    void received_beginning(NodeId from, const wire::Beginning& message);
    void go();
    void end(Result<void> how);

    asio::io_context& loop_;
    MemberOptions options_;
    Callbacks callbacks_;
    std::shared_ptr<Gateway::Told> told_ = std::make_shared<Gateway::Told>();
    std::size_t context_;
    std::int64_t vocab_;
    asio::steady_timer leave_limit_;
    std::string identity_;  // of the model
    LinkExchange exchange_;
    net::Transfers transfers_;
    live::Member member_;
    Rounds rounds_;
    Echoes echoes_;
    Holdings holdings_;
    net::KeySigner signer_;
    Relay relay_;
    Session session_;
    bool leaving_ = false;
    std::unique_ptr<Beginning> beginning_;
    asio::steady_timer begin_again_{loop_};  // should nobody let it in
    std::optional<Result<void>> ended_;
};

}  // namespace chaos::tensor
