#include "cli/commands.h"
#include "cli/devices_file.h"
#include "infer/model_file.h"
#include "infer/tensor_model.h"
#include "infer/window_plan.h"
#include "plan/say.h"
#include "sim/serving.h"
#include "tensor/division.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace chaos::cli {
namespace {

using infer::bytes_text;
using nlohmann::json;

constexpr std::uint32_t simulated_tokens = 8;
constexpr std::uint64_t prompt_tokens = tensor::batch_tokens;

struct ServedModel {
    infer::Config config;
    std::vector<infer::PackedTensor> tensors;
};

Result<infer::Format> format_of(const std::string& name) {
    for (const infer::Format format :
         {infer::Format::f32, infer::Format::f16, infer::Format::bf16, infer::Format::q8_0, infer::Format::q4_0})
        if (name == infer::name_of(format)) return format;
    return Error{"--type takes q4_0, q8_0, f16, bf16 or f32, not \"" + name + "\""};
}

bool has_weights(const std::filesystem::path& path) {
    if (!std::filesystem::is_directory(path)) return true;
    return std::any_of(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator(),
                       [](const std::filesystem::directory_entry& entry) {
                           return entry.path().extension() == ".safetensors" || entry.path().extension() == ".gguf";
                       });
}

Result<ServedModel> read_model(const PlanOptions& options) {
    std::optional<infer::Format> format;
    if (!options.type.empty()) {
        CHAOS_TRY(format, format_of(options.type));
    }
    if (!has_weights(options.model)) {
        if (!format)
            return Error{options.model.string() + " has no weights; say by --type how they would be kept, e.g. q4_0"};
        CHAOS_TRY(const infer::Config config, infer::read_config(options.model));
        return ServedModel{config, infer::packed_tensors(config, *format)};
    }
    CHAOS_TRY(const infer::ModelFile file, infer::ModelFile::open(options.model));
    return ServedModel{file.config(),
                       format ? infer::packed_tensors(file.config(), *format) : infer::packed_tensors(file)};
}

Result<std::vector<plan::TensorExchange>> exchanges_of(const std::vector<std::string>& names) {
    using enum plan::TensorExchange;
    std::vector<plan::TensorExchange> exchanges;
    for (const std::string& name : names) {
        const std::array all = {direct, scatter, star, tree};
        const auto* const found =
            std::find_if(all.begin(), all.end(), [&](plan::TensorExchange one) { return name == name_of(one); });
        if (found == all.end()) return Error{"--exchange takes direct, scatter, star or tree, not \"" + name + "\""};
        exchanges.push_back(*found);
    }
    return exchanges;
}

std::string range_text(const plan::UnitRange& range, std::uint64_t unit, std::uint64_t most) {
    if (range.count == 0) return "-";
    const std::uint64_t end = std::min((range.first + range.count) * unit, most);
    return std::to_string(range.first * unit) + ".." + std::to_string(end - 1);
}

double ms(std::uint64_t ns) {
    return static_cast<double>(ns) / 1e6;
}

void print_row(const std::array<std::string, 8>& cells, std::size_t name_width) {
    std::printf("%-*s  %9s %9s %13s %15s %9s %10s %9s\n", static_cast<int>(name_width), cells[0].c_str(),
                cells[1].c_str(), cells[2].c_str(), cells[3].c_str(), cells[4].c_str(), cells[5].c_str(),
                cells[6].c_str(), cells[7].c_str());
}

class Shown {
public:
    Shown(const ServedModel& model, const plan::TensorRequest& request, const plan::TensorPlan& plan,
          const sim::ServingOutcome& simulated)
        : model_(model),
          units_(infer::tensor_units(model.config)),
          request_(request),
          plan_(plan),
          simulated_(simulated),
          prompt_ns_(predict_prompt_ns(request, plan, prompt_tokens)) {}

    void print() const {
        std::printf("%s of weights, %s of keys and values; %" PRIu64 " layers, %" PRIu64 " heads (%" PRIu64
                    " for keys and values)\n\n",
                    bytes_text(weight_bytes(request_.model)).c_str(),
                    bytes_text(request_.model.cache_bytes * request_.model.layers * request_.model.kv_heads).c_str(),
                    request_.model.layers, request_.model.heads, request_.model.kv_heads);
        print_table();
        std::printf("\n");
        for (const std::string& reason : plan_.reasons) std::printf("%s\n", reason.c_str());
        std::printf("\npredicted %.1f ms per token, simulated %.1f ms: ratio %.3f\n", ms(plan_.predicted_ns),
                    ms(static_cast<std::uint64_t>(simulated_.token_ns)), ratio());
        if (prompt_ns_ > 0)
            std::printf("a prompt of %" PRIu64 " tokens: %.1f ms predicted\n", prompt_tokens, ms(prompt_ns_));
    }

