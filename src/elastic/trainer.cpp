#include "elastic/trainer.h"

#include "base/file.h"
#include "state/hugging_face.h"
#include "state/update.h"

#include <sched.h>
#include <algorithm>
#include <cmath>

namespace chaos::elastic {
namespace {

// Cores this process may be scheduled on, which can be fewer than the machine has.
int usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return std::max(1, CPU_COUNT(&set));
}

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

Result<Trainer> Trainer::open(const run::Run& run) {
    Trainer trainer;
    trainer.run_ = run;
    run::Run& resolved = trainer.run_;
    if (resolved.train.threads == 0) resolved.train.threads = usable_cores();
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

    CHAOS_TRY(const auto plugin, compute::Plugin::load());
    trainer.advice_ = plugin.advice();
    compute::EngineOptions options;
    options.model = resolved.model;
    options.sample = trainer.dataset_->shape();
    options.seed = resolved.train.seed;
    options.threads = static_cast<int>(resolved.train.threads);
    options.slots = state::slots_of(resolved.optimizer);
    CHAOS_TRY(trainer.engine_, plugin.make_engine(options));

    trainer.identity_ = run::identity(resolved);
    trainer.identity_["data.content"] = hex(trainer.dataset_->content_hash());
    if (!resolved.model.init.empty()) {
        state::Arena& arena = trainer.engine_->arena();
        CHAOS_CHECK(state::read_weights(resolved.model.init, trainer.engine_->manifest(), arena));
        trainer.identity_["model.init"] = hex(Sha256().add(std::as_bytes(arena.parameters())).finish());
    }
    if (!resolved.model.path.empty()) {
        CHAOS_TRY(const auto file, MappedFile::open(resolved.model.path));
        trainer.identity_["model.path"] = hex(Sha256().add(file.bytes()).finish());
    }
    trainer.progress_.lineage = run::hash(trainer.identity_);
    trainer.progress_.threads = static_cast<std::uint64_t>(resolved.train.threads);
    return trainer;
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

Result<state::StepRecord> Trainer::step() {
    const std::uint64_t samples = dataset_->train_samples();
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
        fetch(data::advance(begin, done, samples), part);
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

    const data::Position end = data::advance(begin, batch, samples);
    progress_.step += 1;
    progress_.pass = end.pass;
    progress_.index = end.index;
    progress_.lineage = state::extend_lineage(progress_.lineage, record);
    return record;
}

Result<std::optional<compute::Measure>> Trainer::evaluate() {
    const std::uint64_t all = dataset_->held_out_samples();
    if (all == 0) return std::optional<compute::Measure>();
    const auto part = static_cast<std::uint64_t>(run_.train.batch / run_.train.accumulate);
    compute::Measure total;
    for (std::uint64_t begin = 0; begin < all; begin += part) {
        dataset_->fetch_held_out(begin, std::min(part, all - begin), batch_);
        CHAOS_TRY(const compute::Measure measure, engine_->evaluate(batch_));
        total.loss += measure.loss * static_cast<double>(measure.targets);
        if (measure.correct) total.correct = total.correct.value_or(0) + *measure.correct;
        total.targets += measure.targets;
    }
    total.loss /= static_cast<double>(total.targets);
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
    return {};
}

}  // namespace chaos::elastic
