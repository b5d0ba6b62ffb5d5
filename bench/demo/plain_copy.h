// What a scale-out is compared with: the same bytes from as many senders at once through plain sockets, on this machine
// as busy as it is, after as many round trips as setting up a join needs.
#pragma once

#include "base/result.h"

#include <cstdint>

namespace chaos::bench {

// To connect; TLS; hello; to ask and be let in by a view; to link with the donors; to ask for shards; to compare roots.
inline constexpr unsigned join_round_trips = 7;

// How many seconds it takes.
[[nodiscard]] Result<double> plain_copy(std::uint64_t bytes, unsigned senders, unsigned round_trips);

}  // namespace chaos::bench
