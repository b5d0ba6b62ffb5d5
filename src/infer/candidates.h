// The end of a pass among those who have the head's rows divided between them: each tells the others the logits of its
// part of the vocabulary, or only the greatest of them where that is all that is asked for.
//
//   first, count: of the vocabulary | per row: how many | all: count floats, or that many (token, logit)
//
// The numbers are those of the machine, little-endian everywhere we run.
#pragma once

#include "base/result.h"
#include "infer/slice.h"

#include <cstddef>
#include <span>
#include <vector>

namespace chaos::infer {

// `best[row]`: how many of a row's greatest logits are needed of the whole vocabulary; 0: all of them. Equal ones count
// in the order of their tokens. Where some are not numbers, all are told.
[[nodiscard]] std::vector<std::byte> tell_logits(const Extent& vocab, std::span<const float> logits,
                                                 std::span<const std::size_t> best);

// Writes what a member told into rows of `vocab` logits each; what nobody told stays as it is.
[[nodiscard]] Result<void> hear_logits(std::span<const std::byte> told, std::size_t vocab, std::span<float> logits);

}  // namespace chaos::infer
