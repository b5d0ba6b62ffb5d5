// The World's faults: how each strikes, and what is mended at the end.
#include "sim/world.h"

#include <algorithm>

namespace chaos::sim {

void World::strike(const Fault& fault) {
    if (fault.host >= nodes_.size() || fault.other >= nodes_.size()) return;
    if (tracing()) trace_line("****", describe(fault));
    if (watching_.timeline && !(fault.kind == FaultKind::join && fault.host < setup_.nodes))
        marks_.push_back({now_, describe(fault)});
    switch (fault.kind) {
        case FaultKind::crash:
        case FaultKind::power_loss:
        case FaultKind::restart:
        case FaultKind::restart_blank:
        case FaultKind::freeze:
        case FaultKind::thaw:
        case FaultKind::slow:
        case FaultKind::drift:
        case FaultKind::lie:
        case FaultKind::join:
            return strike_process(fault, *nodes_[fault.host]);
        case FaultKind::cut:
        case FaultKind::cut_one_way:
        case FaultKind::mend:
        case FaultKind::partition:
        case FaultKind::heal:
        case FaultKind::corrupt:
        case FaultKind::lossy:
            return strike_network(fault);
        case FaultKind::leave:
        case FaultKind::connect:
        case FaultKind::disconnect:
        case FaultKind::admit:
        case FaultKind::remove:
        case FaultKind::revoke:
            return ask(fault, *nodes_[fault.host]);
        case FaultKind::all_down:
            for (Host host = 0; host < nodes_.size(); ++host) end(host, fault.value != 0);
            return;
        case FaultKind::all_up:
            for (Host host = 0; host < nodes_.size(); ++host)
                if (nodes_[host]->started && !nodes_[host]->finished) boot(host, false);
            return;
    }
}

void World::strike_process(const Fault& fault, Node& node) {
    switch (fault.kind) {
        case FaultKind::crash:
        case FaultKind::power_loss:
            if (struck_at_ == 0) {
                struck_at_ = now_;
                struck_ = fault.host;
                quorum_left_ = leaves_quorum(node);
            }
            end(fault.host, fault.kind == FaultKind::power_loss);
            node.for_good = fault.value == 1;
            break;
        case FaultKind::restart:
            if (node.started && !node.finished) boot(fault.host, false);
            break;
        case FaultKind::restart_blank: {
            if (!node.started || node.running() || node.finished) break;
            // The last one that knows the run must not forget it.
            std::size_t others = 0;
            for (const auto& n : nodes_)
                if (n->running() && n->member().role() == cluster::Role::active) ++others;
            if (others >= 2) {
                node.disk = {};
                node.blank_life = node.life() + 1;
            }
            boot(fault.host, false);
            break;
        }
        case FaultKind::freeze:
            if (node.running()) node.frozen = true;
            break;
        case FaultKind::thaw:
            if (!node.frozen) break;
            node.frozen = false;
            for (Event& waiting : frozen_[fault.host]) queue_.push(now_, std::move(waiting));
            frozen_[fault.host].clear();
            break;
        case FaultKind::slow:
            node.slowness = static_cast<std::uint32_t>(std::max<std::uint64_t>(fault.value, 1));
            if (node.running()) node.trainer().set_slowness(node.slowness);
            break;
        case FaultKind::drift:
            node.clock.change_drift(now_, static_cast<std::int64_t>(fault.value) - 1000);
            if (node.running() && !node.frozen) node.reschedule();
            break;
        case FaultKind::lie:
            node.lies = static_cast<std::uint32_t>(fault.value);
            if (node.running()) node.trainer().donor().lie(node.lies);
            break;
        default:  // join
            if (!node.started) boot(fault.host, false);
            break;
    }
}

void World::strike_network(const Fault& fault) {
    const auto ppm = static_cast<std::uint32_t>(fault.value);
    switch (fault.kind) {
        case FaultKind::cut:
            network_.cut(fault.other, fault.host);
            network_.cut(fault.host, fault.other);
            break;
        case FaultKind::cut_one_way:
            network_.cut(fault.host, fault.other);
            break;
        case FaultKind::mend:
            network_.mend(fault.host, fault.other);
            network_.mend(fault.other, fault.host);
            break;
        case FaultKind::partition: {
            std::vector<std::uint8_t> groups(nodes_.size());
            for (std::size_t i = 0; i < groups.size(); ++i) groups[i] = fault.value >> (i % 64) & 1;
            network_.divide(std::move(groups));
            break;
        }
        case FaultKind::corrupt:
            network_.set_corruption(fault.host, ppm);
            break;
        case FaultKind::lossy:
            network_.worsen(ppm, ppm, ppm);
            break;
        default:  // heal
            network_.heal_all();
            break;
    }
}

// What people ask a node for. One that does not run, or stands still, does not hear it.
void World::ask(const Fault& fault, Node& node) {
    if (!node.running() || node.frozen) return;
    const cluster::NodeId other = node_of(setup_.seed, fault.other);
    const cluster::Name root = institution_root(static_cast<std::uint8_t>(fault.value));
    using cluster::RequestKind;
    switch (fault.kind) {
        case FaultKind::leave: {
            // Who is alone is refused, in words: it may simply stop.
            const cluster::ViewPtr view = node.member().view();
            node.asked_to_leave = !view || view->active_count() > 1 || !view->is_active(node.self());
            return node.feed(cluster::LeaveCommand{});
        }
        case FaultKind::connect:
            return node.feed(cluster::ConnectCommand{other});
        case FaultKind::disconnect:
            return node.feed(cluster::DisconnectCommand{other});
        case FaultKind::admit:
            return node.feed(
                cluster::InstitutionCommand{.kind = RequestKind::admit_institution, .root = root, .revocation = {}});
        case FaultKind::remove:
            return node.feed(
                cluster::InstitutionCommand{.kind = RequestKind::remove_institution, .root = root, .revocation = {}});
        default: {  // revoke
            const std::uint8_t institution = setup_.institutions[fault.other];
            const std::uint32_t token = setup_.tokens[fault.other];
            const cluster::NodeId subject = fault.value == 1 && token != 0 ? token_of(setup_.seed, token).id : other;
            revoked_.insert({.subject = subject, .by = institution_root(institution)});
            return node.feed(
                cluster::InstitutionCommand{.kind = RequestKind::revoke_node,
                                            .root = {},
                                            .revocation = issue_revocation(setup_.seed, institution, subject)});
        }
    }
}

// The end of all faults. Who is down for good stays down, unless a strict cluster could not go on without it.
void World::heal() {
    healed_ = true;
    if (tracing()) trace_line("****", "everything heals");
    network_.heal_all();
    for (Host host = 0; host < nodes_.size(); ++host) {
        Node& node = *nodes_[host];
        if (node.frozen) strike({.at = now_, .kind = FaultKind::thaw, .host = host, .other = 0, .value = 0});
        slowest_at_end_ = std::max(slowest_at_end_, node.slowness);
        if (node.slowness > 1) strike({.at = now_, .kind = FaultKind::slow, .host = host, .other = 0, .value = 1});
        if (node.lies != 0) strike({.at = now_, .kind = FaultKind::lie, .host = host, .other = 0, .value = 0});
        if (node.started && !node.running() && !node.finished && !node.for_good) boot(host, false);
    }
    if (quorum_is_gone()) {
        for (Host host = 0; host < nodes_.size(); ++host)
            if (nodes_[host]->started && !nodes_[host]->running() && !nodes_[host]->finished) boot(host, false);
        statistics_.stopped_rightly = setup_.strict && quorum_is_gone();
    }
    allow_recovery();
}

}  // namespace chaos::sim
