#include "stream.h"

#include "clock.h"
#include "report.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace chaos::bench {

using nlohmann::json;
using testbed::Descriptor;

Result<Descriptor> connect_to(const std::string& address) {
    const std::size_t colon = address.rfind(':');
    sockaddr_in where{};
    where.sin_family = AF_INET;
    std::uint16_t port = 0;
    const char* end = address.data() + address.size();
    if (colon == std::string::npos || std::from_chars(address.data() + colon + 1, end, port).ec != std::errc() ||
        ::inet_pton(AF_INET, address.substr(0, colon).c_str(), &where.sin_addr) != 1)
        return Error{"\"" + address + "\" is no address"};
    where.sin_port = htons(port);
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0)
        return testbed::system_error("cannot reach " + address);
    const int at_once = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    return socket;
}

Result<Stream> Stream::ask(Descriptor connection, const json& request) {
    Stream stream;
    stream.connection_ = std::move(connection);
    const std::string body = request.dump();
    const std::string text =
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    stream.asked_ = seconds_now();
    if (::send(stream.connection_.get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
        return testbed::system_error("cannot ask");
    return stream;
}

Result<void> Stream::receive() {
    constexpr int patience_ms = 60'000;
    pollfd waited{connection_.get(), POLLIN, 0};
    if (::poll(&waited, 1, patience_ms) <= 0)
        return Error{"nothing came for a minute after " + std::to_string(tokens_.size()) + " tokens"};
    std::array<char, 65536> buffer{};
    const ssize_t got = ::recv(connection_.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return Error{"the answer ended after " + std::to_string(tokens_.size()) + " tokens: " + received_};
    received_.append(buffer.data(), static_cast<std::size_t>(got));
    if (!body_) {
        const std::size_t end = received_.find("\r\n\r\n");
        if (end == std::string::npos) return {};
        if (!received_.starts_with("HTTP/1.1 200")) return Error{"the answer is an error: " + received_};
        received_.erase(0, end + 4);
        body_ = true;
    }
    // What is between events (sizes of chunks) does not begin like one.
    constexpr std::string_view begin = "data: ";
    std::size_t first = 0;
    for (std::size_t end = received_.find('\n'); end != std::string::npos; end = received_.find('\n', first)) {
        const std::string_view line = std::string_view(received_).substr(first, end - first);
        first = end + 1;
        if (line.starts_with(begin)) CHAOS_CHECK(take(line.substr(begin.size())));
    }
    received_.erase(0, first);
    return {};
}

Result<void> Stream::take(std::string_view event) {
    if (event.starts_with("[DONE]")) {
        done_ = true;
        return {};
    }
    const json piece = json::parse(event, nullptr, false);
    if (!piece.is_object() || piece.contains("error")) return Error{"the answer has an error: " + std::string(event)};
    if (!piece.contains("choices") || piece["choices"].empty()) return {};
    const json& choice = piece["choices"][0];
    // Every token has a text, so that each comes as a piece of its own; what ends them has a reason.
    if (choice.contains("finish_reason") && !choice["finish_reason"].is_null()) return {};
    tokens_.push_back({.time = seconds_now(), .text = choice.value("text", std::string())});
    return {};
}

Result<void> Stream::receive_tokens(std::size_t count) {
    while (!done_ && tokens_.size() < count) CHAOS_CHECK(receive());
    return {};
}

Result<void> Stream::receive_all() {
    while (!done_) CHAOS_CHECK(receive());
    return {};
}

std::string Stream::text() const {
    std::string all;
    for (const Token& token : tokens_) all += token.text;
    return all;
}

double Stream::token_s() const {
    return (tokens_.back().time - tokens_.front().time) / static_cast<double>(tokens_.size() - 1);
}

double Stream::median_token_s() const {
    std::vector<double> pauses;
    for (std::size_t i = 1; i < tokens_.size(); ++i) pauses.push_back(tokens_[i].time - tokens_[i - 1].time);
    return median(std::move(pauses));
}

json some_text(std::size_t number, std::size_t prompt_tokens, std::size_t tokens) {
    constexpr std::size_t prompts = 1009;
    std::vector<std::size_t> prompt;
    for (std::size_t i = 0; i < prompt_tokens; ++i)
        prompt.push_back(((number + 1) * 7919 + i * (number + 31)) % prompts);
    return {{"prompt", prompt},   {"max_tokens", tokens}, {"temperature", 1.0},
            {"seed", number + 1}, {"ignore_eos", true},   {"stream", true}};
}

}  // namespace chaos::bench
