// What this node has of the model that it serves with others, in units (infer/units.h): all of them, in the model's own
// files; or what it got from others, in an image on its disk. Whatever it has it gives (giving.h); what a slice needs
// and is not here it gets (pulling.h).
//
//   want(slice) ──► what is here is compared with its hashes, once ──► room ──► the rest is pulled ──► done
//
// Room may have to be made by letting go of units. Never of those of the slice that was wanted last: it may be on its
// way to memory, or be streamed from here.
//
// Everything is called, and calls back, in the loop's thread; hashing has a thread of its own.
#pragma once

#include "base/result.h"
#include "infer/image.h"
#include "infer/slice.h"
#include "tensor/giving.h"
#include "tensor/pulling.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::tensor {

// One of the two.
struct Source {
    infer::Manifest manifest;
    std::shared_ptr<const infer::UnitSource> files;  // has all units
    std::shared_ptr<infer::Image> image;
};

class Holdings {
public:
    struct Callbacks {
        std::function<void(NodeId to, const wire::UnitWork& message)> send;  // no link is no error
        std::function<void(const std::string& text)> note;
    };
    using Done = std::function<void(const Result<void>& got)>;

    Holdings(asio::io_context& loop, net::Links& links, net::Transfers& transfers, Source source, Callbacks callbacks);
    ~Holdings();
    Holdings(const Holdings&) = delete;
    Holdings& operator=(const Holdings&) = delete;

    // Gets what a slice needs; `done` is called once all of it is here: within want() where this node has the files,
    // else later, and never where something else is wanted by then.
    void want(const infer::Slice& slice, Done done);
    // Likewise what a slice will need that is to come after the last that was wanted. Where there is no room for both,
    // it is done at once: it is got when it is wanted.
    void want_ahead(const infer::Slice& slice, Done done);
    // Gets all of the model as long as nothing else is wanted and this node is not busy, so that whoever has the files
    // may go. Not where the disk has little room for it, or something else would have to go.
    void want_rest();
    // Whether there is something to compute: then nothing comes or goes that is not needed. Calls nothing back.
    void set_busy(bool busy);

    void link_up(NodeId peer);
    void link_down(NodeId peer);
    void received(NodeId from, const wire::UnitWork& message);

    [[nodiscard]] bool has_files() const { return source_.files != nullptr; }
    // Of what is needed; nothing where all of that is here.
    [[nodiscard]] std::optional<Pulling::Progress> progress() const;
    [[nodiscard]] std::uint64_t given_bytes() const { return giving_.given_bytes(); }

private:
    using Clock = std::chrono::steady_clock;
    struct Wish {
        std::vector<bool> units;
        std::vector<bool> kept;  // beside them; none where they are what is needed now
        Done done;
        Clock::time_point begun;
        bool pulled = false;  // something of it
        Pulling::Need need = Pulling::Need::now;
    };
    void wish(std::vector<bool> units, std::vector<bool> kept, Done done, Pulling::Need need = Pulling::Need::now);
    void stop();
    [[nodiscard]] bool wants_rest() const { return wish_ && wish_->need == Pulling::Need::none; }
    void has_all();
    void check();
    void put_off();
    void pull();
    void end(const Result<void>& how);
    void watch();

    asio::io_context& loop_;
    Source source_;
    Callbacks callbacks_;
    std::uint64_t number_ = 0;  // of the wish
    std::shared_ptr<std::atomic<bool>> obsolete_ =
        std::make_shared<std::atomic<bool>>(false);  // what is compared for it
    std::optional<Wish> wish_;
    std::vector<bool> needed_;   // by the slice that was wanted last
    std::vector<bool> checked_;  // compared with its hash by this process
    bool said_all_ = false;
    bool said_rest_ = false;
    bool rest_in_vain_ = false;  // until something else was wanted
    bool busy_ = false;
    asio::steady_timer watch_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    Giving giving_;
    Pulling pulling_;
    asio::thread_pool checker_{1};
};

}  // namespace chaos::tensor
