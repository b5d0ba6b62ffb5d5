// What the server has done, as Prometheus reads it (text format 0.0.4).
#pragma once

#include "serve/generator.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace chaos::serve {

// How often a time was within each bound.
class Histogram {
public:
    void note(double seconds);
    void write(std::string& to, const std::string& name, const std::string& help) const;

private:
    static constexpr std::array<double, 16> bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25,
                                                   0.5,   1.0,    2.5,   5.0,  10.0,  25.0, 60.0, 300.0};
    std::array<std::uint64_t, bounds.size() + 1> counts_{};  // the last: beyond all bounds
    double sum_ = 0.0;
};

struct Metrics {
    std::map<std::pair<std::string, unsigned>, std::uint64_t> requests;  // by route and status
    std::uint64_t cancelled = 0;                                         // by clients that went away
    Histogram first_token;                                               // from the request to the first piece
    Histogram between_tokens;                                            // from piece to piece
    Histogram request;                                                   // of whole answers
};

// `load` of no generator: while the model is being loaded.
[[nodiscard]] std::string metrics_text(const Metrics& metrics, const Load* load);

}  // namespace chaos::serve
