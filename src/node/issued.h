// What an institution has issued: a list beside its key, NAME.issued, that only grows. It tells the operator whom to
// revoke, long after the words were handed over. It holds no secret.
//
//   2026-11-15  token        until 2026-11-22  KEY      KEY: of the token, or of the node
//   2026-11-15  certificate  until 2027-11-15  KEY
//   2026-11-20  revocation                     KEY
#pragma once

#include "base/result.h"
#include "net/credential.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::node {

// Before the word is handed over: what is not on the list is not issued.
[[nodiscard]] Result<void> write_down(const std::filesystem::path& key_file, std::string_view kind,
                                      std::optional<net::UnixSeconds> until, const net::PublicKey& key);

// The lines, oldest first.
[[nodiscard]] Result<std::vector<std::string>> issued(const std::filesystem::path& key_file);

}  // namespace chaos::node
