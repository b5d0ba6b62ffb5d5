#include "elastic/trainer.h"

#include "base/file.h"
#include "net/monitor.h"
#include "state/hugging_face.h"
#include "state/update.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace chaos::elastic {
namespace {

// Fills in what the run file leaves to the data.
void resolve_model(run::Model& model, const data::SampleShape& sample) {
    constexpr std::int64_t default_classes = 10;
    if (model.kind == "llama") {
        if (model.llama.vocab == 0) model.llama.vocab = sample.classes;
    } else if (model.classes == 0) {
        model.classes = std::max(default_classes, sample.classes);
    }
}

template <class Element>
void append(const std::vector<Element>& from, std::vector<Element>& to) {
    to.insert(to.end(), from.begin(), from.end());
}

void append(const data::Batch& from, data::Batch& to) {
    to.count += from.count;
    append(from.values, to.values);
    append(from.tokens, to.tokens);
    append(from.targets, to.targets);
    append(from.samples, to.samples);
}

}  // namespace

Result<Trainer> Trainer::open(const run::Run& run, const MakeEngine& make_engine) {
    Trainer trainer;
    trainer.run_ = run;
    run::Run& resolved = trainer.run_;
    if (resolved.train.threads == 0)
        resolved.train.threads = std::max<std::int64_t>(1, std::llround(net::measure_machine().cores));
    if (!resolved.model.init.empty()) {
        CHAOS_TRY(resolved.model.llama, state::read_llama_config(resolved.model.init));
        if (resolved.model.llama.max_context < resolved.data.context)
            return Error{"data.context is " + std::to_string(resolved.data.context) +
                         ", but the model of model.init, " + resolved.model.init.string() + ", was made for at most " +
                         std::to_string(resolved.model.llama.max_context)};
    }
    if (!resolved.data.tokenizer.empty()) {
        CHAOS_TRY(trainer.tokenizer_, text::Tokenizer::read(resolved.data.tokenizer));
    }
    CHAOS_TRY(trainer.dataset_, data::open_dataset(resolved.data, trainer.tokenizer()));
    resolve_model(resolved.model, trainer.dataset_->shape());

    trainer.make_engine_ = make_engine;
    if (!make_engine) {
        CHAOS_TRY(const auto plugin, compute::Plugin::load());
        trainer.advice_ = plugin.advice();
        trainer.make_engine_ = [plugin](const compute::EngineOptions& options) { return plugin.make_engine(options); };
    }
    compute::EngineOptions& options = trainer.engine_options_;
    options.model = resolved.model;
    options.sample = trainer.dataset_->shape();
    options.seed = resolved.train.seed;
    options.threads = static_cast<int>(resolved.train.threads);
    options.slots = state::slots_of(resolved.optimizer);
    CHAOS_TRY(trainer.engine_, trainer.make_engine_(options));
    trainer.shards_.emplace(trainer.engine_->manifest(), trainer.engine_->arena().slots());

    trainer.identity_ = run::identity(resolved);
    trainer.identity_["data.content"] = hex(trainer.dataset_->content_hash());
    if (!resolved.model.init_hash.empty()) {
        trainer.blank_ = true;
        trainer.identity_["model.init"] = resolved.model.init_hash;
    } else if (!resolved.model.init.empty()) {
        CHAOS_CHECK(trainer.load_initial_weights());
        trainer.identity_["model.init"] =
            hex(Sha256().add(std::as_bytes(trainer.engine_->arena().parameters())).finish());
    }
    if (!resolved.model.path.empty()) {
        CHAOS_TRY(const auto file, MappedFile::open(resolved.model.path));
        trainer.identity_["model.path"] = hex(Sha256().add(file.bytes()).finish());
    }
    trainer.progress_.lineage = run::hash(trainer.identity_);
    trainer.progress_.threads = static_cast<std::uint64_t>(resolved.train.threads);
    return trainer;
}

Result<void> Trainer::load_initial_weights() {
    return state::read_weights(run_.model.init, engine_->manifest(), engine_->arena());
}

