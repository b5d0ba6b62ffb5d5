// Who asks members something before it joins: over links of its own, that end with the answer. This part reaches them:
// it dials all addresses at once, and those who do not answer again, ever later; what is asked is up to who derives.
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "base/result.h"
#include "net/limited_lines.h"
#include "net/links.h"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::live {

using cluster::NodeId;

struct EnquirerOptions {
    std::vector<std::string> addresses;  // of members
    net::LinkOptions links;
    std::string what;  // they are asked, for people: "what is trained"
    std::function<void(const std::string&)> note = [](const std::string&) {};  // one sentence, for the log
};

class Enquirer : private net::LinkEvents {
public:
    Enquirer(const Enquirer&) = delete;
    Enquirer& operator=(const Enquirer&) = delete;

protected:
    Enquirer(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
             EnquirerOptions options, net::BulkReceiver& receiver);
    ~Enquirer() override;

    // Runs the loop, on which nothing else runs, until `done` or in vain; all links are closed afterwards. `deadline`
    // is asked again and again. An error where the loop is stopped, too.
    [[nodiscard]] Result<void> reach(const std::function<bool()>& done,
                                     const std::function<net::Clock::time_point()>& deadline);

    // There is a link with it; there is none any more, and it is dialled again unless nothing is to be hoped of it.
    virtual void reached(NodeId peer) = 0;
    virtual void gone(NodeId peer) = 0;
    virtual void heard(NodeId from, std::span<const std::uint8_t> message) = 0;

    // Whom there is a link with, in the order of addresses.
    [[nodiscard]] std::vector<NodeId> there() const;
    // It does not do what it should: another link may help.
    void drop(NodeId peer, const std::string& why);
    // It would say the same again.
    void give_up_on(NodeId peer, const std::string& why);

    [[nodiscard]] net::Links& links() { return links_; }
    void stop();

private:
    struct Contact {
        std::string address;
        std::chrono::milliseconds pause{0};
        std::unique_ptr<net::asio::steady_timer> timer;
        std::optional<NodeId> peer;  // who answers there: there is a link with it
        bool hopeless = false;       // what it said will not change
        std::string problem;
    };
    void try_again(std::size_t number, const std::string& why);
    void lost(NodeId peer, const std::string& why);
    void beat();

    Result<void> admit(const net::Proven& peer) override;
    void link_up(NodeId peer) override;
    void link_closed(NodeId peer, const std::string& why) override;
    void dial_failed(NodeId peer, const std::string& address, const std::string& why) override;
    void answered(NodeId peer, const std::string& address) override;
    void received(NodeId from, std::span<const std::uint8_t> message) override;
    void received_work(NodeId from, std::span<const std::uint8_t> message) override;
    void turned_away(const std::string& who, const std::string& why) override;

    net::asio::io_context& loop_;
    EnquirerOptions options_;
    std::vector<Contact> contacts_;
    net::asio::steady_timer beat_;
    // For timers that have expired by the time they are cancelled.
    std::shared_ptr<bool> runs_ = std::make_shared<bool>(true);
    net::LimitedLines lines_{net::Clock::now()};
    net::Links links_;
};

}  // namespace chaos::live
