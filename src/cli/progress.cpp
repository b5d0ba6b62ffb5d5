#include "cli/progress.h"

#include "cli/display.h"

#include <unistd.h>
#include <cstdio>
#include <utility>

namespace chaos::cli {
namespace {

int percent_of(std::uint64_t done, std::uint64_t total) {
    return static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * 100.0);
}

}  // namespace

std::optional<std::string> ProgressLines::line(std::uint64_t done, std::uint64_t total, Clock::time_point now) {
    if (done == total) {
        if (!said_) return {};
        return what_ + ": done in " + duration_text(std::chrono::duration<double>(now - begun_).count());
    }
    if (said_ ? now - *said_ < interval : now - begun_ < soon) return {};
    said_ = now;
    return what_ + ": " + std::to_string(percent_of(done, total)) + " %";
}

infer::Progress show_progress(const std::string& what) {
    if (::isatty(STDERR_FILENO) != 1)
        return [lines = ProgressLines(what, ProgressLines::Clock::now())](std::uint64_t done,
                                                                          std::uint64_t total) mutable {
            if (const auto line = lines.line(done, total, ProgressLines::Clock::now()))
                std::fprintf(stderr, "%s\n", line->c_str());
        };
    return [what, shown = -1](std::uint64_t done, std::uint64_t total) mutable {
        const int percent = percent_of(done, total);
        if (percent == shown) return;
        shown = percent;
        // When it is done the line is gone.
        if (done == total)
            std::fputs("\r\033[K", stderr);
        else
            std::fprintf(stderr, "\r%s: %d %%\033[K", what.c_str(), percent);
    };
}

}  // namespace chaos::cli
