#include "node/control.h"

#include "base/assert.h"
#include "node/control_place.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <set>
#include <vector>

namespace chaos::node {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using asio::local::stream_protocol;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Line = std::shared_ptr<const std::string>;  // with its end

constexpr int max_request_depth = 16;

Line to_line(const json& value) {
    return std::make_shared<const std::string>(value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

Line error_line(const std::string& sentence) {
    return to_line({{"error", sentence}});
}

// Deep nesting is refused while it is read: code that walks through a value calls itself at every level.
Result<json> parse_request(const std::string& text) {
    bool too_deep = false;
    const json request = json::parse(
        text,
        [&too_deep](int depth, json::parse_event_t, const json&) {
            too_deep = too_deep || depth > max_request_depth;
            return !too_deep;
        },
        false);
    if (too_deep) return Error{"the request is nested too deeply"};
    if (request.is_discarded()) return Error{"the request is not JSON"};
    if (!request.is_object()) return Error{"the request is not a JSON object"};
    const auto command = request.find("command");
    if (command == request.end() || !command->is_string()) return Error{"the request names no command"};
    return request;
}

// What goes wrong in a coroutine goes wrong in the loop.
void rethrow(const std::exception_ptr& problem) {
    if (problem) std::rethrow_exception(problem);
}

// One client. Its answer is written here; State reads its request.
class Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(asio::io_context& loop, stream_protocol::socket socket, const ControlLimits& limits)
        : socket_(std::move(socket)), timer_(loop), limits_(limits) {}

    [[nodiscard]] stream_protocol::socket& socket() { return socket_; }
    [[nodiscard]] bool open() const { return socket_.is_open() && !ended_; }
    [[nodiscard]] bool begun() const { return begun_; }

    // Closes the connection at that time, unless the limit is set anew or lifted before.
    void set_limit(std::chrono::milliseconds limit);
    void lift_limit() { timer_.expires_at(Clock::time_point::max()); }

    void send(const Line& line);
    void end();
    void close();

private:
    void queue(const Line& line);
    void flush();
    awaitable<void> keep_flushing();

    stream_protocol::socket socket_;
    asio::steady_timer timer_;
    const ControlLimits limits_;
    std::deque<Line> unread_;
    std::size_t front_from_ = 0;  // what is before of the first of them has left
    std::size_t unread_bytes_ = 0;
    bool begun_ = false;
    bool ended_ = false;
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
}

void Connection::queue(const Line& line) {
    unread_.push_back(line);
    unread_bytes_ += line->size();
}

void Connection::send(const Line& line) {
    if (!open()) return;
    if (unread_bytes_ > limits_.max_unread_bytes) return close();
    begun_ = true;
    queue(line);
    flush();
}

void Connection::end() {
    if (!open()) return;
    ended_ = true;
    queue(std::make_shared<const std::string>("\n"));
    flush();
}

void Connection::flush() {
    while (!unread_.empty()) {
        const std::string& front = *unread_.front();
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
    if (unread_.empty()) {
        if (ended_) close();
        return;
    }
    if (flushing_) return;
    flushing_ = true;
    asio::co_spawn(socket_.get_executor(), keep_flushing(), rethrow);
}

awaitable<void> Connection::keep_flushing() {
    const ConnectionPtr keep = shared_from_this();
    while (!unread_.empty()) {
        set_limit(limits_.unread_limit);
        const auto [problem] =
            co_await socket_.async_wait(stream_protocol::socket::wait_write, asio::as_tuple(asio::use_awaitable));
        if (problem) break;
        lift_limit();
        flush();
    }
    flushing_ = false;
}

}  // namespace

// The part of the server that connections, coroutines and timers may outlive it with.
struct ControlSocket::State : std::enable_shared_from_this<State> {
    struct Topic {
        explicit Topic(asio::io_context& loop) : timer(loop) {}
        std::vector<std::shared_ptr<Reply::Answer>> listeners;
        asio::steady_timer timer;
        std::function<json()> make;  // while one is under way
        Clock::time_point published;
    };

    State(asio::io_context& io, ControlPlace where, stream_protocol::acceptor listening, ControlHandler& who,
          const ControlLimits& how)
        : loop(io), place(std::move(where)), acceptor(std::move(listening)), handler(who), limits(how) {}

    // A coroutine may begin after this object was let go: what it needs then is given to it.
    awaitable<void> accept(std::shared_ptr<State> keep);
    awaitable<void> serve(ConnectionPtr connection);
    awaitable<Result<json>> read_request(Connection& connection);
    Topic& topic(const std::string& name) { return topics.try_emplace(name, loop).first->second; }
    void publish(Topic& to, const json& line);

    asio::io_context& loop;
    ControlPlace place;
    stream_protocol::acceptor acceptor;
    ControlHandler& handler;
    const ControlLimits limits;
    std::set<ConnectionPtr> connections;
    std::map<std::string, Topic> topics;
    bool stopped = false;
};

class Reply::Answer {
public:
    Answer(const ConnectionPtr& connection, const std::shared_ptr<ControlSocket::State>& server)
        : connection_(connection), server_(server) {}
    // A line that cannot be made would be a broken invariant.
    ~Answer() {  // NOLINT(bugprone-exception-escape)
        const ConnectionPtr held = connection_.lock();
        if (!held || !held->open()) return;
        if (!held->begun()) held->send(error_line("the node has no answer to this"));
        held->end();
    }
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

    [[nodiscard]] bool open() const {
        const ConnectionPtr held = connection_.lock();
        return held && held->open();
    }
    void send(const Line& line) const {
        if (const ConnectionPtr held = connection_.lock()) held->send(line);
    }
    void end() const {
        if (const ConnectionPtr held = connection_.lock()) held->end();
    }
    [[nodiscard]] std::shared_ptr<ControlSocket::State> server() const { return server_.lock(); }

private:
    std::weak_ptr<Connection> connection_;
    std::weak_ptr<ControlSocket::State> server_;
};

void Reply::send(const json& line) const {
    if (open()) answer_->send(to_line(line));
}

void Reply::end() const {
    answer_->end();
}

void Reply::answer(const json& line) const {
    send(line);
    end();
}

void Reply::refuse(const std::string& sentence) const {
    answer({{"error", sentence}});
}

bool Reply::open() const {
    return answer_->open();
}

void Reply::subscribe(const std::string& topic) const {
    const std::shared_ptr<ControlSocket::State> server = answer_->server();
    if (server && !server->stopped && open()) server->topic(topic).listeners.push_back(answer_);
}

awaitable<void> ControlSocket::State::accept(std::shared_ptr<State>) {
    while (!stopped) {
        auto [problem, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
        if (stopped || problem == asio::error::operation_aborted) co_return;
        if (problem) {
            // Out of descriptors, mostly: newcomers wait until there are some.
            asio::steady_timer pause(loop, std::chrono::milliseconds(100));
            co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
            continue;
        }
        const auto connection = std::make_shared<Connection>(loop, std::move(socket), limits);
        if (connections.size() >= limits.max_connections) {
            connection->send(error_line("the node serves " + std::to_string(connections.size()) +
                                        " commands already; end one of them first"));
            connection->end();
            continue;
        }
        connections.insert(connection);
        asio::co_spawn(loop, serve(connection), rethrow);
    }
}

awaitable<Result<json>> ControlSocket::State::read_request(Connection& connection) {
    std::string text;
    std::array<char, 4096> buffer{};
    const asio::mutable_buffer place_for_more(buffer.data(), buffer.size());
    while (text.find('\n') == std::string::npos) {
        const auto [problem, got] =
            co_await connection.socket().async_read_some(place_for_more, asio::as_tuple(asio::use_awaitable));
        if (problem == asio::error::eof) break;  // of what this client says; it may still listen
        if (problem) co_return Error{problem.message()};
        text.append(buffer.data(), got);
        if (text.size() > limits.max_request_bytes)
            co_return Error{"the request is longer than " + std::to_string(limits.max_request_bytes) + " bytes"};
    }
    co_return parse_request(text);
}

awaitable<void> ControlSocket::State::serve(ConnectionPtr connection) {
    const std::shared_ptr<State> keep = shared_from_this();
    connection->set_limit(limits.request_limit);
    const Result<json> request = co_await read_request(*connection);
    connection->lift_limit();
    if (!request) {
        connection->send(error_line(request.error().message));
        connection->end();
    } else if (!stopped && connection->open()) {
        const Reply reply(std::make_shared<Reply::Answer>(connection, keep));
        try {
            handler.answer(*request, reply);
        } catch (const json::exception& problem) {
            reply.refuse(std::string("the request is not what the command takes: ") + problem.what());
        }
    }
    // Completes when the client has gone altogether, not when it has only finished talking; or by close().
    co_await connection->socket().async_wait(stream_protocol::socket::wait_error, asio::as_tuple(asio::use_awaitable));
    connection->close();
    connections.erase(connection);
}

void ControlSocket::State::publish(Topic& to, const json& line) {
    std::erase_if(to.listeners, [](const auto& answer) { return !answer->open(); });
    if (to.listeners.empty()) return;
    const Line text = to_line(line);
    for (const std::shared_ptr<Reply::Answer>& answer : to.listeners) answer->send(text);
}

Result<std::unique_ptr<ControlSocket>> ControlSocket::open(asio::io_context& loop, const std::filesystem::path& dir,
                                                           ControlHandler& handler, const ControlLimits& limits) {
    CHAOS_TRY(ControlPlace place, ControlPlace::open(dir));
    const auto failed = [&place](const char* what) {
        return Error{std::string("cannot ") + what + " " + place.path().string() + ": " + std::strerror(errno)};
    };
    struct stat there{};
    if (::fstatat(place.folder(), control_socket_name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!S_ISSOCK(there.st_mode)) return Error{place.path().string() + " is in the way: it is not a socket"};
        if (::unlinkat(place.folder(), control_socket_name, 0) != 0) return failed("replace");
    }
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return failed("make a socket for");
    stream_protocol::acceptor acceptor(loop, stream_protocol(), socket);
    const sockaddr_un address = place.address();
    // Before it is bound, so that there is no time in which others may connect.
    if (::fchmod(socket, S_IRUSR | S_IWUSR) != 0 ||
        ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(socket, SOMAXCONN) != 0)
        return failed("listen at");
    auto state = std::make_shared<State>(loop, std::move(place), std::move(acceptor), handler, limits);
    asio::co_spawn(loop, state->accept(state), rethrow);
    return std::unique_ptr<ControlSocket>(new ControlSocket(std::move(state)));
}

ControlSocket::ControlSocket(std::shared_ptr<State> state) : state_(std::move(state)) {}

// Likewise.
ControlSocket::~ControlSocket() {  // NOLINT(bugprone-exception-escape)
    stop();
}

void ControlSocket::publish(const std::string& topic, const json& line) {
    if (has_listeners(topic)) state_->publish(state_->topic(topic), line);
}

bool ControlSocket::has_listeners(const std::string& topic) const {
    const auto found = state_->topics.find(topic);
    return found != state_->topics.end() && std::any_of(found->second.listeners.begin(), found->second.listeners.end(),
                                                        [](const auto& answer) { return answer->open(); });
}

void ControlSocket::refresh(const std::string& topic, std::function<json()> make) {
    if (!has_listeners(topic)) return;
    State::Topic& to = state_->topic(topic);
    const bool under_way = static_cast<bool>(to.make);
    to.make = std::move(make);
    if (under_way) return;
    to.timer.expires_at(to.published + state_->limits.refresh_interval);
    to.timer.async_wait([&to, weak = std::weak_ptr(state_)](boost::system::error_code) {
        const std::shared_ptr<State> state = weak.lock();
        if (!state || state->stopped) return;
        const std::function<json()> newest = std::exchange(to.make, nullptr);
        to.published = Clock::now();
        state->publish(to, newest());
    });
}

void ControlSocket::stop() {
    if (std::exchange(state_->stopped, true)) return;
    boost::system::error_code ignored;  // closing what is closed already is no mistake
    (void)state_->acceptor.close(ignored);
    // If it is not there any more, nothing remains to be removed.
    (void)::unlinkat(state_->place.folder(), control_socket_name, 0);
    for (const ConnectionPtr& connection : std::exchange(state_->connections, {})) {
        if (!connection->begun()) connection->send(error_line("the node stopped before it could answer"));
        connection->end();
        connection->close();
    }
    state_->topics.clear();
}

}  // namespace chaos::node
