#include "testbed/spec.h"

#include "base/words.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace chaos::testbed {
namespace {

std::string with_line(const std::string& place, const toml::node& node) {
    return place + ":" + std::to_string(node.source().begin.line) + ": ";
}

// The keys of one table, each taken once; what is left over is a mistake.
class Keys {
public:
    Keys(const toml::table& table, std::string place, std::vector<std::string_view> known)
        : table_(table), place_(std::move(place)), known_(std::move(known)) {}

    [[nodiscard]] Result<void> only_known() const {
        for (const auto& [key, node] : table_) {
            if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
            const std::string nearest = nearest_word(key.str(), known_);
            return Error{with_line(place_, node) + "unknown key \"" + std::string(key.str()) + "\"; " +
                         (nearest.empty() ? "known are " + one_of(known_) : "did you mean \"" + nearest + "\"?")};
        }
        return {};
    }

    // Leaves `value` as it is where the key is absent.
    [[nodiscard]] Result<void> take(std::string_view key, double& value) const {
        const toml::node* node = table_.get(key);
        if (node == nullptr) return {};
        const auto number = node->value<double>();
        if (!node->is_number() || !number) return wrong(*node, key, "a number");
        value = *number;
        return {};
    }
    [[nodiscard]] Result<void> take(std::string_view key, std::uint64_t& value) const {
        const toml::node* node = table_.get(key);
        if (node == nullptr) return {};
        const auto number = node->value_exact<std::int64_t>();
        if (!number || *number < 0) return wrong(*node, key, "a whole number, not negative");
        value = static_cast<std::uint64_t>(*number);
        return {};
    }
    [[nodiscard]] Result<void> take(std::string_view key, std::string& value) const {
        const toml::node* node = table_.get(key);
        if (node == nullptr) return {};
        const auto text = node->value_exact<std::string>();
        if (!text) return wrong(*node, key, "a string");
        value = *text;
        return {};
    }
    [[nodiscard]] Result<void> take_rates(Link& link) const {
        const toml::node* node = table_.get("rate_mbit");
        if (node == nullptr) return {};
        const toml::array* both = node->as_array();
        if (both == nullptr) {
            link.rate_back_mbit = 0.0;
            return take("rate_mbit", link.rate_mbit);
        }
        if (both->size() != 2 || !both->get(0)->is_number() || !both->get(1)->is_number()) {
            return wrong(*node, "rate_mbit", "one number or two");
        }
        link.rate_mbit = *both->get(0)->value<double>();
        link.rate_back_mbit = *both->get(1)->value<double>();
        return {};
    }
    [[nodiscard]] Result<void> take_ends(Link& link) const {
        const toml::node* node = table_.get("between");
        if (node == nullptr) return Error{with_line(place_, table_) + "a link needs between = [\"HOST\", \"HOST\"]"};
        const toml::array* ends = node->as_array();
        if (ends == nullptr || ends->size() != 2 || !ends->get(0)->is_string() || !ends->get(1)->is_string()) {
            return wrong(*node, "between", "the names of two hosts");
        }
        link.a = *ends->get(0)->value<std::string>();
        link.b = *ends->get(1)->value<std::string>();
        return {};
    }

private:
    [[nodiscard]] Error wrong(const toml::node& node, std::string_view key, const std::string& wanted) const {
        return Error{with_line(place_, node) + std::string(key) + " must be " + wanted};
    }

    const toml::table& table_;
    std::string place_;
    std::vector<std::string_view> known_;
};

Result<void> take_figures(const Keys& keys, Link& link) {
    CHAOS_CHECK(keys.only_known());
    CHAOS_CHECK(keys.take_rates(link));
    CHAOS_CHECK(keys.take("delay_ms", link.delay_ms));
    CHAOS_CHECK(keys.take("jitter_ms", link.jitter_ms));
    return keys.take("loss_percent", link.loss_percent);
}

// The tables of [[key]], in the order of the text.
Result<std::vector<const toml::table*>> tables(const toml::table& root, std::string_view key,
                                               const std::string& place) {
    std::vector<const toml::table*> found;
    const toml::node* node = root.get(key);
    if (node == nullptr) return found;
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
        return Error{with_line(place, *node) + "write [[" + std::string(key) + "]], once for each"};
    }
    for (const toml::node& item : *array) found.push_back(item.as_table());
    return found;
}

Result<Spec> spec_of(const toml::table& root, const std::string& place) {
    Spec spec;
    const Keys top(root, place, {"name", "queue_ms", "burst_kb", "seed", "host", "defaults", "link"});
    CHAOS_CHECK(top.only_known());
    CHAOS_CHECK(top.take("name", spec.name));
    CHAOS_CHECK(top.take("queue_ms", spec.queue_ms));
    CHAOS_CHECK(top.take("burst_kb", spec.burst_kb));
    CHAOS_CHECK(top.take("seed", spec.seed));

    CHAOS_TRY(const auto host_tables, tables(root, "host", place));
    for (const toml::table* table : host_tables) {
        Host host;
        const Keys keys(*table, place, {"name", "cpus"});
        CHAOS_CHECK(keys.only_known());
        CHAOS_CHECK(keys.take("name", host.name));
        CHAOS_CHECK(keys.take("cpus", host.cpus));
        spec.hosts.push_back(host);
    }

    std::optional<Link> defaults;
    if (const toml::node* node = root.get("defaults")) {
        if (!node->is_table()) return Error{with_line(place, *node) + "defaults must be a table"};
        defaults.emplace();
        const Keys keys(*node->as_table(), place, {"rate_mbit", "delay_ms", "jitter_ms", "loss_percent"});
        CHAOS_CHECK(take_figures(keys, *defaults));
    }
    CHAOS_TRY(const auto link_tables, tables(root, "link", place));
    for (const toml::table* table : link_tables) {
        Link link = defaults.value_or(Link());
        const Keys keys(*table, place, {"between", "rate_mbit", "delay_ms", "jitter_ms", "loss_percent"});
        CHAOS_CHECK(take_figures(keys, link));
        CHAOS_CHECK(keys.take_ends(link));
        spec.links.push_back(link);
    }
    if (defaults) link_all(spec, *defaults);
    return spec;
}

