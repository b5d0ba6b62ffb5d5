#include "infer/window_plan.h"

#include "base/assert.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace chaos::infer {
namespace {

// Panels that one thread takes at once (multiply.cpp): a part has a multiple of them, where they are small enough.
constexpr std::size_t panels_together = 4;

std::size_t panels_of_a_part(std::uint64_t panel, std::uint64_t part_bytes) {
    const auto panels = std::max<std::size_t>(1, part_bytes / panel);
    return panels < panels_together ? panels : panels / panels_together * panels_together;
}

// Pins parts as they come: a run of them whenever so much more could be pinned by now, so that what is streamed between
// two runs lies together in the file. Runs are no longer than the ring, which is filled while they are multiplied.
void spread(std::span<const Part> parts, std::uint64_t room, WindowPlan& plan) {
    std::uint64_t all = 0;
    for (const Part& part : parts) all += part.read_bytes();
    const double share = static_cast<double>(room) / static_cast<double>(all);
    const std::uint64_t run = std::min(plan.slots * plan.slot_bytes, room / 8);
    plan.streamed_bytes = all;
    plan.pinned.resize(parts.size());
    const auto pin = [&](std::size_t part) {
        plan.pinned[part] = true;
        plan.pinned_bytes += parts[part].read_bytes();
        plan.streamed_bytes -= parts[part].read_bytes();
    };
    std::uint64_t seen = 0;
    bool pinning = false;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        seen += parts[part].read_bytes();
        const double due = share * static_cast<double>(seen) - static_cast<double>(plan.pinned_bytes);
        const auto bytes = static_cast<double>(parts[part].read_bytes());
        pinning = due >= (pinning ? bytes : std::max(bytes, static_cast<double>(run)));
        if (pinning && plan.pinned_bytes + parts[part].read_bytes() <= room) pin(part);
    }
    // What is left of the room goes to the end of the pass.
    for (std::size_t part = parts.size(); part-- > 0;)
        if (!plan.pinned[part] && plan.pinned_bytes + parts[part].read_bytes() <= room) pin(part);
}

std::string explain(const WindowNeeds& needs, const WindowPlan& plan) {
    const std::string rest = "program " + bytes_text(needs.program_bytes) + ", keys and values " +
                             bytes_text(needs.cache_bytes) + ", activations " + bytes_text(plan.batch.bytes);
    if (plan.resident) return "all weights fit into " + bytes_text(needs.budget_bytes) + " (" + rest + ")";
    return bytes_text(plan.pinned_bytes) + " of the weights pinned, " + bytes_text(plan.streamed_bytes) +
           " streamed per token through a ring of " + bytes_text(plan.slots * plan.slot_bytes) + " (" + rest + ")";
}

}  // namespace

std::string bytes_text(std::uint64_t bytes) {
    constexpr std::array<const char*, 5> units = {"B", "kB", "MB", "GB", "TB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; unit + 1 < units.size() && value >= 1000.0; ++unit) value /= 1000.0;
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), unit == 0 || value >= 100.0 ? "%.0f %s" : "%.1f %s",
                                     value, units[unit]);
    return {text.data(), static_cast<std::size_t>(length)};
}

std::vector<Part> parts_of(std::span<const PackedTensor> tensors, std::uint64_t part_bytes) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Matrix& shape = tensors[i].shape;
        if (shape.rows == 0) continue;
        const std::uint64_t panel = panel_bytes(shape.format, shape.columns);
        const std::size_t all = panels_of(shape.rows);
        const std::size_t step = panels_of_a_part(panel, part_bytes);
        for (std::size_t first = 0; first < all; first += step) {
            const std::size_t panels = std::min(step, all - first);
            parts.push_back({i, first, panels, tensors[i].offset + first * panel, panels * panel});
        }
    }
    return parts;
}

Result<WindowPlan> plan_window(const WindowNeeds& needs) {
    CHAOS_ASSERT(!needs.batches.empty() && !needs.parts.empty());
    std::uint64_t weights = 0;
    WindowPlan plan;
    for (const Part& part : needs.parts) {
        weights += part.bytes;
        plan.slot_bytes = std::max(plan.slot_bytes, part.read_bytes());
    }
    const std::uint64_t always = needs.program_bytes + needs.cache_bytes;
    const std::uint64_t ring = min_slots * plan.slot_bytes;
    const std::uint64_t least = always + needs.batches.back().bytes + std::min(ring, weights);
    if (needs.budget_bytes < least)
        return Error{"a memory of " + bytes_text(needs.budget_bytes) + " is too small: the program takes " +
                     bytes_text(needs.program_bytes) + ", keys and values " + bytes_text(needs.cache_bytes) +
                     ", activations " + bytes_text(needs.batches.back().bytes) + ", and weights need " +
                     bytes_text(std::min(ring, weights)) + " at the least; give " +
                     std::to_string((least + 999'999) / 1'000'000) + "MB or more"};
    // Where it all fits with the largest batch, there is nothing to weigh; else activations must not crowd out weights.
    const std::uint64_t left = needs.budget_bytes - always;
    const auto fits = [&](const Batch& batch) {
        return batch.bytes + weights <= left || (batch.bytes <= left / 4 && batch.bytes + ring <= left);
    };
    const auto chosen = std::find_if(needs.batches.begin(), needs.batches.end(), fits);
    plan.batch = chosen != needs.batches.end() ? *chosen : needs.batches.back();
    const std::uint64_t room = left - plan.batch.bytes;
    plan.resident = weights <= room;
    if (!plan.resident) {
        plan.slots = std::clamp<std::size_t>(room / 4 / plan.slot_bytes, min_slots, max_slots);
        spread(needs.parts, room - plan.slots * plan.slot_bytes, plan);
    }
    plan.explanation = explain(needs, plan);
    return plan;
}

}  // namespace chaos::infer
