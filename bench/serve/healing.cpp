// Three nodes; a client of one of them reads a text while another is killed (SIGKILL), frozen (SIGSTOP) or leaves
// (SIGTERM), or while a fourth comes, with the model's files or without: then it gets its slice from the others. In
// turn each of them has the client, leads, or is the one that goes. Last, the client is one of a fourth that computes
// nothing, and passes on what it is asked, while one of the three is killed.
//
// What a client waits is the end of the longest pause after the event: tokens that were on their way still come. It is
// counted from the event where somebody is lost, and from the token before the pause where somebody comes or leaves,
// because those take their time before anything changes.
#include "clock.h"
#include "sections.h"
#include "served.h"
#include "synthetic_model.h"
#include "temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;

constexpr SyntheticModel small{.width = 256,
                               .layers = 4,
                               .heads = 8,
                               .kv_heads = 4,
                               .ffn = 1024,
                               .vocabulary = 2000,
                               .context = 8192,
                               .tokenizer = true};
constexpr std::size_t members = 3;
constexpr std::size_t text_tokens = 6000;  // no event may take longer than the text
constexpr std::size_t tokens_after = 50;   // an event: the text goes on

struct Waits {
    std::vector<double> seconds;

    [[nodiscard]] double percentile(double share) const {
        std::vector<double> sorted = seconds;
        std::ranges::sort(sorted);
        const auto place = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
        return sorted[std::max<std::size_t>(place, 1) - 1];
    }
};

class Healing {
public:
    static Result<Healing> start(const fs::path& folder);

    // Somebody is lost or leaves, by a signal. How long the client waited.
    [[nodiscard]] Result<double> lose(int signal);
    // Somebody comes in the middle of one text, and leaves in the middle of the next.
    enum class Files { here, with_others };
    [[nodiscard]] Result<double> join(Files files);
    [[nodiscard]] Result<double> let_leave();
    // Somebody is killed in the middle of a text that a fourth passes on.
    [[nodiscard]] Result<double> lose_beside_a_fourth();

    [[nodiscard]] std::size_t texts() const { return texts_; }
    [[nodiscard]] std::size_t same() const { return same_; }

private:
    explicit Healing(fs::path folder) : folder_(std::move(folder)) {}
    [[nodiscard]] NodeStart node(std::size_t place) const;
    [[nodiscard]] static nlohmann::json request() { return some_text(1, 8, text_tokens); }
    [[nodiscard]] Result<Stream> begin_text(const ServedNode& at);
    [[nodiscard]] Result<void> end_text(Stream& stream, const ServedNode& computes, std::size_t others);
    [[nodiscard]] Result<void> start_again(std::size_t place, const ServedNode& by);

    fs::path folder_;
    std::string undisturbed_;
    std::vector<ServedNode> nodes_;
    std::vector<ServedNode> fourth_;  // none, or one
    std::mt19937 random_{1};
    std::size_t event_ = 0;
    std::size_t texts_ = 0;
    std::size_t same_ = 0;
};

NodeStart Healing::node(std::size_t place) const {
    NodeStart start{.model = folder_ / "model.gguf", .folder = folder_, .name = "node-" + std::to_string(place)};
    start.more = {"--parallel", "2", "--threads", "1", "--detect-ms", "500", "--everyone"};
    return start;
}

Result<Healing> Healing::start(const fs::path& folder) {
    CHAOS_CHECK(write_synthetic_model(folder / "model.gguf", small));
    Healing healing(folder);
    for (std::size_t place = 0; place < members; ++place) {
        NodeStart start = healing.node(place);
        if (place > 0) start.join = {healing.nodes_.front().address()};
        CHAOS_TRY(ServedNode node, ServedNode::start(start));
        healing.nodes_.push_back(std::move(node));
        if (place > 0) continue;
        CHAOS_TRY(const Stream alone, healing.nodes_.front().write(request()));
        healing.undisturbed_ = alone.text();
        std::fprintf(stderr, "  %zu tokens alone: %.2f ms each\n", alone.tokens().size(), alone.token_s() * 1e3);
    }
    for (const ServedNode& each : healing.nodes_) CHAOS_CHECK(each.wait_until_with(members - 1));
    return healing;
}

Result<Stream> Healing::begin_text(const ServedNode& at) {
    CHAOS_TRY(Stream stream, at.ask(request()));
    std::uniform_int_distribution<std::size_t> when(20, 80);
    CHAOS_CHECK(stream.receive_tokens(when(random_)));
    return stream;
}

// Until a node computes with so many others, and some tokens more.
Result<void> Healing::end_text(Stream& stream, const ServedNode& computes, std::size_t others) {
    while (!stream.done() && !computes.is_with(others)) CHAOS_CHECK(stream.receive());
    CHAOS_CHECK(stream.receive_tokens(stream.tokens().size() + tokens_after));
    ++texts_;
    if (stream.done()) return Error{"the text was over before anybody had come or gone"};
    if (undisturbed_.starts_with(stream.text()))
        ++same_;
    else
        std::fprintf(stderr, "  event %zu: another text than the undisturbed one\n", event_);
    return {};
}

// The longest pause after a time: when it began, at that time or later, and when it ended.
std::pair<double, double> longest_pause(const Stream& stream, double after) {
    std::pair<double, double> longest{after, after};
    double before = after;
    for (const Stream::Token& token : stream.tokens()) {
        if (token.time <= after) continue;
        if (token.time - before > longest.second - longest.first) longest = {before, token.time};
        before = token.time;
    }
    return longest;
}

