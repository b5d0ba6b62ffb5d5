// A started program: what it printed, how it ended, and signals to it. Its output goes to memory, so it never waits for
// a reader.
#pragma once

#include "base/result.h"

#include <sys/types.h>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::testbed {

// Where a program runs: the network namespace and the control group it enters first. Empty: where its parent is.
struct Place {
    std::string namespace_file;  // /run/netns/...
    std::string group_file;      // .../cgroup.procs
};

// Closed at the end of its life.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    ~Descriptor() { close(); }
    Descriptor(Descriptor&& other) noexcept;
    Descriptor& operator=(Descriptor&& other) noexcept;

    [[nodiscard]] int get() const { return number_; }
    void close();

private:
    int number_;
};

// "cannot open FILE: Permission denied", from errno.
[[nodiscard]] Error system_error(const std::string& what);

class Process {
public:
    // `arguments` begin with the program, which is looked up in PATH. It becomes the leader of a process group of its
    // own, so that signals reach what it starts, too. `input` is all it reads from its standard input.
    static Result<Process> start(const std::vector<std::string>& arguments, const Place& place = {},
                                 std::string_view input = {});
    // Kills the group if it has not ended.
    ~Process();
    Process(Process&& other) noexcept;
    Process& operator=(Process&& other) noexcept;

    [[nodiscard]] pid_t pid() const { return pid_; }

    // These go to the whole group and do nothing once the process has been waited for.
    void signal(int number) const;
    void kill() const;
    void freeze() const;
    void thaw() const;

    // Lets it live on when this object goes.
    void release() { waited_ = true; }
    // Returns when the process has ended: its exit code, or minus the number of the signal that ended it.
    int wait();
    [[nodiscard]] bool ended() const;
    // False when the process ended without printing `text` to its standard output.
    [[nodiscard]] bool wait_for_output(std::string_view text) const;

    // All that it printed so far, but for its first bytes.
    [[nodiscard]] std::string out(std::size_t without = 0) const;
    [[nodiscard]] std::string err() const;

private:
    Process(pid_t pid, Descriptor out, Descriptor err, Descriptor end);

    pid_t pid_ = -1;
    Descriptor out_;
    Descriptor err_;
    Descriptor end_;  // a pidfd: readable once the process has ended
    int code_ = 0;
    bool waited_ = false;
};

// Runs a program to its end: what it printed, or an error with what it complained about.
[[nodiscard]] Result<std::string> run_program(const std::vector<std::string>& arguments, std::string_view input = {});

// Moves the calling thread, or a child before it becomes another program, to `place`.
[[nodiscard]] Result<void> enter(const Place& place);

}  // namespace chaos::testbed
