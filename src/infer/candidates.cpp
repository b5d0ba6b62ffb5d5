#include "infer/candidates.h"

#include "base/assert.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace chaos::infer {
namespace {

constexpr std::uint32_t all_of_them = ~std::uint32_t{0};

void put_bytes(std::vector<std::byte>& bytes, const void* from, std::size_t count) {
    if (count == 0) return;  // of nothing, which may be nowhere
    const std::size_t size = bytes.size();
    bytes.resize(size + count);
    std::memcpy(bytes.data() + size, from, count);
}
template <class T>
void put(std::vector<std::byte>& bytes, const T& value) {
    put_bytes(bytes, &value, sizeof(T));
}

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T>
    [[nodiscard]] bool get(T& value) {
        if (rest_.size() < sizeof(T)) return false;
        std::memcpy(&value, rest_.data(), sizeof(T));
        rest_ = rest_.subspan(sizeof(T));
        return true;
    }
    [[nodiscard]] bool get(std::span<float> values) {
        if (rest_.size() < values.size_bytes()) return false;
        std::memcpy(values.data(), rest_.data(), values.size_bytes());
        rest_ = rest_.subspan(values.size_bytes());
        return true;
    }
    [[nodiscard]] bool at_end() const { return rest_.empty(); }

private:
    std::span<const std::byte> rest_;
};

// The places of the `count` greatest logits, in no order.
std::vector<std::uint32_t> greatest(std::span<const float> logits, std::size_t count) {
    std::vector<std::uint32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto before = [&](std::uint32_t a, std::uint32_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
    };
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count) - 1, order.end(), before);
    order.resize(count);
    return order;
}

}  // namespace

std::vector<std::byte> tell_logits(const Extent& vocab, std::span<const float> logits,
                                   std::span<const std::size_t> best) {
    const auto count = static_cast<std::size_t>(vocab.count);
    CHAOS_ASSERT(logits.size() == best.size() * count);
    std::vector<std::byte> told;
    put(told, static_cast<std::uint32_t>(vocab.first));
    put(told, static_cast<std::uint32_t>(count));
    for (std::size_t row = 0; row < best.size(); ++row) {
        const std::span<const float> ours = logits.subspan(row * count, count);
        const bool numbers = std::none_of(ours.begin(), ours.end(), [](float logit) { return std::isnan(logit); });
        if (best[row] == 0 || best[row] >= count || !numbers) {
            put(told, all_of_them);
            put_bytes(told, ours.data(), ours.size_bytes());
            continue;
        }
        put(told, static_cast<std::uint32_t>(best[row]));
        for (const std::uint32_t place : greatest(ours, best[row])) {
            put(told, static_cast<std::uint32_t>(vocab.first) + place);
            put(told, ours[place]);
        }
    }
    return told;
}

Result<void> hear_logits(std::span<const std::byte> told, std::size_t vocab, std::span<float> logits) {
    const Error wrong{"a member tells logits in a way that makes no sense"};
    Reader reader(told);
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    if (!reader.get(first) || !reader.get(count) || first > vocab || count > vocab - first) return wrong;
    for (std::size_t at = 0; at < logits.size(); at += vocab) {
        const std::span<float> row = logits.subspan(at, vocab);
        std::uint32_t listed = 0;
        if (!reader.get(listed)) return wrong;
        if (listed == all_of_them) {
            if (!reader.get(row.subspan(first, count))) return wrong;
            continue;
        }
        for (std::uint32_t i = 0; i < listed; ++i) {
            std::uint32_t token = 0;
            if (!reader.get(token) || token < first || token >= first + count || !reader.get(row[token])) return wrong;
        }
    }
    if (!reader.at_end()) return wrong;
    return {};
}

}  // namespace chaos::infer
