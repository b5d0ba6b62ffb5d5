// What a trainer needs of the world around it: the time, links, a timer, the core it serves, and somebody who watches.
#pragma once

#include "cluster/member.h"
#include "sim/bulk.h"
#include "sim/queue.h"

#include <cstdint>
#include <string>
#include <vector>

namespace chaos::sim {

enum class TrainerTimer : std::uint8_t { compute, ask, sync };

enum class How : std::uint8_t { exchanged, taken, followed };
struct AppliedStep {
    ResultPtr result;
    How how = How::exchanged;
    std::uint64_t state_hash = 0;
};

class TrainerEdge {
public:
    virtual ~TrainerEdge() = default;
    [[nodiscard]] virtual Time now() const = 0;
    [[nodiscard]] virtual cluster::NodeId self() const = 0;
    [[nodiscard]] virtual bool linked(cluster::NodeId peer) const = 0;
    [[nodiscard]] virtual std::vector<cluster::NodeId> linked_peers() const = 0;
    virtual void send(cluster::NodeId to, BulkPtr bulk) = 0;  // lost where no connection stands
    virtual void wake_after(Time delay, TrainerTimer timer, std::uint64_t tag) = 0;
    virtual void tell(cluster::Event event) = 0;  // the core
    [[nodiscard]] virtual std::uint64_t stable() const = 0;
    [[nodiscard]] virtual cluster::ViewPtr governing(std::uint64_t step) const = 0;
    virtual void keep_checkpoint(const Snapshot& snapshot) = 0;
    [[nodiscard]] virtual const Snapshot* checkpoint(std::uint64_t applied, const Digest& lineage) const = 0;
    // For those who watch.
    virtual void observe(const AppliedStep& step) = 0;
    virtual void observe_synced(std::uint64_t applied, const Digest& lineage, std::uint64_t state_hash) = 0;
    virtual void note(std::string text) = 0;
    virtual void broken(std::string text) = 0;  // what must never happen
};

}  // namespace chaos::sim
