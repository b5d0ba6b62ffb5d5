#include "cli/progress.h"

#include "cli/process.h"
#include "shared.h"
#include "temporary_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace chaos::test {
namespace {

using cli::ProgressLines;
using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(Progress, WhatIsDoneSoonHasNoLines) {
    const ProgressLines::Clock::time_point begun{};
    ProgressLines lines("loading x", begun);
    EXPECT_EQ(lines.line(1, 4, begun), std::nullopt);
    EXPECT_EQ(lines.line(3, 4, begun + 1s), std::nullopt);
    EXPECT_EQ(lines.line(4, 4, begun + 3s), std::nullopt);
}

TEST(Progress, WhatTakesItsTimeHasALineNowAndThenAndOneAtTheEnd) {
    const ProgressLines::Clock::time_point begun{};
    ProgressLines lines("loading x", begun);
    EXPECT_EQ(lines.line(1, 200, begun + 1s), std::nullopt);
    EXPECT_EQ(lines.line(9, 200, begun + 2s), "loading x: 4 %");
    EXPECT_EQ(lines.line(10, 200, begun + 3s), std::nullopt);
    EXPECT_EQ(lines.line(100, 200, begun + 12s), "loading x: 50 %");
    EXPECT_EQ(lines.line(199, 200, begun + 20s), std::nullopt);
    EXPECT_EQ(lines.line(200, 200, begun + 65s), "loading x: done in 1 min 05 s");
}

// Standard error of a program, as a terminal has it.
class Terminal {
public:
    Terminal() : terminal_(::posix_openpt(O_RDWR | O_NOCTTY)) {
        EXPECT_TRUE(::grantpt(terminal_) == 0 && ::unlockpt(terminal_) == 0) << "no terminals here";
        program_ = ::open(::ptsname(terminal_), O_RDWR | O_NOCTTY);
    }
    ~Terminal() {
        ::close(terminal_);
        ::close(program_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    void take_errors() const { ::dup2(program_, STDERR_FILENO); }
    // What there is of it, which is little enough for the terminal to hold.
    [[nodiscard]] std::string shown() const {
        std::array<char, 4096> buffer{};
        const ssize_t got = ::read(terminal_, buffer.data(), buffer.size());
        return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
    }

private:
    int terminal_;
    int program_ = -1;
};

TEST(Progress, ATerminalShowsItInPlace) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    const Terminal terminal;
    const Outcome outcome = run_chaos({"eval", shared("models/llama3-shakespeare").string(), "--ids", "1,2,3"},
                                      folder.path(), [&] { terminal.take_errors(); });
    EXPECT_EQ(outcome.code, 0);
    const std::string shown = terminal.shown();
    EXPECT_THAT(shown, HasSubstr("\rloading llama3-shakespeare: "));
    EXPECT_THAT(shown, HasSubstr(" %\033[K"));
    EXPECT_EQ(shown.find('\n'), std::string::npos);
}

TEST(Progress, ElsewhereWhatIsDoneSoonSaysNothing) {
    CHAOS_NEED_SHARED("models");
    const TemporaryFolder folder;
    const Outcome outcome =
        run_chaos({"eval", shared("models/llama3-shakespeare").string(), "--ids", "1,2,3"}, folder.path());
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace chaos::test
