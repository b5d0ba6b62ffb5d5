#include "infer/scheduler.h"

#include <algorithm>

namespace chaos::infer {
namespace {

// Prompt tokens of one step while others wait for their next token: a longer piece would make them stutter.
constexpr std::size_t prompt_tokens_beside_others = 64;
// With more sequences than this a step is limited by arithmetic, and guesses cost what they save.
constexpr std::size_t max_guessing = 2;
// Fewer tokens than this are computed as fast as they are copied.
constexpr std::size_t min_copied = 16;

std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
    const auto [end, unused] =
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
    return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

Result<void> check(const Request& request, std::size_t context, std::int64_t vocab) {
    CHAOS_CHECK(check(request.sampling));
    CHAOS_CHECK(check(request.preferences, vocab));
    if (request.wanted.top > max_top)
        return Error{"of the likeliest tokens at most " + std::to_string(max_top) + " are listed, not " +
                     std::to_string(request.wanted.top)};
    if (request.prompt.size() <= request.drawn) return Error{"the prompt is empty: there is nothing to continue"};
    if (request.prompt.size() > context)
        return Error{"the prompt has " + std::to_string(request.prompt.size()) + " tokens, the context has room for " +
                     std::to_string(context)};
    for (const TokenId token : request.prompt)
        if (token < 0 || token >= vocab)
            return Error{"there is no token " + std::to_string(token) + ": the model has " + std::to_string(vocab)};
    return {};
}

std::size_t Scheduler::min_batch(std::size_t sequences) {
    return std::max(2 * sequences, max_guessing * (Drafter::max_draft + 1));
}

Result<Scheduler> Scheduler::make(Engine& engine, const Options& options) {
    CHAOS_ASSERT(options.sequences > 0 && options.context > 0 && engine.batch_tokens() >= min_batch(options.sequences));
    Scheduler scheduler(engine, options);
    for (std::size_t i = 0; i < options.sequences; ++i) {
        CHAOS_TRY(auto cache, KvCache::make(engine.part(), options.context, options.kv_type));
        scheduler.sequences_.emplace_back(std::move(cache));
    }
    return scheduler;
}

Result<Scheduler::Id> Scheduler::submit(Request request, Listener listener) {
    CHAOS_CHECK(check(request, options_.context, engine_->config().vocab));
    const Id id = next_id_++;
    waiting_.push_back({id, std::move(request), std::move(listener)});
    return id;
}

void Scheduler::cancel(Id id) {
    for (Sequence& sequence : sequences_)
        if (sequence.job && sequence.job->id == id) return end(sequence, Ending::cancelled);
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Job& job) { return job.id == id; });
    if (found == waiting_.end()) return;
    const Job job = std::move(*found);
    waiting_.erase(found);
    const std::size_t drawn = job.request.drawn;
    if (job.listener.on_end) job.listener.on_end({Ending::cancelled, {}, job.request.prompt.size() - drawn, 0, drawn});
}

std::size_t Scheduler::active() const {
    return static_cast<std::size_t>(
        std::count_if(sequences_.begin(), sequences_.end(), [](const Sequence& each) { return each.job.has_value(); }));
}

bool Scheduler::step() {
    admit();
    std::vector<Sequence*> members;
    std::vector<std::vector<TokenId>> tokens;
    plan(members, tokens);
    computed_ = 0;
    for (const std::vector<TokenId>& each : tokens) computed_ += each.size();
    if (members.empty()) return false;

    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < members.size(); ++i) {
        const Sequence& each = *members[i];
        // Logits are needed behind the last known token and behind each guess.
        const bool complete = each.cache.size() + tokens[i].size() >= each.tokens.size();
        const Request& request = each.job->request;
        pieces.push_back({&members[i]->cache, tokens[i], complete ? each.guess.size() + 1 : 0,
                          request.preferences.any() ? 0 : needed(request.sampling, request.wanted)});
    }
    const auto logits = engine_->forward(pieces);
    failure_.reset();
    if (!logits) {
        // submit() has refused what the engine would: the weights cannot be read, or others are gone.
        failure_ = logits.error();
        for (Sequence* member : members)
            if (member->job) end(*member, Ending::failed, logits.error().message);
        return true;
    }
    std::size_t row = 0;
    const auto vocab = static_cast<std::size_t>(engine_->config().vocab);
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (pieces[i].logits == 0) continue;
        take(*members[i], logits->subspan(row * vocab, pieces[i].logits * vocab), pieces[i].logits);
        row += pieces[i].logits;
    }
    return true;
}

