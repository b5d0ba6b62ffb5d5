// The giving end of "what is trained here?": whoever is linked, and so was let in, may ask before it joins.
//
//   newcomer ── RunAsk ──► Describer ── RunAnswer: what members need alike, the description's hash ──► newcomer
//                                    ── the description, as bulk data ──►
//
// What a description says is not known here; src/node/description.h makes and reads them.
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "net/transfers.h"
#include "run/run.h"

#include "proto/elastic.pb.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace chaos::elastic {

using cluster::NodeId;

inline constexpr std::size_t max_description_bytes = 64 << 20;

class Describer {
public:
    // `agreed`: what members need alike. An error instead of the encoded description is told to those who ask for it.
    Describer(run::Identity agreed, Result<std::string> description);
    ~Describer();
    Describer(const Describer&) = delete;
    Describer& operator=(const Describer&) = delete;

    // Once, before anybody asks.
    void connect(net::Links& links, net::Transfers& transfers);

    // One after the other for each node: as long as much is on its way to it, the last ask waits.
    void received(NodeId from, const wire::RunAsk& ask);
    // The link with it is gone.
    void forget(NodeId peer);

private:
    void give(NodeId to, std::uint64_t transfer);

    run::Identity agreed_;
    std::shared_ptr<const std::string> description_;  // null: there is none, because of
    std::string refusal_;
    Digest hash_{};
    net::Links* links_ = nullptr;
    net::Transfers* transfers_ = nullptr;
    std::map<NodeId, std::shared_ptr<std::size_t>> given_bytes_;  // on their way
    std::map<NodeId, std::uint64_t> waiting_;                     // transfers
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace chaos::elastic
