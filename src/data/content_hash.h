// What goes into Dataset::content_hash. Every value is written with its name and every run of bytes with its length,
// so different contents never give the same input to the hash.
#pragma once

#include "base/hash.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace chaos::data {

void add_value(Sha256& hash, std::string_view name, std::uint64_t value);
void add_bytes(Sha256& hash, std::string_view name, std::span<const std::byte> bytes);
void add_text(Sha256& hash, std::string_view name, std::string_view text);

}  // namespace chaos::data
