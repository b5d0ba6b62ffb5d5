#include "serve/model_generator.h"

#include "infer/stop_strings.h"
#include "serve/api.h"
#include "serve/waiting.h"
#include "text/streaming_decoder.h"
#include "text/utf8.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>

namespace chaos::serve {
namespace {

using Clock = std::chrono::steady_clock;

// A task on its way. Each thread touches it in its turn: the one that starts it, the text thread, the engine thread.
struct Job {
    Ticket ticket = 0;
    Task task;
    Sink sink;
    std::vector<TokenId> prompt;
    std::optional<infer::Scheduler::Id> id;  // in the scheduler
    Clock::time_point begun;                 // there
};
using JobPtr = std::shared_ptr<Job>;

// What the API lets pass is not refused by who computes it.
static_assert(max_biased_tokens <= infer::max_biased_tokens && max_top_logprobs <= infer::max_top);

infer::Request request_of(const Job& job, std::size_t context) {
    const Sampling& wanted = job.task.sampling;
    infer::Request request;
    request.prompt = job.prompt;
    request.max_tokens = std::min(job.task.max_tokens.value_or(context), context);
    request.sampling = {.temperature = wanted.temperature,
                        .top_k = wanted.top_k,
                        .top_p = wanted.top_p,
                        .min_p = wanted.min_p,
                        .seed = wanted.seed ? *wanted.seed : std::random_device{}()};
    request.preferences = {.bias = wanted.bias,
                           .presence_penalty = wanted.presence_penalty,
                           .frequency_penalty = wanted.frequency_penalty};
    request.wanted = {.logprob = job.task.logprobs, .top = job.task.top_logprobs};
    request.ignore_end = job.task.ignore_end;
    return request;
}

// Turns the tokens of one task into pieces of text.
class Telling {
public:
    Telling(const text::Tokenizer& tokenizer, const std::vector<std::int64_t>& ends, JobPtr job)
        : tokenizer_(tokenizer),
          ends_(ends),
          job_(std::move(job)),
          decoder_(tokenizer, text_before(*job_)),
          stop_(job_->task.stop) {}

    // False: a stop text was found.
    bool take(const infer::Sampled& sampled) {
        const bool is_end =
            !job_->task.ignore_end && std::find(ends_.begin(), ends_.end(), sampled.token) != ends_.end();
        if (is_end) return true;  // it is not part of the text
        if (job_->task.logprobs) tokens_.push_back(chosen(sampled));
        say(stop_.push(decoder_.push(sampled.token)));
        return !stop_.stopped();
    }
    void end(const infer::Ended& ended) {
        if (ended.ending == infer::Ending::cancelled) return;
        if (ended.ending == infer::Ending::failed) return job_->sink(Failed{Failed::Kind::engine, ended.error});
        if (!stop_.stopped()) {
            std::string rest = stop_.push(decoder_.finish());
            if (!stop_.stopped()) rest += stop_.finish();
            say(rest);
        }
        if (!tokens_.empty()) job_->sink(Piece{"", std::move(tokens_)});
        const bool stopped = ended.ending == infer::Ending::stop || stop_.stopped();
        job_->sink(Finished{stopped ? Finished::Reason::stop : Finished::Reason::length, ended.prompt_tokens,
                            ended.reused_tokens, ended.tokens});
    }
    [[nodiscard]] const JobPtr& job() const { return job_; }

private:
    void say(std::string text) {
        if (!text.empty()) job_->sink(Piece{std::move(text), std::exchange(tokens_, {})});
    }
    // A text goes on as behind its prompt; an answer in a conversation is a text of its own.
    static std::span<const TokenId> text_before(const Job& job) {
        if (std::holds_alternative<Conversation>(job.task.prompt)) return {};
        return job.prompt;
    }
    [[nodiscard]] ChosenToken chosen(const infer::Sampled& sampled) const {
        ChosenToken token{{tokenizer_.bytes_of(sampled.token), sampled.logprob}, {}};
        for (const infer::Likelihood& each : sampled.top)
            token.top.push_back({tokenizer_.bytes_of(each.token), each.logprob});
        return token;
    }

    const text::Tokenizer& tokenizer_;
    const std::vector<std::int64_t>& ends_;
    JobPtr job_;
    text::Continuation decoder_;
    infer::StopStrings stop_;
    std::vector<ChosenToken> tokens_;  // whose text has not been shown yet
};

}  // namespace

class ModelGenerator::Threads {
public:
    Threads(std::unique_ptr<infer::Writer> writer, const infer::Config& config, text::Tokenizer tokenizer,
            Format format, const ModelGeneratorOptions& options)
        : writer_(std::move(writer)),
          end_tokens_(config.eos_tokens),
          tokenizer_(std::move(tokenizer)),
          format_(format ? std::move(*format) : std::nullopt),
          options_(options),
          facts_{.model = options.name,
                 .created = std::time(nullptr),
                 .context = options.context,
                 .vocab = static_cast<std::size_t>(config.vocab),
                 .chat = format_.has_value(),
                 .chat_problem = format ? "" : format.error().message},
          text_thread_([this] { prepare(); }),
          engine_thread_([this] { compute(); }) {}

