#include "serve/http.h"

#include "base/assert.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <variant>

namespace chaos::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::awaitable;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Parser = beast::http::request_parser<beast::http::string_body>;

// Of requests whose turn has not come. Who sends more while an answer is under way is dropped.
constexpr std::size_t read_ahead_bytes = 64 << 10;
constexpr std::chrono::milliseconds linger_limit{2'000};
// So many of those for whom there is no room may read that; to others the connection just ends.
constexpr std::size_t lingering_refusals = 64;

// What goes wrong in a coroutine goes wrong in the loop.
void rethrow(const std::exception_ptr& problem) {
    if (problem) std::rethrow_exception(problem);
}

struct Refusal {
    unsigned status = 400;
    std::string sentence;
};

Refusal refusal_of(const boost::system::error_code& problem, const HttpLimits& limits) {
    if (problem == beast::http::error::header_limit)
        return {431, "The header is longer than " + std::to_string(limits.max_header_bytes) + " bytes."};
    if (problem == beast::http::error::body_limit)
        return {413, "The body is longer than " + std::to_string(limits.max_body_bytes) + " bytes."};
    return {400, "This is not HTTP/1.1: " + problem.message() + "."};
}

// A chunk of a body whose length is not known at its beginning.
std::string chunk_of(std::string_view bytes) {
    std::array<char, 32> size{};
    const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size());
    CHAOS_ASSERT(digits > 0);
    std::string chunk(size.data(), static_cast<std::size_t>(digits));
    return chunk.append(bytes).append("\r\n");
}

// What all clients together have sent of bodies whose requests have not been answered.
struct Bodies {
    std::size_t bytes = 0;
};

// One client. Two coroutines belong to it: read() takes what the client sends, State::serve() makes requests of it.
class Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(asio::io_context& loop, tcp::socket socket, std::string client, const HttpLimits& limits,
               std::shared_ptr<Bodies> bodies)
        : socket_(std::move(socket)),
          timer_(loop),
          changed_(loop, Clock::time_point::max()),
          client_(std::move(client)),
          limits_(limits),
          bodies_(std::move(bodies)) {}

    [[nodiscard]] bool open() const { return socket_.is_open(); }
    // It has something to read yet.
    [[nodiscard]] bool busy() const { return phase_ != Phase::idle || lingering_; }
    [[nodiscard]] bool answer_open() const { return open() && (phase_ == Phase::asked || phase_ == Phase::streaming); }
    [[nodiscard]] bool begun() const { return phase_ != Phase::asked; }
    [[nodiscard]] bool keeps() const { return keep_alive_; }

    awaitable<void> read();
    // The next request, or what the handler answers to its header alone; none where the client has none, or has gone.
    using Arrival = std::variant<HttpRequest, HttpAnswer, Refusal>;
    awaitable<std::optional<Arrival>> request(HttpHandler& handler);
    awaitable<void> answered();
    // Lets the client read the last answer before the connection is closed.
    awaitable<void> linger();

    void start_answer() { phase_ = Phase::asked; }
    void begin(const HttpAnswer& answer, bool whole);
    void write(std::string_view bytes);
    void end();
    void on_gone(std::function<void()> call) { gone_ = std::move(call); }
    void keep_no_longer() { keep_alive_ = false; }
    void answer_at_once(const HttpAnswer& answer);
    void refuse(const HttpAnswer& answer);
    void close();

