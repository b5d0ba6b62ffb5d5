#include "serve/service.h"

#include "base/assert.h"
#include "base/hash.h"
#include "serve/api.h"
#include "serve/chat_page.h"
#include "serve/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <map>
#include <optional>
#include <random>

namespace chaos::serve {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

HttpAnswer error_answer(const ApiError& error) {
    HttpAnswer answer{
        .status = error.status, .content_type = "application/json", .body = error_body(error), .fields = {}};
    if (error.status == 401) answer.fields.emplace_back("WWW-Authenticate", "Bearer");
    return answer;
}

ApiError server_error(unsigned status, const std::string& sentence) {
    return {.status = status, .message = sentence, .param = "", .code = "", .type = "server_error"};
}

// A host as the fields Host and Origin have it, without the port.
std::string_view without_port(std::string_view host) {
    if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
    return host.substr(0, host.find(':'));
}

bool is_name_of_this_machine(std::string_view host) {
    const std::string_view name = without_port(host);
    // No name that somebody else could make point here is all digits and dots, or in brackets.
    return name.empty() || name == "localhost" || name.starts_with('[') ||
           name.find_first_not_of("0123456789.") == std::string_view::npos;
}

struct Route {
    std::string_view path;
    std::string_view method;
    bool open = false;         // to all
    bool needs_model = false;  // which is loaded
};
constexpr std::array<Route, 7> routes{{{"/", "GET", true, false},
                                       {"/livez", "GET", true, false},
                                       {"/readyz", "GET", true, false},
                                       {"/metrics", "GET", false, false},
                                       {"/v1/models", "GET", false, true},
                                       {"/v1/chat/completions", "POST", false, true},
                                       {"/v1/completions", "POST", false, true}}};
constexpr std::string_view models = "/v1/models/";

bool asks_for_one_model(const std::string& path) {
    return path.starts_with(models) && path.size() > models.size();
}

// What "%2F" and the like stand for; what is not like that stays as it is.
std::string percent_decoded(std::string_view text) {
    std::string decoded;
    for (std::size_t at = 0; at < text.size(); ++at) {
        unsigned char byte = 0;
        const char* digits = text.data() + at + 1;
        if (text[at] == '%' && at + 2 < text.size() &&
            std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
            decoded += static_cast<char>(byte);
            at += 2;
        } else {
            decoded += text[at];
        }
    }
    return decoded;
}

// None where there is nothing.
const Route* route_of(const std::string& path) {
    const std::string_view wanted = asks_for_one_model(path) ? "/v1/models" : std::string_view(path);
    const auto* const found =
        std::find_if(routes.begin(), routes.end(), [wanted](const Route& one) { return one.path == wanted; });
    return found == routes.end() ? nullptr : found;
}

// Two keys are compared in a time that does not depend on where they differ.
bool same_key(std::string_view a, std::string_view b) {
    return sha256(a) == sha256(b);
}

std::string new_id() {
    static constexpr std::string_view digits = "0123456789abcdef";
    thread_local std::mt19937_64 random{std::random_device{}()};
    std::string id;
    for (int i = 0; i < 24; ++i) id += digits[random() % digits.size()];
    return id;
}

}  // namespace

// All of it in the loop's thread.
class Service::Routes : public HttpHandler {
public:
    explicit Routes(const ServiceOptions& options) : options_(options) {}

    Result<void> listen(const net::Address& address);
    // Everything but a text that is to be written, and that where it is refused.
    [[nodiscard]] std::optional<HttpAnswer> answer_head(const HttpRequest& head) override;
    void answer(HttpRequest request, const HttpReply& reply) override;
    [[nodiscard]] HttpAnswer refuse(unsigned status, const std::string& sentence) override;
    void cancel_all();

    [[nodiscard]] HttpServer& server() { return *server_; }
    [[nodiscard]] const ServiceOptions& options() const { return options_; }
    void set_generator(Generator& generator) { generator_ = &generator; }
    void set_writes(bool writes);

private:
    // An answer under way.
    struct Talk {
        std::string route;
        HttpReply reply;
        AnswerWriter writer;
        Form form = Form::chat;
        bool stream = false;
        Clock::time_point asked;
        std::optional<Clock::time_point> last_piece;
        std::vector<Piece> pieces;  // unless it is a stream
        std::optional<Ticket> ticket;
    };
    using TalkId = std::uint64_t;

