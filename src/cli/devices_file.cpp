#include "cli/devices_file.h"

#include "base/file.h"
#include "base/words.h"
#include "cli/quantities.h"
#include "run/entries.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace chaos::cli {
namespace {

using run::Entry;

// What a device is that does not say otherwise, beside the defaults of TensorDevice.
constexpr std::uint64_t usual_program_bytes = 60'000'000;
constexpr std::uint64_t usual_message_ns = 15'000;
constexpr std::uint64_t usual_phase_ns = 20'000;
// Plans multiply these.
constexpr std::uint64_t most_of_a_quantity = 1'000'000'000'000'000;
constexpr std::int64_t most_devices = static_cast<std::int64_t>(plan::max_tensor_devices);

struct Link {
    std::optional<std::uint64_t> rate;
    std::optional<std::uint64_t> delay;
    bool none = false;
    std::size_t line = 0;
};

class Reader {
public:
    Reader(const std::string& name, DevicesFile& file) : name_(name), file_(file) {}

    Result<void> read(const std::vector<Entry>& entries);

private:
    [[nodiscard]] Error at(const Entry& entry, const std::string& what) const {
        return Error{run::place(name_, entry.line) + entry.key + " " + what};
    }
    Result<std::uint64_t> number(const Entry& entry, Quantity quantity, const std::string& example) const;
    Result<void> unknown(const Entry& entry, std::string_view key, std::span<const std::string_view> keys) const;
    Result<void> read_device_key(const Entry& entry, const std::string& device, const std::string& key);
    Result<void> read_link_key(const Entry& entry, std::span<const std::string> path);
    Result<void> read_link(const Entry& entry, const std::string& key, Link& link) const;
    Result<void> make_devices();
    Result<void> make_links();

    const std::string& name_;
    DevicesFile& file_;
    struct Kind {
        plan::TensorDevice device;
        std::int64_t count = 0;  // 0: one, without a number behind its name
        std::size_t line = 0;
    };
    std::vector<std::string> order_;
    std::map<std::string, Kind> kinds_;
    Link usual_;
    std::map<std::pair<std::string, std::string>, Link> links_;
    std::map<std::string, std::uint32_t> index_;
};

Result<std::uint64_t> Reader::number(const Entry& entry, Quantity quantity, const std::string& example) const {
    const auto* text = std::get_if<std::string>(&entry.value.content);
    const auto value = text != nullptr ? parse_quantity(*text, quantity) : std::nullopt;
    if (!value || *value > most_of_a_quantity) return at(entry, "must be " + example);
    return *value;
}

Result<void> Reader::unknown(const Entry& entry, std::string_view key, std::span<const std::string_view> keys) const {
    const std::string nearest = nearest_word(key, keys);
    return at(entry,
              "is not known" + (nearest.empty() ? "; there are " + one_of(keys) : "; did you mean " + nearest + "?"));
}

Result<void> Reader::read_device_key(const Entry& entry, const std::string& device, const std::string& key) {
    plan::TensorDevice& one = kinds_[device].device;
    const std::string rate = "a rate like \"10GB/s\", \"125MB/s\" or \"1Gb/s\"";
    const std::string size = "a size like \"4GB\" or \"500MB\"";
    const std::string time = "a time like \"15us\" or \"0.2ms\"";
    if (key == "count") {
        const auto* count = std::get_if<std::int64_t>(&entry.value.content);
        if (count == nullptr || *count < 1 || *count > most_devices)
            return at(entry, "must be a number from 1 to " + std::to_string(most_devices));
        kinds_[device].count = *count;
    } else if (key == "memory") {
        CHAOS_TRY(one.memory_bytes, number(entry, Quantity::bytes, size));
    } else if (key == "speed") {
        CHAOS_TRY(one.weight_bytes_per_s, number(entry, Quantity::bytes_per_second, rate));
    } else if (key == "disk") {
        CHAOS_TRY(one.disk_bytes_per_s, number(entry, Quantity::bytes_per_second, rate));
    } else if (key == "network") {
        CHAOS_TRY(one.egress_bytes_per_s, number(entry, Quantity::bytes_per_second, rate));
        one.ingress_bytes_per_s = one.egress_bytes_per_s;
    } else if (key == "program") {
        CHAOS_TRY(one.program_bytes, number(entry, Quantity::bytes, size));
    } else if (key == "message") {
        CHAOS_TRY(one.message_ns, number(entry, Quantity::nanoseconds, time));
    } else if (key == "phase") {
        CHAOS_TRY(one.phase_ns, number(entry, Quantity::nanoseconds, time));
    } else if (key == "prompt") {
        CHAOS_TRY(one.prompt_bytes_per_s, number(entry, Quantity::bytes_per_second, rate));
    } else {
        constexpr std::array<std::string_view, 9> keys{"count",   "memory",  "speed", "disk",  "network",
                                                       "program", "message", "phase", "prompt"};
        return unknown(entry, key, keys);
    }
    return {};
}

Result<void> Reader::read_link(const Entry& entry, const std::string& key, Link& link) const {
    if (key == "rate") {
        CHAOS_TRY(link.rate, number(entry, Quantity::bytes_per_second, "a rate like \"1Gb/s\" or \"125MB/s\""));
    } else if (key == "delay") {
        CHAOS_TRY(link.delay, number(entry, Quantity::nanoseconds, "a time like \"0.2ms\" or \"50us\""));
    } else {
        constexpr std::array<std::string_view, 2> keys{"rate", "delay"};
        return unknown(entry, key, keys);
    }
    return {};
}

// links.rate, links.A.B, links.A.B.rate
Result<void> Reader::read_link_key(const Entry& entry, std::span<const std::string> path) {
    const bool table = std::holds_alternative<run::Value::Table>(entry.value.content);
    if (path.size() == 1) return table ? Result<void>() : read_link(entry, path[0], usual_);
    Link& link = links_[std::minmax(path[0], path[1])];
    link.line = entry.line;
    if (path.size() == 2) {
        const auto* text = std::get_if<std::string>(&entry.value.content);
        link.none = text != nullptr && *text == "none";
        if (!link.none && !table) return at(entry, "must be \"none\" or have a rate or a delay");
        return {};
    }
    if (path.size() > 3) return at(entry, "is not known; links are [links.A.B]");
    return read_link(entry, path[2], link);
}

Result<void> Reader::read(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
        std::vector<std::string> path;
        for (std::size_t from = 0; from <= entry.key.size();) {
            const std::size_t end = std::min(entry.key.find('.', from), entry.key.size());
            path.push_back(entry.key.substr(from, end - from));
            from = end + 1;
        }
        const std::span<const std::string> below = std::span(path).subspan(1);
        if (path[0] == "devices" && below.size() == 2) {
            CHAOS_CHECK(read_device_key(entry, path[1], path[2]));
        } else if (path[0] == "devices" && below.size() == 1 &&
                   std::holds_alternative<run::Value::Table>(entry.value.content)) {
            order_.push_back(path[1]);
            Kind& kind = kinds_[path[1]];
            kind.line = entry.line;
            kind.device.program_bytes = usual_program_bytes;
            kind.device.message_ns = usual_message_ns;
            kind.device.phase_ns = usual_phase_ns;
        } else if (path[0] == "links" && !below.empty()) {
            CHAOS_CHECK(read_link_key(entry, below));
        } else if ((path[0] != "devices" && path[0] != "links") || !below.empty()) {
            return at(entry, "is not known; a file of devices has tables [devices.NAME], [links] and [links.A.B]");
        }
    }
    CHAOS_CHECK(make_devices());
    return make_links();
}

