// Both numbers are the program's own (chaos status --json): what its plan said a token would take with these members,
// and the mean of what tokens took. What a client saw is told beside them.
//
// A quota is a core that stands still for a part of every 10 ms, which is not quite a slower core: where nodes wait for
// each other, each stands still for the others too. So most settings have a core for each node.
#include "sections.h"
#include "served.h"
#include "synthetic_model.h"
#include "temporary_folder.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using testbed::Testbed;

struct Setting {
    bool large = false;        // which model
    std::vector<double> cpus;  // of each node
    double delay_ms = 0.0;
    double rate_mbit = 1000.0;

    [[nodiscard]] std::string name() const {
        std::string text = std::string(large ? "large" : "small") + ", cores";
        for (const double each : cpus) text += " " + fixed(each, 1);
        if (cpus.size() > 1) text += ", " + fixed(delay_ms, 1) + " ms, " + fixed(rate_mbit, 0) + " Mbit/s";
        return text;
    }
};

constexpr SyntheticModel small_model{.width = 512,
                                     .layers = 8,
                                     .heads = 8,
                                     .kv_heads = 4,
                                     .ffn = 2048,
                                     .vocabulary = 8000,
                                     .context = 1024,
                                     .tokenizer = true};
constexpr SyntheticModel large_model{.width = 1024,
                                     .layers = 16,
                                     .heads = 16,
                                     .kv_heads = 8,
                                     .ffn = 4096,
                                     .vocabulary = 16000,
                                     .context = 1024,
                                     .tokenizer = true};

std::vector<Setting> settings(bool quick) {
    const std::vector<Setting> all = {{.large = true, .cpus = {1.0}},
                                      {.large = true, .cpus = {1.0, 1.0}},
                                      {.cpus = {1.0, 1.0}, .delay_ms = 1.0},
                                      {.large = true, .cpus = {1.0, 0.5}, .delay_ms = 0.5},
                                      {.cpus = {0.5, 0.5, 0.5}, .delay_ms = 0.5},
                                      {.cpus = {0.5}},
                                      {.cpus = {1.0, 1.0}, .delay_ms = 2.0},
                                      {.cpus = {0.4, 0.4, 0.4, 0.4}},
                                      {.large = true, .cpus = {0.6, 0.6, 0.6}, .delay_ms = 1.0},
                                      {.cpus = {1.0, 1.0}, .delay_ms = 0.5, .rate_mbit = 20.0}};
    return quick ? std::vector(all.begin(), all.begin() + 3) : all;
}

struct Foretold {
    double predicted_ms = 0.0;
    double measured_ms = 0.0;
    double seen_ms = 0.0;  // by a client
};

Result<Foretold> measure(const Setting& setting, const fs::path& model, const fs::path& folder) {
    const std::size_t count = setting.cpus.size();
    testbed::Spec spec;
    for (std::size_t i = 0; i < count; ++i) spec.hosts.push_back({"h" + std::to_string(i), setting.cpus[i]});
    testbed::link_all(spec, {.rate_mbit = setting.rate_mbit, .delay_ms = setting.delay_ms});
    CHAOS_TRY(const Testbed box, Testbed::start(spec));
    std::vector<ServedNode> nodes;
    for (std::size_t i = 0; i < count; ++i) {
        NodeStart start{.model = model, .folder = folder, .name = "node-" + std::to_string(i)};
        start.more = {"--parallel", "1", "--context", "512", "--threads", "1", "--everyone"};
        start.box = &box;
        start.host = spec.hosts[i].name;
        if (i > 0) start.join = {nodes.front().address()};
        CHAOS_TRY(ServedNode node, ServedNode::start(start));
        nodes.push_back(std::move(node));
    }
    for (const ServedNode& node : nodes) CHAOS_CHECK(node.wait_until_with(count - 1));
    // Asking takes a process, and the nodes are timing themselves.
    constexpr std::chrono::seconds pause{2};
    std::this_thread::sleep_for(pause);
    CHAOS_CHECK(nodes.front().wait_for(
        [&] {
            const auto status = nodes.front().status();
            return status && status->value("forecast", false);
        },
        "a forecast", pause));
    CHAOS_TRY(const Stream text, nodes.front().write(some_text(1, 8, 128)));
    CHAOS_TRY(const nlohmann::json status, nodes.front().status());
    const auto number = [&](const char* field) {
        return status.contains(field) && status[field].is_number() ? status[field].get<double>() : 0.0;
    };
    const Foretold foretold{.predicted_ms = number("predicted_ms_per_token"),
                            .measured_ms = number("measured_ms_per_token"),
                            .seen_ms = text.token_s() * 1e3};
    if (foretold.predicted_ms <= 0.0 || foretold.measured_ms <= 0.0)
        return Error{"chaos status does not tell what a token takes: " + status.dump()};
    return foretold;
}

}  // namespace

Result<void> measure_forecast(const Wish& wish, Findings& findings) {
    const test::TemporaryFolder models;
    CHAOS_CHECK(write_synthetic_model(models.path() / "small.gguf", small_model));
    CHAOS_CHECK(write_synthetic_model(models.path() / "large.gguf", large_model));
    double worst = 0.0;
    std::size_t failed = 0;
    for (const Setting& setting : settings(wish.quick)) {
        const test::TemporaryFolder folder;
        const auto foretold =
            measure(setting, models.path() / (setting.large ? "large.gguf" : "small.gguf"), folder.path());
        if (!foretold) {
            ++failed;
            std::fprintf(stderr, "  %s: %s\n", setting.name().c_str(), foretold.error().message.c_str());
            continue;
        }
        const double error = std::abs(foretold->predicted_ms / foretold->measured_ms - 1.0);
        worst = std::max(worst, error);
        findings.table.rows.push_back({setting.name() + ": ms predicted, measured",
                                       fixed(foretold->predicted_ms, 2) + ", " + fixed(foretold->measured_ms, 2), ""});
        std::fprintf(stderr, "  %s: predicted %.2f ms, took %.2f ms (%.0f %%); a client saw %.2f ms\n",
                     setting.name().c_str(), foretold->predicted_ms, foretold->measured_ms, error * 100.0,
                     foretold->seen_ms);
    }
    if (failed > 0) return Error{std::to_string(failed) + " settings have no forecast"};
    findings.add("forecast_error", worst, 3, "<= 0.15");
    return {};
}

}  // namespace chaos::bench
