// Runs the real program as a user would, in a folder of its own, and tells what came out.
#pragma once

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace chaos::test {

// A started program whose output can be read while it runs. Everything it printed is in `out` and `err`.
class Process {
public:
    // `prepare` runs in the child before the program starts, e.g. to set a limit.
    Process(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
            const std::function<void()>& prepare = {}) {
        std::array<int, 2> out_pipe{};
        std::array<int, 2> err_pipe{};
        if (::pipe(out_pipe.data()) != 0 || ::pipe(err_pipe.data()) != 0) throw std::runtime_error("pipe");
        pid_ = ::fork();
        if (pid_ == 0) {
            ::dup2(out_pipe[1], STDOUT_FILENO);
            ::dup2(err_pipe[1], STDERR_FILENO);
            for (const int fd : {out_pipe[0], out_pipe[1], err_pipe[0], err_pipe[1]}) ::close(fd);
            if (::chdir(folder.c_str()) != 0) ::_exit(99);
            if (prepare) prepare();
            std::vector<char*> argv = {const_cast<char*>(CHAOS_BINARY)};
            for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
            argv.push_back(nullptr);
            ::execv(CHAOS_BINARY, argv.data());
            ::_exit(98);
        }
        ::close(out_pipe[1]);
        ::close(err_pipe[1]);
        out_fd_ = out_pipe[0];
        err_fd_ = err_pipe[0];
    }
    ~Process() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
        ::close(out_fd_);
        ::close(err_fd_);
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    [[nodiscard]] pid_t pid() const { return pid_; }
    void signal(int number) const { ::kill(pid_, number); }

    // Reads until standard output contains `text`; false when the program ended without printing it.
    bool wait_for_output(const std::string& text) {
        while (out.find(text) == std::string::npos)
            if (!read_some()) return false;
        return true;
    }

    // Reads to the end; the exit code, or minus the signal's number.
    int wait() {
        while (read_some()) {
        }
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

    std::string out;
    std::string err;

private:
    // Waits for output on either pipe; false when both have ended.
    bool read_some() {
        std::array<pollfd, 2> fds = {pollfd{out_open_ ? out_fd_ : -1, POLLIN, 0},
                                     pollfd{err_open_ ? err_fd_ : -1, POLLIN, 0}};
        if (!out_open_ && !err_open_) return false;
        while (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
        }
        if (fds[0].revents != 0) out_open_ = take(out_fd_, out);
        if (fds[1].revents != 0) err_open_ = take(err_fd_, err);
        return true;
    }
    static bool take(int fd, std::string& text) {
        std::array<char, 4096> buffer{};
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
        return got > 0;
    }

    pid_t pid_ = -1;
    int out_fd_ = -1;
    int err_fd_ = -1;
    bool out_open_ = true;
    bool err_open_ = true;
};

struct Outcome {
    int code = 0;
    std::string out;
    std::string err;
};

inline Outcome run_chaos(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                         const std::function<void()>& prepare = {}) {
    Process process(arguments, folder, prepare);
    const int code = process.wait();
    return {code, process.out, process.err};
}

}  // namespace chaos::test
