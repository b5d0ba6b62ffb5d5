// What a section of the benchmark found: a table for people, and the same figures for programs.
#pragma once

#include "report.h"

#include <string>
#include <vector>

namespace chaos::bench {

struct Findings {
    Table table{{"what", "value", "wanted"}, {}};
    std::vector<Figure> figures;

    // `wanted` says what a good value is, where there is a bar: ">= 0.9".
    void add(const std::string& name, double value, int digits, const std::string& wanted = "") {
        table.rows.push_back({name, fixed(value, digits), wanted});
        figures.push_back({name, value});
    }
};

}  // namespace chaos::bench
