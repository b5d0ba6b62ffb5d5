// What a node that serves with others knows of them when it starts again:
//
//   DIR/cluster.json      which model was served, and where the other members were, as of the last view with any
//   DIR/models/           what it has of models (infer/image.h)
#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "cluster/view.h"
#include "infer/image.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chaos::cli {

struct KeptCluster {
    Digest model{};  // its identity
    std::vector<std::string> addresses;

    friend bool operator==(const KeptCluster&, const KeptCluster&) = default;
};

// None where there is none, or where it cannot be read: then the node begins as the first time.
[[nodiscard]] std::optional<KeptCluster> read_kept_cluster(const std::filesystem::path& dir);
[[nodiscard]] Result<void> keep_cluster(const std::filesystem::path& dir, const KeptCluster& cluster);
// Of a view's members, but for this node.
[[nodiscard]] std::vector<std::string> addresses_of(const cluster::View& view, cluster::NodeId self);

struct KeptModel {
    std::string name;
    std::shared_ptr<infer::Image> image;
    bool whole = false;
};
// The model that DIR/models has: that of this name; without a name the one that was served last, else the only one that
// is there as a whole. None where there is none of them; an error where somebody has to choose, or uses it.
[[nodiscard]] Result<std::optional<KeptModel>> open_kept_model(const std::filesystem::path& dir,
                                                               const std::string& name,
                                                               const std::optional<Digest>& last,
                                                               std::uint64_t limit_bytes);

}  // namespace chaos::cli