private:
    enum class Phase { idle, asked, streaming, ended };

    void set_limit(std::chrono::milliseconds limit);
    void lift_limit() { timer_.expires_at(Clock::time_point::max()); }
    // Wakes what waits in change().
    void tell() { changed_.cancel(); }
    awaitable<void> change() { co_await changed_.async_wait(asio::as_tuple(asio::use_awaitable)); }
    void queue(std::string bytes);
    void flush();
    awaitable<void> keep_flushing();
    HttpRequest head_of(const Parser& parser);
    // False: all bodies together would be too much.
    [[nodiscard]] bool count_body(std::size_t bytes);
    void release_body();

    tcp::socket socket_;
    asio::steady_timer timer_;
    asio::steady_timer changed_;
    const std::string client_;
    const HttpLimits limits_;
    const std::shared_ptr<Bodies> bodies_;
    std::size_t body_bytes_ = 0;  // of those, this one's

    std::string received_;   // and not yet part of a request
    bool finished_ = false;  // the client sends nothing more
    bool lingering_ = false;

    Phase phase_ = Phase::idle;
    bool keep_alive_ = true;
    bool chunked_ = false;  // this is how a stream's end is told, unless by closing
    bool body_wanted_ = true;
    bool modern_ = true;  // HTTP/1.1
    std::function<void()> gone_;

    std::deque<std::string> unread_;
    std::size_t front_from_ = 0;  // what is before of the first of them has left
    std::size_t unread_bytes_ = 0;
    bool flushing_ = false;  // a coroutine waits for room
};
using ConnectionPtr = std::shared_ptr<Connection>;

void Connection::set_limit(std::chrono::milliseconds limit) {
    timer_.expires_after(limit);
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code lifted) {
        const ConnectionPtr self = weak.lock();
        // A limit that was lifted or set anew too late for this call tells only by its time.
        if (!lifted && self && self->timer_.expiry() <= Clock::now()) self->close();
    });
}

void Connection::close() {
    boost::system::error_code ignored;  // closing what is closed already is no mistake
    (void)socket_.close(ignored);
    lift_limit();
    unread_.clear();
    release_body();
    tell();
    // It may let go of the last answer, and that of this.
    const ConnectionPtr keep = shared_from_this();
    if (const auto gone = std::exchange(gone_, nullptr); gone && phase_ != Phase::ended) gone();
}

awaitable<void> Connection::read() {
    const ConnectionPtr keep = shared_from_this();
    std::array<char, 16 << 10> buffer{};
    const asio::mutable_buffer place(buffer.data(), buffer.size());
    while (open()) {
        if (received_.size() >= read_ahead_bytes && !lingering_) {
            // Who is not read from could go without being noticed.
            if (answer_open()) {
                close();
                co_return;
            }
            co_await change();
            continue;
        }
        const auto [problem, got] = co_await socket_.async_read_some(place, asio::as_tuple(asio::use_awaitable));
        if (problem) {
            finished_ = true;
            // While an answer is under way nobody waits for it any more.
            if (lingering_ || phase_ == Phase::asked || phase_ == Phase::streaming) close();
            tell();
            co_return;
        }
        if (!lingering_) received_.append(buffer.data(), got);
        tell();
    }
}

HttpRequest Connection::head_of(const Parser& parser) {
    const auto& message = parser.get();
    HttpRequest request;
    request.method = message.method_string();
    const std::string_view target = message.target();
    request.path = target.substr(0, target.find('?'));
    request.client = client_;
    for (const auto& field : message) request.fields.emplace_back(field.name_string(), field.value());
    modern_ = message.version() >= 11;
    keep_alive_ = keep_alive_ && message.keep_alive();
    body_wanted_ = request.method != "HEAD";
    return request;
}

bool Connection::count_body(std::size_t bytes) {
    if (bodies_->bytes - body_bytes_ + bytes > limits_.max_bodies_bytes) return false;
    bodies_->bytes += bytes - body_bytes_;
    body_bytes_ = bytes;
    return true;
}

void Connection::release_body() {
    bodies_->bytes -= std::exchange(body_bytes_, 0);
}

