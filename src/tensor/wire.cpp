#include "tensor/wire.h"

#include "base/words.h"

namespace chaos::tensor {

std::vector<std::uint8_t> bytes_of(const wire::Work& message) {
    std::vector<std::uint8_t> bytes(message.ByteSizeLong());
    message.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
    return bytes;
}

Result<wire::Work> work_from(std::span<const std::uint8_t> bytes) {
    wire::Work message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return Error{"a message of those who compute together cannot be read"};
    return message;
}

wire::Node to_wire(NodeId node) {
    wire::Node result;
    result.set_high(node.high);
    result.set_low(node.low);
    return result;
}

NodeId node_from(const wire::Node& node) {
    return {node.high(), node.low()};
}

std::string to_wire(const Digest& digest) {
    return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

wire::Ask to_wire(const infer::Request& request) {
    wire::Ask ask;
    ask.mutable_tokens()->Add(request.prompt.begin(), request.prompt.end());
    ask.set_drawn(request.drawn);
    ask.set_max_tokens(request.max_tokens);
    ask.set_temperature(request.sampling.temperature);
    ask.set_top_k(request.sampling.top_k);
    ask.set_top_p(request.sampling.top_p);
    ask.set_min_p(request.sampling.min_p);
    ask.set_seed(request.sampling.seed);
    for (const auto& [token, bias] : request.preferences.bias) (*ask.mutable_bias())[token] = bias;
    ask.set_presence_penalty(request.preferences.presence_penalty);
    ask.set_frequency_penalty(request.preferences.frequency_penalty);
    ask.set_logprob(request.wanted.logprob);
    ask.set_top(request.wanted.top);
    ask.set_ignore_end(request.ignore_end);
    return ask;
}

infer::Request request_from(const wire::Ask& ask) {
    infer::Request request;
    request.prompt.assign(ask.tokens().begin(), ask.tokens().end());
    request.drawn = ask.drawn();
    request.max_tokens = ask.max_tokens();
    request.sampling = {.temperature = ask.temperature(),
                        .top_k = ask.top_k(),
                        .top_p = ask.top_p(),
                        .min_p = ask.min_p(),
                        .seed = ask.seed()};
    for (const auto& [token, bias] : ask.bias()) request.preferences.bias[token] = bias;
    request.preferences.presence_penalty = ask.presence_penalty();
    request.preferences.frequency_penalty = ask.frequency_penalty();
    request.wanted = {.logprob = ask.logprob(), .top = ask.top()};
    request.ignore_end = ask.ignore_end();
    return request;
}

wire::Told::Sampled to_wire(const infer::Sampled& sampled) {
    wire::Told::Sampled result;
    result.set_token(sampled.token);
    result.set_logprob(sampled.logprob);
    for (const infer::Likelihood& each : sampled.top) {
        wire::Told::Likely& likely = *result.add_top();
        likely.set_token(each.token);
        likely.set_logprob(each.logprob);
    }
    return result;
}

infer::Sampled sampled_from(const wire::Told::Sampled& sampled) {
    infer::Sampled result{.token = sampled.token(), .logprob = sampled.logprob(), .top = {}};
    for (const wire::Told::Likely& each : sampled.top())
        result.top.push_back({.token = each.token(), .logprob = each.logprob()});
    return result;
}

wire::Told::Ended to_wire(const infer::Ended& ended) {
    wire::Told::Ended result;
    result.set_ending(static_cast<std::uint32_t>(ended.ending));
    result.set_error(ended.error);
    result.set_prompt_tokens(ended.prompt_tokens);
    result.set_reused_tokens(ended.reused_tokens);
    result.set_tokens(ended.tokens);
    return result;
}

infer::Ended ended_from(const wire::Told::Ended& ended) {
    const bool known = ended.ending() <= static_cast<std::uint32_t>(infer::Ending::failed);
    return {.ending = known ? static_cast<infer::Ending>(ended.ending()) : infer::Ending::failed,
            .error = printable(ended.error()),
            .prompt_tokens = ended.prompt_tokens(),
            .reused_tokens = ended.reused_tokens(),
            .tokens = ended.tokens()};
}

}  // namespace chaos::tensor