std::string Trainer::caution() const {
    if (run_.model.norm == "batch")
        return "with model.norm = \"batch\" the result depends on how a batch is divided, by train.accumulate and "
               "among "
               "nodes; \"group\" does not";
    const bool has_statistics = std::ranges::any_of(engine_->manifest().buffers, [](const state::TensorInfo& buffer) {
        return buffer.name.ends_with("running_mean");
    });
    if (!run_.model.path.empty() && has_statistics)
        return "the model of model.path normalises over batches (BatchNorm): the result depends on how a batch is "
               "divided, by train.accumulate and among nodes";
    return {};
}

void Trainer::fetch(data::Position position, std::uint64_t count) {
    bool first = true;
    for (const data::Stretch& stretch :
         data::samples_from(run_.train.seed, position, count, dataset_->train_samples())) {
        data::Batch& batch = first ? batch_ : next_pass_;
        dataset_->fetch(run_.train.seed, stretch.pass, stretch.numbers, batch);
        if (!first) append(batch, batch_);
        first = false;
    }
}

data::Position Trainer::position_of(std::uint64_t step) const {
    return data::advance({}, step * static_cast<std::uint64_t>(run_.train.batch), dataset_->train_samples());
}

void Trainer::commit(const state::StepRecord& record) {
    const data::Position end = position_of(record.step + 1);
    progress_.step = record.step + 1;
    progress_.pass = end.pass;
    progress_.index = end.index;
    progress_.lineage = state::extend_lineage(progress_.lineage, record);
}

Result<state::StepRecord> Trainer::step() {
    const auto batch = static_cast<std::uint64_t>(run_.train.batch);
    const std::uint64_t part = batch / static_cast<std::uint64_t>(run_.train.accumulate);
    const data::Position begin{progress_.pass, progress_.index};

    state::StepRecord record;
    record.step = progress_.step;
    record.pass = begin.pass;
    record.index = begin.index;
    record.samples = batch;
    const double weight = 1.0 / static_cast<double>(run_.train.accumulate);
    for (std::uint64_t done = 0; done < batch; done += part) {
        fetch(data::advance(begin, done, dataset_->train_samples()), part);
        CHAOS_TRY(const compute::Measure measure,
                  engine_->forward_backward(batch_, {progress_.step, static_cast<float>(weight), done == 0}));
        record.loss += weight * measure.loss;
    }

    const state::Manifest& manifest = engine_->manifest();
    const state::ResultDigest digest = state::digest_result(engine_->result(), manifest.parameter_elements());
    if (!std::isfinite(record.loss) || !std::isfinite(digest.norm) || !digest.finite_buffers)
        return Error{"step " + std::to_string(record.step + 1) + ": the " +
                     (!std::isfinite(record.loss)   ? "loss"
                      : !std::isfinite(digest.norm) ? "gradient"
                                                    : "buffers' average") +
                     " is not a finite number, so the step was not taken; try a smaller optimizer.learning_rate, or "
                     "optimizer.clip_norm"};
    record.norm = digest.norm;
    record.result_hash = digest.hash;
    record.scalars = state::update_scalars(run_, record.step, record.norm);
    state::apply_update(run_.optimizer, manifest, record.scalars, engine_->result(), engine_->arena());
    commit(record);
    return record;
}

// ---- with others

ResultShape Trainer::result_shape() const {
    const state::Manifest& manifest = engine_->manifest();
    return {.gradient = manifest.parameter_elements(), .rest = manifest.buffer_elements() + tally_floats};
}

bool Trainer::evaluation_due(std::uint64_t step) const {
    if (step == 0 || dataset_->held_out_samples() == 0) return false;
    const auto every = static_cast<std::uint64_t>(run_.train.eval_every);
    return step == static_cast<std::uint64_t>(run_.train.steps) || (every > 0 && step % every == 0);
}

bool Trainer::verification_due(std::uint64_t step, const cluster::View& view) const {
    const auto every = static_cast<std::uint64_t>(run_.train.verify_every);
    const bool newcomer = step > 0 && std::ranges::any_of(view.members, [step](const cluster::MemberInfo& member) {
                              return member.standing == cluster::Standing::active && member.first_step == step;
                          });
    return newcomer || step == static_cast<std::uint64_t>(run_.train.steps) ||
           (every > 0 && step > 0 && step % every == 0);
}

