#include "model_commands.h"

#include "cli/commands.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace chaos {
namespace {

constexpr const char* model_help = "A Hugging Face folder or a GGUF file";

// How much of the model may be in memory, and where the rest lies.
void add_memory(CLI::App& command, cli::MemoryOptions& options) {
    command
        .add_option("--memory", options.budget,
                    "Take no more than this in all, e.g. 2GB; weights that do not fit are streamed from disk")
        ->type_name("SIZE");
    command
        .add_option("--cache", options.cache,
                    "Keep weights for streaming in this folder (default: chaos in $XDG_CACHE_HOME or ~/.cache)")
        ->type_name("DIR");
    command
        .add_option("--cache-limit", options.cache_limit,
                    "Keep no more than this there; what was used longest ago is removed (default: 64GB)")
        ->type_name("SIZE");
}

void add_generate(CLI::App& program, Job& job) {
    auto options = std::make_shared<cli::GenerateOptions>();
    CLI::App* command = program.add_subcommand("generate", "Let a model continue a text");
    command->add_option("model", options->model, model_help)->required()->type_name("MODEL");
    CLI::Option* prompt = command->add_option("--prompt", options->prompt, "The text to continue")->type_name("TEXT");
    CLI::Option* ids =
        command->add_option("--ids", options->ids, "The same as token ids, e.g. 1,2,3")->type_name("IDS");
    prompt->excludes(ids);
    command->add_option("--max-tokens", options->max_tokens, "At most so many tokens (default: 256)")
        ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
        ->type_name("N");
    command->add_option("--temperature", options->temperature, "0: always the most likely token (default)")
        ->type_name("T");
    command->add_option("--top-k", options->top_k, "Only the K most likely tokens")->type_name("K");
    command->add_option("--top-p", options->top_p, "Only the most likely that together have probability P")
        ->type_name("P");
    command->add_option("--min-p", options->min_p, "Only those at least P times as likely as the most likely")
        ->type_name("P");
    command->add_option("--seed", options->seed, "Which random numbers (default: 0)")->type_name("N");
    command->add_option("--stop", options->stop, "End before this text; may be repeated")
        ->type_name("TEXT")
        ->allow_extra_args(false);
    command->add_flag("--ignore-eos", options->ignore_eos, "Go on when the model ends the text");
    command->add_flag("--no-speculation", options->no_speculation,
                      "Compute token by token, without guesses from the context; the tokens are the same");
    command->add_option("--threads", options->threads, "Default: one per core")->type_name("N");
    command->add_option("--kv", options->kv, "Keep keys and values as f16 (default) or f32")->type_name("TYPE");
    add_memory(*command, options->memory);
    command->add_flag("--json", options->json,
                      "Print one JSON object at the end: ids, text, ending, tokens_per_second");
    command->footer(
        "The text is shown as it comes. `ids` and `text` of --json are what was added to the prompt, whose own ids are "
        "in\n"
        "`prompt_ids`; `ending` is stop, length, or context: the model's context is full, and nothing is forgotten to\n"
        "make room. The same model, prompt and seed give the same tokens on every machine.\n\n"
        "Examples:\n"
        "  chaos generate my-model --prompt \"Once upon a time\" --max-tokens 100\n"
        "  chaos generate llama.gguf --prompt \"A haiku:\" --temperature 0.8 --top-p 0.95 --seed 7\n"
        "  chaos generate my-model --ids 1,15043 --max-tokens 48 --ignore-eos --json\n");
    command->callback([&job, options, prompt, ids] {
        if (prompt->count() == 0 && ids->count() == 0) throw CLI::RequiredError("--prompt or --ids");
        job = [options] { return cli::generate(*options); };
    });
}

void add_eval(CLI::App& program, Job& job) {
    auto options = std::make_shared<cli::EvalOptions>();
    CLI::App* command = program.add_subcommand("eval", "Tell how likely a model finds a text");
    command->add_option("model", options->model, model_help)->required()->type_name("MODEL");
    CLI::Option* ids =
        command->add_option("--ids", options->ids, "The text as token ids, e.g. 1,2,3")->type_name("IDS");
    CLI::Option* file =
        command->add_option("--text-file", options->text_file, "A file with the text")->type_name("FILE");
    file->excludes(ids);
    command->add_option("--context", options->context, "Tokens of a window (default: as many as the model can)")
        ->type_name("N");
    command->add_option("--threads", options->threads, "Default: one per core")->type_name("N");
    command->add_option("--kv", options->kv, "Keep keys and values as f32 (default) or f16, as generate does")
        ->type_name("TYPE");
    add_memory(*command, options->memory);
    command->add_flag("--json", options->json,
                      "Print a JSON object: mean_nll, last_logits, tokens, predicted, windows");
    command->footer(
        "mean_nll is the mean negative log-likelihood of every token but the first, in nats; last_logits are those "
        "behind\n"
        "the last token. A text longer than the context is cut into windows, and each begins anew.\n\n"
        "Examples:\n"
        "  chaos eval my-model --text-file book.txt\n"
        "  chaos eval llama-q4_0.gguf --ids 1,15043,3186 --json\n");
    command->callback([&job, options, ids, file] {
        if (ids->count() == 0 && file->count() == 0) throw CLI::RequiredError("--ids or --text-file");
        job = [options] { return cli::evaluate(*options); };
    });
}

void add_quantize(CLI::App& program, Job& job) {
    auto options = std::make_shared<cli::QuantizeOptions>();
    CLI::App* command = program.add_subcommand("quantize", "Write a model as a smaller GGUF file");
    command->add_option("model", options->model, model_help)->required()->type_name("IN");
    command->add_option("target", options->target, "The file to write")->required()->type_name("OUT.gguf");
    command->add_option("--type", options->type, "q4_0 (4.5 bits per weight), q8_0 (8.5) or f16 (16)")
        ->required()
        ->type_name("TYPE");
    command->footer(
        "Matrices whose rows are no multiple of 32 stay F16, norms and biases F32. The tokenizer and the chat template "
        "are\n"
        "inside. docs/models.md says which models and types are supported.\n\n"
        "Example:\n"
        "  chaos quantize my-model my-model-q4_0.gguf --type q4_0\n");
    command->callback([&job, options] { job = [options] { return cli::quantize(*options); }; });
}

std::string context_help() {
    return "Tokens of a conversation (default: the model's, at most " + std::to_string(cli::usual_context_tokens) + ")";
}

void add_compute_options(CLI::App& command, cli::ComputeOptions& options) {
    command.add_option("--threads", options.threads, "Default: one per core")->type_name("N");
    command.add_option("--context", options.context, context_help())->type_name("N");
    add_memory(command, options.memory);
}

void add_serve(CLI::App& program, Job& job) {
    auto options = std::make_shared<cli::ServeOptions>();
    CLI::App* command = program.add_subcommand("serve", "Let a model answer over HTTP, as OpenAI's API does");
    command
        ->add_option("model", options->model,
                     std::string(model_help) + "; with --join it may be left out: this node gets its part from others")
        ->type_name("MODEL");
    command->add_option("--listen", options->listen, "Where (default: 127.0.0.1:8080, for this machine only)")
        ->type_name("ADDR");
    command->add_option("--api-key", options->api_keys, "Clients must have this key; may be repeated")
        ->type_name("KEY")
        ->allow_extra_args(false);
    command->add_option("--api-key-file", options->api_key_file, "The same, one key in each line")->type_name("FILE");
    add_compute_options(*command, options->compute);
    command->add_option("--parallel", options->compute.parallel, "Requests computed at once (default: 4)")
        ->check(CLI::Range(1, 128))
        ->type_name("N");
    command->add_option("--dir", options->dir, "Compute with other nodes; this node's folder (default: node)")
        ->type_name("DIR");
    command->add_option("--join", options->join, "... those of the node that answers at this address; may be repeated")
        ->type_name("ADDR");
    command->add_option("--local", options->local, "Divide the model over N processes of this machine, to try it")
        ->check(CLI::Range(1, 64))
        ->type_name("N");
    command
        ->add_option("--address", options->address,
                     "What other nodes are told to dial (default: where it listens, by this machine's own address; "
                     "behind NAT, say it)")
        ->type_name("ADDR");
    command->add_option("--token", options->token, "A join token, by which this node is let in")->type_name("WORD");
    command->add_option("--certificate", options->certificate, "A certificate of this node's key, likewise")
        ->type_name("WORD");
    command->add_option("--institution", options->institution, "Which institution of this machine vouches for it")
        ->type_name("NAME");
    command->add_option("--detect-ms", options->detect_ms, "Silence that fails a link to a node (default: 1000)")
        ->check(CLI::Range(50, 600'000))
        ->type_name("MS");
    command->add_flag("--everyone", options->everyone,
                      "All nodes compute, even where fewer were faster (as the longest-standing node has it)");
    command->footer(
        "/v1/models, /v1/chat/completions and /v1/completions are OpenAI's, / is a page to chat, /metrics is for\n"
        "Prometheus, /livez and /readyz are for whoever watches over it. docs/serving.md says more.\n"
        "Ctrl-C lets answers under way finish; a second Ctrl-C does not.\n\n"
        "Examples:\n"
        "  chaos serve my-model\n"
        "  chaos serve llama-q4_0.gguf --listen 0.0.0.0:8080 --api-key-file keys --parallel 8\n"
        "  chaos serve my-model --dir a                               # with others, who join by the same address:\n"
        "  chaos serve --dir b --listen :8081 --join 127.0.0.1:8080   # needs no files: gets its part of the model\n");
    command->callback([&job, options] { job = [options] { return cli::serve(*options); }; });
}

void add_plan(CLI::App& program, Job& job) {
    auto options = std::make_shared<cli::PlanOptions>();
    CLI::App* command = program.add_subcommand("plan", "Tell how devices would serve a model together, and how fast");
    command->add_option("--serve", options->model, "The model; a folder with config.json is enough, with --type")
        ->required()
        ->type_name("MODEL");
    command->add_option("--devices", options->devices, "The devices, which need not exist, and their links")
        ->required()
        ->type_name("DEVICES.toml");
    command->add_option("--context", options->context, context_help())->type_name("N");
    command->add_option("--parallel", options->parallel, "Requests computed at once (default: 4)")
        ->check(CLI::Range(1, 128))
        ->type_name("N");
    command->add_option("--type", options->type, "As if weights were kept as q4_0, q8_0, f16, bf16 or f32")
        ->type_name("TYPE");
    command
        ->add_option("--exchange", options->exchanges,
                     "Only these ways to add up: direct, scatter, star, tree (default: direct,star,tree)")
        ->delimiter(',')
        ->type_name("NAMES");
    command->add_flag("--json", options->json, "Print a JSON object");
    command->footer(
        "Shows what each device would have of the model, its memory, the exchange and why, and the time per token: as\n"
        "predicted, and as a simulation of some tokens has it. docs/serving.md says what the file may contain.\n\n"
        "Example, with devices.toml:\n"
        "  [devices.pi]\n"
        "  count = 8\n"
        "  memory = \"4GB\"\n"
        "  speed = \"8GB/s\"\n"
        "  disk = \"0.4GB/s\"\n"
        "  network = \"1Gb/s\"\n"
        "  [links]\n"
        "  rate = \"1Gb/s\"\n"
        "  delay = \"0.2ms\"\n\n"
        "  chaos plan --serve llama-70b --type q4_0 --devices devices.toml --context 2048 --parallel 1\n");
    command->callback([&job, options] { job = [options] { return cli::plan_serving(*options); }; });
}

void add_chat(CLI::App& program, Job& job) {
    auto options = std::make_shared<cli::ChatOptions>();
    CLI::App* command = program.add_subcommand("chat", "Talk to a model");
    command->add_option("model", options->model, model_help)->required()->type_name("MODEL");
    command->add_option("--system", options->system, "Instructions to the model")->type_name("TEXT");
    command->add_option("--temperature", options->temperature, "0: always the most likely token (default: 0.7)")
        ->check(CLI::Range(0.0, 2.0))
        ->type_name("T");
    command->add_option("--seed", options->seed, "Which random numbers (default: any)")->type_name("N");
    command->add_option("--max-tokens", options->max_tokens, "Of an answer (default: as long as it takes)")
        ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
        ->type_name("N");
    add_compute_options(*command, options->compute);
    command->footer(
        "Ctrl-C stops an answer, /new begins a new conversation, Ctrl-D ends.\n\n"
        "Example:\n  chaos chat my-model --system \"Answer in one sentence.\"\n");
    command->callback([&job, options] { job = [options] { return cli::chat(*options); }; });
}

}  // namespace

void add_model_commands(CLI::App& program, Job& job) {
    add_generate(program, job);
    add_eval(program, job);
    add_quantize(program, job);
    add_serve(program, job);
    add_plan(program, job);
    add_chat(program, job);
}

}  // namespace chaos