    [[nodiscard]] std::optional<ApiError> forbidden(const HttpRequest& request) const;
    [[nodiscard]] HttpAnswer counted(const std::string& route, HttpAnswer answer);
    void send(const std::string& route, const HttpReply& reply, const HttpAnswer& answer);
    // A sentence; empty where texts can be written, or probably soon.
    [[nodiscard]] std::string why_not_ready() const;
    [[nodiscard]] std::optional<HttpAnswer> refusal(const Route& route, const HttpRequest& head) const;
    [[nodiscard]] std::optional<HttpAnswer> look(const Route& route, const HttpRequest& head) const;
    void generate(Form form, const HttpRequest& request, const HttpReply& reply);
    void on_event(TalkId id, Event event);
    void on(Talk& talk, const Begun& begun);
    void on(Talk& talk, Piece& piece);
    void on(Talk& talk, const Finished& finished);
    void on(Talk& talk, const Failed& failed);
    void on_gone(TalkId id);

    const ServiceOptions options_;
    bool loopback_ = false;
    std::unique_ptr<HttpServer> server_;
    Generator* generator_ = nullptr;
    std::optional<Clock::time_point> waits_since_;  // for the generator to write again
    Metrics metrics_;
    std::map<TalkId, Talk> talks_;
    TalkId next_talk_ = 0;
};

Result<void> Service::Routes::listen(const net::Address& address) {
    loopback_ = address.host.empty() || address.host == "localhost" || address.host == "::1" ||
                address.host.starts_with("127.");
    CHAOS_TRY(server_, HttpServer::open(address, *this, options_.limits));
    return {};
}

HttpAnswer Service::Routes::refuse(unsigned status, const std::string& sentence) {
    ++metrics_.requests[{"none", status}];
    if (status >= 500) return error_answer(server_error(status, sentence));
    return error_answer({.status = status, .message = sentence, .param = "", .code = ""});
}

std::optional<ApiError> Service::Routes::forbidden(const HttpRequest& request) const {
    const std::string_view host = request.field("Host");
    const std::string_view origin = request.field("Origin");
    const std::size_t scheme = origin.find("://");
    if (!origin.empty() && (scheme == std::string_view::npos || origin.substr(scheme + 3) != host))
        return ApiError{.status = 403,
                        .message = "A page of " + std::string(origin) + " may not use this server.",
                        .param = "",
                        .code = "foreign_origin"};
    if (options_.keys.empty()) {
        if (!loopback_ || is_name_of_this_machine(host)) return {};
        return ApiError{.status = 403,
                        .message = "This server listens on this machine alone, and not by the name " +
                                   std::string(host) + "; start it with --api-key to use names.",
                        .param = "",
                        .code = "foreign_host"};
    }
    const std::string_view given = request.field("Authorization");
    constexpr std::string_view scheme_name = "Bearer ";
    if (given.empty())
        return ApiError{.status = 401,
                        .message = "This server needs an API key: Authorization: Bearer KEY.",
                        .param = "",
                        .code = "invalid_api_key"};
    const std::string_view key = given.starts_with(scheme_name) ? given.substr(scheme_name.size()) : std::string_view();
    const bool known = std::any_of(options_.keys.begin(), options_.keys.end(),
                                   [key](const std::string& good) { return same_key(key, good); });
    if (known) return {};
    return ApiError{.status = 401, .message = "Incorrect API key provided.", .param = "", .code = "invalid_api_key"};
}

HttpAnswer Service::Routes::counted(const std::string& route, HttpAnswer answer) {
    ++metrics_.requests[{route, answer.status}];
    return answer;
}

void Service::Routes::send(const std::string& route, const HttpReply& reply, const HttpAnswer& answer) {
    reply.answer(counted(route, answer));
}

void Service::Routes::set_writes(bool writes) {
    if (writes) return waits_since_.reset();
    if (!waits_since_) waits_since_ = Clock::now();
}

std::string Service::Routes::why_not_ready() const {
    if (generator_ == nullptr) return "The model is being loaded; try again soon.";
    if (!waits_since_ || Clock::now() - *waits_since_ < options_.patience) return "";
    const auto seconds = static_cast<long>(seconds_since(*waits_since_));
    return "Those who compute the model together have not been able to for " + std::to_string(seconds) +
           " s; try again soon.";
}

