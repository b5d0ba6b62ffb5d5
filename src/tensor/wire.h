// What messages of those who compute together (proto/session.proto) are made of and read as.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "cluster/id.h"
#include "infer/scheduler.h"

#include "proto/session.pb.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace chaos::tensor {

using cluster::NodeId;

// The longest message that a link carries (net/frame.h), and what a text may take of it, with what is said around it.
inline constexpr std::size_t max_work_bytes = 4 << 20;
inline constexpr std::size_t max_text_bytes = max_work_bytes - 1024;
// Of commands that are said at once, where they are more than one: the others come with the next pass.
inline constexpr std::size_t max_commands_bytes = 1 << 20;

// Of messages that are timed (echoes.h): the longest, and those that are as long as a token's sums.
inline constexpr std::size_t max_echo_bytes = 32 << 10;
[[nodiscard]] constexpr std::size_t sums_echo_bytes(std::int64_t width) {
    return std::min(static_cast<std::size_t>(width) * sizeof(std::int64_t), max_echo_bytes);
}

[[nodiscard]] std::vector<std::uint8_t> bytes_of(const wire::Work& message);
[[nodiscard]] Result<wire::Work> work_from(std::span<const std::uint8_t> bytes);

[[nodiscard]] wire::Node to_wire(NodeId node);
[[nodiscard]] NodeId node_from(const wire::Node& node);
[[nodiscard]] std::string to_wire(const Digest& digest);

[[nodiscard]] wire::Ask to_wire(const infer::Request& request);
// Nothing of it is checked: infer::check() tells whether it may be computed.
[[nodiscard]] infer::Request request_from(const wire::Ask& ask);

[[nodiscard]] wire::Told::Sampled to_wire(const infer::Sampled& sampled);
[[nodiscard]] infer::Sampled sampled_from(const wire::Told::Sampled& sampled);
[[nodiscard]] wire::Told::Ended to_wire(const infer::Ended& ended);
// An ending that is not known here is a failure.
[[nodiscard]] infer::Ended ended_from(const wire::Told::Ended& ended);

}  // namespace chaos::tensor
