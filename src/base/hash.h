// Two hashes, two purposes. SHA-256 names things that others must be able to trust: runs, data, checkpoints,
// lineages. XXH3 only watches for accidents, where speed counts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace chaos {

using Digest = std::array<std::uint8_t, 32>;

class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;

    Sha256& add(std::span<const std::byte> bytes);
    Sha256& add(std::string_view text);
    [[nodiscard]] Digest finish();  // once; the object is spent afterwards

private:
    struct Context;
    std::unique_ptr<Context> context_;
};

[[nodiscard]] Digest sha256(std::string_view text);
[[nodiscard]] std::string hex(std::span<const std::uint8_t> bytes);

[[nodiscard]] std::uint64_t xxh3(std::span<const std::byte> bytes);

}  // namespace chaos