const Digest& Trainer::root() {
    if (!hashed_ || hashed_->lineage != progress_.lineage)
        hashed_ = Hashed{.lineage = progress_.lineage, .root = state::root_of(shards_->hashes(engine_->arena()))};
    return hashed_->root;
}

Result<double> Trainer::add_gradient(std::uint64_t step, SampleRange samples, std::span<float> into,
                                     const std::function<void(std::size_t)>& ready) {
    const auto batch = static_cast<double>(run_.train.batch);
    const auto part = static_cast<std::uint32_t>(run_.train.batch / run_.train.accumulate);
    const double count = samples.end - samples.begin;
    double loss = 0.0;
    // The last part's gradient makes the whole final, from the back.
    const std::span<const float> result = engine_->result();
    std::size_t added_from = engine_->manifest().parameter_elements();
    const auto add = [&](std::size_t from) {
        for (std::size_t i = from; i < added_from; ++i) into[i] += result[i];
        added_from = from;
        ready(from);
    };
    for (std::uint32_t begin = samples.begin; begin < samples.end; begin += part) {
        const std::uint32_t size = std::min(part, samples.end - begin);
        fetch(data::advance(position_of(step), begin, dataset_->train_samples()), size);
        compute::Part now{.step = step, .weight = static_cast<float>(size / batch), .first = begin == samples.begin};
        if (begin + size == samples.end) now.ready = add;
        CHAOS_TRY(const compute::Measure measure, engine_->forward_backward(batch_, now));
        loss += measure.loss * (size / count);
    }
    if (added_from > 0) add(0);
    for (std::size_t i = engine_->manifest().parameter_elements(); i < result.size(); ++i) into[i] += result[i];
    return loss;
}

Result<std::optional<compute::Measure>> Trainer::evaluate_part(const Task& task) {
    if (!evaluation_due(task.step)) return std::optional<compute::Measure>();
    const std::uint64_t all = dataset_->held_out_samples();
    const std::uint64_t members = task.view->active_count();
    const std::uint64_t place = place_of(*task.view, task.self);
    const Evaluated part{.lineage = progress_.lineage,
                         .begin = all * place / members,
                         .end = all * (place + 1) / members,
                         .measure = {}};
    if (!evaluated_ || evaluated_->lineage != part.lineage || evaluated_->begin != part.begin ||
        evaluated_->end != part.end) {
        evaluated_ = part;
        CHAOS_TRY(evaluated_->measure, evaluate(part.begin, part.end));
    }
    return std::optional(evaluated_->measure);
}

run::Identity Trainer::agreed() const {
    run::Identity all = run::shared_settings(run_);
    all.insert(identity_.begin(), identity_.end());
    return all;
}

Result<std::chrono::nanoseconds> Trainer::compute(const Task& task, std::span<float> into) {
    CHAOS_ASSERT(into.size() == result_shape().floats() && task.step >= progress_.step);
    if (task.first) given_ = {};
    std::chrono::nanoseconds took{0};
    if (!task.more.empty() && !is_over(task.step)) {
        const auto begun = std::chrono::steady_clock::now();
        for (const SampleRange& range : task.more) {
            const bool last = &range == &task.more.back();
            CHAOS_TRY(const double loss, add_gradient(task.step, range, into, last ? task.ready : [](std::size_t) {}));
            const double count = range.end - range.begin;
            given_.loss = (given_.loss * given_.samples + loss * count) / (given_.samples + count);
            given_.samples += count;
        }
        took = std::chrono::steady_clock::now() - begun;
        const state::ResultDigest digest =
            state::digest_result(into.first(into.size() - tally_floats), engine_->manifest().parameter_elements());
        given_.norm = digest.norm * static_cast<double>(run_.train.batch) / given_.samples;
        if (!digest.finite_buffers) given_.norm = std::numeric_limits<double>::quiet_NaN();
    }
    given_.state = verification_due(task.step, *task.view) ? told_bits_of(root()) : 0.0F;
    CHAOS_TRY(const std::optional<compute::Measure> held_out, evaluate_part(task));
    const std::size_t slot = slot_of(place_of(*task.view, task.self), task.view->active_count(), task.step);
    write_tally(into.last(tally_floats), slot, given_, held_out);
    return took;
}

