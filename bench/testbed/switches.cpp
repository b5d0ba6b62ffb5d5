#include "testbed/switches.h"

#include "testbed/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmath>
#include <utility>

namespace chaos::testbed {

std::uint64_t rate_in_spec(const Link& link, Way way) {
    const bool back = way == Way::back && link.rate_back_mbit != 0.0;
    return static_cast<std::uint64_t>(std::llround((back ? link.rate_back_mbit : link.rate_mbit) * 1e6));
}

Result<Switches> Switches::map(const std::filesystem::path& path, const Spec& spec, int flags) {
    const std::size_t count = std::max<std::size_t>(spec.links.size() * 2, 1);
    const Descriptor file(::open(path.c_str(), flags | O_RDWR | O_CLOEXEC, 0600));
    if (file.get() < 0) return system_error("cannot open " + path.string());
    if (::ftruncate(file.get(), static_cast<off_t>(count * sizeof(Switch))) != 0) {
        return system_error("cannot write " + path.string());
    }
    void* memory = ::mmap(nullptr, count * sizeof(Switch), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return system_error("cannot map " + path.string());
    return Switches(std::span(static_cast<Switch*>(memory), count));
}

Result<Switches> Switches::create(const std::filesystem::path& path, const Spec& spec) {
    CHAOS_TRY(Switches switches, map(path, spec, O_CREAT));
    for (std::size_t link = 0; link < spec.links.size(); ++link) {
        for (const Way way : {Way::forth, Way::back}) {
            switches.of(link, way).rate_bits_per_s = rate_in_spec(spec.links[link], way);
            switches.of(link, way).cut = 0;
        }
    }
    return switches;
}

Result<Switches> Switches::open(const std::filesystem::path& path, const Spec& spec) {
    return map(path, spec, 0);
}

Switches::~Switches() {
    if (!all_.empty()) ::munmap(all_.data(), all_.size_bytes());
}

Switches::Switches(Switches&& other) noexcept : all_(std::exchange(other.all_, {})) {}

Switches& Switches::operator=(Switches&& other) noexcept {
    std::swap(all_, other.all_);
    return *this;
}

Switch& Switches::of(std::size_t link, Way way) const {
    const std::size_t index = link * 2 + static_cast<std::size_t>(way);
    CHAOS_ASSERT(index < all_.size());
    return all_[index];
}

}  // namespace chaos::testbed
