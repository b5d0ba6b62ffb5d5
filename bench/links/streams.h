// What a link costs beyond its TLS: its bulk stream and its control messages between two processes, against OpenSSL on
// a blocking socket with the same cipher, in turn.
#pragma once

namespace chaos::bench {

struct StreamFigures {
    double bytes_per_s = 0;
    double bare_bytes_per_s = 0;
};
[[nodiscard]] StreamFigures compare_streams(unsigned rounds);

struct RoundTripFigures {
    double median_s = 0;
    double p99_s = 0;
    double bare_median_s = 0;
};
[[nodiscard]] RoundTripFigures compare_round_trips(unsigned rounds);

}  // namespace chaos::bench
