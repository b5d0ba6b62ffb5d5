#include "node/fetch.h"

#include "base/words.h"
#include "cluster/member.h"
#include "elastic/describer.h"
#include "elastic/work.h"
#include "net/address.h"
#include "net/admission.h"
#include "net/limited_lines.h"
#include "net/transfers.h"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>

namespace chaos::node {
namespace {

namespace wire = elastic::wire;
using elastic::NodeId;
using net::Transfers;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds first_pause{200};
constexpr std::chrono::milliseconds longest_pause{5000};

struct Fetched {
    run::Identity identity;
    std::optional<Description> description;
};

// Dials all addresses at once, and asks those who answer one after the other.
class Fetcher final : private net::LinkEvents, private net::BulkReceiver {
public:
    Fetcher(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
            const FetchOptions& options, bool whole)
        : loop_(loop),
          options_(options),
          whole_(whole),
          silence_(loop),
          beat_(loop),
          links_(loop, key, credential, options.links, *this, *this) {
        transfers_.connect(links_);
    }
    // A timer that cannot be cancelled would be a broken invariant.
    ~Fetcher() override { stop(); }  // NOLINT(bugprone-exception-escape)
    Fetcher(const Fetcher&) = delete;
    Fetcher& operator=(const Fetcher&) = delete;

    Result<Fetched> run() {
        if (options_.addresses.empty()) return Error{"no address of a member is given"};
        for (const std::string& address : options_.addresses) CHAOS_CHECK(net::address_from_text(address));
        for (const std::string& address : options_.addresses)
            contacts_.push_back({.address = address,
                                 .pause = first_pause,
                                 .timer = std::make_unique<net::asio::steady_timer>(loop_),
                                 .peer = std::nullopt,
                                 .hopeless = false,
                                 .problem = "it did not answer yet"});
        for (const Contact& contact : contacts_) links_.dial(NodeId{}, contact.address);
        beat();
        const Clock::time_point deadline = Clock::now() + options_.limit;
        loop_.restart();
        while (!fetched_ && !std::ranges::all_of(contacts_, &Contact::hopeless) && Clock::now() < deadline) {
            loop_.run_one_until(deadline);
            if (!fetched_ && loop_.stopped()) return Error{"stopped before anybody told what is trained"};
        }
        stop();
        if (fetched_) return std::move(*fetched_);
        std::string problems;
        for (const Contact& contact : contacts_)
            problems += (problems.empty() ? "" : "; ") + contact.address + ": " + contact.problem;
        return Error{"nobody told what is trained: " + problems};
    }

private:
    struct Contact {
        std::string address;
        std::chrono::milliseconds pause{0};
        std::unique_ptr<net::asio::steady_timer> timer;
        std::optional<NodeId> peer;  // who answers there: there is a link with it
        bool hopeless = false;       // what it said will not change
        std::string problem;
    };

    struct Question {
        NodeId peer;
        std::uint64_t transfer = 0;
        std::optional<Digest> hash;  // as announced
        std::optional<Transfers::Arrived> arrived;
        run::Identity identity;
    };

    // ---- reaching somebody

    void dial_failed(NodeId, const std::string& address, const std::string& why) override {
        for (std::size_t number = 0; number < contacts_.size(); ++number)
            if (contacts_[number].address == address && !contacts_[number].peer) try_again(number, why);
    }

    void try_again(std::size_t number, const std::string& why) {
        Contact& contact = contacts_[number];
        if (contact.hopeless) return;
        contact.peer.reset();
        contact.problem = printable(why);
        if (const auto line =
                lines_.next("cannot ask " + contact.address + " what is trained: " + contact.problem, Clock::now()))
            options_.note(*line);
        contact.timer->expires_after(contact.pause);
        contact.pause = std::min(2 * contact.pause, longest_pause);
        contact.timer->async_wait([this, number, runs = runs_](boost::system::error_code cancelled) {
            if (!cancelled && *runs) links_.dial(NodeId{}, contacts_[number].address);
        });
    }

    void answered(NodeId peer, const std::string& address) override {
        for (Contact& contact : contacts_)
            if (contact.address == address) contact.peer = peer;
        ask_next();
    }

    Result<void> admit(const net::Proven& peer) override { return net::admit(nullptr, peer, std::time(nullptr)); }
    void link_up(NodeId) override {}
    void received(NodeId, std::span<const std::uint8_t>) override {}  // the cluster's greeting: we do not join yet
    void turned_away(const std::string&, const std::string&) override {}

    void link_closed(NodeId peer, const std::string& why) override { lost(peer, why); }

    // There is no link with it any more.
    void lost(NodeId peer, const std::string& why) {
        if (question_ && question_->peer == peer) end_question();
        for (std::size_t number = 0; number < contacts_.size(); ++number)
            if (contacts_[number].peer == peer) try_again(number, why);
        ask_next();
    }

