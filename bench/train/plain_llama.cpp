#include "plain_models.h"

namespace chaos::bench {
namespace {

namespace nn = torch::nn;

// cos and sin of every angle, {positions, head_width}: the second half repeats the first, as rotate_half pairs them.
struct Rotary {
    torch::Tensor cosine;
    torch::Tensor sine;

    Rotary(const run::Llama& llama, std::int64_t positions) {
        const torch::Tensor even = torch::arange(0, llama.head_width, 2, torch::kDouble);
        const torch::Tensor frequencies = torch::pow(llama.rope.theta, even.div(llama.head_width).neg());
        const torch::Tensor angles = torch::outer(torch::arange(positions, torch::kDouble), frequencies);
        const torch::Tensor both = torch::cat({angles, angles}, -1);
        cosine = both.cos().to(torch::kFloat32);
        sine = both.sin().to(torch::kFloat32);
    }

    // x: {batch, heads, positions, head_width}
    [[nodiscard]] torch::Tensor turn(const torch::Tensor& x) const {
        const std::vector<torch::Tensor> halves = x.chunk(2, -1);
        const torch::Tensor rotated = torch::cat({-halves[1], halves[0]}, -1);
        return x * cosine + rotated * sine;
    }
};

struct RmsNormImpl : nn::Module {
    RmsNormImpl(std::int64_t width, double norm_epsilon)
        : weight(register_parameter("weight", torch::ones(width))), epsilon(norm_epsilon) {}

    torch::Tensor forward(const torch::Tensor& x) const {
        return x * torch::rsqrt(x.square().mean(-1, /*keepdim=*/true) + epsilon) * weight;
    }

    torch::Tensor weight;
    double epsilon;
};
TORCH_MODULE(RmsNorm);

nn::Linear projection(std::int64_t in, std::int64_t out) {
    return nn::Linear(nn::LinearOptions(in, out).bias(false));
}

struct AttentionImpl : nn::Module {
    explicit AttentionImpl(const run::Llama& llama)
        : width(llama.head_width),
          q(register_module("q_proj", projection(llama.width, llama.heads * width))),
          k(register_module("k_proj", projection(llama.width, llama.heads * width))),
          v(register_module("v_proj", projection(llama.width, llama.heads * width))),
          out(register_module("o_proj", projection(llama.heads * width, llama.width))) {}

    // mask: {positions, positions}, minus infinity where a query must not look.
    torch::Tensor forward(const torch::Tensor& x, const Rotary& rotary, const torch::Tensor& mask) {
        const std::int64_t batch = x.size(0);
        const std::int64_t positions = x.size(1);
        const auto heads = [&](const torch::Tensor& rows) {
            return rows.view({batch, positions, -1, width}).transpose(1, 2);
        };
        const torch::Tensor queries = rotary.turn(heads(q(x))).flatten(0, 1);
        const torch::Tensor keys = rotary.turn(heads(k(x))).flatten(0, 1);
        const torch::Tensor values = heads(v(x)).flatten(0, 1);
        // Scale and mask inside the product: of the usual ways to write attention the fastest on LibTorch 1.13.
        const double scale = 1.0 / std::sqrt(static_cast<double>(width));
        const torch::Tensor scores = torch::baddbmm(mask, queries, keys.transpose(1, 2), /*beta=*/1.0, scale);
        const torch::Tensor mixed = torch::bmm(torch::softmax(scores, -1), values);
        return out(mixed.view({batch, -1, positions, width}).transpose(1, 2).reshape({batch, positions, -1}));
    }

    std::int64_t width;
    nn::Linear q, k, v, out;
};
TORCH_MODULE(Attention);

struct FeedForwardImpl : nn::Module {
    explicit FeedForwardImpl(const run::Llama& llama)
        : gate(register_module("gate_proj", projection(llama.width, llama.ffn))),
          up(register_module("up_proj", projection(llama.width, llama.ffn))),
          down(register_module("down_proj", projection(llama.ffn, llama.width))) {}

    torch::Tensor forward(const torch::Tensor& x) { return down(nn::functional::silu(gate(x)) * up(x)); }

    nn::Linear gate, up, down;
};
TORCH_MODULE(FeedForward);

struct LayerImpl : nn::Module {
    explicit LayerImpl(const run::Llama& llama)
        : norm1(register_module("input_layernorm", RmsNorm(llama.width, llama.norm_epsilon))),
          attention(register_module("self_attn", Attention(llama))),
          norm2(register_module("post_attention_layernorm", RmsNorm(llama.width, llama.norm_epsilon))),
          feed_forward(register_module("mlp", FeedForward(llama))) {}

    torch::Tensor forward(const torch::Tensor& x, const Rotary& rotary, const torch::Tensor& mask) {
        const torch::Tensor middle = x + attention(norm1(x), rotary, mask);
        return middle + feed_forward(norm2(middle));
    }

    RmsNorm norm1;
    Attention attention;
    RmsNorm norm2;
    FeedForward feed_forward;
};
TORCH_MODULE(Layer);

struct BodyImpl : nn::Module {
    BodyImpl(const run::Llama& llama, std::int64_t positions)
        : embedding(register_module("embed_tokens", nn::Embedding(llama.vocab, llama.width))),
          layers(register_module("layers", nn::ModuleList())),
          norm(register_module("norm", RmsNorm(llama.width, llama.norm_epsilon))),
          rotary(llama, positions),
          mask(torch::full({positions, positions}, -std::numeric_limits<float>::infinity()).triu(1)) {
        for (std::int64_t i = 0; i < llama.layers; ++i) layers->push_back(Layer(llama));
    }

    torch::Tensor forward(const torch::Tensor& tokens) {
        torch::Tensor x = embedding(tokens);
        for (const auto& layer : *layers) x = layer->as<LayerImpl>()->forward(x, rotary, mask);
        return norm(x);
    }

    nn::Embedding embedding;
    nn::ModuleList layers;
    RmsNorm norm;
    Rotary rotary;
    torch::Tensor mask;
};
TORCH_MODULE(Body);

struct LlamaImpl : nn::Module {
    LlamaImpl(const run::Llama& llama, std::int64_t positions)
        : body(register_module("model", Body(llama, positions))),
          head(register_module("lm_head", projection(llama.width, llama.vocab))) {}

    torch::Tensor forward(const torch::Tensor& tokens) { return head(body(tokens)); }

    Body body;
    nn::Linear head;
};
TORCH_MODULE(Llama);

}  // namespace

PlainModel plain_llama(const run::Run& run) {
    const std::int64_t positions = run.data.context;
    Llama llama(run.model.llama, positions);
    const auto loss = [llama, positions](const data::Batch& batch) mutable {
        const torch::Tensor logits = llama(tensor_of(batch.tokens, {batch.count, positions}));
        return nn::functional::cross_entropy(logits.flatten(0, 1), tensor_of(batch.targets, {batch.count * positions}));
    };
    return {llama.ptr(), loss};
}

}  // namespace chaos::bench