// Requests that wait take the sequences that are free.
void Scheduler::admit() {
    while (!waiting_.empty()) {
        Sequence* sequence = sequence_for(waiting_.front().request.prompt);
        if (sequence == nullptr) return;
        sequence->job = std::move(waiting_.front());
        waiting_.pop_front();
        sequence->tokens = sequence->job->request.prompt;
        sequence->reused = sequence->cache.size();
        sequence->drafter = {};
        sequence->guess.clear();
        sequence->drawn = sequence->job->request.drawn;
        sequence->last_used = ++clock_;
        if (sequence->drawn >= sequence->job->request.max_tokens) end(*sequence, Ending::length);
    }
}

// A free sequence whose cache holds as much of the prompt as any does; the last token is computed in any case, for its
// logits.
Scheduler::Sequence* Scheduler::sequence_for(std::span<const TokenId> prompt) {
    const auto known = [&](const Sequence& each) {
        return common_prefix(prompt.first(prompt.size() - 1), std::span(each.tokens).first(each.cache.size()));
    };
    Sequence* target = nullptr;
    const Sequence* source = nullptr;
    for (Sequence& each : sequences_) {
        if (source == nullptr || known(each) > known(*source)) source = &each;
        if (each.job) continue;
        // What is mostly a beginning of the prompt is gone on with; else the longest unused goes.
        const auto fit = [&](const Sequence& sequence) { return 2 * known(sequence) > sequence.cache.size(); };
        const auto better = [&](const Sequence& a, const Sequence& b) {
            if (fit(a) != fit(b)) return fit(a);
            if (fit(a) && known(a) != known(b)) return known(a) > known(b);
            return a.last_used < b.last_used;
        };
        if (target == nullptr || better(each, *target)) target = &each;
    }
    if (target == nullptr) return nullptr;
    const std::size_t own = known(*target);
    const std::size_t most = known(*source);
    target->cache.cut(own);
    if (most >= own + min_copied) target->cache.copy(source->cache, most);
    return target;
}

// The tokens each active sequence computes next: what it does not have yet, and guesses at what follows.
void Scheduler::plan(std::vector<Sequence*>& members, std::vector<std::vector<TokenId>>& pieces) {
    const auto pending = [](const Sequence& each) { return each.tokens.size() - each.cache.size(); };
    std::size_t decoding = 0;
    for (const Sequence& each : sequences_)
        if (each.job && pending(each) == 1) ++decoding;
    std::size_t room = std::min(options_.batch, engine_->batch_tokens());
    std::size_t prompt_room = decoding > 0 ? prompt_tokens_beside_others : room;
    std::vector<Sequence*> order;
    for (Sequence& each : sequences_)
        if (each.job) order.push_back(&each);
    // Whoever waits for one token comes first; prompts in the order in which they came.
    std::sort(order.begin(), order.end(), [&](const Sequence* a, const Sequence* b) {
        const bool one = pending(*a) == 1;
        return one != (pending(*b) == 1) ? one : a->last_used < b->last_used;
    });
    for (Sequence* each : order) {
        each->guess.clear();
        const bool one = pending(*each) == 1;
        const std::size_t count = one ? 1 : std::min({pending(*each), room, prompt_room});
        if (count == 0) continue;
        if (!one) prompt_room -= count;
        const auto next = std::span(each->tokens).subspan(each->cache.size(), count);
        std::vector<TokenId> piece(next.begin(), next.end());
        if (one && options_.speculate && decoding <= max_guessing) {
            const std::size_t left = each->job->request.max_tokens - each->drawn;
            const std::size_t fits = std::min(each->cache.capacity() - each->tokens.size(), left - 1);
            each->guess = each->drafter.guess(each->tokens, fits);
            piece.insert(piece.end(), each->guess.begin(), each->guess.end());
        }
        room -= piece.size();
        members.push_back(each);
        pieces.push_back(std::move(piece));
    }
}

