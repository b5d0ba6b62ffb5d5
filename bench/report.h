// What every benchmark prints: a table for people and, as its last line, one JSON object for programs:
//
//   {"bench": "train", "load": 0.12, "figures": {"llama_speed_ratio": 1.31, ...}}
//
#pragma once

#include <string>
#include <vector>

namespace chaos::bench {

// Columns are as wide as their widest cell; the first is aligned left, the others right.
struct Table {
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> rows;  // each as long as the head
};

struct Figure {
    std::string name;
    double value = 0.0;
};

// The 1-minute load average. Taken before a benchmark starts, it tells how busy others kept the machine.
[[nodiscard]] double load_average();

// The share of all cores that was busy since the object was made.
class MachineUse {
public:
    MachineUse() : before_(now()) {}
    [[nodiscard]] double share() const;

private:
    struct Ticks {
        double busy = 0.0;
        double all = 0.0;
    };
    static Ticks now();
    Ticks before_;
};

[[nodiscard]] double median(std::vector<double> values);

// "12.3": as many digits behind the point as asked for.
[[nodiscard]] std::string fixed(double value, int digits);

[[nodiscard]] std::string table_text(const Table& table);

// Figures keep their order and four significant digits.
[[nodiscard]] std::string json_line(const std::string& bench, double load, const std::vector<Figure>& figures);

}  // namespace chaos::bench
