// chaos key, chaos institution: who is who, and who vouches for whom (src/net/credential.h).
#include "node/identity.h"
#include "cli/commands.h"
#include "net/credential.h"
#include "node/institutions.h"
#include "node/issued.h"

#include <cstdio>
#include <vector>

namespace chaos::cli {
namespace {

namespace fs = std::filesystem;

void print_node(const net::PublicKey& key) {
    std::printf("node %s\nkey  %s\n", cluster::brief(net::node_id(key)).c_str(), net::to_text(key).c_str());
}

Result<fs::path> key_folder(const fs::path& dir) {
    return dir.empty() ? node::chaos_home() : dir;
}

}  // namespace

Result<void> new_key(const fs::path& dir) {
    CHAOS_TRY(const fs::path folder, key_folder(dir));
    CHAOS_TRY(const net::SecretKey key, node::make_key(folder));
    print_node(key.public_key());
    return {};
}

Result<void> show_key(const fs::path& dir) {
    CHAOS_TRY(const fs::path folder, key_folder(dir));
    if (!fs::exists(node::key_file(folder)))
        return Error{"this node has no key yet; make one: chaos key new" +
                     (dir.empty() ? "" : " --dir " + dir.string())};
    CHAOS_TRY(const net::SecretKey key, net::SecretKey::load(node::key_file(folder)));
    print_node(key.public_key());
    return {};
}

Result<void> new_institution(const std::string& name) {
    CHAOS_TRY(const fs::path home, node::chaos_home());
    CHAOS_TRY(const node::Institution made, node::make_institution(home, name));
    std::printf("institution %s\nroot        %s\n", name.c_str(), net::to_text(made.key.public_key()).c_str());
    return {};
}

Result<void> show_institutions() {
    CHAOS_TRY(const fs::path home, node::chaos_home());
    CHAOS_TRY(const std::vector<node::Institution> institutions, node::load_institutions(home));
    if (institutions.empty()) return Error{"this machine keeps no institution; make one: chaos institution new NAME"};
    for (const node::Institution& institution : institutions) {
        CHAOS_TRY(const std::vector<std::string> lines, node::issued(institution.file));
        std::printf("%s  %s\n", net::to_text(institution.key.public_key()).c_str(), institution.name().c_str());
        for (const std::string& line : lines) std::printf("  %s\n", line.c_str());
    }
    return {};
}

Result<void> invite(const InviteOptions& options) {
    CHAOS_TRY(const fs::path home, node::chaos_home());
    CHAOS_TRY(const node::Institution institution, node::load_institution(home, options.institution));
    if (options.node.empty()) {
        CHAOS_TRY(const net::Token token,
                  node::issue_token(institution, options.days > 0 ? options.days : node::token_days));
        std::printf("%s\n", net::to_text(token).c_str());
        return {};
    }
    const auto subject = net::key_from_text(options.node);
    if (!subject) return Error{"--node: " + subject.error().message};
    CHAOS_TRY(const net::Credential certificate,
              node::issue_certificate(institution, *subject, options.days > 0 ? options.days : node::certificate_days));
    std::printf("%s\n", net::to_text(certificate).c_str());
    return {};
}

Result<void> revoke(const RevokeOptions& options) {
    if (options.key.starts_with("chaos-revoke-")) return bring_revocation(options.dir, options.key);
    CHAOS_TRY(const net::PublicKey subject, net::key_from_text(options.key));
    CHAOS_TRY(const fs::path home, node::chaos_home());
    CHAOS_TRY(const node::Institution institution, options.institution.empty()
                                                       ? node::issuer_of(home, subject)
                                                       : node::load_institution(home, options.institution));
    CHAOS_TRY(const net::Revocation revocation, node::issue_revocation(institution, subject));
    std::printf("%s\n", net::to_text(revocation).c_str());
    if (!options.dir.empty()) return bring_revocation(options.dir, net::to_text(revocation));
    return {};
}

}  // namespace chaos::cli
