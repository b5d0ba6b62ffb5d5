// How the reasons of a plan put figures into words: short, rounded, from integers.
#pragma once

#include <cstdint>
#include <string>

namespace chaos::plan {

[[nodiscard]] std::string say_time(std::uint64_t ns);           // "12.3 ms"
[[nodiscard]] std::string say_bytes(std::uint64_t bytes);       // "64 KiB", "9.31 GiB"
[[nodiscard]] std::string say_rate(std::uint64_t bytes_per_s);  // "125 MB/s"
// by how much `a` exceeds `b`, e.g. "2.1 %"; "0.0 %" when it does not.
[[nodiscard]] std::string say_excess(std::uint64_t a, std::uint64_t b);
// "1 shard", "3 shards"
[[nodiscard]] std::string say_count(std::uint64_t count, const std::string& noun);

}  // namespace chaos::plan
