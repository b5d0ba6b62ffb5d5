// What a token takes this node, found out before anybody asks for one: single tokens go through the slice that it has,
// on keys and values of their own, with an exchange that answers at once. Norms, attention and all the rest of a pass
// are in it, as they are not in a measurement of products (infer/speed.h).
//
//   pass:  | attention | FFN | attention | FFN | ... | head | draw |
//
// Of each of these pieces the usual time is taken, and of whole passes the mean: that one also has the time in which a
// quota makes this node stand still, so they go on for some periods of a quota.
#pragma once

#include "base/result.h"
#include "infer/engine.h"
#include "infer/exchange.h"
#include "infer/scheduler.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace chaos::tensor {

struct Rehearsed {
    double token_s = 0.0;              // that it computes
    std::uint64_t share_permille = 0;  // of the time (infer/speed.h)
};

class Rehearsal final : private infer::Exchange {
public:
    // `model` and `pool` must outlive it. `go_on` is called several times during a pass; false: the pass ends at once.
    // Its keys and values are those of `most_context` tokens or fewer: who has not filled caches for that many yet
    // takes no more memory than it will.
    struct Setting {
        std::size_t most_context = 0;
        bool whole_heads = false;  // as infer::Exchange's
    };
    static Result<std::unique_ptr<Rehearsal>> make(const infer::Model& model, infer::Pool& pool, const Setting& setting,
                                                   std::function<bool()> go_on);

    // One token. False: it is over.
    [[nodiscard]] bool pass();
    // None where it ended too early to tell.
    [[nodiscard]] std::optional<Rehearsed> rehearsed() const;

private:
    using Clock = std::chrono::steady_clock;
    Rehearsal(const infer::Model& model, infer::Pool& pool, const Setting& setting, std::function<bool()> go_on);

    [[nodiscard]] bool whole_heads() const override { return whole_heads_; }
    Result<void> begin_sum(std::span<std::int64_t> sums, bool last) override;
    Result<void> end_sum() override { return {}; }
    Result<std::span<const std::vector<std::byte>>> collect(std::vector<std::byte> ours) override;
    void end_piece();

    const infer::Model& model_;
    infer::Pool& pool_;
    std::function<bool()> go_on_;
    std::size_t context_;
    bool whole_heads_;
    infer::Engine engine_;
    std::optional<infer::Scheduler> scheduler_;
    std::vector<std::vector<std::byte>> told_;
    std::vector<std::vector<double>> pieces_s_;  // of a pass, in their order: of each pass
    std::vector<double> piece_s_;                // of this pass
    std::size_t passes_ = 0;
    Clock::time_point began_;  // after those that warm up
    Clock::time_point last_;   // end of a piece
};

}  // namespace chaos::tensor
