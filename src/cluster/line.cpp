#include "cluster/line.h"

#include <algorithm>

namespace chaos::cluster {
namespace {

constexpr std::size_t views_kept = 64;
constexpr std::size_t decisions_kept = 1024;  // a kilobyte each; who is further behind is told the whole view

Ancestor ancestor_of(const View& view) {
    return {.view = view.name, .epoch = view.epoch, .fork = view.is_fork()};
}

}  // namespace

ViewPtr ViewCache::find(const Name& name) const {
    const auto at = views_.find(name);
    return at == views_.end() ? nullptr : at->second.lock();
}

void ViewCache::add(const ViewPtr& view) {
    views_[view->name] = view;
    if (views_.size() % 1024 == 0) std::erase_if(views_, [](const auto& entry) { return entry.second.expired(); });
}

void Line::begin(ViewPtr view, std::vector<Ancestor> ancestors) {
    clear();
    // Only an unbroken chain that ends at this view's parent is worth anything.
    bool chained = !ancestors.empty() && ancestors.back().view == view->parent;
    for (std::size_t i = 0; chained && i < ancestors.size(); ++i)
        chained = ancestors[i].epoch + (ancestors.size() - i) == view->epoch;
    if (chained) ancestors_ = std::move(ancestors);
    ancestors_.push_back(ancestor_of(*view));
    views_.push_back(std::move(view));
}

void Line::append(ViewPtr view, DecidePtr decision, std::uint64_t needed_step) {
    CHAOS_ASSERT(!views_.empty() && view->parent == tip()->name);
    ancestors_.push_back(ancestor_of(*view));
    if (ancestors_.size() > 2 * max_ancestors) ancestors_.erase(ancestors_.begin(), ancestors_.end() - max_ancestors);
    views_.push_back(std::move(view));
    decisions_.push_back(std::move(decision));
    const auto governs_later = [&](const ViewPtr& later) { return later->first_step <= needed_step; };
    while (views_.size() > views_kept && std::any_of(views_.begin() + 1, views_.end(), governs_later))
        views_.pop_front();
    if (decisions_.size() > decisions_kept) decisions_.pop_front();
}

void Line::clear() {
    views_.clear();
    decisions_.clear();
    ancestors_.clear();
}

DecidePtr Line::decision(std::uint64_t epoch) const {
    if (epoch > tip()->epoch || tip()->epoch - epoch >= decisions_.size()) return nullptr;
    return decisions_[decisions_.size() - 1 - (tip()->epoch - epoch)];
}

ViewPtr Line::governing(std::uint64_t step) const {
    for (auto view = views_.rbegin(); view != views_.rend(); ++view)
        if ((*view)->first_step <= step) return *view;
    return nullptr;
}

const Ancestor* Line::at(std::uint64_t epoch) const {
    if (ancestors_.empty() || epoch < ancestors_.front().epoch || epoch > ancestors_.back().epoch) return nullptr;
    return &ancestors_[epoch - ancestors_.front().epoch];
}

bool Line::contains(const Name& view, std::uint64_t epoch) const {
    const Ancestor* ancestor = at(epoch);
    return ancestor != nullptr && ancestor->view == view;
}

std::optional<std::vector<Decide>> Line::since(const Name& view, std::uint64_t epoch, std::size_t limit) const {
    if (!contains(view, epoch)) return std::nullopt;
    const std::uint64_t missing = tip()->epoch - epoch;
    if (missing > decisions_.size()) return std::nullopt;
    std::vector<Decide> result;
    for (auto at = decisions_.end() - static_cast<std::ptrdiff_t>(missing);
         at != decisions_.end() && result.size() < limit; ++at)
        result.push_back(**at);
    return result;
}

History Line::whole(std::uint64_t step) const {
    // A base from which every later decision is known: the governing view, or the oldest that is left.
    std::size_t base = views_.size() - 1;
    const std::size_t most = std::min(decisions_.size(), max_decisions);
    while (base > 0 && views_.size() - base <= most && views_[base]->first_step > step) --base;
    History history;
    history.view = encode(*views_[base]);
    const std::size_t following = views_.size() - 1 - base;
    for (auto at = decisions_.end() - static_cast<std::ptrdiff_t>(following); at != decisions_.end(); ++at)
        history.decisions.push_back(**at);
    const std::uint64_t before = views_[base]->epoch;
    for (const Ancestor& ancestor : ancestors_)
        if (ancestor.epoch < before && ancestor.epoch + max_ancestors / 2 >= before)
            history.ancestors.push_back(ancestor);
    return history;
}

Line::Meeting Line::meet(const LineSummary& theirs) const {
    if (empty() || theirs.ancestors.empty()) return {.outcome = Meet::strangers};
    if (theirs.founder != tip()->founder) return {.outcome = Meet::strangers};
    const Ancestor& their_tip = theirs.ancestors.back();
    if (contains(their_tip.view, their_tip.epoch)) return {.outcome = Meet::same};
    // The last common view, and what each side made of it.
    for (std::size_t i = theirs.ancestors.size(); i-- > 0;) {
        const Ancestor& common = theirs.ancestors[i];
        if (!contains(common.view, common.epoch)) continue;
        const Ancestor& their_child = theirs.ancestors[i + 1];
        const Ancestor* our_child = at(common.epoch + 1);
        if (our_child == nullptr) return {.outcome = Meet::behind, .their_child = their_child.view};
        Meeting meeting{.outcome = Meet::win, .their_child = their_child.view, .our_child = our_child->view};
        if (!our_child->fork && !their_child.fork) return {.outcome = Meet::impossible};
        if (our_child->fork != their_child.fork) {
            meeting.outcome = our_child->fork ? Meet::lose : Meet::win;
            return meeting;
        }
        const auto frozen = [](const std::vector<cluster::Meeting>& meetings, const Name& other) {
            const auto entry = std::ranges::find(meetings, other, &cluster::Meeting::other);
            return entry == meetings.end() ? std::nullopt : std::optional(entry->samples);
        };
        const auto our_samples = frozen(tip()->meetings, their_child.view);
        const auto their_samples = frozen(theirs.meetings, our_child->view);
        if (!our_samples) {
            meeting.outcome = Meet::must_freeze;
        } else if (!their_samples) {
            meeting.outcome = Meet::other_freezes;
        } else if (*our_samples != *their_samples) {
            meeting.outcome = *our_samples > *their_samples ? Meet::win : Meet::lose;
        } else {
            meeting.outcome = our_child->view < their_child.view ? Meet::win : Meet::lose;
        }
        return meeting;
    }
    return {.outcome = Meet::too_long_ago};
}

}  // namespace chaos::cluster