Result<double> Healing::lose(int signal) {
    const std::size_t asked = event_ % members;
    const std::size_t victim = (asked + 1 + event_ / members % (members - 1)) % members;
    ++event_;
    const ServedNode& at = nodes_[asked];
    CHAOS_TRY(Stream stream, begin_text(at));
    const double when = seconds_now();
    nodes_[victim].process().signal(signal);
    CHAOS_CHECK(end_text(stream, at, members - 2));
    // It comes back: by itself where it was frozen, else as whoever starts it again after a failure would have it.
    if (signal == SIGSTOP) {
        nodes_[victim].process().signal(SIGCONT);
    } else {
        CHAOS_CHECK(start_again(victim, at));
    }
    for (const ServedNode& each : nodes_) CHAOS_CHECK(each.wait_until_with(members - 1));
    return longest_pause(stream, when).second - when;
}

Result<void> Healing::start_again(std::size_t place, const ServedNode& by) {
    nodes_[place].process().kill();
    nodes_[place].process().wait();
    NodeStart start = node(place);
    start.join = {by.address()};
    CHAOS_TRY(nodes_[place], ServedNode::start(start));
    return {};
}

Result<double> Healing::lose_beside_a_fourth() {
    const std::size_t victim = event_++ % members;
    const ServedNode& at = nodes_[(victim + 1) % members];
    // It offers fewer texts at once than the others write.
    NodeStart start = node(members);
    start.model.clear();
    start.join = {at.address()};
    *(std::ranges::find(start.more, "--parallel") + 1) = "1";
    CHAOS_TRY(ServedNode fourth, ServedNode::start(start));
    CHAOS_TRY(Stream stream, begin_text(fourth));
    const double when = seconds_now();
    nodes_[victim].process().signal(SIGKILL);
    CHAOS_CHECK(end_text(stream, at, members - 2));
    CHAOS_CHECK(start_again(victim, at));
    for (const ServedNode& each : nodes_) CHAOS_CHECK(each.wait_until_with(members - 1));
    return longest_pause(stream, when).second - when;
}

Result<double> Healing::join(Files files) {
    const ServedNode& at = nodes_[event_++ % members];
    CHAOS_TRY(Stream stream, begin_text(at));
    const double when = seconds_now();
    NodeStart start = node(members);
    start.join = {at.address()};
    if (files == Files::with_others) {
        start.model.clear();
        fs::remove_all(folder_ / start.name);  // what it got before
    }
    CHAOS_TRY(ServedNode fourth, ServedNode::launch(start));
    fourth_.push_back(std::move(fourth));
    CHAOS_CHECK(end_text(stream, at, members));
    CHAOS_CHECK(fourth_.front().wait_until_it_answers());
    const auto [from, to] = longest_pause(stream, when);
    return to - from;
}

Result<double> Healing::let_leave() {
    const ServedNode& at = nodes_[event_++ % members];
    CHAOS_TRY(Stream stream, begin_text(at));
    const double when = seconds_now();
    fourth_.front().process().signal(SIGTERM);
    CHAOS_CHECK(end_text(stream, at, members - 1));
    if (fourth_.front().process().wait() != 0)
        return Error{"a node that left failed: " + fourth_.front().process().err()};
    fourth_.clear();
    for (const ServedNode& each : nodes_) CHAOS_CHECK(each.wait_until_with(members - 1));
    const auto [from, to] = longest_pause(stream, when);
    return to - from;
}

}  // namespace

Result<void> measure_healing(const Wish& wish, Findings& findings) {
    const test::TemporaryFolder folder;
    CHAOS_TRY(Healing healing, Healing::start(folder.path()));
    const auto report = [&](const std::string& kind, const Waits& waits) {
        findings.add(kind + "_next_token_ms_p50", waits.percentile(0.5) * 1e3, 0);
        findings.add(kind + "_next_token_ms_p99", waits.percentile(0.99) * 1e3, 0);
    };
    const std::size_t losses = wish.quick ? 3 : 30;
    for (const auto& [kind, signal] : {std::pair{"kill", SIGKILL}, {"freeze", SIGSTOP}}) {
        Waits waits;
        for (std::size_t i = 0; i < losses; ++i) {
            CHAOS_TRY(const double waited, healing.lose(signal));
            waits.seconds.push_back(waited);
            std::fprintf(stderr, "  %s %zu: the next token after %.0f ms\n", kind, i + 1, waited * 1e3);
        }
        report(kind, waits);
    }
    const std::size_t others = wish.quick ? 2 : 10;
    for (const auto& [kind, files] :
         {std::pair{std::string(), Healing::Files::here}, {"fetched_", Healing::Files::with_others}}) {
        Waits joins;
        Waits leaves;
        for (std::size_t i = 0; i < others; ++i) {
            CHAOS_TRY(const double joined, healing.join(files));
            CHAOS_TRY(const double left, healing.let_leave());
            joins.seconds.push_back(joined);
            leaves.seconds.push_back(left);
            std::fprintf(stderr, "  %sjoin %zu: a pause of %.0f ms; leave: %.0f ms\n", kind.c_str(), i + 1,
                         joined * 1e3, left * 1e3);
        }
        report(kind + "join", joins);
        report(kind + "leave", leaves);
    }
    Waits passed_on;
    for (std::size_t i = 0; i < others; ++i) {
        CHAOS_TRY(const double waited, healing.lose_beside_a_fourth());
        passed_on.seconds.push_back(waited);
        std::fprintf(stderr, "  passed_on_kill %zu: the next token after %.0f ms\n", i + 1, waited * 1e3);
    }
    report("passed_on_kill", passed_on);
    findings.add("healed_texts", static_cast<double>(healing.texts()), 0);
    findings.add("healed_texts_same", static_cast<double>(healing.same()), 0, std::to_string(healing.texts()));
    return {};
}

}  // namespace chaos::bench