awaitable<std::optional<Connection::Arrival>> Connection::request(HttpHandler& handler) {
    using Outcome = std::optional<Arrival>;
    Parser parser;
    parser.eager(true);
    parser.header_limit(static_cast<std::uint32_t>(limits_.max_header_bytes));
    parser.body_limit(limits_.max_body_bytes);
    set_limit(limits_.idle_limit);
    bool begun = false;
    std::optional<HttpRequest> head;
    while (!parser.is_done()) {
        boost::system::error_code problem;
        if (!begun && !received_.empty()) {
            begun = true;
            set_limit(limits_.request_limit);
        }
        const std::size_t used = parser.put(asio::buffer(received_), problem);
        received_.erase(0, used);
        if (used > 0) tell();  // there is room
        if (problem && problem != beast::http::error::need_more) {
            lift_limit();
            co_return Outcome(refusal_of(problem, limits_));
        }
        if (parser.is_header_done() && !head) {
            head = head_of(parser);
            if (auto answer = handler.answer_head(*head)) {
                lift_limit();
                // What comes yet of the body is no request.
                if (!parser.is_done()) keep_alive_ = false;
                co_return Outcome(std::move(*answer));
            }
            if (!parser.is_done() && beast::iequals(parser.get()[beast::http::field::expect], "100-continue"))
                queue("HTTP/1.1 100 Continue\r\n\r\n");
        }
        if (!count_body(parser.get().body().size())) {
            lift_limit();
            co_return Outcome(Refusal{503, "The server holds as many requests as it has room for; try again later."});
        }
        if (parser.is_done()) break;
        if (used > 0 && !problem) continue;
        if (finished_ || !open()) co_return std::nullopt;
        co_await change();
        if (!open()) co_return std::nullopt;
    }
    lift_limit();
    head->body = std::move(parser.get().body());
    co_return Outcome(std::move(*head));
}

void Connection::begin(const HttpAnswer& answer, bool whole) {
    if (!open() || phase_ != Phase::asked) return;
    phase_ = Phase::streaming;
    chunked_ = !whole && modern_;
    if (!whole && !modern_) keep_alive_ = false;
    std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                       std::string(beast::http::obsolete_reason(beast::http::int_to_status(answer.status))) +
                       "\r\nContent-Type: " + answer.content_type + "\r\n";
    for (const auto& [name, value] : answer.fields) head.append(name).append(": ").append(value).append("\r\n");
    if (whole) head += "Content-Length: " + std::to_string(answer.body.size()) + "\r\n";
    if (chunked_) head += "Transfer-Encoding: chunked\r\n";
    head += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
    if (whole && body_wanted_) head += answer.body;
    queue(std::move(head));
    if (!whole) write(answer.body);
}

void Connection::write(std::string_view bytes) {
    if (!open() || phase_ != Phase::streaming || bytes.empty() || !body_wanted_) return;
    if (unread_bytes_ > limits_.max_unread_bytes) return close();
    queue(chunked_ ? chunk_of(bytes) : std::string(bytes));
}

void Connection::end() {
    if (!open() || phase_ != Phase::streaming) return;
    phase_ = Phase::ended;
    gone_ = nullptr;
    if (chunked_ && body_wanted_) queue("0\r\n\r\n");
    tell();
}

void Connection::answer_at_once(const HttpAnswer& answer) {
    phase_ = Phase::asked;
    begin(answer, true);
    end();
}

void Connection::refuse(const HttpAnswer& answer) {
    keep_alive_ = false;
    answer_at_once(answer);
}

void Connection::queue(std::string bytes) {
    unread_bytes_ += bytes.size();
    unread_.push_back(std::move(bytes));
    flush();
}

void Connection::flush() {
    while (!unread_.empty()) {
        const std::string& front = unread_.front();
        const ssize_t sent = ::send(socket_.native_handle(), front.data() + front_from_, front.size() - front_from_,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno != EAGAIN) return close();
        if (sent < 0) break;
        front_from_ += static_cast<std::size_t>(sent);
        unread_bytes_ -= static_cast<std::size_t>(sent);
        if (front_from_ < front.size()) continue;
        unread_.pop_front();
        front_from_ = 0;
    }
    if (unread_.empty() || flushing_) return;
    flushing_ = true;
    asio::co_spawn(socket_.get_executor(), keep_flushing(), rethrow);
}

awaitable<void> Connection::keep_flushing() {
    const ConnectionPtr keep = shared_from_this();
    while (!unread_.empty()) {
        set_limit(limits_.unread_limit);
        const auto [problem] =
            co_await socket_.async_wait(tcp::socket::wait_write, asio::as_tuple(asio::use_awaitable));
        if (problem) break;
        lift_limit();
        flush();
    }
    flushing_ = false;
    tell();
}

