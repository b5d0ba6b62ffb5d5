#include "cli/kept_cluster.h"

#include "base/file.h"
#include "infer/units.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace chaos::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t max_addresses = 64;

std::optional<Digest> digest_from(const std::string& text) {
    Digest digest{};
    if (text.size() != 2 * digest.size()) return std::nullopt;
    for (std::size_t i = 0; i < digest.size(); ++i) {
        const std::string byte = text.substr(2 * i, 2);
        if (byte.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
        digest[i] = static_cast<std::uint8_t>(std::stoi(byte, nullptr, 16));
    }
    return digest;
}

Result<KeptModel> open_model(const fs::path& store, const Digest& identity, std::uint64_t limit_bytes) {
    CHAOS_TRY(auto manifest, infer::Image::kept_manifest(store, identity));
    if (!manifest) return Error{(store / hex(identity)).string() + " is no model that a node can start with"};
    KeptModel model;
    CHAOS_TRY(model.image, infer::Image::open(store, std::move(*manifest), limit_bytes));
    CHAOS_TRY(model.name, infer::Image::kept_name(store, identity));
    const std::vector<bool> texts = infer::units_of_texts(model.image->layout());
    infer::Pool pool{1};
    CHAOS_CHECK(model.image->check(texts, pool, {}));
    const auto lacks = [&](const std::vector<bool>& wanted) {
        const std::vector<bool> missing = model.image->missing(wanted);
        return std::ranges::find(missing, true) != missing.end();
    };
    if (lacks(texts)) return Error{"what is kept of " + model.name + " in " + store.string() + " lacks its tokenizer"};
    model.whole = !lacks(std::vector<bool>(texts.size(), true));
    return model;
}

}  // namespace

std::optional<KeptCluster> read_kept_cluster(const fs::path& dir) {
    const auto text = read_file(dir / "cluster.json");
    if (!text) return std::nullopt;
    const json kept = json::parse(*text, nullptr, false);
    if (!kept.is_object() || !kept.contains("model") || !kept["model"].is_string() || !kept.contains("addresses") ||
        !kept["addresses"].is_array())
        return std::nullopt;
    const auto model = digest_from(kept["model"].get<std::string>());
    if (!model) return std::nullopt;
    KeptCluster cluster{.model = *model, .addresses = {}};
    for (const json& address : kept["addresses"])
        if (address.is_string() && cluster.addresses.size() < max_addresses)
            cluster.addresses.push_back(address.get<std::string>());
    return cluster;
}

Result<void> keep_cluster(const fs::path& dir, const KeptCluster& cluster) {
    const json kept{{"model", hex(cluster.model)}, {"addresses", cluster.addresses}};
    return write_file_atomically(dir / "cluster.json", kept.dump(2) + "\n");
}

std::vector<std::string> addresses_of(const cluster::View& view, cluster::NodeId self) {
    std::vector<std::string> addresses;
    for (const cluster::MemberInfo& member : view.members)
        if (member.id.node != self && !member.address.empty() && addresses.size() < max_addresses)
            addresses.push_back(member.address);
    return addresses;
}

Result<std::optional<KeptModel>> open_kept_model(const fs::path& dir, const std::string& name,
                                                 const std::optional<Digest>& last, std::uint64_t limit_bytes) {
    const fs::path store = dir / "models";
    std::error_code error;
    if (!fs::is_directory(store, error)) return std::optional<KeptModel>();
    CHAOS_TRY(const auto folders, list_folder(store));
    std::vector<Digest> identities;
    for (const std::string& folder : folders) {
        const auto identity = digest_from(folder);
        if (!identity) continue;
        if (!name.empty()) {
            const auto kept = infer::Image::kept_name(store, *identity);
            if (!kept || *kept != name) continue;
        } else if (identity == last) {
            identities = {*identity};
            break;
        }
        identities.push_back(*identity);
    }
    const bool asked_for = identities.size() == 1 && (!name.empty() || identities.front() == last);
    std::vector<KeptModel> whole;
    for (const Digest& identity : identities) {
        auto model = open_model(store, identity, limit_bytes);
        if (asked_for) {
            if (!model) return model.error();
            return std::optional(std::move(*model));
        }
        if (model && model->whole) whole.push_back(std::move(*model));
    }
    if (whole.empty()) return std::optional<KeptModel>();
    if (whole.size() == 1) return std::optional(std::move(whole.front()));
    std::string names;
    for (const KeptModel& model : whole) names += (names.empty() ? "" : ", ") + model.name;
    return Error{"there are several models in " + store.string() + " (" + names + "): name one of them"};
}

}  // namespace chaos::cli
