#include "node/institutions.h"

#include "base/file.h"
#include "node/issued.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace chaos::node {
namespace {

namespace fs = std::filesystem;

Result<fs::path> key_file(const fs::path& home, const std::string& name) {
    const bool plain = !name.empty() && name.size() <= 64 &&
                       name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
                           std::string::npos &&
                       name.front() != '.';
    if (!plain) return Error{"an institution's name has letters, digits, - _ and . only, e.g. charite"};
    return home / "institutions" / (name + ".key");
}

Result<net::UnixSeconds> end_of(std::uint32_t days) {
    if (days > most_days) return Error{"an invitation holds for " + std::to_string(most_days) + " days at most"};
    return std::time(nullptr) + net::UnixSeconds{days} * 86'400;
}

}  // namespace

Result<fs::path> chaos_home() {
    if (const char* chosen = std::getenv("CHAOS_HOME"); chosen != nullptr && *chosen != '\0') return fs::path(chosen);
    if (const char* user = std::getenv("HOME"); user != nullptr && *user != '\0') return fs::path(user) / ".chaos";
    return Error{"neither CHAOS_HOME nor HOME says where keys are kept"};
}

Result<void> make_private_folder(const fs::path& folder) {
    CHAOS_CHECK(make_folder(folder));
    std::error_code problem;
    fs::permissions(folder, fs::perms::owner_all, problem);
    if (problem) return Error{"cannot keep " + folder.string() + " to its owner: " + problem.message()};
    return {};
}

Result<Institution> make_institution(const fs::path& home, const std::string& name) {
    CHAOS_TRY(const fs::path file, key_file(home, name));
    CHAOS_CHECK(make_private_folder(file.parent_path()));
    Institution made{.file = file, .key = net::SecretKey::generate()};
    CHAOS_CHECK(made.key.save(file));
    return made;
}

Result<Institution> load_institution(const fs::path& home, const std::string& name) {
    CHAOS_TRY(const fs::path file, key_file(home, name));
    if (!fs::exists(file))
        return Error{"this machine does not keep the institution " + name + "; make it: chaos institution new " + name};
    CHAOS_TRY(net::SecretKey key, net::SecretKey::load(file));
    return Institution{.file = file, .key = std::move(key)};
}

Result<std::vector<Institution>> load_institutions(const fs::path& home) {
    std::vector<Institution> all;
    const fs::path folder = home / "institutions";
    if (!fs::exists(folder)) return all;
    CHAOS_TRY(const std::vector<std::string> names, list_folder(folder));
    for (const std::string& name : names) {
        const fs::path file = folder / name;
        if (file.extension() != ".key") continue;
        CHAOS_TRY(net::SecretKey key, net::SecretKey::load(file));
        all.push_back({.file = file, .key = std::move(key)});
    }
    return all;
}

Result<Institution> issuer_of(const fs::path& home, const net::PublicKey& subject) {
    CHAOS_TRY(const std::vector<Institution> institutions, load_institutions(home));
    std::vector<Institution> issuers;
    for (const Institution& institution : institutions) {
        CHAOS_TRY(const std::vector<std::string> lines, issued(institution.file));
        const std::string key = net::to_text(subject);
        if (std::ranges::any_of(lines, [&](const std::string& line) { return line.ends_with(key); }))
            issuers.push_back(institution);
    }
    if (issuers.size() == 1) return issuers[0];
    return Error{std::string(issuers.empty() ? "no institution of this machine has" : "several institutions have") +
                 " invited that key; say which one revokes it: --name NAME"};
}

Result<net::Token> issue_token(const Institution& institution, std::uint32_t days) {
    CHAOS_TRY(const net::UnixSeconds not_after, end_of(days));
    const net::Token token = net::issue_token(institution.key, not_after);
    CHAOS_CHECK(write_down(institution.file, "token", not_after, net::key_of(token)));
    return token;
}

Result<net::Credential> issue_certificate(const Institution& institution, const net::PublicKey& node,
                                          std::uint32_t days) {
    CHAOS_TRY(const net::UnixSeconds not_after, end_of(days));
    CHAOS_CHECK(write_down(institution.file, "certificate", not_after, node));
    return net::vouch_for(institution.key, node, not_after);
}

Result<net::Revocation> issue_revocation(const Institution& institution, const net::PublicKey& subject) {
    CHAOS_CHECK(write_down(institution.file, "revocation", {}, subject));
    return net::revoke(institution.key, subject);
}

Result<bool> has_revoked(const Institution& institution, const net::PublicKey& subject) {
    CHAOS_TRY(const std::vector<std::string> lines, issued(institution.file));
    const std::string key = net::to_text(subject);
    return std::ranges::any_of(lines, [&](const std::string& line) {
        return line.ends_with(key) && line.find("  revocation  ") != std::string::npos;
    });
}

}  // namespace chaos::node