bool is_name(std::string_view text, std::size_t longest) {
    return !text.empty() && text.size() <= longest && text.front() != '-' &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

Result<void> in_range(const std::string& what, double value, double least, double most) {
    if (value >= least && value <= most) return {};  // false for NaN
    std::ostringstream text;
    text << what << " must be from " << least << " to " << most << ", not " << value;
    return Error{text.str()};
}

Result<void> check_link(const Link& link, const std::set<std::string>& hosts) {
    const std::string what = "the link between \"" + link.a + "\" and \"" + link.b + "\"";
    for (const std::string& end : {link.a, link.b}) {
        if (!hosts.contains(end)) return Error{what + ": no host is called \"" + end + "\""};
    }
    if (link.a == link.b) return Error{what + " must join two different hosts"};
    CHAOS_CHECK(in_range(what + ": rate_mbit", link.rate_mbit, 0.1, 100'000.0));
    if (link.rate_back_mbit != 0.0) CHAOS_CHECK(in_range(what + ": rate_mbit", link.rate_back_mbit, 0.1, 100'000.0));
    CHAOS_CHECK(in_range(what + ": delay_ms", link.delay_ms, 0.0, 10'000.0));
    CHAOS_CHECK(in_range(what + ": jitter_ms", link.jitter_ms, 0.0, 10'000.0));
    return in_range(what + ": loss_percent", link.loss_percent, 0.0, 100.0);
}

std::pair<std::string, std::string> ends_of(const Link& link) {
    return std::minmax(link.a, link.b);
}

}  // namespace

Result<Spec> parse_spec(std::string_view text, const std::string& place) {
    toml::table root;
    try {
        root = toml::parse(text);
    } catch (const toml::parse_error& error) {
        return Error{place + ":" + std::to_string(error.source().begin.line) + ": " + std::string(error.description())};
    }
    CHAOS_TRY(Spec spec, spec_of(root, place));
    if (auto sound = check_spec(spec); !sound.ok()) return Error{place + ": " + sound.error().message};
    return spec;
}

std::string to_toml(const Spec& spec) {
    std::ostringstream text;
    text.precision(17);
    text << "name = \"" << spec.name << "\"\nqueue_ms = " << spec.queue_ms << "\nburst_kb = " << spec.burst_kb
         << "\nseed = " << spec.seed << "\n";
    for (const Host& host : spec.hosts)
        text << "[[host]]\nname = \"" << host.name << "\"\ncpus = " << host.cpus << "\n";
    for (const Link& link : spec.links) {
        text << "[[link]]\nbetween = [\"" << link.a << "\", \"" << link.b << "\"]\nrate_mbit = [" << link.rate_mbit
             << ", " << link.rate_back_mbit << "]\ndelay_ms = " << link.delay_ms << "\njitter_ms = " << link.jitter_ms
             << "\nloss_percent = " << link.loss_percent << "\n";
    }
    return text.str();
}

Result<void> check_spec(const Spec& spec) {
    const std::string letters = " small letters, digits and hyphens";
    if (!is_name(spec.name, max_testbed_name)) {
        return Error{"name must be 1 to " + std::to_string(max_testbed_name) + letters + ", not \"" + spec.name + "\""};
    }
    CHAOS_CHECK(in_range("queue_ms", spec.queue_ms, 1.0, 10'000.0));
    CHAOS_CHECK(in_range("burst_kb", spec.burst_kb, 16.0, 100'000.0));
    if (spec.hosts.empty() || spec.hosts.size() > max_hosts) {
        return Error{"a testbed has 1 to " + std::to_string(max_hosts) + " hosts, not " +
                     std::to_string(spec.hosts.size())};
    }
    std::set<std::string> hosts;
    for (const Host& host : spec.hosts) {
        if (!is_name(host.name, max_host_name)) {
            return Error{"a host's name must be 1 to " + std::to_string(max_host_name) + letters + ", not \"" +
                         host.name + "\""};
        }
        if (!hosts.insert(host.name).second) return Error{"two hosts are called \"" + host.name + "\""};
        // The kernel's least quota is 1 ms of the period of 10 ms.
        if (host.cpus != 0.0) CHAOS_CHECK(in_range("host \"" + host.name + "\": cpus", host.cpus, 0.1, 1024.0));
    }
    std::set<std::pair<std::string, std::string>> pairs;
    for (const Link& link : spec.links) {
        CHAOS_CHECK(check_link(link, hosts));
        if (!pairs.insert(ends_of(link)).second) {
            return Error{"\"" + link.a + "\" and \"" + link.b + "\" are linked twice"};
        }
    }
    return {};
}

void link_all(Spec& spec, const Link& like) {
    std::set<std::pair<std::string, std::string>> linked;
    for (const Link& link : spec.links) linked.insert(ends_of(link));
    for (std::size_t i = 0; i < spec.hosts.size(); ++i) {
        for (std::size_t j = i + 1; j < spec.hosts.size(); ++j) {
            Link link = like;
            link.a = spec.hosts[i].name;
            link.b = spec.hosts[j].name;
            if (linked.insert(ends_of(link)).second) spec.links.push_back(link);
        }
    }
}

}  // namespace chaos::testbed
