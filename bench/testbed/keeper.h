// The keeper: the process behind a testbed. It builds it, runs its relays, and removes it when it is told to or when
// its owner is gone, however the owner ended. It holds a lock for life, so that anybody can tell a living testbed from
// what is left of a dead one; the next keeper that starts removes what dead ones left.
//
//   /run/chaos-testbed/NAME/lock       held by the keeper
//                           keeper     its process id
//                           spec.toml  what it built
//                           switches   what can be changed while it runs
#pragma once

#include "base/result.h"
#include "testbed/process.h"
#include "testbed/spec.h"

#include <sys/types.h>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace chaos::testbed {

[[nodiscard]] std::filesystem::path folder_of(const std::string& name);

// Those with a living keeper, sorted.
[[nodiscard]] std::vector<std::string> living_testbeds();

// The keeper's process id, as long as it lives.
[[nodiscard]] std::optional<pid_t> keeper_of(const std::string& name);

// Builds and keeps the testbed until SIGTERM or SIGINT or, where there is an owner, that process (our parent) ends.
// Prints keeper_ready or one line that says what went wrong. Returns the exit code of the process.
inline constexpr const char* keeper_ready = "ready\n";
[[nodiscard]] int keep_testbed(const Spec& spec, std::optional<pid_t> owner);

// Ends the keeper, if it lives, and removes what is left. False when there was nothing.
[[nodiscard]] Result<bool> remove_testbed(const std::string& name);

}  // namespace chaos::testbed
