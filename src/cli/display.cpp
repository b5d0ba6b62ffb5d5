#include "cli/display.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace chaos::cli {
namespace {

using nlohmann::json;

template <class... Values>
std::string format(const char* pattern, Values... values) {
    char text[4096];
    std::snprintf(text, sizeof text, pattern, values...);
    return text;
}

double accuracy_of(const compute::Measure& measure) {
    return static_cast<double>(measure.correct.value_or(0)) / static_cast<double>(measure.targets);
}

std::string measure_text(const compute::Measure& measure, bool best) {
    std::string text = format("held-out loss %.4f", measure.loss);
    if (measure.correct) text += format(", accuracy %.2f %%", 100.0 * accuracy_of(measure));
    return text + (best ? " (best so far)" : "");
}

// Lines for people. On a terminal the newest step is shown in place; elsewhere about twenty steps of a run are.
class TextDisplay final : public Display {
public:
    TextDisplay(std::uint64_t steps, bool terminal)
        : steps_(steps), interval_(std::max<std::uint64_t>(1, steps / 20)), terminal_(terminal) {}

    void start(const elastic::Trainer& trainer, const std::filesystem::path& dir) override {
        const run::Run& run = trainer.run();
        line(format("training %s on %s: %llu training samples, %llu held out, %lld threads, checkpoints in %s",
                    run.model.kind.c_str(), run.data.kind.c_str(),
                    static_cast<unsigned long long>(trainer.dataset().train_samples()),
                    static_cast<unsigned long long>(trainer.dataset().held_out_samples()),
                    static_cast<long long>(run.train.threads), dir.c_str()));
        if (trainer.progress().step > 0)
            line(format("going on after step %llu", static_cast<unsigned long long>(trainer.progress().step)));
    }

    void note(const std::string& sentence) override { line("note: " + sentence); }

    void step(const state::StepRecord& record) override {
        pace_.note(record.samples);
        const std::uint64_t done = record.step + 1;
        const std::string text = format(
            "step %llu/%llu  loss %.4f  %.1f samples/s  %s left", static_cast<unsigned long long>(done),
            static_cast<unsigned long long>(steps_), record.loss, pace_.samples_per_second(),
            duration_text(pace_.seconds_per_step() * static_cast<double>(steps_ - std::min(done, steps_))).c_str());
        if (terminal_) {
            in_place(text);
        } else if (done % interval_ == 0 || done == 1 || done == steps_) {
            line(text);
        }
    }

    void evaluated(std::uint64_t steps_done, const compute::Measure& measure, bool best) override {
        line(format("step %llu: ", static_cast<unsigned long long>(steps_done)) + measure_text(measure, best));
    }

    void saved(std::uint64_t, const std::filesystem::path&) override {}

    void sampled(const std::string& text) override { line("\n" + text); }

    void end(const elastic::Trainer& trainer, const std::string& why) override {
        line(format("%s after step %llu; state %s", why.c_str(),
                    static_cast<unsigned long long>(trainer.progress().step),
                    hex(trainer.progress().lineage).substr(0, 16).c_str()));
    }

private:
    void in_place(const std::string& text) {
        constexpr auto shortest = std::chrono::milliseconds(100);
        const auto now = Pace::Clock::now();
        if (now - shown_ < shortest) return;
        shown_ = now;
        winsize size{};
        std::size_t columns = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
        std::printf("\r\033[K%s", text.substr(0, columns - 1).c_str());
        std::fflush(stdout);
        open_line_ = true;
    }

    void line(const std::string& text) {
        std::printf("%s%s\n", open_line_ ? "\r\033[K" : "", text.c_str());
        std::fflush(stdout);
        open_line_ = false;
    }

    std::uint64_t steps_;
    std::uint64_t interval_;
    bool terminal_;
    bool open_line_ = false;
    Pace pace_;
    Pace::Clock::time_point shown_{};
};

class JsonDisplay final : public Display {
public:
    void start(const elastic::Trainer& trainer, const std::filesystem::path& dir) override {
        print({{"event", "start"},
               {"run", hex(run::hash(trainer.identity()))},
               {"step", trainer.progress().step},
               {"steps", trainer.run().train.steps},
               {"train_samples", trainer.dataset().train_samples()},
               {"held_out_samples", trainer.dataset().held_out_samples()},
               {"threads", trainer.run().train.threads},
               {"dir", dir.string()}});
    }
    void note(const std::string& sentence) override { print({{"event", "note"}, {"text", sentence}}); }
    void step(const state::StepRecord& record) override {
        pace_.note(record.samples);
        print({{"event", "step"},
               {"step", record.step + 1},
               {"loss", record.loss},
               {"norm", record.norm},
               {"learning_rate", record.scalars.learning_rate},
               {"samples_per_second", pace_.samples_per_second()}});
    }
    void evaluated(std::uint64_t steps_done, const compute::Measure& measure, bool best) override {
        json event = {{"event", "evaluated"}, {"step", steps_done}, {"loss", measure.loss}, {"best", best}};
        if (measure.correct) event["accuracy"] = accuracy_of(measure);
        print(event);
    }
    void saved(std::uint64_t steps_done, const std::filesystem::path& path) override {
        print({{"event", "saved"}, {"step", steps_done}, {"path", path.string()}});
    }
    void sampled(const std::string& text) override { print({{"event", "sampled"}, {"text", text}}); }
    void end(const elastic::Trainer& trainer, const std::string& why) override {
        print({{"event", "end"},
               {"why", why},
               {"step", trainer.progress().step},
               {"lineage", hex(trainer.progress().lineage)}});
    }

private:
    static void print(const json& event) {
        std::printf("%s\n", event.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
        std::fflush(stdout);
    }
    Pace pace_;
};

}  // namespace

std::unique_ptr<Display> make_display(bool json_lines, std::uint64_t steps) {
    if (json_lines) return std::make_unique<JsonDisplay>();
    return std::make_unique<TextDisplay>(steps, ::isatty(STDOUT_FILENO) == 1);
}

void Pace::note(std::uint64_t samples) {
    const Clock::time_point now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    // A running mean that forgets within about ten steps, started by the first.
    const double keep = step_seconds_ == 0.0 ? 0.0 : 0.9;
    step_seconds_ = keep * step_seconds_ + (1.0 - keep) * seconds;
    rate_ = static_cast<double>(samples) / std::max(step_seconds_, 1e-9);
}

std::string duration_text(double seconds) {
    const auto whole = std::llround(seconds);
    if (whole >= 3600) return format("%lld h %02lld min", whole / 3600, whole % 3600 / 60);
    if (whole >= 60) return format("%lld min %02lld s", whole / 60, whole % 60);
    return format("%lld s", whole);
}

}  // namespace chaos::cli