Result<void> Reader::make_devices() {
    for (const std::string& name : order_) {
        const Kind& kind = kinds_[name];
        if (kind.device.weight_bytes_per_s == 0)
            return Error{run::place(name_, kind.line) + "devices." + name +
                         " has no speed; say how fast it multiplies weights, e.g. speed = \"10GB/s\""};
        for (std::int64_t number = 1; number <= std::max<std::int64_t>(kind.count, 1); ++number) {
            plan::TensorDevice device = kind.device;
            device.name = kind.count == 0 ? name : name + std::to_string(number);
            device.id = file_.devices.size() + 1;
            if (!index_.emplace(device.name, static_cast<std::uint32_t>(file_.devices.size())).second)
                return Error{run::place(name_, kind.line) + "there are two devices " + device.name};
            file_.devices.push_back(std::move(device));
        }
    }
    if (file_.devices.empty()) return Error{name_ + " has no device; add a table [devices.NAME] with a speed"};
    if (file_.devices.size() > plan::max_tensor_devices)
        return Error{name_ + " has " + std::to_string(file_.devices.size()) + " devices; at most " +
                     std::to_string(plan::max_tensor_devices) + " serve one model"};
    return {};
}

Result<void> Reader::make_links() {
    for (const auto& [ends, link] : links_) {
        for (const std::string& end : {ends.first, ends.second})
            if (!index_.contains(end))
                return Error{run::place(name_, link.line) + "there is no device " + end + " to link"};
        if (ends.first == ends.second)
            return Error{run::place(name_, link.line) + ends.first + " cannot be linked with itself"};
    }
    const auto count = static_cast<std::uint32_t>(file_.devices.size());
    for (std::uint32_t a = 0; a < count; ++a) {
        for (std::uint32_t b = a + 1; b < count; ++b) {
            const auto& [low, high] = std::minmax(file_.devices[a].name, file_.devices[b].name);
            const auto special = links_.find({low, high});
            Link link = usual_;
            if (special != links_.end()) {
                if (special->second.none) continue;
                if (special->second.rate) link.rate = special->second.rate;
                if (special->second.delay) link.delay = special->second.delay;
            }
            if (!link.rate && special == links_.end()) continue;  // only those that are listed
            if (!link.rate || *link.rate == 0)
                return Error{run::place(name_, special->second.line) + "the link of " + low + " and " + high +
                             " has no rate; give it one, or one to all in [links]"};
            file_.links.push_back({a, b, *link.rate, *link.rate, link.delay.value_or(0)});
        }
    }
    return {};
}

}  // namespace

Result<DevicesFile> parse_devices(const std::string& text, const std::string& name) {
    CHAOS_TRY(const auto entries, run::parse_entries(text, name));
    DevicesFile file;
    CHAOS_CHECK(Reader(name, file).read(entries));
    return file;
}

Result<DevicesFile> read_devices(const std::filesystem::path& path) {
    CHAOS_TRY(const std::string text, read_file(path));
    return parse_devices(text, path.string());
}

}  // namespace chaos::cli
