// Links of a given rate and delay, in the testbed: what a link of ours reaches on them, and iperf3 with as many streams
// after it, in turn; and how long control messages take while bulk data fills the link.
#pragma once

#include "report.h"

#include "base/result.h"

#include <string>
#include <vector>

namespace chaos::bench {

// Rates after two seconds, as shares of iperf3's: shaped_100_vs_iperf, shaped_500_vs_iperf, shaped_500_50ms_vs_iperf,
// each the median of its rounds.
[[nodiscard]] Result<Table> compare_with_iperf(bool quick, std::vector<Figure>& figures);

// Round trips of control messages while state fills a link of 100 Mbit/s: rtt_under_bulk_p99_us.
[[nodiscard]] Result<Table> measure_round_trips(bool quick, std::vector<Figure>& figures);

// The program starts itself again in the hosts of a testbed: the part that such a process plays, by its arguments after
// "--part shaped". Its exit code.
[[nodiscard]] int play_shaped(const std::vector<std::string>& arguments);

}  // namespace chaos::bench
