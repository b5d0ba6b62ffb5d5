#include "node/fetch.h"

#include "elastic/describer.h"
#include "elastic/work.h"
#include "live/enquirer.h"
#include "net/transfers.h"

#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <memory>
#include <optional>

namespace chaos::node {
namespace {

namespace wire = elastic::wire;
using elastic::NodeId;
using net::Transfers;
using Clock = std::chrono::steady_clock;

struct Fetched {
    run::Identity agreed;
    std::optional<Description> description;
};

// Asks those who answer one after the other.
class Fetcher final : private net::BulkReceiver, private live::Enquirer {
public:
    Fetcher(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
            const FetchOptions& options, bool whole)
        : Enquirer(
              loop, key, credential,
              {.addresses = options.addresses, .links = options.links, .what = "what is trained", .note = options.note},
              *this),
          options_(options),
          whole_(whole),
          silence_(loop) {
        transfers_.connect(links());
    }
    // A timer that cannot be cancelled would be a broken invariant.
    ~Fetcher() override {  // NOLINT(bugprone-exception-escape)
        *runs_ = false;
        silence_.cancel();
        stop();
    }
    Fetcher(const Fetcher&) = delete;
    Fetcher& operator=(const Fetcher&) = delete;

    Result<Fetched> run() {
        const Clock::time_point deadline = Clock::now() + options_.limit;
        CHAOS_CHECK(reach([this] { return fetched_.has_value(); }, [deadline] { return deadline; }));
        return std::move(*fetched_);
    }

private:
    struct Question {
        NodeId peer;
        std::uint64_t transfer = 0;
        std::optional<Digest> hash;  // as announced
        std::optional<Transfers::Arrived> arrived;
        run::Identity agreed;
    };

    void reached(NodeId) override { ask_next(); }
    void gone(NodeId peer) override {
        if (question_ && question_->peer == peer) end_question();
        ask_next();
    }

    void ask_next() {
        if (question_ || fetched_ || there().empty()) return;
        question_ = Question{.peer = there().front(), .transfer = 0, .hash = {}, .arrived = {}, .agreed = {}};
        if (whole_)
            question_->transfer = transfers_.expect(question_->peer, elastic::max_description_bytes,
                                                    [this](const Transfers::Arrived& content) {
                                                        question_->arrived = content;
                                                        finish_if_whole();
                                                    });
        wire::Work message;
        message.mutable_run_ask()->set_transfer(question_->transfer);
        (void)links().send_work(question_->peer, elastic::bytes_of(message));  // without a link: silence
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
            drop(question_->peer, "it does not answer");
        });
    }

    void heard(NodeId from, std::span<const std::uint8_t> message) override {
        const Result<wire::Work> work = elastic::work_from(message);
        if (!work || !work->has_run_answer() || !question_ || question_->peer != from) return;
        const wire::RunAnswer& answer = work->run_answer();
        if (answer.transfer() != question_->transfer) return;
        for (const wire::Setting& setting : answer.agreed()) question_->agreed[setting.key()] = setting.value();
        if (!whole_) {
            fetched_ = Fetched{.agreed = question_->agreed, .description = {}};
            return;
        }
        if (!answer.refusal().empty()) return give_up_on(from, answer.refusal());
        question_->hash = elastic::name_from(answer.hash());
        if (!question_->hash) return give_up_on(from, "its answer makes no sense");
        await_sign();
        finish_if_whole();
    }

    void finish_if_whole() {
        if (!question_->hash || !question_->arrived) return;
        const NodeId peer = question_->peer;
        const Transfers::Arrived content = *question_->arrived;
        const std::string_view bytes(reinterpret_cast<const char*>(content.bytes.get()), content.count);
        if (sha256(bytes) != *question_->hash) return give_up_on(peer, "what it sent is not what it announced");
        Result<Description> description = decode_description(bytes);
        if (!description) return give_up_on(peer, "what it sent makes no sense: " + description.error().message);
        fetched_ = Fetched{.agreed = {}, .description = std::move(*description)};
    }

    // ---- bulk data

    Place place_for(NodeId from, const net::BulkHead& head) override { return transfers_.place_for(from, head); }
    void arrived(NodeId from, const net::BulkHead& head) override {
        if (question_ && question_->peer == from) await_sign();
        transfers_.arrived(from, head);
    }
    void dropped(NodeId from, const net::BulkHead& head) override { transfers_.dropped(from, head); }

    const FetchOptions& options_;
    bool whole_;
    std::optional<Question> question_;
    std::optional<Fetched> fetched_;
    net::asio::steady_timer silence_;
    // For timers that have expired by the time they are cancelled.
    std::shared_ptr<bool> runs_ = std::make_shared<bool>(true);
    Transfers transfers_;
};

}  // namespace

Result<Description> fetch_description(net::asio::io_context& loop, const net::SecretKey& key,
                                      const net::Credential& credential, const FetchOptions& options) {
    CHAOS_TRY(Fetched fetched, Fetcher(loop, key, credential, options, true).run());
    return std::move(*fetched.description);
}

Result<run::Identity> fetch_agreed(net::asio::io_context& loop, const net::SecretKey& key,
                                   const net::Credential& credential, const FetchOptions& options) {
    CHAOS_TRY(Fetched fetched, Fetcher(loop, key, credential, options, false).run());
    return std::move(fetched.agreed);
}

}  // namespace chaos::node