    ~Threads() {
        {
            const std::scoped_lock lock(mutex_);
            ending_ = true;
        }
        text_wanted_.notify_all();
        engine_wanted_.notify_all();
        writer_->wake();
        text_thread_.join();
        engine_thread_.join();
    }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    [[nodiscard]] const Facts& facts() const { return facts_; }
    std::variant<Ticket, Busy> start(Task task, Sink sink);
    void cancel(Ticket ticket);
    [[nodiscard]] Load load() const;

private:
    // Of the text thread.
    void prepare();
    [[nodiscard]] std::optional<Failed> tokenize(Job& job) const;
    [[nodiscard]] std::size_t characters_of(const Job& job) const;
    // Of the engine thread.
    void compute();
    void submit(const JobPtr& job);
    void ended(const JobPtr& job, const infer::Ended& end);

    void wake_engine();

    const std::unique_ptr<infer::Writer> writer_;  // of the engine thread
    const std::vector<std::int64_t> end_tokens_;
    const text::Tokenizer tokenizer_;
    const std::optional<text::ChatFormat> format_;
    const ModelGeneratorOptions options_;
    const Facts facts_;

    mutable std::mutex mutex_;  // whoever starts and cancels tasks meets both threads here; nobody computes under it
    std::condition_variable text_wanted_;
    std::condition_variable engine_wanted_;
    std::map<Ticket, JobPtr> jobs_;  // that have not ended
    std::deque<JobPtr> texts_;       // to be tokenized
    Waiting<JobPtr> waiting_;        // for a sequence
    std::vector<JobPtr> cancelled_;  // in the scheduler
    std::size_t running_ = 0;
    Load totals_;
    double job_seconds_ = 1.0;  // how long one takes, lately
    Ticket next_ticket_ = 1;
    bool ending_ = false;

