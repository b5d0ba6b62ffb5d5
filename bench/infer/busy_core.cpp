#include "busy_core.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <cerrno>
#include <cstring>
#include <string>

namespace chaos::bench {

Result<BusyCore> BusyCore::start() {
    const pid_t process = ::fork();
    if (process < 0) return Error{std::string("cannot start a busy process: ") + std::strerror(errno)};
    if (process == 0) {
        // It must not outlive the benchmark, however that ends.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (true) asm volatile("");
    }
    return BusyCore(process);
}

BusyCore::~BusyCore() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
}

}  // namespace chaos::bench