    void print_json() const {
        json devices = json::array();
        for (std::size_t i = 0; i < plan_.shares.size(); ++i) {
            const plan::TensorShare& share = plan_.shares[i];
            const auto range = [](const plan::UnitRange& one) { return json{one.first, one.count}; };
            devices.push_back({{"name", request_.devices[i].name},
                               {"member", share.member},
                               {"heads", range(share.heads)},
                               {"kv_heads", range(share.kv_heads)},
                               {"ffn_units", range(share.ffn)},
                               {"vocab_units", range(share.vocab)},
                               {"weight_bytes", share.weight_bytes},
                               {"streamed_bytes_per_token", share.streamed_bytes},
                               {"ring_bytes", share.ring_bytes},
                               {"cache_bytes", share.cache_bytes},
                               {"memory_bytes", share.memory_bytes},
                               {"compute_seconds", seconds(compute_ns(share))},
                               {"disk_seconds", seconds(share.disk_ns)}});
            if (!plan_.parent.empty() && share.member)
                devices.back()["parent"] = request_.devices[plan_.parent[i]].name;
        }
        const json all = {
            {"devices", devices},
            {"exchange", name_of(plan_.exchange)},
            {"whole_heads", plan_.whole_heads},
            {"ffn_unit_columns", units_.ffn_columns},
            {"vocab_unit_rows", units_.vocab_rows},
            {"predicted_seconds_per_token", seconds(plan_.predicted_ns)},
            {"compute_seconds", seconds(plan_.compute_ns)},
            {"exchange_seconds", seconds(plan_.exchange_ns)},
            {"disk_seconds", seconds(plan_.disk_ns)},
            {"alone_seconds_per_token", plan_.alone_ns == plan::unlimited ? json() : json(seconds(plan_.alone_ns))},
            {"prompt_seconds", prompt_ns_ == 0 ? json() : json(seconds(prompt_ns_))},
            {"prompt_tokens", prompt_tokens},
            {"simulated_seconds_per_token", seconds(static_cast<std::uint64_t>(simulated_.token_ns))},
            {"predicted_to_simulated", ratio()},
            {"reasons", plan_.reasons}};
        std::printf("%s\n", all.dump().c_str());
    }

private:
    [[nodiscard]] double ratio() const {
        return static_cast<double>(plan_.predicted_ns) / static_cast<double>(simulated_.token_ns);
    }
    static double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }
    [[nodiscard]] std::uint64_t compute_ns(const plan::TensorShare& share) const {
        return request_.model.layers * (share.attention_ns + share.ffn_ns) + share.head_ns;
    }

    void print_table() const {
        std::size_t width = 6;
        for (const plan::TensorDevice& device : request_.devices) width = std::max(width, device.name.size());
        print_row({"device", "heads", "kv heads", "ffn columns", "vocabulary", "memory", "streamed", "compute"}, width);
        for (std::size_t i = 0; i < plan_.shares.size(); ++i) {
            const plan::TensorShare& share = plan_.shares[i];
            if (!share.member) {
                print_row({request_.devices[i].name, "-", "-", "-", "-", "-", "-", "-"}, width);
                continue;
            }
            std::array<char, 32> compute{};
            std::snprintf(compute.data(), compute.size(), "%.1f ms", ms(compute_ns(share)));
            print_row({request_.devices[i].name, range_text(share.heads, 1, request_.model.heads),
                       range_text(share.kv_heads, 1, request_.model.kv_heads),
                       range_text(share.ffn, static_cast<std::uint64_t>(units_.ffn_columns),
                                  static_cast<std::uint64_t>(model_.config.ffn)),
                       range_text(share.vocab, static_cast<std::uint64_t>(units_.vocab_rows),
                                  static_cast<std::uint64_t>(model_.config.vocab)),
                       bytes_text(share.memory_bytes), bytes_text(share.streamed_bytes), compute.data()},
                      width);
        }
    }

    const ServedModel& model_;
    infer::TensorUnits units_;
    const plan::TensorRequest& request_;
    const plan::TensorPlan& plan_;
    const sim::ServingOutcome& simulated_;
    std::uint64_t prompt_ns_;
};

}  // namespace

Result<void> plan_serving(const PlanOptions& options) {
    CHAOS_TRY(const ServedModel model, read_model(options));
    CHAOS_TRY(const DevicesFile file, read_devices(options.devices));
    const std::size_t longest = static_cast<std::size_t>(model.config.max_context);
    if (options.context > longest)
        return Error{"the model was made for " + std::to_string(longest) + " tokens, not " +
                     std::to_string(options.context)};
    CHAOS_TRY(const auto exchanges, exchanges_of(options.exchanges));
    // As nodes do it.
    CHAOS_TRY(const tensor::PromptPlan planned, tensor::plan_prompts(options.parallel, [&](std::size_t batch) {
                  plan::TensorRequest request = infer::tensor_request(
                      model.config, model.tensors,
                      {.context = options.context > 0 ? options.context : std::min(longest, usual_context_tokens),
                       .sequences = options.parallel,
                       .batch = batch},
                      file.devices.size());
                  request.devices = file.devices;
                  request.links = file.links;
                  if (!exchanges.empty()) request.exchanges = exchanges;
                  return request;
              }));
    const sim::ServingOutcome simulated = sim::simulate_serving(planned.request, planned.plan, simulated_tokens);
    const Shown shown(model, planned.request, planned.plan, simulated);
    if (options.json)
        shown.print_json();
    else
        shown.print();
    return {};
}

}  // namespace chaos::cli
