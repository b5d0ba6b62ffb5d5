// What goes wrong, and what people ask for, as a list of plain data: it can be printed, shortened and run again. A
// fault that makes no sense when its time comes (thaw a node that is not frozen) does nothing.
#pragma once

#include "sim/queue.h"

#include <cstdint>
#include <string>
#include <vector>

namespace chaos::sim {

enum class FaultKind : std::uint8_t {
    crash,          // the process ends; its host closes the connections
    power_loss,     // the host is gone without a sign
    restart,        // of a process that is down, with its disk
    restart_blank,  // its disk is lost
    freeze,         // the process stands still, its connections stay
    thaw,
    cut,          // nothing passes between host and other
    cut_one_way,  // nothing passes from host to other
    mend,
    partition,  // hosts are in two groups: bit h of value says in which
    heal,       // cuts and partitions end
    slow,       // computes and handles messages `value` times slower
    drift,      // the clock runs `value` - 1000 ppm fast
    corrupt,    // of the messages it sends, `value` ppm have a byte flipped
    lossy,      // on all paths `value` ppm are lost, doubled and overtaken each
    lie,        // in the ways of `value`, see Lies
    join,       // a new node
    leave,
    connect,  // a link of host and other is asked for
    disconnect,
    admit,  // the institution number `value`
    remove,
    revoke,  // host brings word that `other` (value 1: its join token) is no longer its institution's
    all_down,
    all_up,
};

// Ways in which a node may lie (bits); its state itself is right.
enum Lies : std::uint32_t {
    lie_shards = 1,      // gives joiners wrong shards
    lie_hashes = 2,      // names wrong hashes of shards
    lie_figures = 4,     // claims wrong rates and delays of links, also of others' links
    lie_votes = 8,       // votes for two values in one ballot
    lie_forgeries = 16,  // changes what it relays for others
    lie_reports = 32,    // reports steps in a flush that it has not applied or begun
    lie_links = 64,      // speaks for links that it is no end of
    lie_trust = 128,     // speaks for impostors, and for institutions that revoke nobody
};
inline constexpr std::uint32_t all_lies = 255;

struct Fault {
    Time at = 0;
    FaultKind kind = FaultKind::crash;
    Host host = 0;
    Host other = 0;
    std::uint64_t value = 0;
};

// "at 12.5 s n3 crashes"
[[nodiscard]] std::string describe(const Fault& fault);

}  // namespace chaos::sim
