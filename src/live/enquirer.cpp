#include "live/enquirer.h"

#include "base/words.h"
#include "cluster/member.h"
#include "net/address.h"
#include "net/admission.h"

#include <algorithm>
#include <ctime>

namespace chaos::live {
namespace {

constexpr std::chrono::milliseconds first_dial_pause{200};
constexpr std::chrono::milliseconds longest_dial_pause{5000};
constexpr std::chrono::milliseconds longest_wait{100};

}  // namespace

Enquirer::Enquirer(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
                   EnquirerOptions options, net::BulkReceiver& receiver)
    : loop_(loop),
      options_(std::move(options)),
      beat_(loop),
      links_(loop, key, credential, options_.links, *this, receiver) {}

// A timer that cannot be cancelled would be a broken invariant.
Enquirer::~Enquirer() {  // NOLINT(bugprone-exception-escape)
    stop();
}

void Enquirer::stop() {
    *runs_ = false;
    beat_.cancel();
    for (Contact& contact : contacts_) contact.timer->cancel();
    links_.stop();
}

Result<void> Enquirer::reach(const std::function<bool()>& done,
                             const std::function<net::Clock::time_point()>& deadline) {
    if (options_.addresses.empty()) return Error{"no address of a member is given"};
    for (const std::string& address : options_.addresses) CHAOS_CHECK(net::address_from_text(address));
    for (const std::string& address : options_.addresses)
        contacts_.push_back({.address = address,
                             .pause = first_dial_pause,
                             .timer = std::make_unique<net::asio::steady_timer>(loop_),
                             .peer = std::nullopt,
                             .hopeless = false,
                             .problem = "it did not answer yet"});
    for (const Contact& contact : contacts_) links_.dial(NodeId{}, contact.address);
    beat();
    loop_.restart();
    while (!done() && !std::ranges::all_of(contacts_, &Contact::hopeless) && net::Clock::now() < deadline()) {
        loop_.run_one_until(std::min(deadline(), net::Clock::now() + longest_wait));
        if (!done() && loop_.stopped()) return Error{"stopped before anybody told " + options_.what};
    }
    const bool told = done();
    stop();
    if (told) return {};
    std::string problems;
    for (const Contact& contact : contacts_)
        problems += (problems.empty() ? "" : "; ") + contact.address + ": " + contact.problem;
    return Error{"nobody told " + options_.what + ": " + problems};
}

void Enquirer::dial_failed(NodeId, const std::string& address, const std::string& why) {
    for (std::size_t number = 0; number < contacts_.size(); ++number)
        if (contacts_[number].address == address && !contacts_[number].peer) try_again(number, why);
}

void Enquirer::try_again(std::size_t number, const std::string& why) {
    Contact& contact = contacts_[number];
    contact.peer.reset();
    if (contact.hopeless) return;
    contact.problem = printable(why);
    if (const auto line = lines_.next("cannot ask " + contact.address + " " + options_.what + ": " + contact.problem,
                                      net::Clock::now()))
        options_.note(*line);
    contact.timer->expires_after(contact.pause);
    contact.pause = std::min(2 * contact.pause, longest_dial_pause);
    contact.timer->async_wait([this, number, runs = runs_](boost::system::error_code cancelled) {
        if (!cancelled && *runs) links_.dial(NodeId{}, contacts_[number].address);
    });
}

void Enquirer::answered(NodeId peer, const std::string& address) {
    for (Contact& contact : contacts_)
        if (contact.address == address) contact.peer = peer;
    reached(peer);
}

Result<void> Enquirer::admit(const net::Proven& peer) {
    return net::admit(nullptr, peer, std::time(nullptr));
}
void Enquirer::link_up(NodeId) {}
void Enquirer::received(NodeId, std::span<const std::uint8_t>) {}  // the cluster's greeting: we do not join yet
void Enquirer::received_work(NodeId from, std::span<const std::uint8_t> message) {
    heard(from, message);
}
void Enquirer::turned_away(const std::string&, const std::string&) {}

void Enquirer::link_closed(NodeId peer, const std::string& why) {
    lost(peer, why);
}

// There is no link with it any more.
void Enquirer::lost(NodeId peer, const std::string& why) {
    for (std::size_t number = 0; number < contacts_.size(); ++number)
        if (contacts_[number].peer == peer) try_again(number, why);
    gone(peer);
}

void Enquirer::drop(NodeId peer, const std::string& why) {
    links_.close(peer);
    lost(peer, why);
}

void Enquirer::give_up_on(NodeId peer, const std::string& why) {
    links_.close(peer);
    for (Contact& contact : contacts_) {
        if (contact.peer != peer) continue;
        contact.hopeless = true;
        contact.problem = printable(why);
        options_.note(contact.address + " does not tell " + options_.what + ": " + contact.problem);
    }
    lost(peer, why);
}

std::vector<NodeId> Enquirer::there() const {
    std::vector<NodeId> result;
    for (const Contact& contact : contacts_)
        if (contact.peer && !contact.hopeless) result.push_back(*contact.peer);
    return result;
}

// Members take a link on which nothing is heard for lost, however much they send over it.
void Enquirer::beat() {
    const cluster::MessagePtr message = cluster::make_message(cluster::Heartbeat{});
    for (const NodeId peer : links_.peers()) (void)links_.send(peer, message->bytes);
    beat_.expires_after(std::chrono::nanoseconds(cluster::Options{}.heartbeat));
    beat_.async_wait([this, runs = runs_](boost::system::error_code cancelled) {
        if (!cancelled && *runs) beat();
    });
}

}  // namespace chaos::live
