// What a newcomer asks before it joins: what is trained there? Over links of its own, that end with the answer.
#pragma once

#include "base/result.h"
#include "net/links.h"
#include "node/description.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace chaos::node {

struct FetchOptions {
    std::vector<std::string> addresses;  // of members; each is tried again, ever later
    net::LinkOptions links;
    std::chrono::milliseconds limit{60'000};    // for all of it
    std::chrono::milliseconds silence{15'000};  // a member that says nothing for so long is not waited for
    std::function<void(const std::string&)> note = [](const std::string&) {};  // one sentence, for the log
};

// By whoever answers first: which cluster it joins is its user's choice. Runs the loop meanwhile, on which nothing else
// runs; if the loop is stopped, that is an error. All links are closed afterwards.
[[nodiscard]] Result<Description> fetch_description(net::asio::io_context& loop, const net::SecretKey& key,
                                                    const net::Credential& credential, const FetchOptions& options);
// Only what its members need alike: for who has the run and wants to know whether it is that one.
[[nodiscard]] Result<run::Identity> fetch_agreed(net::asio::io_context& loop, const net::SecretKey& key,
                                                 const net::Credential& credential, const FetchOptions& options);

}  // namespace chaos::node
