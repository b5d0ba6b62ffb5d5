// The best sync plan by looking at all spanning trees, for overlays small enough, and random overlays. Written apart
// from the planner, in floating point, after the cost model in plan/sync_plan.h. It takes every tree's chunks for full,
// so a plan with ranges below a chunk may come out slightly better than "the best".
#pragma once

#include "plan/sync_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace chaos::plan::test {

// maximise sum x, A x <= b, x >= 0: columns are added one by one, and the program is kept optimal (revised simplex).
class GrowingProgram {
public:
    explicit GrowingProgram(std::vector<double> b) : rows_(b.size()), x_(std::move(b)), inverse_(rows_ * rows_, 0.0) {
        for (std::size_t i = 0; i < rows_; ++i) inverse_[i * rows_ + i] = 1.0;
        basis_.assign(rows_, slack);
    }

    void add(std::vector<double> column) { columns_.push_back(std::move(column)); }

    double solve() {
        for (int pivots = 0; pivots < 20'000; ++pivots) {
            std::vector<double> y(rows_, 0.0);
            for (std::size_t i = 0; i < rows_; ++i) {
                if (basis_[i] == slack || basis_[i] < 0) continue;
                for (std::size_t k = 0; k < rows_; ++k) y[k] += inverse_[i * rows_ + k];
            }
            // Entering: the best tree, or a slack with a negative price.
            double best = 1e-9;
            int entering = slack;
            bool enters_slack = false;
            std::size_t slack_row = 0;
            for (std::size_t t = 0; t < columns_.size(); ++t) {
                const double gain = 1.0 - std::inner_product(y.begin(), y.end(), columns_[t].begin(), 0.0);
                if (gain > best) {
                    best = gain;
                    entering = static_cast<int>(t);
                    enters_slack = false;
                }
            }
            for (std::size_t k = 0; k < rows_; ++k) {
                if (-y[k] > best) {
                    best = -y[k];
                    enters_slack = true;
                    slack_row = k;
                }
            }
            if (entering == slack && !enters_slack) break;
            std::vector<double> d(rows_, 0.0);
            for (std::size_t i = 0; i < rows_; ++i) {
                if (enters_slack) {
                    d[i] = inverse_[i * rows_ + slack_row];
                } else {
                    for (std::size_t k = 0; k < rows_; ++k) {
                        d[i] += inverse_[i * rows_ + k] * columns_[static_cast<std::size_t>(entering)][k];
                    }
                }
            }
            std::size_t leaving = rows_;
            for (std::size_t i = 0; i < rows_; ++i) {
                if (d[i] < 1e-9) continue;
                if (leaving == rows_ || x_[i] / d[i] < x_[leaving] / d[leaving]) leaving = i;
            }
            if (leaving == rows_) break;
            const double step = x_[leaving] / d[leaving];
            for (std::size_t i = 0; i < rows_; ++i) {
                if (i != leaving) x_[i] = std::max(0.0, x_[i] - step * d[i]);
            }
            x_[leaving] = step;
            for (std::size_t k = 0; k < rows_; ++k) inverse_[leaving * rows_ + k] /= d[leaving];
            for (std::size_t i = 0; i < rows_; ++i) {
                if (i == leaving || d[i] == 0.0) continue;
                for (std::size_t k = 0; k < rows_; ++k) inverse_[i * rows_ + k] -= d[i] * inverse_[leaving * rows_ + k];
            }
            basis_[leaving] = enters_slack ? slack : entering;
        }
        double sum = 0.0;
        for (std::size_t i = 0; i < rows_; ++i) sum += basis_[i] == slack ? 0.0 : x_[i];
        return sum;
    }

private:
    static constexpr int slack = std::numeric_limits<int>::min();
    std::size_t rows_;
    std::vector<double> x_;
    std::vector<double> inverse_;
    std::vector<int> basis_;
    std::vector<std::vector<double>> columns_;
};

class SyncOracle {
public:
    explicit SyncOracle(const SyncRequest& request) : request_(request), n_(request.members.size()) {
        std::vector<std::size_t> chosen;
        choose(0, chosen);
        std::sort(trees_.begin(), trees_.end(), [](const Shape& a, const Shape& b) { return a.fill < b.fill; });
    }

    [[nodiscard]] std::size_t trees() const { return trees_.size(); }