awaitable<void> Connection::answered() {
    while (open() && (phase_ != Phase::ended || !unread_.empty())) co_await change();
    phase_ = Phase::idle;
    release_body();
}

awaitable<void> Connection::linger() {
    if (!open()) co_return;
    boost::system::error_code gone;  // then there is nobody to wait for
    (void)socket_.shutdown(tcp::socket::shutdown_send, gone);
    lingering_ = true;
    set_limit(linger_limit);
    tell();
    while (open() && !finished_ && !gone) co_await change();
    close();
}

}  // namespace

std::string_view HttpRequest::field(std::string_view name) const {
    const auto found = std::find_if(fields.begin(), fields.end(), [name](const auto& field) {
        return beast::iequals(field.first, beast::string_view(name.data(), name.size()));
    });
    return found == fields.end() ? std::string_view() : found->second;
}

// The part of the server that connections, coroutines and timers may outlive it with.
struct HttpServer::State : std::enable_shared_from_this<State> {
    State(asio::io_context& io, HttpHandler& who, const HttpLimits& how)
        : loop(io), acceptor(io), stop_timer(io), signals(io), work(io.get_executor()), handler(who), limits(how) {}

    // A coroutine may begin after this object was let go: what it needs then is given to it.
    awaitable<void> accept(std::shared_ptr<State> keep);
    awaitable<void> sort(std::shared_ptr<State> keep, std::shared_ptr<tcp::socket> socket);
    void take(tcp::socket socket);
    awaitable<void> serve(ConnectionPtr connection);
    awaitable<void> wait_for_signals(std::shared_ptr<State> keep, std::chrono::milliseconds grace);
    void stop(std::chrono::milliseconds grace);
    void leave(const ConnectionPtr& connection);
    // Nothing is left to do: the loop ends.
    void finish();

    asio::io_context& loop;
    tcp::acceptor acceptor;
    asio::steady_timer stop_timer;
    asio::signal_set signals;
    asio::executor_work_guard<asio::io_context::executor_type> work;
    HttpHandler& handler;
    const HttpLimits limits;
    const std::shared_ptr<Bodies> bodies = std::make_shared<Bodies>();
    std::set<ConnectionPtr> connections;
    std::function<void(int)> taker;
    std::list<std::shared_ptr<tcp::socket>> unsorted;  // who has said nothing yet, the first to come first
    bool stopping = false;
    bool finished = false;
};

// Coroutines that are left in the loop go with it, and with them the last that they hold of State.
struct HttpServer::Loop {
    asio::io_context context{1};
};

class HttpReply::Exchange {
public:
    explicit Exchange(const ConnectionPtr& connection) : connection_(connection) {}
    // An answer that cannot be made would be a broken invariant.
    ~Exchange() {  // NOLINT(bugprone-exception-escape)
        const ConnectionPtr held = connection();
        if (!held) return;
        if (!held->begun()) held->begin({.status = 500, .content_type = "text/plain", .body = "", .fields = {}}, true);
        held->end();
    }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    // Nothing once the answer has ended: the connection may carry another one then.
    [[nodiscard]] ConnectionPtr connection() const {
        const ConnectionPtr held = ended_ ? nullptr : connection_.lock();
        return held && held->answer_open() ? held : nullptr;
    }
    void set_ended() { ended_ = true; }

private:
    std::weak_ptr<Connection> connection_;
    bool ended_ = false;
};

void HttpReply::answer(const HttpAnswer& answer) const {
    const ConnectionPtr connection = exchange_->connection();
    if (!connection) return;
    connection->begin(answer, true);
    end();
}

void HttpReply::begin(const HttpAnswer& answer) const {
    if (const ConnectionPtr connection = exchange_->connection()) connection->begin(answer, false);
}

void HttpReply::write(std::string_view bytes) const {
    if (const ConnectionPtr connection = exchange_->connection()) connection->write(bytes);
}

