// A process that computes on one core as long as the object lives, as a neighbour on a shared machine does.
#pragma once

#include "base/result.h"

#include <sys/types.h>

#include <utility>

namespace chaos::bench {

class BusyCore {
public:
    [[nodiscard]] static Result<BusyCore> start();
    BusyCore(BusyCore&& other) noexcept : process_(std::exchange(other.process_, 0)) {}
    BusyCore& operator=(BusyCore&&) = delete;
    ~BusyCore();

private:
    explicit BusyCore(pid_t process) : process_(process) {}
    pid_t process_ = 0;
};

}  // namespace chaos::bench
