#include "tensor/enquiry.h"

#include "base/words.h"
#include "live/enquirer.h"
#include "tensor/pulling.h"
#include "tensor/wire.h"

#include <algorithm>
#include <optional>

namespace chaos::tensor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_name_bytes = 256;

class Enquiry final : private net::BulkReceiver, private live::Enquirer {
public:
    Enquiry(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
            const EnquiryOptions& options, bool whole)
        : Enquirer(loop, key, credential,
                   {.addresses = options.addresses,
                    .links = options.links,
                    .what = "which model is served",
                    .note = options.note},
                   *this),
          options_(options),
          whole_(whole),
          pulling_(loop, links(), transfers_,
                   {.send =
                        [this](NodeId to, const wire::UnitWork& message) {
                            wire::Work work;
                            *work.mutable_units() = message;
                            (void)links().send_work(to, bytes_of(work));
                        },
                    .note = options.note,
                    .done = [this] { done_ = true; },
                    .failed = [this](const Error& why) { failure_ = why; }}) {
        transfers_.connect(links());
    }
    ~Enquiry() override { stop(); }  // NOLINT(bugprone-exception-escape)
    Enquiry(const Enquiry&) = delete;
    Enquiry& operator=(const Enquiry&) = delete;

    [[nodiscard]] const ServedModel& served() const { return served_; }

    Result<FoundModel> run() {
        last_sign_ = Clock::now();
        CHAOS_CHECK(reach([this] { return done_ || failure_; }, [this] { return last_sign_ + options_.patience; }));
        if (failure_) return *failure_;
        return FoundModel{.name = served_.name, .image = image_};
    }

private:
    void reached(NodeId peer) override {
        pulling_.link_up(peer);
        wire::Work message;
        message.mutable_model_ask();
        if (served_.name.empty()) (void)links().send_work(peer, bytes_of(message));
    }
    void gone(NodeId peer) override { pulling_.link_down(peer); }

    void heard(NodeId from, std::span<const std::uint8_t> message) override {
        const auto work = work_from(message);
        if (!work) return;
        if (work->has_units()) {
            if (work->units().has_holding()) pulling_.received(from, work->units().holding());
            if (work->units().what_case() == wire::UnitWork::kAbsent)
                pulling_.received_absent(from, work->units().absent());
        }
        if (work->has_model_answer() && served_.name.empty()) take(from, work->model_answer());
    }

    void take(NodeId from, const wire::ModelAnswer& answer) {
        Digest identity{};
        const std::string name = printable(answer.name());
        if (answer.identity().size() != identity.size() || name.empty() || name.size() > max_name_bytes)
            return give_up_on(from, "its answer makes no sense");
        std::ranges::transform(answer.identity(), identity.begin(),
                               [](char byte) { return static_cast<std::uint8_t>(byte); });
        served_ = {.name = name, .identity = identity};
        last_sign_ = Clock::now();
        if (!whole_) {
            done_ = true;
            return;
        }
        auto kept = infer::Image::kept_manifest(options_.folder, identity);
        if (!kept) return fail(kept.error());
        if (*kept) return get_texts(std::move(**kept));
        pulling_.find_manifest(identity, [this](infer::Manifest manifest) { get_texts(std::move(manifest)); });
    }

    void get_texts(infer::Manifest manifest) {
        auto image = infer::Image::open(options_.folder, std::move(manifest), options_.limit_bytes);
        if (!image) return fail(image.error());
        image_ = std::move(*image);
        if (const auto kept = image_->keep_name(served_.name); !kept) return fail(kept.error());
        const std::vector<bool> texts = infer::units_of_texts(image_->layout());
        infer::Pool pool{1};
        if (const auto checked = image_->check(texts, pool, {}); !checked) return fail(checked.error());
        if (const auto room = image_->make_room(texts); !room) return fail(room.error());
        pulling_.begin(image_, texts);
    }

    void fail(const Error& why) { failure_ = why; }

    Place place_for(NodeId from, const net::BulkHead& head) override { return transfers_.place_for(from, head); }
    void arrived(NodeId from, const net::BulkHead& head) override {
        last_sign_ = Clock::now();
        transfers_.arrived(from, head);
    }
    void dropped(NodeId from, const net::BulkHead& head) override { transfers_.dropped(from, head); }

    const EnquiryOptions& options_;
    bool whole_;
    Clock::time_point last_sign_;
    ServedModel served_;
    std::shared_ptr<infer::Image> image_;
    bool done_ = false;
    std::optional<Error> failure_;
    net::Transfers transfers_;
    Pulling pulling_;
};

}  // namespace

Result<FoundModel> find_model(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
                              const EnquiryOptions& options) {
    return Enquiry(loop, key, credential, options, true).run();
}

Result<ServedModel> ask_model(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
                              const EnquiryOptions& options) {
    Enquiry enquiry(loop, key, credential, options, false);
    CHAOS_CHECK(enquiry.run());
    return enquiry.served();
}

}  // namespace chaos::tensor