// Draws tokens as long as the guesses were right, forgets what the wrong ones left in the cache, and tells the
// listener.
void Scheduler::take(Sequence& sequence, std::span<const float> logits, std::size_t rows) {
    if (!sequence.job) return;  // cancelled by a listener of this step
    const Id id = sequence.job->id;
    const std::size_t known = sequence.tokens.size();
    const auto vocab = static_cast<std::size_t>(engine_->config().vocab);
    std::vector<Sampled> drawn;
    std::string error;
    std::size_t right = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        const Request& request = sequence.job->request;
        auto sampled = sample(preferred(sequence, drawn, logits.subspan(row * vocab, vocab)), request.sampling,
                              sequence.drawn + row, request.wanted);
        if (!sampled) {
            error = sampled.error().message;
            break;
        }
        drawn.push_back(std::move(*sampled));
        if (row == sequence.guess.size() || sequence.guess[row] != drawn.back().token) break;
        ++right;
    }
    sequence.cache.cut(known + right);
    if (!sequence.guess.empty()) {
        sequence.drafter.learn(sequence.guess.size(), right);
        guessed_ += sequence.guess.size();
        guessed_right_ += right;
    }
    for (const Sampled& each : drawn) {
        const auto ending = tell(sequence, each);
        if (!sequence.job || sequence.job->id != id) return;  // cancelled by its own listener
        if (ending) return end(sequence, *ending);
    }
    if (!error.empty()) end(sequence, Ending::failed, error);
}

// The logits as the request wants them, `drawn` being those of this step.
std::span<const float> Scheduler::preferred(const Sequence& sequence, std::span<const Sampled> drawn,
                                            std::span<const float> logits) {
    const Request& request = sequence.job->request;
    if (!request.preferences.any()) return logits;
    const auto before = std::span(sequence.tokens).subspan(request.prompt.size() - request.drawn);
    std::vector<TokenId> all(before.begin(), before.end());
    for (const Sampled& each : drawn) all.push_back(each.token);
    changed_logits_.assign(logits.begin(), logits.end());
    apply(request.preferences, all, changed_logits_);
    return changed_logits_;
}

std::optional<Ending> Scheduler::tell(Sequence& sequence, const Sampled& sampled) {
    sequence.tokens.push_back(sampled.token);
    ++sequence.drawn;
    const Request& request = sequence.job->request;
    const auto& ends = engine_->config().eos_tokens;
    const bool last = !request.ignore_end && std::find(ends.begin(), ends.end(), sampled.token) != ends.end();
    const std::size_t max_tokens = request.max_tokens;
    const bool go_on = !sequence.job->listener.on_token || sequence.job->listener.on_token(sampled);
    if (!go_on || last) return Ending::stop;
    if (sequence.drawn == max_tokens) return Ending::length;
    if (sequence.tokens.size() > sequence.cache.capacity()) return Ending::context;
    return std::nullopt;
}

void Scheduler::end(Sequence& sequence, Ending ending, const std::string& error) {
    const Job job = std::move(*sequence.job);
    sequence.job.reset();
    sequence.last_used = ++clock_;
    // Of guesses that were right but came too late, and of those nobody has looked at, nothing stays.
    sequence.cache.cut(std::min(sequence.cache.size(), sequence.tokens.size()));
    const std::size_t asked = job.request.prompt.size() - job.request.drawn;
    if (job.listener.on_end)
        job.listener.on_end({ending, error, asked, std::min(sequence.reused, asked), sequence.drawn});
}

}  // namespace chaos::infer
