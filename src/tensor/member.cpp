#include "tensor/member.h"

#include "tensor/wire.h"

#include <boost/asio/post.hpp>

#include <chrono>

namespace chaos::tensor {
namespace {

// Nothing is lost with a node that goes: the others find out.
constexpr std::chrono::seconds longest_leave{5};

}  // namespace

Member::Member(asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
               const MemberOptions& options, Subject subject, Source source, Callbacks callbacks)
    : loop_(loop),
      options_(options),
      callbacks_(std::move(callbacks)),
      context_(options.session.context),
      vocab_(subject.config.vocab),
      leave_limit_(loop),
      identity_(to_wire(infer::identity_of(source.manifest))),
      exchange_(loop),
      member_(loop, key, credential, infer::identity_of(source.manifest), options.live, *this, *this),
      rounds_(
          loop, member_.id(),
          {.tell =
               [this](const wire::Round& round) {
                   wire::Work message;
                   *message.mutable_round() = round;
                   for (const NodeId peer : member_.links().peers()) send(peer, message);
               },
           .applied = [this](std::uint64_t step) { member_.tell(cluster::Applied{step}); },
           .synced = [this](std::uint64_t applied) { member_.tell(cluster::Synced{.applied = applied, .root = {}}); }}),
      echoes_(loop, sums_echo_bytes(subject.config.width),
              {.send =
                   [this](NodeId to, const wire::Echo& echo) {
                       wire::Work message;
                       *message.mutable_echo() = echo;
                       send(to, message);
                   },
               .measured = [this](NodeId peer) { session_.measured(peer); }}),
      holdings_(loop, member_.links(), transfers_, std::move(source),
                {.send =
                     [this](NodeId to, const wire::UnitWork& units) {
                         wire::Work message;
                         *message.mutable_units() = units;
                         send(to, message);
                     },
                 .note = [this](const std::string& text) { note(text); }}),
      signer_(key),
      relay_(member_.id(), signer_,
             {.send = [this](NodeId to, const wire::Work& message) { return send(to, message); },
              .linked = [this] { return member_.links().peers(); },
              .received = [this](NodeId author, const wire::Work& message) { session_.received(author, message); },
              .lost = [this](std::uint64_t generation) { session_.lost(generation); }}),
      session_(
          loop, exchange_, member_.id(), std::move(subject), options.session,
          {.send = [this](NodeId to, const wire::Work& message) { return relay_.send(to, message); },
           .carried = [this](NodeId peer) { return relay_.carried(peer); },
           .linked = [this] { return member_.links().peers(); },
           .times = [this](NodeId peer) { return echoes_.times(peer); },
           .get = [this](const infer::Slice& slice,
                         std::function<void(const Result<void>&)> done) { holdings_.want(slice, std::move(done)); },
           .get_ahead =
               [this](const infer::Slice& slice, std::function<void(const Result<void>&)> done) {
                   holdings_.want_ahead(slice, std::move(done));
               },
           .get_rest = [this] { holdings_.want_rest(); },
           .busy = [this](bool busy) { holdings_.set_busy(busy); },
           .load = callbacks_.load,
           .whole = callbacks_.whole,
           .note = [this](const std::string& text) { note(text); },
           .failed = [this](const Error& why) { failed(why); }},
          told_) {
    exchange_.connect(member_.links());
    transfers_.connect(member_.links());
}

bool Member::send(NodeId to, const wire::Work& message) {
    return member_.links().send_work(to, bytes_of(message));
}

net::BulkReceiver& Member::receiver(const net::BulkHead& head) {
    if (head.kind == net::BulkKind::gradients) return exchange_;
    return transfers_;
}

Member::~Member() {
    member_.stop();
}

Result<void> Member::start() {
    CHAOS_CHECK(member_.start());
    if (!options_.join.empty()) {
        member_.join(options_.join);
    } else if (options_.others.empty()) {
        member_.found(1, false);
    } else {
        note("asks for the cluster that it was in; founds one if none of its members answers");
        begin_again();
    }
    return {};
}

void Member::begin_again() {
    beginning_ = std::make_unique<Beginning>(
        loop_, member_.id(), member_.address(), options_.others,
        Beginning::Callbacks{
            .dial = [this](const std::string& address) { member_.links().dial(NodeId{}, address); },
            .linked = [this] { return member_.links().peers(); },
            .send =
                [this](NodeId to, const wire::Beginning& beginning) {
                    wire::Work message;
                    *message.mutable_beginning() = beginning;
                    send(to, message);
                },
            .join =
                [this](NodeId node, const std::string& address) {
                    member_.tell(cluster::JoinCommand{.contacts = {{.node = node, .address = address}}});
                    // It may be gone before this node is in.
                    begin_again_.expires_after(Beginning::joining_patience * Beginning::usual_patience);
                    begin_again_.async_wait([this](boost::system::error_code cancelled) {
                        if (!cancelled && member_.core().view() == nullptr && !leaving_) begin_again();
                    });
                },
            .found =
                [this] {
                    note("none of them answers: it founds a cluster");
                    member_.found(1, false);
                }});
}

void Member::received_beginning(NodeId from, const wire::Beginning& message) {
    if (message.asks()) {
        const ViewPtr view = member_.core().view();
        wire::Work answer;
        const bool is_in = view != nullptr && view->is_active(member_.id());
        answer.mutable_beginning()->set_is_in(is_in);
        answer.mutable_beginning()->set_founds(beginning_ != nullptr && !beginning_->over());
        answer.mutable_beginning()->set_joins(beginning_ != nullptr && beginning_->over() && !is_in);
        answer.mutable_beginning()->set_address(member_.address());
        send(from, answer);
    }
    if (beginning_ != nullptr) beginning_->received(from, message);
}

Result<void> Member::run() {
    // There is always something that the loop waits for, until it is stopped.
    const auto guard = asio::make_work_guard(loop_);
    while (!ended_) {
        if (session_.ready()) {
            session_.compute();
            // A division may end as soon as it begins, again and again, until something is heard that changes it.
            loop_.poll();
        } else {
            loop_.run_one();
        }
    }
    member_.stop();
    return *ended_;
}

std::unique_ptr<infer::Writer> Member::writer() {
    return std::make_unique<Gateway>(loop_, session_, context_, vocab_, told_);
}

void Member::leave() {
    asio::post(loop_, [this] { go(); });
}

bool Member::is_alone() const {
    const ViewPtr view = member_.core().view();
    return view == nullptr || view->find(member_.id()) == nullptr ||
           (view->is_active(member_.id()) && view->active_count() == 1);
}

void Member::go() {
    if (leaving_ || is_alone()) return end({});
    leaving_ = true;
    member_.tell(cluster::LeaveCommand{});
    leave_limit_.expires_after(longest_leave);
    leave_limit_.async_wait([this](boost::system::error_code cancelled) {
        if (!cancelled) end({});
    });
}

// Whoever computes may be waiting for a member that does not answer.
void Member::end(Result<void> how) {
    if (!ended_) ended_ = std::move(how);
    exchange_.interrupt("the node ends");
}

// ---- what the core orders

void Member::adopted(const ViewPtr& view) {
    rounds_.adopted(view);
    relay_.adopted(view);
    if (callbacks_.adopted) callbacks_.adopted(view);
    session_.adopted(view);
    if (leaving_ && is_alone()) end({});
}
void Member::start_step(std::uint64_t step, const ViewPtr& view) {
    rounds_.start_step(step, view);
}
void Member::stop_step() {
    rounds_.stop_step();
}
void Member::take_result(std::uint64_t step, const std::vector<NodeId>&) {
    rounds_.take_result(step);
}
// Nothing is kept that could be restored.
void Member::restore(std::uint64_t, const cluster::Name&) {}
void Member::begin_sync(const ViewPtr&) {
    rounds_.begin_sync();
}
void Member::activated(std::uint64_t first_step, const ViewPtr&) {
    rounds_.activated(first_step);
}
void Member::excluded(const std::string& why, bool final) {
    relay_.adopted(nullptr);
    session_.excluded();
    rounds_.stop_step();
    note("is out: " + why + (final ? "" : "; asks to be let in again"));
    if (final) end(Error{"this node is out for good: " + why});
}
void Member::left() {
    end({});
}
void Member::stable(std::uint64_t) {}
void Member::link_up(NodeId peer) {
    echoes_.link_up(peer);
    holdings_.link_up(peer);
    session_.link_up(peer);
}
void Member::link_down(NodeId peer) {
    if (beginning_ != nullptr) beginning_->link_down(peer);
    echoes_.link_down(peer);
    holdings_.link_down(peer);
    session_.link_down(peer);
}
void Member::received(NodeId from, std::span<const std::uint8_t> message) {
    const auto work = work_from(message);
    if (!work) return note(cluster::brief(from) + ": " + work.error().message);
    if (work->has_round()) return rounds_.received(from, work->round());
    if (work->has_echo()) return echoes_.received(from, work->echo());
    if (work->has_units()) return holdings_.received(from, work->units());
    if (work->has_beginning()) return received_beginning(from, work->beginning());
    if (work->has_relayed()) return relay_.received(from, work->relayed());
    if (work->has_model_ask()) {
        wire::Work answer;
        answer.mutable_model_answer()->set_identity(identity_);
        answer.mutable_model_answer()->set_name(options_.name);
        return (void)send(from, answer);
    }
    session_.received(from, *work);
}
void Member::note(const std::string& text) {
    callbacks_.note(text);
}
void Member::failed(const Error& why) {
    end(why);
}

}  // namespace chaos::tensor
