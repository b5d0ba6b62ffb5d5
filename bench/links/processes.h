// A comparison in several processes of one machine: forked, with a little memory in common to meet in.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace chaos::bench {

class Meeting {
public:
    static constexpr unsigned max_processes = 8;
    static constexpr unsigned max_figures = 8;

    explicit Meeting(unsigned processes);
    ~Meeting();
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

    // Returns once every process has come here as often as this one. Over and over it calls `meanwhile`, which should
    // take a moment, but not long: others may still need something of this process before they come.
    void wait(const std::function<void()>& meanwhile);

    // Where a process listens. Reading waits until it was told.
    void tell_port(unsigned number, std::uint16_t port);
    [[nodiscard]] std::uint16_t port_of(unsigned number) const;

private:
    friend std::vector<double> run_together(unsigned, const std::function<std::vector<double>(Meeting&, unsigned)>&);
    struct Shared;
    unsigned processes_;
    unsigned waits_ = 0;  // of this process
    Shared* shared_;
};

// Runs `part` in `processes` processes, numbered from 0, and returns the figures that number 0 found, at most
// Meeting::max_figures. When one fails, the benchmark ends.
[[nodiscard]] std::vector<double> run_together(unsigned processes,
                                               const std::function<std::vector<double>(Meeting&, unsigned)>& part);

[[noreturn]] void give_up(const std::string& why);

}  // namespace chaos::bench