    // The best mixture of any trees.
    [[nodiscard]] double best_ns() const {
        std::vector<double> capacity;
        for (const SyncLink& link : request_.links) {
            capacity.push_back(static_cast<double>(std::min(link.a_to_b_bytes_per_s, link.b_to_a_bytes_per_s)));
        }
        for (const SyncMember& member : request_.members) {
            capacity.push_back(std::min(static_cast<double>(cap(member)), 1e15));
        }
        const double scale =
            *std::max_element(capacity.begin(), capacity.begin() + static_cast<std::ptrdiff_t>(request_.links.size()));
        for (double& c : capacity) c /= scale;
        GrowingProgram program(capacity);
        double best = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < trees_.size(); ++i) {
            std::vector<double> column(request_.links.size() + n_, 0.0);
            for (const std::size_t link : trees_[i].links) {
                column[link] = 1.0;
                column[request_.links.size() + request_.links[link].a] += 1.0;
                column[request_.links.size() + request_.links[link].b] += 1.0;
            }
            program.add(std::move(column));
            if (i + 1 < trees_.size() && trees_[i + 1].fill == trees_[i].fill) continue;
            const double load = static_cast<double>(request_.bytes) / (program.solve() * scale) * 1e9;
            best = std::min(best, load + trees_[i].fill);
        }
        return best;
    }

    // The best single tree.
    [[nodiscard]] double best_tree_ns() const {
        double best = std::numeric_limits<double>::infinity();
        for (const Shape& tree : trees_) best = std::min(best, load_of(tree) + tree.fill);
        return best;
    }

    // The best cycle, cut into equal paths; infinite where there is none.
    [[nodiscard]] double best_ring_ns() const {
        double best = std::numeric_limits<double>::infinity();
        std::vector<std::size_t> order(n_);
        std::iota(order.begin(), order.end(), std::size_t{0});
        if (n_ < 3) return best;
        do {
            best = std::min(best, ring_ns(order));
        } while (std::next_permutation(order.begin() + 1, order.end()));
        return best;
    }

private:
    struct Shape {
        std::vector<std::size_t> links;
        double fill = 0.0;
    };

    static std::uint64_t cap(const SyncMember& member) {
        return std::min(member.egress_bytes_per_s, member.ingress_bytes_per_s);
    }

    [[nodiscard]] std::size_t link_between(std::size_t a, std::size_t b) const {
        for (std::size_t i = 0; i < request_.links.size(); ++i) {
            const SyncLink& link = request_.links[i];
            if ((link.a == a && link.b == b) || (link.a == b && link.b == a)) return i;
        }
        return request_.links.size();
    }

    // NOLINTNEXTLINE(misc-no-recursion)
    void choose(std::size_t next, std::vector<std::size_t>& chosen) {
        if (chosen.size() + 1 == n_) {
            trees_.push_back({chosen, best_fill(chosen, chunk())});
            return;
        }
        for (std::size_t i = next; i < request_.links.size(); ++i) {
            chosen.push_back(i);
            if (acyclic(chosen)) choose(i + 1, chosen);
            chosen.pop_back();
        }
    }

    [[nodiscard]] bool acyclic(const std::vector<std::size_t>& links) const {
        std::vector<std::size_t> group(n_);
        std::iota(group.begin(), group.end(), std::size_t{0});
        for (const std::size_t i : links) {
            const std::size_t a = group[request_.links[i].a];
            const std::size_t b = group[request_.links[i].b];
            if (a == b) return false;
            for (std::size_t& g : group) g = g == a ? b : g;
        }
        return true;
    }

    [[nodiscard]] double chunk() const { return static_cast<double>(std::min(request_.chunk_bytes, request_.bytes)); }

    [[nodiscard]] double best_fill(const std::vector<std::size_t>& links, double q) const {
        double best = std::numeric_limits<double>::infinity();
        for (std::size_t root = 0; root < n_; ++root) best = std::min(best, fill(links, root, q));
        return best;
    }

    [[nodiscard]] double fill(const std::vector<std::size_t>& links, std::size_t root, double q) const {
        std::vector<std::size_t> parent(n_, n_);
        std::vector<std::size_t> by(n_, 0);
        std::vector<std::size_t> order{root};
        std::vector<double> children(n_, 0.0);
        parent[root] = root;
        for (std::size_t i = 0; i < order.size(); ++i) {
            for (const std::size_t l : links) {
                const SyncLink& link = request_.links[l];
                for (const auto& [from, to] : {std::pair{link.a, link.b}, std::pair{link.b, link.a}}) {
                    if (from != order[i] || parent[to] != n_) continue;
                    parent[to] = from;
                    by[to] = l;
                    order.push_back(to);
                    children[from] += 1.0;
                }
            }
        }
        std::vector<double> up(n_, 0.0);
        std::vector<double> down(n_, 0.0);
        double fastest = std::numeric_limits<double>::infinity();
        const auto ns = [](double bytes, std::uint64_t rate) {
            return rate == unlimited ? 0.0 : bytes / static_cast<double>(rate) * 1e9;
        };
        for (std::size_t i = 1; i < n_; ++i) {
            const std::size_t v = order[i];
            const std::size_t p = parent[v];
            const SyncLink& link = request_.links[by[v]];
            const std::uint64_t to_parent = link.a == v ? link.a_to_b_bytes_per_s : link.b_to_a_bytes_per_s;
            const std::uint64_t to_child = link.a == v ? link.b_to_a_bytes_per_s : link.a_to_b_bytes_per_s;
            const SyncMember& child = request_.members[v];
            const SyncMember& above = request_.members[p];
            const double rise = std::max(
                {ns(q, to_parent), ns(q, child.egress_bytes_per_s), ns(q * children[p], above.ingress_bytes_per_s)});
            const double fall = std::max(
                {ns(q, to_child), ns(q, child.ingress_bytes_per_s), ns(q * children[p], above.egress_bytes_per_s)});
            fastest = std::min({fastest, rise, fall});
            up[v] = up[p] + static_cast<double>(link.delay_ns) + rise;
            down[v] = down[p] + static_cast<double>(link.delay_ns) + fall;
        }
        return *std::max_element(up.begin(), up.end()) + *std::max_element(down.begin(), down.end()) - fastest;
    }

    [[nodiscard]] double load_of(const Shape& tree) const {
        std::vector<double> touched(n_, 0.0);
        double longest = 0.0;
        for (const std::size_t i : tree.links) {
            const SyncLink& link = request_.links[i];
            const double rate = static_cast<double>(std::min(link.a_to_b_bytes_per_s, link.b_to_a_bytes_per_s));
            longest = std::max(longest, static_cast<double>(request_.bytes) / rate * 1e9);
            touched[link.a] += 1.0;
            touched[link.b] += 1.0;
        }
        for (std::size_t i = 0; i < n_; ++i) {
            if (cap(request_.members[i]) == unlimited) continue;
            longest = std::max(longest, touched[i] * static_cast<double>(request_.bytes) /
                                            static_cast<double>(cap(request_.members[i])) * 1e9);
        }
        return longest;
    }

    [[nodiscard]] double ring_ns(const std::vector<std::size_t>& order) const {
        std::vector<std::size_t> cycle;
        for (std::size_t i = 0; i < n_; ++i) {
            cycle.push_back(link_between(order[i], order[(i + 1) % n_]));
            if (cycle.back() == request_.links.size()) return std::numeric_limits<double>::infinity();
        }
        const double part = static_cast<double>(request_.bytes) / static_cast<double>(n_);
        const double q = std::min(static_cast<double>(request_.chunk_bytes), part);
        double load = 0.0;
        double longest_fill = 0.0;
        for (std::size_t cut = 0; cut < n_; ++cut) {
            std::vector<std::size_t> path = cycle;
            path.erase(path.begin() + static_cast<std::ptrdiff_t>(cut));
            longest_fill = std::max(longest_fill, best_fill(path, q));
            const SyncLink& link = request_.links[cycle[cut]];
            const double rate = static_cast<double>(std::min(link.a_to_b_bytes_per_s, link.b_to_a_bytes_per_s));
            load = std::max(load, part * static_cast<double>(n_ - 1) / rate * 1e9);
        }
        for (const SyncMember& member : request_.members) {
            if (cap(member) == unlimited) continue;
            load = std::max(load, 2.0 * part * static_cast<double>(n_ - 1) / static_cast<double>(cap(member)) * 1e9);
        }
        return load + longest_fill;
    }

    const SyncRequest& request_;
    std::size_t n_;
    std::vector<Shape> trees_;
};

