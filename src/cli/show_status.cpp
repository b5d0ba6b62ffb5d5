#include "cli/show_status.h"

#include "cli/display.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <span>
#include <vector>

namespace chaos::cli {
namespace {

using nlohmann::json;

constexpr std::size_t max_members_shown = 100;
constexpr std::size_t max_links_shown = 40;
constexpr std::size_t brief_digits = 8;

template <class... Values>
std::string format(const char* pattern, Values... values) {
    std::array<char, 256> text{};
    std::snprintf(text.data(), text.size(), pattern, values...);
    return text.data();
}

// Without control characters: those below space, "delete", and U+0080 to U+009F.
std::string printable(std::string_view text) {
    std::string shown;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const auto byte = static_cast<unsigned char>(text[at]);
        const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0U;
        const bool two_bytes = byte == 0xc2 && next >= 0x80 && next < 0xa0;
        shown += byte < 0x20 || byte == 0x7f || two_bytes ? '?' : text[at];
        if (two_bytes) ++at;
    }
    return shown;
}

const json& field(const json& object, const char* name) {
    static const json nothing;
    if (!object.is_object()) return nothing;
    const auto found = object.find(name);
    return found == object.end() ? nothing : *found;
}

std::string text_of(const json& object, const char* name) {
    const json& value = field(object, name);
    return value.is_string() ? printable(value.get_ref<const std::string&>()) : "";
}

std::string brief_of(const json& object, const char* name) {
    return text_of(object, name).substr(0, brief_digits);
}

std::optional<double> number_of(const json& object, const char* name) {
    const json& value = field(object, name);
    if (!value.is_number()) return std::nullopt;
    return value.get<double>();
}

// A whole number as it is; "-" where there is none.
std::string count_of(const json& object, const char* name) {
    const std::optional<double> value = number_of(object, name);
    return value ? format("%.0f", *value) : "-";
}

// "1.2 MB"
std::string bytes_text(double bytes) {
    constexpr std::array<const char*, 5> units = {"B", "kB", "MB", "GB", "TB"};
    std::size_t unit = 0;
    for (; unit + 1 < units.size() && bytes >= 1000.0; ++unit) bytes /= 1000.0;
    return format(unit == 0 || bytes >= 100.0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

std::string bytes_of(const json& object, const char* name, double factor = 1.0) {
    const std::optional<double> value = number_of(object, name);
    return value ? bytes_text(*value * factor) : "-";
}

// Rates that are not known are 0.
std::string rate_of(const json& object, const char* name, double factor = 1.0) {
    const std::optional<double> value = number_of(object, name);
    return value && *value > 0.0 ? bytes_text(*value * factor) + "/s" : "-";
}

std::string microseconds_of(const json& object, const char* name) {
    const std::optional<double> value = number_of(object, name);
    if (!value) return "-";
    if (*value < 1000.0) return format("%.0f us", *value);
    return format(*value < 100'000.0 ? "%.1f ms" : "%.0f ms", *value / 1000.0);
}

bool begins_letter(char byte) {
    return (static_cast<unsigned>(byte) & 0xc0U) != 0x80;
}

// Letters, not bytes.
std::size_t width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_letter));
}

std::string_view first_letters(std::string_view text, std::size_t most) {
    std::size_t letters = 0;
    for (std::size_t at = 0; at < text.size(); ++at)
        if (begins_letter(text[at]) && ++letters > most) return text.substr(0, at);
    return text;
}

enum class Align { left, right };
struct Column {
    std::string heading;
    Align align = Align::left;
};

// Aligned, with a margin for a mark in front of a row; at most `most` rows, and how many are left out.
class Table {
public:
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {
        for (const Column& column : columns_) widths_.push_back(width(column.heading));
    }

    void add(char mark, std::vector<std::string> cells) {
        for (std::size_t at = 0; at < cells.size(); ++at) widths_[at] = std::max(widths_[at], width(cells[at]));
        rows_.push_back({mark, std::move(cells)});
    }

    [[nodiscard]] std::string text(std::size_t most) const {
        if (rows_.empty()) return "";
        std::vector<std::string> headings;
        headings.reserve(columns_.size());
        for (const Column& column : columns_) headings.push_back(column.heading);
        std::string text = "\n" + line(' ', headings);
        for (const Row& row : std::span(rows_).first(std::min(most, rows_.size()))) text += line(row.mark, row.cells);
        if (rows_.size() > most) text += format("  and %zu more, which --json lists\n", rows_.size() - most);
        return text;
    }

private:
    struct Row {
        char mark;
        std::vector<std::string> cells;
    };