cluster::Name Trainer::apply(std::uint64_t step, const cluster::View& view, std::span<const float> result,
                             const state::ResultDigest& digest) {
    CHAOS_ASSERT(result.size() == result_shape().floats() && step >= progress_.step);
    const Tally tally = read_tally(result.last(tally_floats));
    outcome_ = {.record = {}, .skipped = false, .culprit = std::nullopt, .held_out = tally.held_out};
    outcome_.astray = astray(tally, view, step);
    if (hashed_ && hashed_->lineage == progress_.lineage) outcome_.root = hashed_->root;
    state::StepRecord& record = outcome_.record;
    record.step = step;
    record.view = view.name;
    if (is_over(step)) return progress_.lineage;
    CHAOS_ASSERT(step == progress_.step);

    record.pass = progress_.pass;
    record.index = progress_.index;
    record.samples = static_cast<std::uint64_t>(run_.train.batch);
    record.norm = digest.norm;
    record.loss = tally.loss;
    record.result_hash = digest.hash;
    outcome_.culprit = culprit_of(tally, view, step);
    outcome_.offenders = offenders_of(tally, view, step);
    // Whoever believes the run to be over contributes nothing: a sum without all samples is no gradient of the batch.
    outcome_.incomplete = tally.samples != static_cast<double>(run_.train.batch);
    outcome_.skipped = outcome_.culprit || outcome_.incomplete || !std::isfinite(digest.norm) || !digest.finite_buffers;
    record.scalars = outcome_.skipped ? state::skipped_update : state::update_scalars(run_, step, record.norm);
    state::apply_update(run_.optimizer, engine_->manifest(), record.scalars, result.first(result.size() - tally_floats),
                        engine_->arena());
    commit(record);
    return progress_.lineage;
}

void Trainer::arrive(std::uint64_t step, const Digest& lineage) {
    step = std::min(step, static_cast<std::uint64_t>(run_.train.steps));
    const data::Position position = position_of(step);
    progress_.step = step;
    progress_.pass = position.pass;
    progress_.index = position.index;
    progress_.lineage = lineage;
    blank_ = false;
}

Result<void> Trainer::begin_anew() {
    if (!run_.model.init_hash.empty())
        return Error{"the run begins anew, but the weights of model.init that it begins with are not on this node"};
    CHAOS_TRY(engine_, make_engine_(engine_options_));
    if (!run_.model.init.empty()) CHAOS_CHECK(load_initial_weights());
    arrive(0, run::hash(identity_));
    progress_.best_loss.reset();
    return {};
}

Result<compute::Measure> Trainer::evaluate(std::uint64_t begin, std::uint64_t end) {
    const auto part = static_cast<std::uint64_t>(run_.train.batch / run_.train.accumulate);
    compute::Measure total;
    for (std::uint64_t at = begin; at < end; at += part) {
        dataset_->fetch_held_out(at, std::min(part, end - at), batch_);
        CHAOS_TRY(const compute::Measure measure, engine_->evaluate(batch_));
        total.loss += measure.loss * static_cast<double>(measure.targets);
        if (measure.correct) total.correct = total.correct.value_or(0) + *measure.correct;
        total.targets += measure.targets;
    }
    if (total.targets > 0) total.loss /= static_cast<double>(total.targets);
    return total;
}

Result<std::optional<compute::Measure>> Trainer::evaluate() {
    if (dataset_->held_out_samples() == 0) return std::optional<compute::Measure>();
    CHAOS_TRY(const compute::Measure total, evaluate(0, dataset_->held_out_samples()));
    return std::optional(total);
}

bool Trainer::note_loss(double held_out_loss) {
    if (!std::isfinite(held_out_loss) || (progress_.best_loss && held_out_loss >= *progress_.best_loss)) return false;
    progress_.best_loss = held_out_loss;
    return true;
}

Result<void> Trainer::save(const std::filesystem::path& path) const {
    state::Progress now = progress_;
    now.threads = static_cast<std::uint64_t>(run_.train.threads);
    return state::save_checkpoint(path, identity_, engine_->manifest(), engine_->arena(), now);
}

Result<void> Trainer::resume(const std::filesystem::path& path) {
    CHAOS_TRY(progress_, state::load_checkpoint(path, identity_, engine_->manifest(), engine_->arena()));
    blank_ = false;
    return {};
}

}  // namespace chaos::elastic