// A connected overlay: a random tree and `extra` more links where they fit.
struct OverlayKind {
    std::uint32_t members = 5;
    std::uint32_t extra = 3;
    bool equal_rates = false;
    bool caps = false;
    bool delays = true;
};

inline SyncRequest random_sync_request(std::mt19937_64& random, const OverlayKind& kind) {
    const auto below = [&](std::uint64_t n) { return random() % n; };
    // 1 MB/s .. 1 GB/s, evenly over the magnitudes.
    const auto rate = [&] {
        return kind.equal_rates ? std::uint64_t{125'000'000}
                                : (std::uint64_t{1'000'000} + below(1'000'000)) << below(10);
    };
    SyncRequest request;
    request.bytes = std::uint64_t{1} << (20 + below(10));
    request.bytes += below(1 << 20);
    request.chunk_bytes = std::uint64_t{1} << (14 + below(6));
    request.align_bytes = 1;  // the oracle divides bytes
    for (std::uint32_t i = 0; i < kind.members; ++i) {
        SyncMember& member = request.members.emplace_back();
        member.id = random();
        if (kind.caps && below(2) == 0) member.egress_bytes_per_s = rate();
        if (kind.caps && below(2) == 0) member.ingress_bytes_per_s = rate();
    }
    std::vector<std::vector<bool>> linked(kind.members, std::vector<bool>(kind.members));
    const auto link = [&](std::uint32_t a, std::uint32_t b) {
        linked[a][b] = linked[b][a] = true;
        const std::uint64_t delay = kind.delays ? below(50'000) << below(10) : 0;
        const std::uint64_t there = rate();
        const std::uint64_t back = below(2) == 0 ? there : rate();
        request.links.push_back({a, b, there, back, delay});
    };
    for (std::uint32_t i = 1; i < kind.members; ++i) link(static_cast<std::uint32_t>(below(i)), i);
    const std::uint64_t room = std::uint64_t{kind.members} * (kind.members - 1) / 2 - (kind.members - 1);
    for (std::uint64_t left = std::min<std::uint64_t>(kind.extra, room); left > 0;) {
        const auto a = static_cast<std::uint32_t>(below(kind.members));
        const auto b = static_cast<std::uint32_t>(below(kind.members));
        if (a == b || linked[a][b]) continue;
        link(a, b);
        --left;
    }
    return request;
}

}  // namespace chaos::plan::test
