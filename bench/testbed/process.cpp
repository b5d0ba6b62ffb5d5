#include "testbed/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace chaos::testbed {
namespace {

Result<Descriptor> memory_file(std::string_view content) {
    Descriptor file(::memfd_create("chaos-testbed", MFD_CLOEXEC));
    if (file.get() < 0) return system_error("cannot make a file in memory");
    while (!content.empty()) {
        const ssize_t written = ::write(file.get(), content.data(), content.size());
        if (written < 0) return system_error("cannot write to a file in memory");
        content.remove_prefix(static_cast<std::size_t>(written));
    }
    ::lseek(file.get(), 0, SEEK_SET);
    return file;
}

std::string content_of(int file, std::size_t from) {
    struct stat status{};
    if (::fstat(file, &status) != 0 || static_cast<std::size_t>(status.st_size) <= from) return "";
    std::string content(static_cast<std::size_t>(status.st_size) - from, '\0');
    // Not read(): the program writes at the position that it shares with us.
    const ssize_t got = ::pread(file, content.data(), content.size(), static_cast<off_t>(from));
    content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return content;
}

// The steps between fork and the new program. Only calls that are safe there, as other threads may hold locks.
enum class Step : int { enter_namespace, enter_group, execute };

struct Failure {
    Step step;
    int error;
};

[[noreturn]] void become(const std::vector<char*>& arguments, int space, int group, const std::array<int, 3>& streams,
                         int report) {
    Failure failure{Step::enter_namespace, 0};
    ::setpgid(0, 0);
    for (int i = 0; i < 3; ++i) ::dup2(streams[static_cast<std::size_t>(i)], i);
    sigset_t none;
    sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    const bool entered = space < 0 || ::setns(space, CLONE_NEWNET) == 0;
    if (entered) failure.step = Step::enter_group;
    const bool grouped = entered && (group < 0 || ::write(group, "0", 1) == 1);
    if (grouped) {
        failure.step = Step::execute;
        ::execvp(arguments[0], arguments.data());
    }
    failure.error = errno;
    [[maybe_unused]] const ssize_t ignored = ::write(report, &failure, sizeof failure);
    ::_exit(127);
}

std::string describe(Step step, const std::string& program, const Place& place) {
    switch (step) {
        case Step::enter_namespace:
            return "cannot enter " + place.namespace_file;
        case Step::enter_group:
            return "cannot write to " + place.group_file;
        case Step::execute:
            break;
    }
    return "cannot run " + program;
}

Result<Descriptor> open_or_none(const std::string& path, int flags) {
    if (path.empty()) return Descriptor();
    Descriptor file(::open(path.c_str(), flags | O_CLOEXEC));
    if (file.get() < 0) return system_error("cannot open " + path);
    return file;
}

}  // namespace

Error system_error(const std::string& what) {
    return Error{what + ": " + std::strerror(errno)};  // NOLINT(concurrency-mt-unsafe)
}

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
}

void Descriptor::close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
}

Process::Process(pid_t pid, Descriptor out, Descriptor err, Descriptor end)
    : pid_(pid), out_(std::move(out)), err_(std::move(err)), end_(std::move(end)) {}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      end_(std::move(other.end_)),
      code_(other.code_),
      waited_(std::exchange(other.waited_, true)) {}

Process& Process::operator=(Process&& other) noexcept {
    std::swap(pid_, other.pid_);
    std::swap(out_, other.out_);
    std::swap(err_, other.err_);
    std::swap(end_, other.end_);
    std::swap(code_, other.code_);
    std::swap(waited_, other.waited_);
    return *this;
}

Process::~Process() {
    if (waited_) return;
    kill();
    wait();
}

Result<Process> Process::start(const std::vector<std::string>& arguments, const Place& place, std::string_view input) {
    CHAOS_ASSERT(!arguments.empty());
    CHAOS_TRY(const Descriptor in, memory_file(input));
    CHAOS_TRY(Descriptor out, memory_file(""));
    CHAOS_TRY(Descriptor err, memory_file(""));
    CHAOS_TRY(const Descriptor space, open_or_none(place.namespace_file, O_RDONLY));
    CHAOS_TRY(const Descriptor group, open_or_none(place.group_file, O_WRONLY));
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("cannot make a pipe");
    const Descriptor read_end(ends[0]);
    Descriptor write_end(ends[1]);

    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid < 0) return system_error("cannot start a process");
    if (pid == 0) become(pointers, space.get(), group.get(), {in.get(), out.get(), err.get()}, write_end.get());
    ::setpgid(pid, pid);  // as the child does: whoever comes first, a signal to the group finds it

    Process process(pid, std::move(out), std::move(err),
                    Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
    write_end.close();
    Failure failure{};
    if (::read(read_end.get(), &failure, sizeof failure) == sizeof failure) {
        errno = failure.error;
        return system_error(describe(failure.step, arguments.front(), place));
    }
    return process;
}

void Process::signal(int number) const {
    if (!waited_) ::kill(-pid_, number);
}

void Process::kill() const {
    signal(SIGKILL);
}

void Process::freeze() const {
    signal(SIGSTOP);
}

void Process::thaw() const {
    signal(SIGCONT);
}

int Process::wait() {
    if (waited_) return code_;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    waited_ = true;
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return code_;
}

bool Process::ended() const {
    pollfd end{end_.get(), POLLIN, 0};
    return waited_ || ::poll(&end, 1, 0) > 0;
}

bool Process::wait_for_output(std::string_view text) const {
    constexpr int look_again_ms = 2;
    while (true) {
        const bool last = ended();
        if (out().find(text) != std::string::npos) return true;
        if (last) return false;
        pollfd end{end_.get(), POLLIN, 0};
        ::poll(&end, 1, look_again_ms);
    }
}

std::string Process::out(std::size_t without) const {
    return content_of(out_.get(), without);
}

std::string Process::err() const {
    return content_of(err_.get(), 0);
}

Result<std::string> run_program(const std::vector<std::string>& arguments, std::string_view input) {
    CHAOS_TRY(Process process, Process::start(arguments, {}, input));
    if (process.wait() == 0) return process.out();
    std::string command;
    for (const std::string& argument : arguments) command += (command.empty() ? "" : " ") + argument;
    std::string complaint = process.err();
    while (!complaint.empty() && complaint.back() == '\n') complaint.pop_back();
    return Error{"\"" + command + "\" failed: " + complaint};
}

Result<void> enter(const Place& place) {
    CHAOS_TRY(const Descriptor space, open_or_none(place.namespace_file, O_RDONLY));
    CHAOS_TRY(const Descriptor group, open_or_none(place.group_file, O_WRONLY));
    if (space.get() >= 0 && ::setns(space.get(), CLONE_NEWNET) != 0) {
        return system_error("cannot enter " + place.namespace_file);
    }
    if (group.get() >= 0 && ::write(group.get(), "0", 1) != 1) {
        return system_error("cannot write to " + place.group_file);
    }
    return {};
}

}  // namespace chaos::testbed
