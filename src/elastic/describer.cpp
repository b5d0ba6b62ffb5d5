#include "elastic/describer.h"

#include "elastic/work.h"

namespace chaos::elastic {
namespace {

// Less than this may be on its way for ever: peers confirm now and then only.
constexpr std::size_t much_bytes = 16 << 20;

}  // namespace

Describer::Describer(run::Identity agreed, Result<std::string> description) : agreed_(std::move(agreed)) {
    if (!description) {
        refusal_ = description.error().message;
        return;
    }
    description_ = std::make_shared<const std::string>(std::move(*description));
    CHAOS_ASSERT(!description_->empty() && description_->size() <= max_description_bytes);
    hash_ = sha256(*description_);
}

Describer::~Describer() {
    *alive_ = false;
}

void Describer::connect(net::Links& links, net::Transfers& transfers) {
    links_ = &links;
    transfers_ = &transfers;
}

void Describer::received(NodeId from, const wire::RunAsk& ask) {
    const auto given = given_bytes_.find(from);
    if (given != given_bytes_.end() && *given->second > much_bytes) {
        waiting_[from] = ask.transfer();
        return;
    }
    give(from, ask.transfer());
}

void Describer::give(NodeId to, std::uint64_t transfer) {
    wire::Work message;
    wire::RunAnswer& answer = *message.mutable_run_answer();
    answer.set_transfer(transfer);
    for (const auto& [key, value] : agreed_) {
        wire::Setting& setting = *answer.add_agreed();
        setting.set_key(key);
        setting.set_value(value);
    }
    if (description_ == nullptr) {
        answer.set_refusal(refusal_);
    } else {
        answer.set_hash(to_wire(hash_));
    }
    // Without a link, nobody waits for it.
    if (!links_->send_work(to, bytes_of(message)) || transfer == 0 || description_ == nullptr) return;
    auto& given = given_bytes_[to];
    if (given == nullptr) given = std::make_shared<std::size_t>(0);
    *given += description_->size();
    // Let go in the loop once it has arrived, or the link is gone.
    const std::shared_ptr<const void> owner(description_->data(),
                                            [this, to, given, whole = description_, alive = alive_](const void*) {
                                                *given -= whole->size();
                                                if (!*alive || *given > much_bytes) return;
                                                if (const auto next = waiting_.extract(to); !next.empty())
                                                    give(to, next.mapped());
                                            });
    (void)transfers_->send(to, net::BulkKind::state, transfer, std::as_bytes(std::span(*description_)), owner);
}

void Describer::forget(NodeId peer) {
    waiting_.erase(peer);
    given_bytes_.erase(peer);
}

}  // namespace chaos::elastic
