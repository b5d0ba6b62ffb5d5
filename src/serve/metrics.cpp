#include "serve/metrics.h"

#include <algorithm>
#include <sstream>

namespace chaos::serve {
namespace {

std::string decimal(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

void write_kind(std::string& to, const std::string& name, const char* kind, const std::string& help) {
    to += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n";
}

void write_value(std::string& to, const std::string& name, const char* kind, const std::string& help,
                 std::uint64_t value) {
    write_kind(to, name, kind, help);
    to += name + " " + std::to_string(value) + "\n";
}

}  // namespace

void Histogram::note(double seconds) {
    const auto bound = std::lower_bound(bounds.begin(), bounds.end(), seconds);
    ++counts_.at(static_cast<std::size_t>(bound - bounds.begin()));
    sum_ += seconds;
}

void Histogram::write(std::string& to, const std::string& name, const std::string& help) const {
    write_kind(to, name, "histogram", help);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        count += counts_.at(i);
        const std::string bound = i < bounds.size() ? decimal(bounds.at(i)) : "+Inf";
        to += name + "_bucket{le=\"" + bound + "\"} " + std::to_string(count) + "\n";
    }
    to += name + "_sum " + decimal(sum_) + "\n" + name + "_count " + std::to_string(count) + "\n";
}

std::string metrics_text(const Metrics& metrics, const Load* load) {
    std::string text;
    write_kind(text, "chaos_requests_total", "counter", "Requests answered, by route and status.");
    for (const auto& [key, count] : metrics.requests)
        text += "chaos_requests_total{route=\"" + key.first + "\",status=\"" + std::to_string(key.second) + "\"} " +
                std::to_string(count) + "\n";
    write_value(text, "chaos_cancelled_total", "counter", "Answers that clients did not wait for.", metrics.cancelled);
    metrics.first_token.write(text, "chaos_first_token_seconds", "From a request to its first text.");
    metrics.between_tokens.write(text, "chaos_between_tokens_seconds", "From text to text of an answer.");
    metrics.request.write(text, "chaos_request_seconds", "Whole answers.");
    if (load == nullptr) return text;
    write_value(text, "chaos_running", "gauge", "Answers being written.", load->running);
    write_value(text, "chaos_waiting", "gauge", "Requests waiting for their turn.", load->waiting);
    write_value(text, "chaos_prompt_tokens_total", "counter", "Tokens of prompts, computed.", load->prompt_tokens);
    write_value(text, "chaos_cached_tokens_total", "counter", "Tokens of prompts that an earlier request had computed.",
                load->cached_tokens);
    write_value(text, "chaos_completion_tokens_total", "counter", "Tokens written.", load->completion_tokens);
    write_value(text, "chaos_batches_total", "counter", "Times that the model was computed.", load->batches);
    return text;
}

}  // namespace chaos::serve
