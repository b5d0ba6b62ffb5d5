// Planted bugs: proof that the simulator can fail. CHAOS_PLANTED(x) is the constant false in the program; only test
// programs compiled with CHAOS_PLANT can switch a bug on, for the thread that runs a simulation.
#pragma once

namespace chaos {

enum class Planted {
    none,
    no_ballot_check,          // votes for a ballot below the one it promised
    no_quorum,                // decides with any one vote
    stale_epoch_accepted,     // adopts a decision that does not follow its view
    flush_skipped,            // settles without asking who has applied what
    restarted_voter_forgets,  // a restarted node votes in its seat without its record
    fork_without_waiting,     // forks as soon as a quorum is missing
    promise_not_kept,         // contributes to steps it promised to leave to the next view
    signature_unchecked,      // acts on relayed messages whatever their signature
    credential_unchecked,     // lets in newcomers whatever their credential
    holder_ignored,           // redoes a step although a kept member has its result
    double_vote_ignored,      // does not expel who votes twice
    result_dropped_early,     // forgets R(s) before s is stable
    sample_counted_twice,     // adds a lost member's samples twice
    wrong_shard_kept,         // a joiner does not compare the state's root
    wrong_step_accepted,      // adds a gradient of another step
    float_in_plan,            // a plan that depends on the machine
    commit_without_all,       // commits although a member's contribution is missing
};

#ifdef CHAOS_PLANT
inline thread_local Planted planted_bug = Planted::none;
#define CHAOS_PLANTED(name) (::chaos::planted_bug == ::chaos::Planted::name)
#else
#define CHAOS_PLANTED(name) false
#endif

}  // namespace chaos