std::optional<HttpAnswer> Service::Routes::refusal(const Route& route, const HttpRequest& head) const {
    if (head.method != route.method && !(head.method == "HEAD" && route.method == "GET")) {
        HttpAnswer wrong =
            error_answer({.status = 405,
                          .message = head.path + " takes " + std::string(route.method) + ", not " + head.method + ".",
                          .param = "",
                          .code = "method_not_allowed"});
        wrong.fields.emplace_back("Allow", route.method);
        return wrong;
    }
    if (!route.open) {
        if (const auto error = forbidden(head)) return error_answer(*error);
    }
    if (!route.needs_model) return {};
    const std::string why = why_not_ready();
    if (why.empty()) return {};
    HttpAnswer later = error_answer(server_error(503, why));
    later.fields.emplace_back("Retry-After", "2");
    return later;
}

// What is there to be looked at; none where a text is to be written.
std::optional<HttpAnswer> Service::Routes::look(const Route& route, const HttpRequest& head) const {
    if (route.path == "/")
        return HttpAnswer{.status = 200,
                          .content_type = "text/html; charset=utf-8",
                          .body = std::string(chat_page),
                          .fields = {{"Content-Security-Policy",
                                      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                                      "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                                      "frame-ancestors 'none'"},
                                     {"X-Content-Type-Options", "nosniff"},
                                     {"Referrer-Policy", "no-referrer"}}};
    if (route.path == "/livez")
        return HttpAnswer{.status = 200, .content_type = "text/plain", .body = "alive\n", .fields = {}};
    if (route.path == "/readyz") {
        const std::string why = why_not_ready();
        return HttpAnswer{.status = why.empty() ? 200U : 503U,
                          .content_type = "text/plain",
                          .body = why.empty() ? "ready\n" : why + "\n",
                          .fields = {}};
    }
    if (route.path == "/metrics") {
        const Load load = generator_ != nullptr ? generator_->load() : Load{};
        return HttpAnswer{.status = 200,
                          .content_type = "text/plain; version=0.0.4",
                          .body = metrics_text(metrics_, generator_ != nullptr ? &load : nullptr),
                          .fields = {}};
    }
    if (route.path != "/v1/models") return {};
    const Facts& facts = generator_->facts();
    if (!asks_for_one_model(head.path)) return HttpAnswer{.body = models_body(facts), .fields = {}};
    const std::string wanted = head.path.substr(models.size());
    if (percent_decoded(wanted) == facts.model) return HttpAnswer{.body = model_body(facts), .fields = {}};
    return error_answer(no_such_model(wanted, facts));
}

std::optional<HttpAnswer> Service::Routes::answer_head(const HttpRequest& head) {
    const Route* route = route_of(head.path);
    if (route == nullptr)
        return counted(
            "unknown",
            error_answer(
                {.status = 404, .message = "There is no " + head.path + " here.", .param = "", .code = "unknown_url"}));
    std::optional<HttpAnswer> answer = refusal(*route, head);
    if (!answer) answer = look(*route, head);
    if (!answer) return {};
    return counted(std::string(route->path), std::move(*answer));
}

void Service::Routes::answer(HttpRequest request, const HttpReply& reply) {
    generate(request.path == "/v1/chat/completions" ? Form::chat : Form::text, request, reply);
}

void Service::Routes::generate(Form form, const HttpRequest& request, const HttpReply& reply) {
    const std::string route = request.path;
    std::variant<Ask, ApiError> parsed = parse_ask(form, request.body, generator_->facts());
    if (const auto* error = std::get_if<ApiError>(&parsed)) return send(route, reply, error_answer(*error));
    Ask& ask = std::get<Ask>(parsed);
    ask.task.client = request.client;

    const TalkId id = next_talk_++;
    const auto [entry, added] =
        talks_.emplace(id, Talk{.route = route,
                                .reply = reply,
                                .writer = AnswerWriter(form, ask, generator_->facts(), new_id(), std::time(nullptr)),
                                .form = form,
                                .stream = ask.stream,
                                .asked = Clock::now(),
                                .last_piece = {},
                                .pieces = {},
                                .ticket = {}});
    CHAOS_ASSERT(added);
    const auto started = generator_->start(std::move(ask.task), [this, id](Event event) {
        server_->post([this, id, moved = std::move(event)]() mutable { on_event(id, std::move(moved)); });
    });
    if (const auto* busy = std::get_if<Busy>(&started)) {
        HttpAnswer later = error_answer({.status = 429,
                                         .message = "The server has as many requests as it takes; try again later.",
                                         .param = "",
                                         .code = "rate_limit_exceeded",
                                         .type = "rate_limit_error"});
        later.fields.emplace_back("Retry-After", std::to_string(busy->retry_after_s));
        talks_.erase(entry);
        return send(route, reply, later);
    }
    entry->second.ticket = std::get<Ticket>(started);
    reply.on_gone([this, id] { on_gone(id); });
}

void Service::Routes::on_event(TalkId id, Event event) {
    const auto found = talks_.find(id);
    if (found == talks_.end()) return;  // it was cancelled
    const bool last = std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
    if (!last) {
        std::visit([this, found](auto& what) { on(found->second, what); }, event);
        return;
    }
    auto node = talks_.extract(found);
    std::visit([this, &node](auto& what) { on(node.mapped(), what); }, event);
}

void Service::Routes::on(Talk& talk, const Begun& begun) {
    talk.writer.begin(begun);
    if (!talk.stream) return;
    const HttpReply reply = talk.reply;  // a client that is dropped takes the talk with it
    reply.begin({.status = 200,
                 .content_type = "text/event-stream; charset=utf-8",
                 .body = talk.writer.first_event(),
                 .fields = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
}

void Service::Routes::on(Talk& talk, Piece& piece) {
    const Clock::time_point now = Clock::now();
    if (talk.last_piece)
        metrics_.between_tokens.note(std::chrono::duration<double>(now - *talk.last_piece).count());
    else
        metrics_.first_token.note(std::chrono::duration<double>(now - talk.asked).count());
    talk.last_piece = now;
    const HttpReply reply = talk.reply;  // a client that is dropped takes the talk with it
    if (talk.stream) return reply.write(talk.writer.event(piece));
    talk.pieces.push_back(std::move(piece));
}

void Service::Routes::on(Talk& talk, const Finished& finished) {
    metrics_.request.note(seconds_since(talk.asked));
    if (!talk.stream)
        return send(talk.route, talk.reply, {.body = talk.writer.whole(talk.pieces, finished), .fields = {}});
    ++metrics_.requests[{talk.route, 200}];
    talk.reply.write(talk.writer.last_events(finished));
    talk.reply.end();
}

void Service::Routes::on(Talk& talk, const Failed& failed) {
    const ApiError error = api_error(talk.form, failed);
    if (!talk.reply.begun()) return send(talk.route, talk.reply, error_answer(error));
    ++metrics_.requests[{talk.route, error.status}];
    talk.reply.write(AnswerWriter::error_event(error));
    talk.reply.end();
}

void Service::Routes::on_gone(TalkId id) {
    const auto found = talks_.find(id);
    if (found == talks_.end()) return;
    ++metrics_.cancelled;
    generator_->cancel(*found->second.ticket);
    talks_.erase(found);
}

void Service::Routes::cancel_all() {
    for (const auto& [id, talk] : talks_) generator_->cancel(*talk.ticket);
    talks_.clear();
}

Result<std::unique_ptr<Service>> Service::open(const net::Address& address, const ServiceOptions& options) {
    auto routes = std::make_unique<Routes>(options);
    CHAOS_CHECK(routes->listen(address));
    return std::unique_ptr<Service>(new Service(std::move(routes)));
}

Service::Service(std::unique_ptr<Routes> routes) : routes_(std::move(routes)) {}

Service::~Service() = default;

std::uint16_t Service::port() const {
    return routes_->server().port();
}

void Service::pass_on_tls(std::function<void(int)> taker) {
    routes_->server().pass_on_tls(std::move(taker));
}

void Service::run() {
    routes_->server().run();
    routes_->cancel_all();
}

void Service::set_generator(Generator& generator) {
    routes_->server().post([routes = routes_.get(), &generator] { routes->set_generator(generator); });
}

void Service::set_writes(bool writes) {
    routes_->server().post([routes = routes_.get(), writes] { routes->set_writes(writes); });
}

void Service::stop() {
    routes_->server().stop(routes_->options().grace);
}

void Service::stop_at_once() {
    routes_->server().stop({});
}

void Service::stop_on_signals() {
    routes_->server().stop_on_signals(routes_->options().grace);
}

}  // namespace chaos::serve