    [[nodiscard]] std::string line(char mark, const std::vector<std::string>& cells) const {
        std::string text{mark};
        for (std::size_t at = 0; at < cells.size(); ++at) {
            const std::string blank(widths_[at] - width(cells[at]), ' ');
            const bool right = columns_[at].align == Align::right;
            text += (at == 0 ? " " : "  ") + (right ? blank + cells[at] : cells[at] + blank);
        }
        return text.erase(text.find_last_not_of(' ') + 1) + "\n";
    }

    std::vector<Column> columns_;
    std::vector<std::size_t> widths_;
    std::vector<Row> rows_;
};

// Sentences of a line, those that have something to say.
class Parts {
public:
    explicit Parts(const char* between) : between_(between) {}
    void add(const std::string& part) {
        if (part.empty()) return;
        if (!text_.empty()) text_ += between_;
        text_ += part;
    }
    [[nodiscard]] std::string line() const { return text_.empty() ? "" : text_ + "\n"; }

private:
    const char* between_;
    std::string text_;
};

std::string who_line(const json& status) {
    Parts parts("; ");
    std::string who = "node " + brief_of(status, "node") + ": " + text_of(status, "role");
    if (const std::string view = brief_of(status, "view"); !view.empty()) {
        const std::size_t members = field(status, "members").size();
        who += " in view " + view + " (epoch " + count_of(status, "epoch") + "), " +
               (members == 1 ? "alone" : std::to_string(members) + " members");
    }
    parts.add(who);
    if (const std::string listen = text_of(status, "listen"); !listen.empty()) parts.add("listens at " + listen);
    if (const auto up = number_of(status, "uptime_s")) parts.add("up " + duration_text(*up));
    return parts.line();
}

std::string run_line(const json& status) {
    const std::optional<double> step = number_of(status, "step");
    const std::optional<double> steps = number_of(status, "steps");
    Parts parts("; ");
    std::string run = "run " + brief_of(status, "run") + ": step " + count_of(status, "step");
    if (steps && *steps > 0.0) {
        run += " of " + count_of(status, "steps");
        if (step) run += format(" (%.1f %%)", 100.0 * *step / *steps);
    }
    parts.add(run);
    if (number_of(status, "stable")) parts.add("stable " + count_of(status, "stable"));
    if (const auto each = number_of(status, "step_seconds"); each && step && steps && *steps > *step)
        parts.add(duration_text(*each * (*steps - *step)) + " left");
    return parts.line();
}

std::string loss_line(const json& status) {
    Parts parts("; ");
    if (const auto loss = number_of(status, "loss")) parts.add(format("loss %.4f", *loss));
    const json& held_out = field(status, "held_out");
    if (const auto loss = number_of(held_out, "loss")) {
        std::string text = format("held out %.4f", *loss) + " at step " + count_of(held_out, "step");
        if (const auto accuracy = number_of(held_out, "accuracy"))
            text += format(", accuracy %.2f %%", 100.0 * *accuracy);
        parts.add(text);
    }
    return parts.line();
}

std::string pace_line(const json& status) {
    Parts parts("; ");
    if (const auto rate = number_of(status, "samples_per_s")) parts.add(format("%.1f samples/s", *rate));
    if (const auto each = number_of(status, "step_seconds")) parts.add(format("%.3g s per step", *each));
    const json& state = field(status, "state_hash");
    if (const std::string hash = brief_of(state, "hash"); !hash.empty())
        parts.add("state " + hash + " at step " + count_of(state, "step"));
    return parts.line();
}

// Of a node that serves.
std::string serving_lines(const json& status) {
    Parts parts("; ");
    const std::size_t together = field(status, "together").size();
    parts.add(
        "serves " + text_of(status, "model") +
        (together > 1 ? format(", computed by %zu nodes (%s)", together, text_of(status, "exchange").c_str()) : ""));
    if (const auto predicted = number_of(status, "predicted_ms_per_token"))
        parts.add(format("%.3g ms per token expected", *predicted));
    if (const auto measured = number_of(status, "measured_ms_per_token")) parts.add(format("%.3g measured", *measured));
    Parts work("; ");
    work.add(count_of(status, "texts") + " texts here, " + count_of(status, "passes") + " passes, " +
             count_of(status, "healed") + " times healed");
    if (const auto bytes = number_of(field(status, "share"), "weight_bytes"); bytes && *bytes > 0.0)
        work.add(bytes_text(*bytes) + " of weights here");
    return parts.line() + work.line();
}

std::string serving_members_table(const json& status) {
    Table table({{"member"}, {"standing"}, {"part"}, {"since epoch", Align::right}, {"address"}});
    const json& together = field(status, "together");
    for (const json& member : field(status, "members")) {
        const json& self = field(member, "self");
        const bool computes = std::find(together.begin(), together.end(), field(member, "node")) != together.end();
        table.add(self.is_boolean() && self.get<bool>() ? '*' : ' ',
                  {brief_of(member, "node"), text_of(member, "standing"), computes ? "computes" : "passes on",
                   count_of(member, "since_epoch"), text_of(member, "address")});
    }
    return table.text(max_members_shown);
}

std::string members_table(const json& status) {
    const std::optional<double> batch = number_of(status, "batch");
    Table table({{"member"},
                 {"standing"},
                 {batch ? format("share of %.0f", *batch) : "share", Align::right},
                 {"samples/s", Align::right},
                 {"since epoch", Align::right},
                 {"from step", Align::right},
                 {"address"}});
    for (const json& member : field(status, "members")) {
        const bool known = number_of(member, "speed").value_or(0.0) > 0.0;
        const json& self = field(member, "self");
        table.add(self.is_boolean() && self.get<bool>() ? '*' : ' ',
                  {brief_of(member, "node"), text_of(member, "standing"), count_of(member, "share"),
                   known ? count_of(member, "speed") : "-", count_of(member, "since_epoch"),
                   count_of(member, "first_step"), text_of(member, "address")});
    }
    return table.text(max_members_shown);
}

// This node's links come first.
std::string links_table(const json& status) {
    constexpr double kilo = 1000.0;
    const std::string self = text_of(status, "node");
    Table table({{"link"}, {"there", Align::right}, {"back", Align::right}, {"delay", Align::right}});
    for (const bool own : {true, false})
        for (const json& link : field(status, "links"))
            if ((text_of(link, "a") == self || text_of(link, "b") == self) == own)
                table.add(own ? '*' : ' ',
                          {brief_of(link, "a") + " - " + brief_of(link, "b"), rate_of(link, "rate_ab", kilo),
                           rate_of(link, "rate_ba", kilo), microseconds_of(link, "delay_us")});
    return table.text(max_links_shown);
}

std::string connections_table(const json& status) {
    Table table({{"connection"},
                 {"round trip", Align::right},
                 {"sent", Align::right},
                 {"received", Align::right},
                 {"arriving", Align::right},
                 {"lost", Align::right}});
    for (const json& connection : field(status, "connections")) {
        const std::optional<double> lost = number_of(connection, "lost_segments_percent");
        table.add(' ', {brief_of(connection, "peer"), microseconds_of(connection, "round_trip_us"),
                        bytes_of(connection, "sent_bytes"), bytes_of(connection, "received_bytes"),
                        rate_of(connection, "receive_bytes_per_s"), lost ? format("%.2f %%", *lost) : "-"});
    }
    return table.text(max_links_shown);
}

}  // namespace

