// Breaks the connections between two processes of ours, as a network would: both ends see them close, and nobody was
// told before. Needs no root where the kernel lets a parent take descriptors of its children (pidfd_getfd).
#pragma once

#include "base/result.h"

#include <sys/types.h>
#include <cstddef>

namespace chaos::bench {

// How many there were.
[[nodiscard]] Result<std::size_t> sever(pid_t one, pid_t other);

}  // namespace chaos::bench