    std::thread text_thread_;
    std::thread engine_thread_;
};

std::variant<Ticket, Busy> ModelGenerator::Threads::start(Task task, Sink sink) {
    const std::scoped_lock lock(mutex_);
    if (jobs_.size() >= options_.parallel + options_.max_waiting) {
        const double turns = static_cast<double>(jobs_.size()) / static_cast<double>(options_.parallel);
        return Busy{static_cast<unsigned>(std::clamp(std::ceil(turns * job_seconds_), 1.0, 60.0))};
    }
    auto job = std::make_shared<Job>();
    job->ticket = next_ticket_++;
    job->task = std::move(task);
    job->sink = std::move(sink);
    jobs_.emplace(job->ticket, job);
    texts_.push_back(job);
    text_wanted_.notify_one();
    return job->ticket;
}

void ModelGenerator::Threads::cancel(Ticket ticket) {
    const std::scoped_lock lock(mutex_);
    const auto found = jobs_.find(ticket);
    if (found == jobs_.end()) return;
    const JobPtr job = found->second;
    jobs_.erase(found);
    if (std::erase(texts_, job) > 0 || waiting_.erase(job)) return;
    // The text thread has it, and will find out; or the scheduler.
    cancelled_.push_back(job);
    wake_engine();
}

Load ModelGenerator::Threads::load() const {
    const std::scoped_lock lock(mutex_);
    Load load = totals_;
    load.running = running_;
    load.waiting = jobs_.size() - std::min(jobs_.size(), running_);
    return load;
}

// It waits here, or for others who compute.
void ModelGenerator::Threads::wake_engine() {
    engine_wanted_.notify_one();
    writer_->wake();
}

void ModelGenerator::Threads::prepare() {
    std::unique_lock lock(mutex_);
    while (true) {
        text_wanted_.wait(lock, [this] { return ending_ || !texts_.empty(); });
        if (ending_) return;
        const JobPtr job = texts_.front();
        texts_.pop_front();
        lock.unlock();
        const std::optional<Failed> failed = tokenize(*job);
        if (failed)
            job->sink(*failed);
        else
            job->sink(Begun{job->prompt.size(), characters_of(*job)});
        lock.lock();
        if (failed) jobs_.erase(job->ticket);
        if (!jobs_.contains(job->ticket)) continue;  // cancelled meanwhile
        waiting_.push(job->task.client, job);
        wake_engine();
    }
}

std::optional<Failed> ModelGenerator::Threads::tokenize(Job& job) const {
    if (const auto* said = std::get_if<Conversation>(&job.task.prompt)) {
        text::Conversation conversation;
        conversation.messages = said->messages;
        conversation.variables = said->variables;
        const auto rendered = format_->render(conversation, text::local_time());
        if (!rendered) return Failed{Failed::Kind::prompt, rendered.error().message};
        job.prompt = tokenizer_.encode(*rendered, false);
    } else if (const auto* text = std::get_if<std::string>(&job.task.prompt)) {
        job.prompt = tokenizer_.encode(*text);
    } else {
        job.prompt = std::get<std::vector<TokenId>>(job.task.prompt);
    }
    if (job.prompt.empty()) return Failed{Failed::Kind::prompt, "The prompt is empty: there is nothing to continue."};
    if (job.prompt.size() > options_.context)
        return Failed{Failed::Kind::too_long, "The context has room for " + std::to_string(options_.context) +
                                                  " tokens, but the prompt has " + std::to_string(job.prompt.size()) +
                                                  "."};
    return {};
}

std::size_t ModelGenerator::Threads::characters_of(const Job& job) const {
    if (!job.task.logprobs || std::holds_alternative<Conversation>(job.task.prompt)) return 0;
    const auto* text = std::get_if<std::string>(&job.task.prompt);
    return text::count_characters(text != nullptr ? *text : tokenizer_.decode(job.prompt));
}

void ModelGenerator::Threads::compute() {
    std::unique_lock lock(mutex_);
    while (true) {
        engine_wanted_.wait(lock,
                            [this] { return ending_ || running_ > 0 || !waiting_.empty() || !cancelled_.empty(); });
        if (ending_) return;
        std::vector<JobPtr> begin;
        const std::vector<JobPtr> cancel = std::exchange(cancelled_, {});
        const std::size_t leaving = static_cast<std::size_t>(
            std::count_if(cancel.begin(), cancel.end(), [](const JobPtr& job) { return job->id.has_value(); }));
        for (; running_ - leaving + begin.size() < options_.parallel && !waiting_.empty();)
            begin.push_back(waiting_.pop());
        running_ += begin.size();
        lock.unlock();
        for (const JobPtr& job : cancel)
            if (job->id) writer_->cancel(*job->id);
        for (const JobPtr& job : begin) submit(job);
        const bool computed = writer_->step();
        lock.lock();
        if (computed) ++totals_.batches;
    }
}

void ModelGenerator::Threads::submit(const JobPtr& job) {
    const auto telling = std::make_shared<Telling>(tokenizer_, end_tokens_, job);
    job->begun = Clock::now();
    const auto id = writer_->submit(request_of(*job, options_.context),
                                    {[telling](const infer::Sampled& sampled) { return telling->take(sampled); },
                                     [this, telling](const infer::Ended& end) {
                                         ended(telling->job(), end);
                                         telling->end(end);
                                     }});
    if (id) {
        job->id = *id;
        return;
    }
    const std::string why = id.error().message;
    ended(job, {});
    job->sink(Failed{Failed::Kind::prompt, why});
}

// Before the last event: who hears it may ask how much there is to do.
void ModelGenerator::Threads::ended(const JobPtr& job, const infer::Ended& end) {
    const std::scoped_lock lock(mutex_);
    --running_;
    waiting_.done(job->task.client);
    jobs_.erase(job->ticket);
    totals_.prompt_tokens += end.prompt_tokens - end.reused_tokens;
    totals_.cached_tokens += end.reused_tokens;
    totals_.completion_tokens += end.tokens;
    constexpr double weight = 0.1;
    job_seconds_ += weight * (std::chrono::duration<double>(Clock::now() - job->begun).count() - job_seconds_);
    job->id.reset();
}

Result<std::unique_ptr<ModelGenerator>> ModelGenerator::make(infer::Engine& engine, text::Tokenizer tokenizer,
                                                             Format format, const ModelGeneratorOptions& options) {
    CHAOS_TRY(auto scheduler,
              infer::Scheduler::make(engine, {.sequences = options.parallel, .context = options.context}));
    return make(std::make_unique<infer::Scheduler>(std::move(scheduler)), engine.config(), std::move(tokenizer),
                std::move(format), options);
}

std::unique_ptr<ModelGenerator> ModelGenerator::make(std::unique_ptr<infer::Writer> writer, const infer::Config& config,
                                                     text::Tokenizer tokenizer, Format format,
                                                     const ModelGeneratorOptions& options) {
    auto threads =
        std::make_unique<Threads>(std::move(writer), config, std::move(tokenizer), std::move(format), options);
    return std::unique_ptr<ModelGenerator>(new ModelGenerator(std::move(threads)));
}

ModelGenerator::ModelGenerator(std::unique_ptr<Threads> threads) : threads_(std::move(threads)) {}

ModelGenerator::~ModelGenerator() = default;

const Facts& ModelGenerator::facts() const {
    return threads_->facts();
}

std::variant<Ticket, Busy> ModelGenerator::start(Task task, Sink sink) {
    return threads_->start(std::move(task), std::move(sink));
}

void ModelGenerator::cancel(Ticket ticket) {
    threads_->cancel(ticket);
}

Load ModelGenerator::load() const {
    return threads_->load();
}

}  // namespace chaos::serve
