// Weights of which only some are in memory (window_plan.h): pinned parts always, streamed ones while they are used.
//
//   pass      p0 s1 s2 p3 s4 s5 p6 ... s97 p98 | p0 s1 s2 ...        p: pinned, s: streamed
//   ring                [s4][s5][s7][s8]                             reads go on as far ahead as there are slots,
//                                                                    beyond the end of a pass into the next one
//
// Whoever multiplies a part acquires it before and releases it right after, which makes room for the next read. Parts
// may be skipped (a pass without logits needs no head): the ring goes on from the one that is asked for. One thread
// calls everything.
#pragma once

#include "base/result.h"
#include "infer/direct_reader.h"
#include "infer/huge_pages.h"
#include "infer/window_plan.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace chaos::infer {

class Window {
public:
    // Reads the pinned parts of a packed file (packed_file.h). `progress` may be empty.
    static Result<std::unique_ptr<Window>> open(const std::filesystem::path& path, std::vector<Part> parts,
                                                const WindowPlan& plan, const Progress& progress,
                                                DirectReader::Way way = DirectReader::Way::best);
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
    [[nodiscard]] const WindowPlan& plan() const { return plan_; }
    [[nodiscard]] const char* reader_name() const { return reader_->name(); }
    [[nodiscard]] bool is_pinned(std::size_t part) const { return plan_.pinned[part]; }
    [[nodiscard]] const std::byte* pinned(std::size_t part) const;

    // The panels of a streamed part, good until it is released, as soon as they are there.
    [[nodiscard]] Result<const std::byte*> acquire(std::size_t part);
    void release(std::size_t part);

    // What computing waited for parts, in seconds, and what was read of the file for streamed parts, those included
    // that lie ahead or were read for nothing.
    [[nodiscard]] double waited_s() const { return waited_.count(); }
    [[nodiscard]] std::uint64_t read_bytes() const { return read_bytes_; }

private:
    Window(std::vector<Part> parts, WindowPlan plan) : parts_(std::move(parts)), plan_(std::move(plan)) {}
    Result<void> load_pinned(const Progress& progress);
    void start(std::size_t part, std::size_t slot, std::byte* to);
    void read_ahead();
    void wait_for_one();
    void go_to(std::size_t place);
    void drop_first();

    // A part in the ring, or on its way there.
    struct Slot {
        std::size_t number = 0;
        std::size_t place = 0;  // in streamed_
    };

    std::vector<Part> parts_;
    WindowPlan plan_;
    std::vector<std::size_t> streamed_;     // parts, in the order of use
    std::vector<std::uint64_t> positions_;  // of each part: where it is in pinned_, or its place in streamed_
    HugePages pinned_;
    HugePages ring_;
    std::unique_ptr<DirectReader> reader_;
    std::deque<Slot> ahead_;  // in the order of use
    std::size_t next_place_ = 0;
    std::size_t next_slot_ = 0;
    std::vector<bool> arrived_;  // by slot
    std::vector<std::optional<Error>> errors_;
    bool acquired_ = false;
    std::chrono::duration<double> waited_{0};
    std::uint64_t read_bytes_ = 0;
};

}  // namespace chaos::infer
