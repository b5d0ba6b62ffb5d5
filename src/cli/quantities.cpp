#include "cli/quantities.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace chaos::cli {
namespace {

struct Unit {
    std::string_view name;
    double size;
};
constexpr std::array<Unit, 9> byte_units{{{"B", 1},
                                          {"kB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9},
                                          {"TB", 1e12},
                                          {"KiB", 0x1p10},
                                          {"MiB", 0x1p20},
                                          {"GiB", 0x1p30},
                                          {"TiB", 0x1p40}}};
constexpr std::array<Unit, 6> rate_units{
    {{"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"kb/s", 125.0}, {"Mb/s", 125e3}, {"Gb/s", 125e6}}};
constexpr std::array<Unit, 4> time_units{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};

std::span<const Unit> units_of(Quantity quantity) {
    switch (quantity) {
        case Quantity::bytes:
            return byte_units;
        case Quantity::bytes_per_second:
            return rate_units;
        case Quantity::nanoseconds:
            return time_units;
    }
    return {};
}

}  // namespace

std::optional<std::uint64_t> parse_quantity(std::string_view text, Quantity quantity) {
    double number = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return {};
    std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    const std::span<const Unit> units = units_of(quantity);
    const auto unit = std::ranges::find(units, name, &Unit::name);
    if (unit == units.end()) return {};
    number *= unit->size;
    if (!(number >= 0.0 && number <= 1e18)) return {};
    return static_cast<std::uint64_t>(number);
}

Result<std::uint64_t> parse_bytes(const std::string& text, const std::string& option) {
    const auto bytes = parse_quantity(text, Quantity::bytes);
    if (!bytes || *bytes == 0) return Error{option + " takes a size like 2GB, 500MB or 1.5GiB, not \"" + text + "\""};
    return *bytes;
}

Result<std::vector<text::TokenId>> parse_ids(const std::string& text) {
    std::vector<text::TokenId> ids;
    const char* at = text.data();
    const char* end = at + text.size();
    while (true) {
        text::TokenId id = 0;
        const auto [next, error] = std::from_chars(at, end, id);
        if (error != std::errc() || (next != end && *next != ','))
            return Error{"--ids takes numbers with commas between them, e.g. 1,2,3; not \"" + text + "\""};
        ids.push_back(id);
        if (next == end) return ids;
        at = next + 1;
    }
}

Result<infer::KvType> parse_kv_type(const std::string& name) {
    if (name == "f16") return infer::KvType::f16;
    if (name == "f32") return infer::KvType::f32;
    return Error{"--kv takes f16 or f32, not \"" + name + "\""};
}

}  // namespace chaos::cli