    // Members take a link on which nothing is heard for lost, however much they send over it.
    void beat() {
        const cluster::MessagePtr message = cluster::make_message(cluster::Heartbeat{});
        for (const NodeId peer : links_.peers()) (void)links_.send(peer, message->bytes);
        beat_.expires_after(std::chrono::nanoseconds(cluster::Options{}.heartbeat));
        beat_.async_wait([this, runs = runs_](boost::system::error_code cancelled) {
            if (!cancelled && *runs) beat();
        });
    }

    // ---- asking

    void ask_next() {
        if (question_ || fetched_) return;
        const auto next =
            std::ranges::find_if(contacts_, [](const Contact& contact) { return contact.peer && !contact.hopeless; });
        if (next == contacts_.end()) return;
        question_ = Question{.peer = *next->peer, .transfer = 0, .hash = {}, .arrived = {}, .identity = {}};
        if (whole_)
            question_->transfer = transfers_.expect(question_->peer, elastic::max_description_bytes,
                                                    [this](const Transfers::Arrived& content) {
                                                        question_->arrived = content;
                                                        finish_if_whole();
                                                    });
        wire::Work message;
        message.mutable_run_ask()->set_transfer(question_->transfer);
        (void)links_.send_work(question_->peer, elastic::bytes_of(message));  // without a link: silence
        await_sign();
    }

    void end_question() {
        transfers_.forget(question_->transfer);
        question_.reset();
        silence_.cancel();
    }

    // Every sign of life gives it the same time again.
    void await_sign() {
        silence_.expires_after(options_.silence);
        silence_.async_wait([this, runs = runs_](boost::system::error_code cancelled) {
            if (cancelled || !*runs || !question_ || silence_.expiry() > Clock::now()) return;
            const NodeId peer = question_->peer;
            links_.close(peer);
            lost(peer, "it does not answer");
        });
    }

    void received_work(NodeId from, std::span<const std::uint8_t> message) override {
        const Result<wire::Work> work = elastic::work_from(message);
        if (!work || !work->has_run_answer() || !question_ || question_->peer != from) return;
        const wire::RunAnswer& answer = work->run_answer();
        if (answer.transfer() != question_->transfer) return;
        for (const wire::Setting& setting : answer.identity()) question_->identity[setting.key()] = setting.value();
        if (!whole_) {
            fetched_ = Fetched{.identity = question_->identity, .description = {}};
            return;
        }
        if (!answer.refusal().empty()) return give_up(answer.refusal());
        question_->hash = elastic::name_from(answer.hash());
        if (!question_->hash) return give_up("its answer makes no sense");
        await_sign();
        finish_if_whole();
    }

    void finish_if_whole() {
        if (!question_->hash || !question_->arrived) return;
        const Transfers::Arrived& content = *question_->arrived;
        const std::string_view bytes(reinterpret_cast<const char*>(content.bytes.get()), content.count);
        if (sha256(bytes) != *question_->hash) return give_up("what it sent is not what it announced");
        Result<Description> description = decode_description(bytes);
        if (!description) return give_up("what it sent makes no sense: " + description.error().message);
        fetched_ = Fetched{.identity = description->identity, .description = std::move(*description)};
    }

    // On whoever was asked; it would say the same again.
    void give_up(const std::string& why) {
        const NodeId peer = question_->peer;
        end_question();
        links_.close(peer);
        for (Contact& contact : contacts_) {
            if (contact.peer != peer) continue;
            contact.hopeless = true;
            contact.problem = printable(why);
            options_.note(contact.address + " does not tell what is trained: " + contact.problem);
        }
        ask_next();
    }

    // ---- bulk data

    Place place_for(NodeId from, const net::BulkHead& head) override { return transfers_.place_for(from, head); }
    void arrived(NodeId from, const net::BulkHead& head) override {
        if (question_ && question_->peer == from) await_sign();
        transfers_.arrived(from, head);
    }
    void dropped(NodeId from, const net::BulkHead& head) override { transfers_.dropped(from, head); }

    void stop() {
        *runs_ = false;
        silence_.cancel();
        beat_.cancel();
        for (Contact& contact : contacts_) contact.timer->cancel();
        links_.stop();
    }

    net::asio::io_context& loop_;
    const FetchOptions& options_;
    bool whole_;
    std::vector<Contact> contacts_;
    std::optional<Question> question_;
    std::optional<Fetched> fetched_;
    net::asio::steady_timer silence_;
    net::asio::steady_timer beat_;
    // For timers that have expired by the time they are cancelled.
    std::shared_ptr<bool> runs_ = std::make_shared<bool>(true);
    net::LimitedLines lines_{Clock::now()};
    Transfers transfers_;
    net::Links links_;
};

}  // namespace

Result<Description> fetch_description(net::asio::io_context& loop, const net::SecretKey& key,
                                      const net::Credential& credential, const FetchOptions& options) {
    CHAOS_TRY(Fetched fetched, Fetcher(loop, key, credential, options, true).run());
    return std::move(*fetched.description);
}

Result<run::Identity> fetch_identity(net::asio::io_context& loop, const net::SecretKey& key,
                                     const net::Credential& credential, const FetchOptions& options) {
    CHAOS_TRY(Fetched fetched, Fetcher(loop, key, credential, options, false).run());
    return std::move(fetched.identity);
}

}  // namespace chaos::node
