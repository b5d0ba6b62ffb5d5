#include "data/content_hash.h"

#include <string>

namespace chaos::data {

void add_value(Sha256& hash, std::string_view name, std::uint64_t value) {
    hash.add(name).add("=").add(std::to_string(value)).add("\n");
}

void add_bytes(Sha256& hash, std::string_view name, std::span<const std::byte> bytes) {
    hash.add(name).add(":").add(std::to_string(bytes.size())).add("\n").add(bytes);
}

void add_text(Sha256& hash, std::string_view name, std::string_view text) {
    add_bytes(hash, name, std::as_bytes(std::span(text)));
}

}  // namespace chaos::data
