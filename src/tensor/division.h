// Who computes, which slice each of them has, how sums travel: a pure function of what the members can do, by the
// tensor plan (plan/tensor_plan.h).
#pragma once

#include "base/result.h"
#include "cluster/id.h"
#include "infer/config.h"
#include "infer/packing.h"
#include "infer/slice.h"
#include "plan/tensor_plan.h"

#include "proto/session.pb.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace chaos::tensor {

using cluster::NodeId;

// Computed at once: more are hardly faster, and take memory for what they add up.
inline constexpr std::size_t batch_tokens = 64;

// A plan, and in which pieces prompts are computed by it.
struct PromptPlan {
    plan::TensorRequest request;
    plan::TensorPlan plan;
    std::size_t batch = 0;  // tokens at once
    bool halves = false;    // the sums of one half travel while the other is computed
};
// All compute prompts in the same pieces: many tokens at once, by halves; but fewer where that leaves somebody no room
// for its weights, who then streamed them once for each half. `request_of` so many tokens at once.
[[nodiscard]] Result<PromptPlan> plan_prompts(std::size_t sequences,
                                              const std::function<plan::TensorRequest(std::size_t batch)>& request_of);

// Whether what a member says of itself can be planned with, or why not.
[[nodiscard]] Result<void> check_able(const infer::Config& config, const wire::Able& able);

struct Fact {
    NodeId node;
    wire::Able able;  // checked
};

struct Divided {
    wire::Division division;    // without a generation
    plan::TensorPlan plan;      // with reasons, for people
    std::vector<NodeId> nodes;  // of its devices
};

// `tensors` are the whole model's. The chief is `leader` where that computes, else somebody who has links
// with all, if there is one.
// `everyone`: all compute, even where fewer were faster.
[[nodiscard]] Result<Divided> divide(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                                     std::vector<Fact> facts, NodeId leader, bool everyone);

// What it takes, with what is known of its nodes now; `facts` has all of them.
void predict_anew(const infer::Config& config, std::span<const infer::PackedTensor> tensors,
                  const std::map<NodeId, wire::Able>& facts, Divided& divided);

[[nodiscard]] std::vector<NodeId> members_of(const wire::Division& division);
// What a token is expected to take.
[[nodiscard]] double predicted_s(const wire::Division& division);

// Whether somebody else's division can be computed, and gives all of the model to somebody once.
[[nodiscard]] Result<void> check_division(const infer::Config& config, const wire::Division& division);
// The longest message that those who compute so have for each other (exchange.h).
[[nodiscard]] std::uint64_t longest_message_bytes(const infer::Config& config, const wire::Division& division);
// By the place of a member.
[[nodiscard]] infer::Slice slice_of(const wire::Division& division, std::size_t place);
// The place of a node; as many as there are members where it is none.
[[nodiscard]] std::size_t place_of(const wire::Division& division, NodeId node);

// The reasons of a plan, for people, as far as a message takes them; and as they are read by people.
void set_reasons(google::protobuf::RepeatedPtrField<std::string>& to, const std::vector<std::string>& reasons);
[[nodiscard]] std::vector<std::string> reasons_from(const google::protobuf::RepeatedPtrField<std::string>& told);

// Whether the same members have the same slices, and sums go the same way.
[[nodiscard]] bool same(const wire::Division& a, const wire::Division& b);

}  // namespace chaos::tensor
