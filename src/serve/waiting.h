// Who is next: the oldest of those whose client has the fewest running.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace chaos::serve {

template <class Item>
class Waiting {
public:
    void push(const std::string& client, Item item) { line_.emplace_back(client, std::move(item)); }
    [[nodiscard]] bool empty() const { return line_.empty(); }

    // Its client has one more running, until done().
    [[nodiscard]] Item pop() {
        const auto running = [this](const auto& entry) {
            const auto found = running_.find(entry.first);
            return found == running_.end() ? 0U : found->second;
        };
        // The first of equals, which is the oldest.
        const auto next = std::min_element(
            line_.begin(), line_.end(), [&running](const auto& a, const auto& b) { return running(a) < running(b); });
        auto [client, item] = std::move(*next);
        line_.erase(next);
        ++running_[client];
        return std::move(item);
    }
    void done(const std::string& client) {
        const auto found = running_.find(client);
        if (--found->second == 0) running_.erase(found);
    }
    // Whether it was there.
    bool erase(const Item& item) {
        return std::erase_if(line_, [&item](const auto& entry) { return entry.second == item; }) > 0;
    }

private:
    std::deque<std::pair<std::string, Item>> line_;
    std::map<std::string, unsigned> running_;  // by client, where there are any
};

}  // namespace chaos::serve
