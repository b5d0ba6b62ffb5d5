// chaos key, chaos institution: who is who, and who vouches for whom (src/net/credential.h).
#include "base/file.h"
#include "cli/commands.h"
#include "cli/issued.h"
#include "net/credential.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace chaos::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t certificate_days = 365;
constexpr std::uint32_t token_days = 7;
constexpr std::uint32_t most_days = 36'500;

Result<fs::path> home() {
    if (const char* chosen = std::getenv("CHAOS_HOME"); chosen != nullptr && *chosen != '\0') return fs::path(chosen);
    if (const char* user = std::getenv("HOME"); user != nullptr && *user != '\0') return fs::path(user) / ".chaos";
    return Error{"neither CHAOS_HOME nor HOME says where keys are kept"};
}

// Makes the folder of a key that only its owner may enter.
Result<void> make_private_folder(const fs::path& folder) {
    CHAOS_CHECK(make_folder(folder));
    std::error_code problem;
    fs::permissions(folder, fs::perms::owner_all, problem);
    if (problem) return Error{"cannot keep " + folder.string() + " to its owner: " + problem.message()};
    return {};
}

Result<fs::path> institution_file(const std::string& name) {
    const bool plain = !name.empty() && name.size() <= 64 &&
                       name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
                           std::string::npos &&
                       name.front() != '.';
    if (!plain) return Error{"an institution's name has letters, digits, - _ and . only, e.g. charite"};
    const auto folder = home();
    if (!folder) return folder.error();
    return *folder / "institutions" / (name + ".key");
}

Result<net::SecretKey> load_institution(const fs::path& file) {
    const std::string name = file.stem();
    if (!fs::exists(file))
        return Error{"this machine does not keep the institution " + name + "; make it: chaos institution new " + name};
    return net::SecretKey::load(file);
}

// Their key files.
Result<std::vector<fs::path>> kept_institutions() {
    const auto folder = home();
    if (!folder) return folder.error();
    const fs::path institutions = *folder / "institutions";
    if (!fs::exists(institutions))
        return Error{"this machine keeps no institution; make one: chaos institution new NAME"};
    const auto names = list_folder(institutions);
    if (!names) return names.error();
    std::vector<fs::path> files;
    for (const std::string& name : *names)
        if (fs::path(name).extension() == ".key") files.push_back(institutions / name);
    return files;
}

// The key file of the one institution that has invited the node or token with this key.
Result<fs::path> issuer_of(const net::PublicKey& subject) {
    const auto institutions = kept_institutions();
    if (!institutions) return institutions.error();
    std::vector<fs::path> issuers;
    for (const fs::path& file : *institutions) {
        const auto lines = issued(file);
        if (!lines) return lines.error();
        const std::string key = net::to_text(subject);
        if (std::ranges::any_of(*lines, [&](const std::string& line) { return line.ends_with(key); }))
            issuers.push_back(file);
    }
    if (issuers.size() == 1) return issuers[0];
    return Error{std::string(issuers.empty() ? "no institution of this machine has" : "several institutions have") +
                 " invited that key; say which one revokes it: --name NAME"};
}

void print_node(const net::PublicKey& key) {
    std::printf("node %s\nkey  %s\n", cluster::brief(net::node_id(key)).c_str(), net::to_text(key).c_str());
}

}  // namespace

Result<void> new_key() {
    const auto folder = home();
    if (!folder) return folder.error();
    CHAOS_CHECK(make_private_folder(*folder));
    const net::SecretKey key = net::SecretKey::generate();
    CHAOS_CHECK(key.save(*folder / "node.key"));
    print_node(key.public_key());
    return {};
}

Result<void> show_key() {
    const auto folder = home();
    if (!folder) return folder.error();
    if (!fs::exists(*folder / "node.key")) return Error{"this node has no key yet; make one: chaos key new"};
    const auto key = net::SecretKey::load(*folder / "node.key");
    if (!key) return key.error();
    print_node(key->public_key());
    return {};
}

Result<void> new_institution(const std::string& name) {
    const auto file = institution_file(name);
    if (!file) return file.error();
    CHAOS_CHECK(make_private_folder(file->parent_path()));
    const net::SecretKey key = net::SecretKey::generate();
    CHAOS_CHECK(key.save(*file));
    std::printf("institution %s\nroot        %s\n", name.c_str(), net::to_text(key.public_key()).c_str());
    return {};
}

Result<void> show_institutions() {
    const auto institutions = kept_institutions();
    if (!institutions) return institutions.error();
    for (const fs::path& file : *institutions) {
        const auto key = net::SecretKey::load(file);
        if (!key) return key.error();
        const auto lines = issued(file);
        if (!lines) return lines.error();
        std::printf("%s  %s\n", net::to_text(key->public_key()).c_str(), file.stem().c_str());
        for (const std::string& line : *lines) std::printf("  %s\n", line.c_str());
    }
    return {};
}

Result<void> invite(const InviteOptions& options) {
    const auto file = institution_file(options.institution);
    if (!file) return file.error();
    const auto institution = load_institution(*file);
    if (!institution) return institution.error();
    const bool token = options.node.empty();
    const std::uint32_t days = options.days > 0 ? options.days : token ? token_days : certificate_days;
    if (days > most_days) return Error{"an invitation holds for " + std::to_string(most_days) + " days at most"};
    const net::UnixSeconds not_after = std::time(nullptr) + net::UnixSeconds{days} * 86'400;
    if (token) {
        const net::Token made = net::issue_token(*institution, not_after);
        CHAOS_CHECK(write_down(*file, "token", not_after, net::key_of(made)));
        std::printf("%s\n", net::to_text(made).c_str());
        return {};
    }
    const auto node = net::key_from_text(options.node);
    if (!node) return Error{"--node: " + node.error().message};
    CHAOS_CHECK(write_down(*file, "certificate", not_after, *node));
    std::printf("%s\n", net::to_text(net::vouch_for(*institution, *node, not_after)).c_str());
    return {};
}

Result<void> revoke(const RevokeOptions& options) {
    const auto subject = net::key_from_text(options.key);
    if (!subject) return subject.error();
    const auto file = options.institution.empty() ? issuer_of(*subject) : institution_file(options.institution);
    if (!file) return file.error();
    const auto institution = load_institution(*file);
    if (!institution) return institution.error();
    CHAOS_CHECK(write_down(*file, "revocation", {}, *subject));
    std::printf("%s\n", net::to_text(net::revoke(*institution, *subject)).c_str());
    return {};
}

}  // namespace chaos::cli
