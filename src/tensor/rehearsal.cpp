#include "tensor/rehearsal.h"

#include "base/median.h"
#include "infer/candidates.h"
#include "infer/speed.h"

#include <algorithm>
#include <array>

namespace chaos::tensor {
namespace {

// Tokens of a text: attention looks back at some.
constexpr std::size_t enough_context = 64;
// Memory comes, threads wake.
constexpr std::size_t first_passes = 2;
constexpr std::size_t enough_passes = 4;
// Some periods of a quota, which are a tenth of a second or less.
constexpr std::chrono::milliseconds long_enough{400};

}  // namespace

Rehearsal::Rehearsal(const infer::Model& model, infer::Pool& pool, const Setting& setting, std::function<bool()> go_on)
    : model_(model),
      pool_(pool),
      go_on_(std::move(go_on)),
      context_(std::min(enough_context, setting.most_context)),
      whole_heads_(setting.whole_heads),
      engine_(model, pool, this) {}

Result<std::unique_ptr<Rehearsal>> Rehearsal::make(const infer::Model& model, infer::Pool& pool, const Setting& setting,
                                                   std::function<bool()> go_on) {
    std::unique_ptr<Rehearsal> rehearsal(new Rehearsal(model, pool, setting, std::move(go_on)));
    CHAOS_TRY(
        infer::Scheduler scheduler,
        infer::Scheduler::make(
            rehearsal->engine_,
            {.sequences = 1, .context = rehearsal->context_, .speculate = false, .batch = infer::Engine::max_tokens}));
    rehearsal->scheduler_.emplace(std::move(scheduler));
    return rehearsal;
}

bool Rehearsal::pass() {
    if (scheduler_->active() + scheduler_->waiting() == 0) {
        infer::Request request;
        request.prompt = {0};
        request.max_tokens = context_;
        request.ignore_end = true;
        request.sampling.temperature = 1.0;  // as most are drawn
        if (!scheduler_->submit(std::move(request), {})) return false;
    }
    piece_s_.clear();
    last_ = Clock::now();
    if (!scheduler_->step() || scheduler_->failure()) return false;
    end_piece();
    ++passes_;
    if (passes_ <= first_passes) {
        began_ = last_;
        return true;
    }
    pieces_s_.resize(piece_s_.size());
    for (std::size_t i = 0; i < piece_s_.size(); ++i) pieces_s_[i].push_back(piece_s_[i]);
    return passes_ < first_passes + enough_passes || last_ - began_ < long_enough;
}

void Rehearsal::end_piece() {
    const auto now = Clock::now();
    piece_s_.push_back(std::chrono::duration<double>(now - last_).count());
    last_ = now;
}

Result<void> Rehearsal::begin_sum(std::span<std::int64_t>, bool) {
    end_piece();
    if (!go_on_()) return Error{"something else is to be done"};
    return {};
}

// Somebody has something to say about every token: who has no part of the vocabulary hears of one.
Result<std::span<const std::vector<std::byte>>> Rehearsal::collect(std::vector<std::byte> ours) {
    end_piece();
    constexpr std::array logit{0.0F};
    constexpr std::array<std::size_t, 1> all{0};
    told_.clear();
    told_.push_back(std::move(ours));
    if (model_.slice().vocab.count == 0) told_.push_back(infer::tell_logits({.first = 0, .count = 1}, logit, all));
    return std::span<const std::vector<std::byte>>(told_);
}

std::optional<Rehearsed> Rehearsal::rehearsed() const {
    if (passes_ < first_passes + enough_passes) return std::nullopt;
    double usual_s = 0.0;
    for (const std::vector<double>& each : pieces_s_) usual_s += median(each);
    const double mean_s =
        std::chrono::duration<double>(last_ - began_).count() / static_cast<double>(pieces_s_[0].size());
    const std::uint64_t share = infer::share_permille(usual_s, mean_s, infer::allowed_share(pool_.threads()));
    return Rehearsed{.token_s = mean_s * 1e-3 * static_cast<double>(share), .share_permille = share};
}

}  // namespace chaos::tensor