std::string status_text(const json& status) {
    const bool serves = field(status, "together").is_array();
    std::string text = who_line(status) +
                       (serves ? serving_lines(status) + serving_members_table(status)
                               : run_line(status) + loss_line(status) + pace_line(status) + members_table(status)) +
                       links_table(status) + connections_table(status);
    if (const std::string why = text_of(status, "why"); !why.empty()) text += "\n" + why + "\n";
    return text;
}

std::string event_text(const json& event) {
    constexpr double latest = 1e11;  // in three thousand years
    const auto time = static_cast<std::time_t>(std::clamp(number_of(event, "time").value_or(0.0), 0.0, latest));
    std::tm local{};
    ::localtime_r(&time, &local);
    return format("%02d:%02d:%02d  %-8s  ", local.tm_hour, local.tm_min, local.tm_sec,
                  brief_of(event, "view").c_str()) +
           text_of(event, "text") + "\n";
}

std::string why_text(const json& why) {
    std::string text = text_of(why, "why") + "\n";
    for (const json& detail : field(why, "details"))
        if (detail.is_string()) text += "  " + printable(detail.get_ref<const std::string&>()) + "\n";
    return text;
}

std::string text_line(const json& answer) {
    const std::string text = text_of(answer, "text");
    return text.empty() ? "" : text + "\n";
}

std::string redrawn(std::string_view text, std::size_t rows, std::size_t columns) {
    std::string drawn = "\033[H";  // from the upper left corner; the rest of a line, and of the screen, is cleared
    for (std::size_t row = 0; row + 1 < rows && !text.empty(); ++row) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        drawn += std::string(first_letters(text.substr(0, end), columns)) + "\033[K\n";
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return drawn + "\033[J";
}

}  // namespace chaos::cli
