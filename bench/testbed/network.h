// The operating system's side of a testbed, through the commands ip and tc: network namespaces, veth pairs, addresses,
// routes, shaping, control groups. Everything is named after the testbed: namespaces chaos-TESTBED.HOST, and in them an
// interface to-HOST for every link.
#pragma once

#include "base/result.h"
#include "testbed/process.h"
#include "testbed/relay.h"
#include "testbed/spec.h"
#include "testbed/switches.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace chaos::testbed {

// An error where hosts cannot have a CPU quota.
[[nodiscard]] Result<void> can_limit_cpus();
// Another quota for a host that has one.
[[nodiscard]] Result<void> limit_cpus(const Spec& spec, const std::string& host, double cpus);

[[nodiscard]] Place place_of(const Spec& spec, const std::string& host);

// The host with this number has this address on its loopback device, and a route to every host it has a link to.
[[nodiscard]] std::string address4(std::size_t host);
[[nodiscard]] std::string address6(std::size_t host);

// Builds all but the relays, for which it returns the ends. On an error, what was built so far is there: remove it.
[[nodiscard]] Result<std::vector<RelayedLink>> build_network(const Spec& spec, const Switches& switches);

// Kills what runs in the hosts of the testbed `name` and removes what build_network made, as far as it exists.
[[nodiscard]] Result<void> remove_network(const std::string& name);

// Makes the kernel's shapers do what the switches say, for one way of each of these links (relays look for themselves).
using Turn = std::pair<std::size_t, Way>;
[[nodiscard]] Result<void> apply_switches(const Spec& spec, const Switches& switches, const std::vector<Turn>& turns);

// Whose main thread is in the host's namespace.
[[nodiscard]] std::vector<pid_t> processes_in(const std::string& namespace_file);

// Runs `work` on a thread inside the host's network namespace: sockets opened by it belong to the host for good.
[[nodiscard]] Result<void> inside(const Place& place, const std::function<Result<void>()>& work);

}  // namespace chaos::testbed
