// Remembers plans: the same view and parameters give the same plan, so it is computed once. Bounded: the plan that was
// asked for longest ago makes room.
#pragma once

#include "base/assert.h"
#include "base/hash.h"

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

namespace chaos::plan {

// Parameters: a value with ==, e.g. the bytes to reduce. Plans are handed out shared, so that one in use survives its
// removal. For few entries: a search looks at each.
template <class Parameters, class Plan>
class PlanCache {
public:
    explicit PlanCache(std::size_t max_entries) : max_entries_(max_entries) { CHAOS_ASSERT(max_entries > 0); }

    // The plan of (view, parameters): remembered, or else what compute() returns.
    template <class Compute>
    std::shared_ptr<const Plan> get(const Digest& view, const Parameters& parameters, Compute&& compute) {
        for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
            if (entry->view != view || !(entry->parameters == parameters)) continue;
            entries_.splice(entries_.begin(), entries_, entry);
            return entry->plan;
        }
        auto plan = std::make_shared<const Plan>(std::forward<Compute>(compute)());
        entries_.push_front({view, parameters, plan});
        if (entries_.size() > max_entries_) entries_.pop_back();
        return plan;
    }

    [[nodiscard]] std::size_t size() const { return entries_.size(); }

private:
    struct Entry {
        Digest view;
        Parameters parameters;
        std::shared_ptr<const Plan> plan;
    };
    std::size_t max_entries_;
    std::list<Entry> entries_;  // the latest asked for first
};

}  // namespace chaos::plan
