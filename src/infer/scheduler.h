// Several texts at once: requests wait for one of a fixed number of sequences, and each step computes a piece of every
// active one together, so that the weights are read once for all. A request's tokens are the same whatever else runs.
//
//   submit -> waiting -> active: prompt in pieces, then token by token (with guesses, draft.h) -> ended
//
// The tokens of an ended request stay in its sequence until another needs it; a new request that begins with tokens
// some sequence holds takes their keys and values from there. One thread calls everything; listeners are called from
// within step() and may call submit() and cancel().
#pragma once

#include "base/result.h"
#include "infer/draft.h"
#include "infer/engine.h"
#include "infer/preferences.h"
#include "infer/sampler.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace chaos::infer {

enum class Ending {
    stop,       // the model ended the text, or the listener did
    length,     // max_tokens
    context,    // the sequence is full: max_tokens did not fit
    cancelled,  // by cancel()
    failed,     // the logits are not numbers, or weights cannot be read
};

struct Request {
    std::vector<TokenId> prompt;
    std::size_t drawn = 0;       // the last so many tokens of the prompt were drawn before: the text goes on
    std::size_t max_tokens = 0;  // those included
    Sampling sampling;
    Preferences preferences;
    Wanted wanted;
    bool ignore_end = false;  // go on after an end token
};

// Whether such a request can be served by a model of so many tokens in sequences of `context`; else why not. Whoever
// said it, nothing that passes does harm.
[[nodiscard]] Result<void> check(const Request& request, std::size_t context, std::int64_t vocab);

struct Ended {
    Ending ending = Ending::stop;
    std::string error;  // with Ending::failed
    std::size_t prompt_tokens = 0;
    std::size_t reused_tokens = 0;  // of the prompt, that another request had computed
    std::size_t tokens = 0;         // an end token included
};

struct Listener {
    // Each token as it comes, an end token included; false ends the text.
    std::function<bool(const Sampled&)> on_token;
    std::function<void(const Ended&)> on_end;
};

// Whoever writes texts: a scheduler on this machine, or several machines together.
class Writer {
public:
    using Id = std::uint64_t;
    virtual ~Writer() = default;

    // Puts a request at the end of the line; refuses one that can never be served.
    [[nodiscard]] virtual Result<Id> submit(Request request, Listener listener) = 0;
    // Its listener hears so at once. Nothing where it has ended.
    virtual void cancel(Id id) = 0;
    // Computes the next piece of everything that is active, or waits for it; false: there was nothing to do.
    [[nodiscard]] virtual bool step() = 0;
    // A step() that waits returns at once. The only call that may come from another thread.
    virtual void wake() {}
};

class Scheduler final : public Writer {
public:
    struct Options {
        std::size_t sequences = 1;
        std::size_t context = 0;  // tokens of a sequence, prompt included
        KvType kv_type = KvType::f16;
        bool speculate = true;
        std::size_t batch = Engine::max_tokens;  // of one step, where the engine can compute so many
    };

    // So many tokens at once, and logits of them all, the engine must be able to compute.
    [[nodiscard]] static std::size_t min_batch(std::size_t sequences);

    // `engine` must outlive it.
    static Result<Scheduler> make(Engine& engine, const Options& options);

    [[nodiscard]] Result<Id> submit(Request request, Listener listener) override;
    void cancel(Id id) override;
    [[nodiscard]] bool step() override;

    [[nodiscard]] std::size_t active() const;
    [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
    // Why the engine could not compute the last step; nothing: it could.
    [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
    // Tokens that the last step computed, of all texts.
    [[nodiscard]] std::size_t computed() const { return computed_; }
    // Guessed tokens, and those of them that were right.
    [[nodiscard]] std::uint64_t guessed() const { return guessed_; }
    [[nodiscard]] std::uint64_t guessed_right() const { return guessed_right_; }

private:
    struct Job {
        Id id = 0;
        Request request;
        Listener listener;
    };
    struct Sequence {
        explicit Sequence(KvCache empty) : cache(std::move(empty)) {}
        KvCache cache;
        std::vector<TokenId> tokens;  // the first cache.size() of them are in the cache
        std::optional<Job> job;
        Drafter drafter;
        std::vector<TokenId> guess;
        std::size_t reused = 0;
        std::size_t drawn = 0;
        std::uint64_t last_used = 0;
    };
    explicit Scheduler(Engine& engine, const Options& options) : engine_(&engine), options_(options) {}

    void admit();
    Sequence* sequence_for(std::span<const TokenId> prompt);
    void plan(std::vector<Sequence*>& members, std::vector<std::vector<TokenId>>& pieces);
    void take(Sequence& sequence, std::span<const float> logits, std::size_t rows);
    std::span<const float> preferred(const Sequence& sequence, std::span<const Sampled> drawn,
                                     std::span<const float> logits);
    std::optional<Ending> tell(Sequence& sequence, const Sampled& sampled);
    void end(Sequence& sequence, Ending ending, const std::string& error = {});

    Engine* engine_;
    Options options_;
    std::vector<Sequence> sequences_;
    std::deque<Job> waiting_;
    std::vector<float> changed_logits_;
    std::optional<Error> failure_;
    std::size_t computed_ = 0;
    Id next_id_ = 1;
    std::uint64_t clock_ = 0;
    std::uint64_t guessed_ = 0;
    std::uint64_t guessed_right_ = 0;
};

}  // namespace chaos::infer
