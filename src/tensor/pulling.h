// The taking end of units (infer/units.h): a node that has no model file gets what its slice needs from all who have
// it, at once, and keeps it in its image.
//
//   holder 1 ==  units that nobody was asked for, from here on ... ==.
//   holder 2 ==                     from here on ...               ==+==> hash, write ──► Image
//   holder 3 ==                                     from here on . =='
//
// Holders tell which units they have, and those who do not have all are asked again now and then: whoever pulls gives
// at the same time. Each holder begins at a place of its own and is asked for runs of units, a twentieth of a second's
// worth at a time and a quarter of a second ahead, by the rate at which it sends. Whoever is done with its part goes on
// with what is missing elsewhere; the last units are left to those who will have sent them first, and asked for twice
// where that is sooner.
//
//   a holder dies           what it owed is missing again, and asked of others
//   it freezes              so too, after a while; it is asked again later, and the while is longer the next time
//   it sends wrong bytes    it is named, and asked for nothing more
//   it does not have them   it is taken at its word until it tells again
//
// What was asked for and is not yet on disk is bounded, whatever holders do.
//
// Everything is called, and calls back, in the loop's thread; hashing and writing have a thread of their own.
#pragma once

#include "infer/image.h"
#include "net/transfers.h"

#include "proto/units.pb.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace chaos::tensor {

namespace asio = boost::asio;
using cluster::NodeId;

class Pulling {
public:
    struct Callbacks {
        // Sends a message; no link is no error: link_down() follows.
        std::function<void(NodeId to, const wire::UnitWork& message)> send;
        std::function<void(const std::string& text)> note;
        // All that was wanted is in the image.
        std::function<void()> done;
        // This node cannot keep what it gets.
        std::function<void(const Error& why)> failed;
    };
    struct Patience {
        std::chrono::milliseconds first{3000};  // with a holder that sends nothing; doubled each time
        std::chrono::milliseconds most{60'000};
    };

    Pulling(asio::io_context& loop, net::Links& links, net::Transfers& transfers, Callbacks callbacks,
            Patience patience);
    Pulling(asio::io_context& loop, net::Links& links, net::Transfers& transfers, Callbacks callbacks)
        : Pulling(loop, links, transfers, std::move(callbacks), Patience{}) {}
    ~Pulling();
    Pulling(const Pulling&) = delete;
    Pulling& operator=(const Pulling&) = delete;

    // Gets the manifest of the model with this identity from anybody; what comes is that, or asked of somebody else.
    void find_manifest(const Digest& identity, std::function<void(infer::Manifest)> found);
    // Gets what is missing of `wanted`, instead of what was wanted before. There must be room for it. What this node
    // needs, or what it can do without: that is given by nobody who has to compute.
    enum class Need : std::uint8_t { now, none };
    void begin(std::shared_ptr<infer::Image> image, std::vector<bool> wanted, Need need = Need::now);
    void stop();
    [[nodiscard]] bool running() const { return image_ != nullptr; }

    void link_up(NodeId peer);
    void link_down(NodeId peer);
    void received(NodeId from, const wire::Holding& holding);
    void received_absent(NodeId from, std::uint64_t transfer);

    struct Progress {
        std::uint64_t bytes = 0;           // that came since it began, and are on disk
        std::uint64_t of_bytes = 0;        // that were missing then
        std::uint64_t lacking_bytes = 0;   // that nobody who is linked has
        std::uint64_t received_bytes = 0;  // with what came in vain
        std::size_t holders = 0;           // that are asked
    };
    [[nodiscard]] Progress progress() const;
    // What came from each, and is on disk.
    [[nodiscard]] const std::map<NodeId, std::uint64_t>& sources() const { return sources_; }

private:
    using Clock = std::chrono::steady_clock;
    enum class Stage : std::uint8_t { unwanted, missing, asked, here };

    struct Holder {
        std::vector<bool> has;
        bool complete = false;
        std::size_t cursor = 0;  // where it goes on
        double bytes_per_s = 0.0;
        std::uint64_t asked_bytes = 0;  // that have not come
        std::uint64_t window_bytes = 0;
        Clock::time_point window_begun;
        std::uint64_t link_bytes = 0;  // of everything it sent, when it was last looked at
        Clock::time_point last_sign;
        std::chrono::milliseconds patience;
        std::optional<Clock::time_point> late_until;
    };
    struct Fetch {
        NodeId holder;
        std::size_t first = 0;
        std::size_t count = 0;
        std::uint64_t bytes = 0;
    };
    struct ManifestWish {
        Digest identity{};
        std::function<void(infer::Manifest)> found;
        std::optional<NodeId> asked;
        std::uint64_t transfer = 0;
        std::uint64_t link_bytes = 0;
        Clock::time_point last_sign;
        std::set<NodeId> in_vain;  // had it not, or something else
    };

    // ---- manifests
    void ask_manifest();
    void manifest_arrived(const net::Transfers::Arrived& arrived);
    void give_up_manifest();

    // ---- units
    void ask_holdings();
    void spread();
    void pull();
    [[nodiscard]] bool usable(const Holder& holder) const;
    [[nodiscard]] static double rate_of(const Holder& holder);
    [[nodiscard]] bool is_left_to_others(NodeId node, const Holder& holder) const;
    [[nodiscard]] std::optional<Fetch> next_for(NodeId node, Holder& holder, std::uint64_t most) const;
    [[nodiscard]] std::optional<Fetch> duplicate_for(NodeId node, const Holder& holder) const;
    void ask(Holder& holder, const Fetch& fetch);
    void arrived(std::uint64_t transfer, const net::Transfers::Arrived& content);
    void count_arrival(Holder& holder, std::uint64_t bytes);
    void keep(const Fetch& fetch, const net::Transfers::Arrived& content);
    void take_back(std::uint64_t transfer);
    void take_back_all(NodeId node);
    void set(std::size_t unit, Stage stage);
    void blame(NodeId node, const std::string& why);
    void finish_if_done();

    void tick();
    void schedule_tick();
    void look_for_late();
    void forgive(Clock::duration late);

    asio::io_context& loop_;
    net::Links& links_;
    net::Transfers& transfers_;
    Callbacks callbacks_;
    Patience patience_;
    std::optional<ManifestWish> manifest_;
    std::shared_ptr<infer::Image> image_;
    Need need_ = Need::now;
    std::uint64_t pull_ = 0;  // what was written for an earlier one counts for nothing
    std::vector<Stage> stages_;
    std::uint64_t missing_bytes_ = 0;
    std::uint64_t asked_units_ = 0;
    std::map<NodeId, Holder> holders_;
    std::set<NodeId> blamed_;
    std::map<std::uint64_t, Fetch> fetches_;  // by transfer
    std::uint64_t in_hand_bytes_ = 0;         // asked for, and not on disk
    std::uint64_t duplicated_bytes_ = 0;
    Progress progress_;
    std::map<NodeId, std::uint64_t> sources_;
    std::uint64_t received_before_ = 0;
    Clock::time_point holdings_asked_;
    asio::steady_timer timer_;
    bool ticking_ = false;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    asio::thread_pool writer_{1};
};

}  // namespace chaos::tensor
