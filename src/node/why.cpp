#include "node/why.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace chaos::node {
namespace {

using cluster::brief;
using elastic::NodeId;
using Clock = std::chrono::steady_clock;

std::string span_text(std::chrono::nanoseconds span) {
    const double seconds = std::max(std::chrono::duration<double>(span).count(), 0.0);
    char text[32];
    std::snprintf(text, sizeof text,
                  seconds < 10.0    ? "%.1f s"
                  : seconds < 120.0 ? "%.0f s"
                                    : "%.0f min",
                  seconds < 120.0 ? seconds : seconds / 60.0);
    return text;
}

// What is over at once is not worth a number.
std::string for_how_long(std::chrono::nanoseconds span) {
    return span < std::chrono::milliseconds(100) ? "" : ", for " + span_text(span);
}

std::string names_of(const std::vector<NodeId>& nodes) {
    constexpr std::size_t named = 4;
    std::string text;
    for (std::size_t i = 0; i < std::min(nodes.size(), named); ++i) text += (i > 0 ? ", " : "") + brief(nodes[i]);
    if (nodes.size() > named) text += " and " + std::to_string(nodes.size() - named) + " more";
    return text;
}

std::string megabytes(double bytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MB", bytes / 1e6);
    return text;
}

std::string words_of(const elastic::Joiner::Donation& donation) {
    const std::string who = brief(donation.donor);
    if (!donation.linked) return "waits for a connection with its donor " + who;
    if (donation.blamed) return who + " gave a wrong part of the state; others are asked";
    std::string text = who + " gives ";
    text += donation.bytes_per_s > 0.0 ? megabytes(donation.bytes_per_s) + " of it a second"
                                       : "parts of it, at a rate that is not known yet";
    if (donation.asked_bytes > 0) {
        text += "; " + megabytes(static_cast<double>(donation.asked_bytes)) + " are to come";
        if (donation.still >= std::chrono::seconds(1))
            text += ", and nothing has come for " + span_text(donation.still);
    }
    if (donation.pauses) text += "; it was asked to let training wait for the rest";
    return text;
}

void explain_core(const cluster::Member& core, std::vector<std::string>& details) {
    for (const cluster::Missed& missed : core.missed())
        details.push_back((missed.connected ? "nothing is heard from " : "there is no connection with ") +
                          brief(missed.peer) + for_how_long(std::chrono::nanoseconds(missed.silent_for)));
    if (const std::vector<NodeId> awaited = core.awaited(); !awaited.empty())
        details.push_back("how far they are have yet to say: " + names_of(awaited));
}

void explain_joiner(const elastic::Joiner& joiner, std::vector<std::string>& details) {
    if (!joiner.running()) return;
    const elastic::Joiner::Progress progress = joiner.progress();
    details.push_back("has " + std::to_string(progress.shards) + " of " + std::to_string(progress.of) +
                      " shards of the state");
    for (const elastic::Joiner::Donation& donation : joiner.donations()) details.push_back(words_of(donation));
}

}  // namespace

std::string words_of(const elastic::StepWait& wait, const std::optional<elastic::Donor::Pause>& pause,
                     Clock::time_point now) {
    using For = elastic::StepWait::For;
    std::string step = "step " + std::to_string(wait.step);
    const std::string long_for = for_how_long(now - wait.since);
    switch (wait.what) {
        case For::nothing:
            return "is done with all steps before " + step;
        case For::computing:
            return "trains " + step + ": computes";
        case For::pause:
            return "begins " + step + " when " + (pause ? "newcomer " + brief(pause->newcomer) : "a newcomer") +
                   " has the state" + (pause ? ", at the latest in " + span_text(pause->until - now) : "");
        case For::connections:
            return "trains " + step + ": waits for a connection with " + names_of(wait.whom) + long_for;
        case For::sums:
            return "trains " + step + ": waits for the contribution of " + names_of(wait.whom) + " or of those behind" +
                   long_for;
        case For::results:
            if (wait.whom.empty()) return "trains " + step;
            return "trains " + step + ": waits for the result by way of " + names_of(wait.whom) + long_for;
        case For::taking:
            return "takes the result of " + step + " from " + names_of(wait.whom) + ": " +
                   megabytes(static_cast<double>(wait.bytes)) + " of " + megabytes(static_cast<double>(wait.of_bytes)) +
                   long_for;
    }
    return step;
}

Why why_of(const elastic::Participant& participant, std::span<const Refusal> refusals) {
    const cluster::Member& core = participant.member().core();
    const Clock::time_point now = Clock::now();
    const elastic::StepWait wait = participant.steps().waits();
    const std::string step = words_of(wait, participant.donor().pause(), now);
    Why why{.why = core.runs() ? step : core.why(), .details = {}};
    const bool in_a_step = core.role() == cluster::Role::active && wait.what != elastic::StepWait::For::nothing;
    if (!core.runs() && in_a_step) why.details.push_back(step);
    explain_core(core, why.details);
    explain_joiner(participant.joiner(), why.details);
    for (const Refusal& refusal : refusals)
        why.details.push_back(span_text(now - refusal.at) + " ago: " + refusal.text);
    return why;
}

}  // namespace chaos::node
