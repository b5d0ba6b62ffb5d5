// A node: one process that trains with others. It brings together who it is, what is trained, the training side
// (elastic/participant.h), its journal, its story and its control socket.
//
//   DIR/           everything of a node that outlives its process: elastic/run_folder.h, and
//   DIR/vote       what it promised to the others (live/member.h)
//   DIR/journal    what it did (elastic/journal.h)
//   DIR/address    where it listened last, where nobody chose that (cli/up.cpp)
//   DIR/description, DIR/places, DIR/files
//                  of who was told what is trained (node/description.h)
//   DIR/control.sock
//
// Everything is called, and calls back, in the loop's thread.
#pragma once

#include "elastic/participant.h"
#include "elastic/run_folder.h"
#include "node/control.h"
#include "node/story.h"
#include "node/why.h"

#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::node {

struct NodeOptions {
    std::filesystem::path dir;  // locked by whoever calls
    std::filesystem::path run_file;
    std::string description;  // that newcomers are told, as it came from others; empty: it is made here
    live::Options live;       // `folder` and `checkpoint` are filled in here
    // By whom; none: found a cluster. A folder that knows one goes on with that, and founds it again with the others
    // where all were down.
    std::vector<std::string> join;
    bool strict = false;          // when founding: only a side with a quorum goes on
    std::uint64_t max_steps = 0;  // leave after so many; 0: stay to the end
    std::string version;
};

class Node final : private elastic::Observer, private ControlHandler {
public:
    struct Callbacks {
        std::function<void(const Event&)> event;
        // A step is in the state.
        std::function<void(const elastic::Outcome& outcome, const elastic::StateLabel& state)> step;
        // The node has come to its end: an error, or why in a word ("finished", "left", ...). Nothing follows.
        std::function<void(const Result<std::string>&)> ended;
    };

    static Result<std::unique_ptr<Node>> open(boost::asio::io_context& loop, const net::SecretKey& key,
                                              const net::Credential& credential, const NodeOptions& options,
                                              elastic::Trainer& trainer, Callbacks callbacks);
    ~Node() override;
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    [[nodiscard]] Result<void> start();
    // Goes as soon as the others can do without it; ended() follows.
    void leave();
    [[nodiscard]] const elastic::Participant& participant() const { return *participant_; }
    [[nodiscard]] nlohmann::json status();

private:
    [[nodiscard]] Why why() const;
    Node(boost::asio::io_context& loop, const NodeOptions& options, elastic::Trainer& trainer, elastic::Journal journal,
         Callbacks callbacks);

    void adopted(const elastic::ViewPtr& view) override;
    void followed(const elastic::ViewPtr& view) override;
    void applied(const elastic::Outcome& outcome, const elastic::StateLabel& state, elastic::journal::How how) override;
    void joining(const elastic::ViewPtr& view) override;
    void synced(const elastic::StateLabel& state, const cluster::Name& root) override;
    void activated(std::uint64_t first_step) override;
    void restored(const elastic::StateLabel& state) override;
    void stable(std::uint64_t steps) override;
    void hashed(const elastic::StateLabel& state, const cluster::Name& root) override;
    void astray(elastic::NodeId node, const elastic::StateLabel& state) override;
    void offender(elastic::NodeId node, std::uint64_t step) override;
    void saved(std::uint64_t step, const std::filesystem::path& path) override;
    void excluded(const std::string& why, bool final) override;
    void left() override;
    void finished() override;
    void note(const std::string& text) override;
    void refused(const std::string& text, bool by_others) override;
    void link_refused(elastic::NodeId peer, bool connect, const std::string& text) override;
    void failed(const Error& why) override;

    void answer(const nlohmann::json& request, const Reply& reply) override;
    void answer_link(const nlohmann::json& request, const Reply& reply);
    void answer_link_wishes(const cluster::View& view, const cluster::Delta* led);
    void answer_recover(const nlohmann::json& request, const Reply& reply);
    void answer_institution(const nlohmann::json& request, const Reply& reply);
    [[nodiscard]] Result<elastic::NodeId> node_called(const std::string& beginning) const;

    void write(const elastic::journal::Entry& entry);
    void tell(const std::string& kind, const std::string& text, std::optional<std::uint64_t> step = {});
    void changed();
    [[nodiscard]] bool is_alone() const;
    void stop_once_alone();
    void stop_alone();
    void end_when_others_are_done(std::chrono::steady_clock::time_point limit);
    void end(Result<std::string> why);

    boost::asio::io_context& loop_;
    NodeOptions options_;
    elastic::Trainer& trainer_;
    Callbacks callbacks_;
    elastic::Journal journal_;
    Story story_;
    std::unique_ptr<elastic::Participant> participant_;
    std::unique_ptr<ControlSocket> control_;
    boost::asio::steady_timer timer_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();

    elastic::ViewPtr view_;
    std::optional<double> loss_;
    struct HeldOut {
        std::uint64_t step = 0;
        compute::Measure measure;
    };
    std::optional<HeldOut> held_out_;
    struct StateHash {
        std::uint64_t step = 0;
        cluster::Name root{};
    };
    std::optional<StateHash> state_hash_;
    std::optional<std::chrono::steady_clock::time_point> last_step_;
    double step_seconds_ = 0.0;
    std::uint64_t steps_here_ = 0;
    std::vector<Reply> leaving_;
    // What somebody asked for, and waits until a view has it.
    struct Wish {
        std::function<std::string(const cluster::View&)> done;  // in words; empty: not yet
        Reply reply;
    };
    std::vector<Wish> wishes_;
    struct LinkWish {  // likewise, or until it is said why none will
        elastic::NodeId peer;
        bool add = true;
        Reply reply;
    };
    std::vector<LinkWish> link_wishes_;
    std::vector<Refusal> refusals_;  // the last ones, for `why`
    std::uint64_t steps_redone_ = 0;
    std::uint64_t steps_taken_ = 0;
    bool leaves_ = false;
    bool ended_ = false;
};

}  // namespace chaos::node
