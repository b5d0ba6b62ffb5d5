// What can be changed about a link while the testbed runs, one switch for each way. They lie in a file that everybody
// maps: whoever turns one, the relay sees it with the next packet.
#pragma once

#include "base/result.h"
#include "testbed/spec.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>

namespace chaos::testbed {

enum class Way : std::uint8_t { forth, back };  // from a link's a to its b, from b to a

struct Switch {
    std::atomic<std::uint64_t> rate_bits_per_s;
    std::atomic<std::uint64_t> cut;  // 1: everything is dropped
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share them");

[[nodiscard]] std::uint64_t rate_in_spec(const Link& link, Way way);  // bits per second

class Switches {
public:
    // As the spec says, nothing cut.
    static Result<Switches> create(const std::filesystem::path& path, const Spec& spec);
    static Result<Switches> open(const std::filesystem::path& path, const Spec& spec);
    ~Switches();
    Switches(Switches&& other) noexcept;
    Switches& operator=(Switches&& other) noexcept;

    [[nodiscard]] Switch& of(std::size_t link, Way way) const;

private:
    explicit Switches(std::span<Switch> all) : all_(all) {}
    static Result<Switches> map(const std::filesystem::path& path, const Spec& spec, int flags);

    std::span<Switch> all_;
};

}  // namespace chaos::testbed