void HttpReply::end() const {
    if (const ConnectionPtr connection = exchange_->connection()) connection->end();
    exchange_->set_ended();
}

bool HttpReply::open() const {
    return exchange_->connection() != nullptr;
}

bool HttpReply::begun() const {
    const ConnectionPtr connection = exchange_->connection();
    return connection && connection->begun();
}

void HttpReply::on_gone(std::function<void()> call) const {
    if (const ConnectionPtr connection = exchange_->connection()) connection->on_gone(std::move(call));
}

awaitable<void> HttpServer::State::accept(std::shared_ptr<State>) {
    while (!stopping) {
        auto [problem, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
        if (stopping || problem == asio::error::operation_aborted) co_return;
        if (problem) {
            // Out of descriptors, mostly: newcomers wait until there are some.
            asio::steady_timer pause(loop, std::chrono::milliseconds(100));
            co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
            continue;
        }
        if (taker)
            asio::co_spawn(loop, sort(shared_from_this(), std::make_shared<tcp::socket>(std::move(socket))), rethrow);
        else
            take(std::move(socket));
    }
}

void HttpServer::State::take(tcp::socket socket) {
    boost::system::error_code gone;  // then reading tells it as well
    const tcp::endpoint peer = socket.remote_endpoint(gone);
    (void)socket.set_option(tcp::no_delay(true), gone);
    const auto connection =
        std::make_shared<Connection>(loop, std::move(socket), peer.address().to_string(), limits, bodies);
    if (connections.size() >= limits.max_connections) {
        connection->refuse(handler.refuse(
            503, "The server has " + std::to_string(connections.size()) + " connections, as many as it takes."));
        if (connections.size() >= limits.max_connections + lingering_refusals) return connection->close();
    }
    connections.insert(connection);
    asio::co_spawn(loop, connection->read(), rethrow);
    asio::co_spawn(loop, serve(connection), rethrow);
}

// The first byte tells who it is for. Whoever says nothing for too long is forgotten; sooner, where there are many of
// them: those who have something to say must get through.
awaitable<void> HttpServer::State::sort(std::shared_ptr<State>, std::shared_ptr<tcp::socket> socket) {
    if (stopping) co_return;
    if (unsorted.size() >= limits.max_connections) {
        boost::system::error_code ignored;  // closing what is closed already is no mistake
        (void)unsorted.front()->close(ignored);
        unsorted.pop_front();
    }
    unsorted.push_back(socket);
    asio::steady_timer limit(loop, limits.request_limit);
    limit.async_wait([held = std::weak_ptr(socket)](boost::system::error_code cancelled) {
        const auto late = held.lock();
        boost::system::error_code ignored;  // closing what is closed already is no mistake
        if (!cancelled && late) (void)late->close(ignored);
    });
    const auto [problem] = co_await socket->async_wait(tcp::socket::wait_read, asio::as_tuple(asio::use_awaitable));
    limit.cancel();
    unsorted.remove(socket);
    if (problem || stopping || !socket->is_open()) co_return;
    constexpr std::byte tls_greeting{0x16};
    std::byte first{};
    if (::recv(socket->native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1) co_return;
    if (first != tls_greeting) {
        take(std::move(*socket));
        co_return;
    }
    boost::system::error_code failed;
    const int descriptor = socket->release(failed);
    if (!failed) taker(descriptor);
}

awaitable<void> HttpServer::State::serve(ConnectionPtr connection) {
    const std::shared_ptr<State> keep = shared_from_this();
    if (!connection->keeps()) co_await connection->answered();  // there was no room for it
    while (connection->open() && connection->keeps() && !stopping) {
        auto arrival = co_await connection->request(handler);
        if (!arrival) break;
        if (stopping) connection->keep_no_longer();
        if (const auto* refusal = std::get_if<Refusal>(&*arrival)) {
            connection->refuse(handler.refuse(refusal->status, refusal->sentence));
        } else if (const auto* answer = std::get_if<HttpAnswer>(&*arrival)) {
            connection->answer_at_once(*answer);
        } else {
            connection->start_answer();
            handler.answer(std::move(std::get<HttpRequest>(*arrival)),
                           HttpReply(std::make_shared<HttpReply::Exchange>(connection)));
        }
        co_await connection->answered();
    }
    co_await connection->linger();
    leave(connection);
}

void HttpServer::State::leave(const ConnectionPtr& connection) {
    connection->close();
    connections.erase(connection);
    if (stopping && connections.empty()) finish();
}

void HttpServer::State::finish() {
    finished = true;
    boost::system::error_code ignored;  // nobody may be waiting for signals
    (void)signals.cancel(ignored);
    stop_timer.cancel();
    work.reset();
}

void HttpServer::State::stop(std::chrono::milliseconds grace) {
    const bool again = std::exchange(stopping, true);
    boost::system::error_code ignored;  // closing what is closed already is no mistake
    (void)acceptor.close(ignored);
    for (const auto& socket : unsorted) (void)socket->close(ignored);
    const std::set<ConnectionPtr> all = connections;
    for (const ConnectionPtr& connection : all) {
        connection->keep_no_longer();
        if (again || !connection->busy()) connection->close();
    }
    if (all.empty()) return finish();
    if (again) return;
    stop_timer.expires_after(grace);
    stop_timer.async_wait([this, keep = shared_from_this()](boost::system::error_code cancelled) {
        if (!cancelled) stop({});
    });
}

awaitable<void> HttpServer::State::wait_for_signals(std::shared_ptr<State>, std::chrono::milliseconds grace) {
    while (!finished) {
        const auto [problem, signal] = co_await signals.async_wait(asio::as_tuple(asio::use_awaitable));
        if (problem) co_return;
        stop(grace);
    }
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const net::Address& address, HttpHandler& handler,
                                                     const HttpLimits& limits) {
    auto loop = std::make_unique<Loop>();
    auto state = std::make_shared<State>(loop->context, handler, limits);
    const std::string name = address.host + ":" + address.port;
    boost::system::error_code problem;
    const std::string host = address.host.empty() ? "127.0.0.1" : address.host;
    tcp::resolver resolver(state->loop);
    const auto found = resolver.resolve(host, address.port, tcp::resolver::passive, problem);
    if (problem) return Error{"cannot listen at " + name + ": " + problem.message()};
    const tcp::endpoint endpoint = *found.begin();
    const auto try_to = [&problem](const auto& step) {
        if (!problem) step();
    };
    try_to([&] { (void)state->acceptor.open(endpoint.protocol(), problem); });
    try_to([&] { (void)state->acceptor.set_option(tcp::acceptor::reuse_address(true), problem); });
    try_to([&] { (void)state->acceptor.bind(endpoint, problem); });
    try_to([&] { (void)state->acceptor.listen(asio::socket_base::max_listen_connections, problem); });
    if (problem) return Error{"cannot listen at " + name + ": " + problem.message()};
    asio::co_spawn(state->loop, state->accept(state), rethrow);
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(loop), std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<Loop> loop, std::shared_ptr<State> state)
    : loop_(std::move(loop)), state_(std::move(state)) {}

HttpServer::~HttpServer() = default;

void HttpServer::pass_on_tls(std::function<void(int)> taker) {
    state_->taker = std::move(taker);
}

std::uint16_t HttpServer::port() const {
    return state_->acceptor.local_endpoint().port();
}

void HttpServer::run() {
    state_->loop.run();
}

void HttpServer::post(std::function<void()> call) {
    asio::post(state_->loop, std::move(call));
}

void HttpServer::stop(std::chrono::milliseconds grace) {
    asio::post(state_->loop, [state = state_, grace] { state->stop(grace); });
}

void HttpServer::stop_on_signals(std::chrono::milliseconds grace) {
    asio::post(state_->loop, [state = state_, grace] {
        if (state->finished) return;
        state->signals.add(SIGINT);
        state->signals.add(SIGTERM);
        asio::co_spawn(state->loop, state->wait_for_signals(state, grace), rethrow);
    });
}

}  // namespace chaos::serve
