// What clients ask for over HTTP: bodies of OpenAI's API, and the answers that repeat parts of them.
#include "serve/api.h"
#include "base/assert.h"
#include "fuzz/seeds.h"

#include <string_view>

namespace {

using namespace chaos;
using namespace chaos::serve;

const Facts facts{.model = "parrot", .created = 1, .context = 1000, .vocab = 100, .chat = true};

bool is_json(std::string_view text) {
    return nlohmann::json::accept(text);
}

void check_task(const Task& task) {
    CHAOS_ASSERT(!task.max_tokens || *task.max_tokens >= 1);
    CHAOS_ASSERT(task.stop.size() <= max_stops && task.top_logprobs <= max_top_logprobs);
    for (const std::string& stop : task.stop) CHAOS_ASSERT(!stop.empty() && stop.size() <= max_stop_bytes);
    CHAOS_ASSERT(task.sampling.temperature >= 0.0 && task.sampling.temperature <= 2.0);
    CHAOS_ASSERT(task.sampling.top_p >= 0.0 && task.sampling.top_p <= 1.0 && task.sampling.top_k >= 0);
    for (const auto& [token, amount] : task.sampling.bias)
        CHAOS_ASSERT(token >= 0 && token < 100 && amount >= -100.0 && amount <= 100.0);
    if (const auto* tokens = std::get_if<std::vector<TokenId>>(&task.prompt))
        for (const TokenId token : *tokens) CHAOS_ASSERT(token >= 0 && token < 100);
    if (const auto* said = std::get_if<Conversation>(&task.prompt))
        for (const auto& message : said->messages) CHAOS_ASSERT(message.at("role").is_string());
}

// The model says anything, half characters too.
void check_answer(Form form, const Ask& ask, std::string_view said) {
    const std::string word(said.substr(0, 64));
    const Piece piece{word, {{{word, -0.5}, {{word, -0.5}}}}};
    const Finished finished{Finished::Reason::stop, 1, 0, 2};
    AnswerWriter writer(form, ask, facts, "id", 1);
    if (!ask.stream) {
        CHAOS_ASSERT(is_json(writer.whole({piece, piece}, finished)));
        return;
    }
    const std::string text = writer.first_event() + writer.event(piece) + writer.last_events(finished);
    for (std::string_view events = text; !events.starts_with("data: [DONE]\n\n");) {
        const std::size_t end = events.find("\n\n");
        CHAOS_ASSERT(events.starts_with("data: ") && end != std::string_view::npos);
        CHAOS_ASSERT(is_json(events.substr(6, end - 6)));
        events.remove_prefix(end + 2);
    }
}

}  // namespace

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    for (const std::string_view text : {
             std::string_view(
                 R"(c{"model":"parrot","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":)"
                 R"([{"type":"text","text":"Hi"}]}],"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":7,)"
                 R"("max_completion_tokens":9,"stop":["a","b"],"logprobs":true,"top_logprobs":2,"stream":true,)"
                 R"("stream_options":{"include_usage":true},"logit_bias":{"7":-1.5},"n":1,"tools":[],)"
                 R"("response_format":{"type":"text"},"presence_penalty":1,"frequency_penalty":-1})"),
             std::string_view(
                 R"(t{"prompt":"Once","max_tokens":5,"logprobs":3,"stop":"x","echo":false,"suffix":"","best_of":1})"),
             std::string_view(R"(t{"prompt":[[1,2,3]],"stream":true,"ignore_eos":true})"),
         })
        seeds.emplace_back(text.begin(), text.end());
    return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
    const Form form = data[0] % 2 == 0 ? Form::text : Form::chat;
    const auto parsed = parse_ask(form, body, facts);
    if (const auto* error = std::get_if<ApiError>(&parsed)) {
        CHAOS_ASSERT(error->status >= 400 && error->status < 500 && is_json(error_body(*error)));
        return 0;
    }
    const Ask& ask = std::get<Ask>(parsed);
    check_task(ask.task);
    check_answer(form, ask, body);
    return 0;
}
