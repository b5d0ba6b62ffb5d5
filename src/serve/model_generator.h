// The generator that computes. Two threads of its own: one turns conversations and texts into tokens, one drives the
// infer::Scheduler, which computes several tasks in one batch.
//
//   start ──► [text thread: template, tokens] ──► waiting, by client ──► [engine thread: scheduler.step()] ──► events
//
// Tasks wait here, not in the scheduler: it gets one when it has a sequence free, namely the oldest task of the client
// with the fewest tasks running. So a client that asks for much at once only keeps itself waiting.
#pragma once

#include "base/result.h"
#include "infer/engine.h"
#include "infer/scheduler.h"
#include "serve/generator.h"
#include "text/chat.h"

#include <memory>
#include <optional>
#include <string>

namespace chaos::serve {

struct ModelGeneratorOptions {
    std::string name;              // of the model
    std::size_t parallel = 4;      // tasks computed at once
    std::size_t context = 0;       // tokens of each
    std::size_t max_waiting = 64;  // tasks beyond those
};

class ModelGenerator : public Generator {
public:
    // Without a format a model completes texts only, and where one cannot be used, facts() say why.
    using Format = Result<std::optional<text::ChatFormat>>;
    // `engine` must outlive it.
    static Result<std::unique_ptr<ModelGenerator>> make(infer::Engine& engine, text::Tokenizer tokenizer, Format format,
                                                        const ModelGeneratorOptions& options);
    // By whoever writes the texts of a model like that; it is called by the engine thread alone.
    static std::unique_ptr<ModelGenerator> make(std::unique_ptr<infer::Writer> writer, const infer::Config& config,
                                                text::Tokenizer tokenizer, Format format,
                                                const ModelGeneratorOptions& options);
    // Tasks that have not ended are cancelled.
    ~ModelGenerator() override;
    ModelGenerator(const ModelGenerator&) = delete;
    ModelGenerator& operator=(const ModelGenerator&) = delete;

    [[nodiscard]] const Facts& facts() const override;
    [[nodiscard]] std::variant<Ticket, Busy> start(Task task, Sink sink) override;
    void cancel(Ticket ticket) override;
    [[nodiscard]] Load load() const override;

private:
    class Threads;
    explicit ModelGenerator(std::unique_ptr<Threads> threads);
    std::unique_ptr<Threads> threads_;
};

}  // namespace chaos::serve
