// The demo's story: what happens to the nodes, told as it happens, and what each event cost.
#pragma once

#include "act.h"
#include "nodes/local_cluster.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace chaos::bench {

struct Scene {
    std::string event;
    Cost cost;
    double detection_s = 0.0;  // that the others need to notice
    struct ScaleOut {
        double delay_s = 0.0;  // asked to be let in -> has the whole state, compared with its donors'
        double limit_s = 0.0;
    };
    std::optional<ScaleOut> scale_out = {};
};

class Play {
public:
    explicit Play(LocalClusterOptions options) : cluster_(std::move(options)) {}

    // An error: something did not come about.
    [[nodiscard]] Result<void> perform();

    // Everything that happened, in order; the first one is peace.
    [[nodiscard]] const std::vector<Scene>& scenes() const { return scenes_; }
    // What could not be shown on this machine, in sentences.
    [[nodiscard]] const std::vector<std::string>& not_shown() const { return not_shown_; }
    // All who ever took part, in the order in which they came, and those who did at the end.
    [[nodiscard]] const std::vector<std::string>& everybody() const { return everybody_; }
    [[nodiscard]] const std::vector<std::string>& last_members() const { return last_; }

private:
    [[nodiscard]] Result<void> four_train();
    [[nodiscard]] Result<void> peace();
    [[nodiscard]] Result<void> fifth_joins();
    [[nodiscard]] Result<void> founder_is_killed();
    [[nodiscard]] Result<void> connection_breaks();
    [[nodiscard]] Result<void> link_is_removed();
    [[nodiscard]] Result<void> one_leaves();
    [[nodiscard]] Result<void> one_is_frozen_and_returns();
    [[nodiscard]] Result<void> curtain();

    struct Pair {  // two nodes with a link
        std::string one;
        std::string other;
        std::string one_id;
        std::string other_id;
    };
    [[nodiscard]] Result<Pair> linked_pair();
    [[nodiscard]] Result<std::string> id_of(const std::string& name);
    [[nodiscard]] std::vector<std::string> all_but(const std::string& name) const;
    [[nodiscard]] Result<void> until_all_tell(const std::vector<std::string>& names, const Wanted& what, double since);
    [[nodiscard]] Result<void> until_it_has_trained(const std::string& name, std::uint64_t more_steps);
    [[nodiscard]] Result<Scene::ScaleOut> scale_out_of(const std::string& name, const Wanted& asked, double since,
                                                       double limit_s);
    [[nodiscard]] Result<double> scale_out_limit(unsigned donors);
    [[nodiscard]] std::string where();
    void say(const std::string& text) const;

    LocalCluster cluster_;
    double begun_ = now();
    std::vector<Scene> scenes_;
    std::vector<std::string> not_shown_;
    std::vector<std::string> everybody_;
    std::vector<std::string> last_;
};

}  // namespace chaos::bench
