#include "plan/say.h"

#include "plan/integers.h"

#include <array>
#include <span>

namespace chaos::plan {
namespace {

struct Unit {
    std::uint64_t size;
    const char* name;
};

// Three significant digits of value in the largest unit it fills; `units` descend to one of size 1.
std::string in_units(std::uint64_t value, std::span<const Unit> units) {
    for (const Unit& unit : units) {
        if (value < unit.size && unit.size != 1) continue;
        const std::uint64_t whole = value / unit.size;
        const u128 rest = value % unit.size;
        std::string text = std::to_string(whole);
        const int digits = whole >= 100 ? 0 : whole >= 10 ? 1 : 2;
        if (digits > 0 && rest != 0) {
            const std::uint64_t scale = digits == 1 ? 10 : 100;
            const std::string behind = std::to_string(static_cast<std::uint64_t>(rest * scale / unit.size) + scale);
            text += "." + behind.substr(1);
        }
        return text + " " + unit.name;
    }
    return std::to_string(value);
}

}  // namespace

std::string say_time(std::uint64_t ns) {
    static constexpr std::array units{Unit{60 * ns_per_s, "min"}, Unit{ns_per_s, "s"}, Unit{1'000'000, "ms"},
                                      Unit{1'000, "us"}, Unit{1, "ns"}};
    return in_units(ns, units);
}

std::string say_bytes(std::uint64_t bytes) {
    static constexpr std::array units{Unit{std::uint64_t{1} << 40, "TiB"}, Unit{std::uint64_t{1} << 30, "GiB"},
                                      Unit{std::uint64_t{1} << 20, "MiB"}, Unit{std::uint64_t{1} << 10, "KiB"},
                                      Unit{1, "bytes"}};
    return in_units(bytes, units);
}

std::string say_rate(std::uint64_t bytes_per_s) {
    static constexpr std::array units{Unit{1'000'000'000, "GB/s"}, Unit{1'000'000, "MB/s"}, Unit{1'000, "kB/s"},
                                      Unit{1, "bytes/s"}};
    return in_units(bytes_per_s, units);
}

std::string say_excess(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t tenths = a <= b ? 0 : b == 0 ? unlimited : saturate(u128{a - b} * 1000 / b);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

std::string say_count(std::uint64_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace chaos::plan
