// What people write into options and files, as values: sizes, rates and times with their units, lists of ids, names of
// number types. One place knows which units there are.
#pragma once

#include "base/result.h"
#include "infer/engine.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::cli {

enum class Quantity {
    bytes,             // "2GB", "1.5 GiB"
    bytes_per_second,  // "10GB/s", or "1Gb/s" in bits
    nanoseconds,       // "0.2ms"
};
// In whole units of the quantity; none where the text is no number from 0 to 10^18 with a unit of it.
[[nodiscard]] std::optional<std::uint64_t> parse_quantity(std::string_view text, Quantity quantity);

// A size of one byte at least; `option` is where that was said.
[[nodiscard]] Result<std::uint64_t> parse_bytes(const std::string& text, const std::string& option);

// "1,2,3"
[[nodiscard]] Result<std::vector<text::TokenId>> parse_ids(const std::string& text);

// "f16" or "f32"
[[nodiscard]] Result<infer::KvType> parse_kv_type(const std::string& name);

}  // namespace chaos::cli
