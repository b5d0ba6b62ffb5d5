#include "speed.h"

#include "elastic/trainer.h"
#include "report.h"
#include "workload.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace chaos::bench {
namespace {

// Steps that nobody times: memory is laid out, threads start, caches of primitives fill. Their losses are compared;
// the first shows that the models are equal, the others that the updates are.
constexpr int warmup_pairs = 3;
constexpr double loss_tolerance = 1e-4;  // relative

template <class Body>
double seconds_of(const Body& body) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Both sides at the same point of the same training.
struct Contest {
    elastic::Trainer chaos;
    std::unique_ptr<PlainLoop> plain;
    data::Batch batch;  // what the next step of both learns from
};

struct Pair {
    double chaos_s = 0.0;
    double plain_s = 0.0;
    double chaos_loss = 0.0;
    double plain_loss = 0.0;
};

// Fetching the batch counts on the side of chaos only: a plain loop may have a loader that prepares batches in advance.
Result<Pair> take_pair(Contest& contest, bool chaos_first) {
    const state::Progress& progress = contest.chaos.progress();
    fetch_batch(contest.chaos.run(), contest.chaos.dataset(), {progress.pass, progress.index}, contest.batch);
    Pair pair;
    Result<state::StepRecord> record = Error{"no step was taken"};
    const auto step_chaos = [&] { pair.chaos_s = seconds_of([&] { record = contest.chaos.step(); }); };
    if (chaos_first) step_chaos();
    pair.plain_s = seconds_of([&] { pair.plain_loss = contest.plain->step(contest.batch); });
    if (!chaos_first) step_chaos();
    if (!record) return record.error();
    pair.chaos_loss = record->loss;
    return pair;
}

Result<void> check_equal(Contest& contest) {
    for (int i = 0; i < warmup_pairs; ++i) {
        CHAOS_TRY(const Pair pair, take_pair(contest, i % 2 == 0));
        const double difference = std::abs(pair.chaos_loss - pair.plain_loss);
        if (difference <= loss_tolerance * std::abs(pair.plain_loss)) continue;
        return Error{"the two sides do not compute the same: at step " + std::to_string(i + 1) +
                     " the loss of chaos is " + std::to_string(pair.chaos_loss) + ", that of the plain loop " +
                     std::to_string(pair.plain_loss)};
    }
    return {};
}

}  // namespace

Result<Speed> measure_speed(const PlainLibrary& library, const run::Run& run, int pairs) {
    CHAOS_TRY(elastic::Trainer trainer, elastic::Trainer::open(run));
    CHAOS_TRY(auto plain, library.make_loop(trainer.run()));
    Contest contest{std::move(trainer), std::move(plain), {}};
    compute::Engine& engine = contest.chaos.engine();
    if (!contest.plain->set_parameters(engine.manifest(), engine.arena().parameters()))
        return Error{"the two sides do not have the same parameters"};
    CHAOS_CHECK(check_equal(contest));

    std::vector<double> chaos_s;
    std::vector<double> plain_s;
    for (int i = 0; i < pairs; ++i) {
        CHAOS_TRY(const Pair pair, take_pair(contest, i % 2 == 0));
        chaos_s.push_back(pair.chaos_s);
        plain_s.push_back(pair.plain_s);
    }
    const auto samples = static_cast<double>(run.train.batch);
    return Speed{samples / median(chaos_s), samples / median(plain_s)};
}

}  // namespace chaos::bench
