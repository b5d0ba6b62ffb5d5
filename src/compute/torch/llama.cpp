// The llama engine: forward and backward written out, on one workspace that is laid out once per batch size. Weight
// gradients go straight into the result; nothing is allocated in a step.
//
//   x --+-- norm -- qkv -- rope -- attention -- out --(+)--+-- norm -- gate,up -- swiglu -- down --(+)-- x of next
//   layer
//       +--------------------------------------------/     +-----------------------------------/
//
// The query, key and value matrices of a layer lie behind each other in the arena, and so do gate and up: each group
// is one product. The sum of a residual branch is taken by the norm that reads it next.

#include "compute/torch/attention.h"
#include "compute/torch/gemm.h"
#include "compute/torch/guard.h"
#include "compute/torch/kernels.h"
#include "compute/torch/models.h"

#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

namespace chaos::compute {
namespace {

// Logits of this many rows at a time: with a large vocabulary they would be the largest matrix of all.
constexpr std::int64_t head_rows = 512;

// Where a layer's parameters start, in floats; the same in the arena and in the gradient.
struct LayerOffsets {
    std::uint64_t norm1, qkv, out, norm2, gate_up, down;
};

struct Offsets {
    std::uint64_t embedding = 0;
    std::vector<LayerOffsets> layers;
    std::uint64_t norm = 0;
    std::uint64_t head = 0;
};

// What the forward pass keeps for the backward pass.
struct LayerMemory {
    float *x, *inverse_rms1, *normed1, *qkv, *attended, *log_sums;
    float *middle, *inverse_rms2, *normed2, *gate_up, *hidden;
};

struct Workspace {
    state::Floats memory{0};
    std::int64_t rows = 0;
    std::vector<LayerMemory> layers;
    float *x = nullptr, *inverse_rms = nullptr, *normed = nullptr, *logits = nullptr;
    float *gradient_x = nullptr, *gradient_normed = nullptr, *gradient_wide = nullptr;
};

RopeTable rope_table(const run::Llama& llama, std::int64_t positions) {
    constexpr double pi = 3.14159265358979323846;
    RopeTable table;
    table.half = llama.head_width / 2;
    for (std::int64_t position = 0; position < positions; ++position)
        for (std::int64_t i = 0; i < table.half; ++i) {
            double frequency = std::pow(llama.rope.theta, -static_cast<double>(2 * i) / llama.head_width);
            if (llama.rope.kind == "llama3") {
                // Long waves are stretched by the factor, short ones kept, those between blended.
                const double waves = static_cast<double>(llama.rope.original_context) * frequency / (2.0 * pi);
                const double low = llama.rope.low_frequency_factor;
                const double high = llama.rope.high_frequency_factor;
                const double kept = std::clamp((waves - low) / (high - low), 0.0, 1.0);
                frequency = (1.0 - kept) * frequency / llama.rope.factor + kept * frequency;
            }
            const double angle = static_cast<double>(position) * frequency;
            table.cosine.push_back(static_cast<float>(std::cos(angle)));
            table.sine.push_back(static_cast<float>(std::sin(angle)));
        }
    return table;
}

state::Manifest llama_manifest(const run::Llama& m, Offsets& offsets) {
    state::Manifest manifest;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
        const std::uint64_t begin = manifest.parameter_elements();
        const bool matrix = shape.size() > 1;
        manifest.add_parameter(name, std::move(shape), matrix);
        return begin;
    };
    const std::int64_t q = m.heads * m.head_width;
    const std::int64_t kv = m.kv_heads * m.head_width;
    offsets.embedding = add("model.embed_tokens.weight", {m.vocab, m.width});
    for (std::int64_t i = 0; i < m.layers; ++i) {
        const std::string layer = "model.layers." + std::to_string(i) + ".";
        LayerOffsets at{};
        at.norm1 = add(layer + "input_layernorm.weight", {m.width});
        at.qkv = add(layer + "self_attn.q_proj.weight", {q, m.width});
        add(layer + "self_attn.k_proj.weight", {kv, m.width});
        add(layer + "self_attn.v_proj.weight", {kv, m.width});
        at.out = add(layer + "self_attn.o_proj.weight", {m.width, q});
        at.norm2 = add(layer + "post_attention_layernorm.weight", {m.width});
        at.gate_up = add(layer + "mlp.gate_proj.weight", {m.ffn, m.width});
        add(layer + "mlp.up_proj.weight", {m.ffn, m.width});
        at.down = add(layer + "mlp.down_proj.weight", {m.width, m.ffn});
        offsets.layers.push_back(at);
    }
    offsets.norm = add("model.norm.weight", {m.width});
    offsets.head = m.tied_head ? offsets.embedding : add("lm_head.weight", {m.vocab, m.width});
    return manifest;
}

class LlamaEngine final : public Engine {
public:
    explicit LlamaEngine(const EngineOptions& options)
        : model_(options.model.llama),
          sample_(options.sample),
          threads_(options.threads),
          manifest_(llama_manifest(model_, offsets_)),
          arena_(manifest_, options.slots),
          result_(manifest_.parameter_elements()) {
        TORCH_CHECK(sample_.tokens && sample_.target_per_position, "model.kind = \"llama\" learns text, not images");
        TORCH_CHECK(sample_.classes <= model_.vocab, "the data has ", sample_.classes,
                    " different tokens, but the model's vocabulary (model.vocab) has ", model_.vocab);
        initialise(options.seed);
    }

    const state::Manifest& manifest() const override { return manifest_; }
    state::Arena& arena() override { return arena_; }
    std::span<float> result() override { return result_.span(); }

    Result<Measure> forward_backward(const data::Batch& batch, const Part& part) override {
        return guarded(threads_, [&]() -> Result<Measure> {
            forward(batch);
            const Measure measure = head(batch, part.weight, part.first);
            backward(batch, part);
            return measure;
        });
    }

    Result<Measure> evaluate(const data::Batch& batch) override {
        return guarded(threads_, [&]() -> Result<Measure> {
            forward(batch);
            return head(batch, std::nullopt, false);
        });
    }

    Result<std::vector<float>> outputs(const data::Batch& batch) override {
        return guarded(threads_, [&]() -> Result<std::vector<float>> {
            forward(batch);
            std::vector<float> logits(static_cast<std::size_t>(work_.rows * model_.vocab));
            head_logits(0, work_.rows, logits.data());
            return logits;
        });
    }

private:
    // Normal with the deviation Hugging Face uses; matrices that write into the residual stream are scaled down by the
    // number of such writes.
    void initialise(std::uint64_t seed) {
        std::uint64_t stream = 0;
        for (const state::TensorInfo& info : manifest_.parameters) {
            float* values = arena_.parameters().data() + info.begin;
            const auto count = static_cast<std::int64_t>(info.elements());
            const bool residual = info.name.ends_with("o_proj.weight") || info.name.ends_with("down_proj.weight");
            const double deviation = residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(model_.layers)) : 0.02;
            const bool norm = info.shape.size() == 1;
#pragma omp parallel for schedule(static)
            for (std::int64_t i = 0; i < count; ++i)
                values[i] =
                    norm ? 1.0F
                         : static_cast<float>(deviation) * random_normal(seed, stream, static_cast<std::uint64_t>(i));
            ++stream;
        }
    }

    const float* weight(std::uint64_t offset) const { return arena_.parameters().data() + offset; }
    float* gradient(std::uint64_t offset) { return result_.span().data() + offset; }

    AttentionShape attention_shape() const {
        return {work_.rows / positions_, positions_, model_.heads, model_.kv_heads, model_.head_width};
    }

    // Lays the workspace out for this many rows, twice with one code: first to measure, then to point. Memory that
    // suffices is kept, so that a last, smaller batch costs nothing.
    void lay_out(std::int64_t rows) {
        if (rows == work_.rows) return;
        work_.rows = rows;
        work_.layers.resize(static_cast<std::size_t>(model_.layers));
        const std::int64_t q = model_.heads * model_.head_width;
        const std::int64_t qkv = q + 2 * model_.kv_heads * model_.head_width;
        std::uint64_t used = 0;
        for (const bool measuring : {true, false}) {
            if (!measuring && work_.memory.span().size() < used) work_.memory = state::Floats(used);
            used = 0;
            const auto take = [&](float*& place, std::int64_t row_floats) {
                place = measuring ? nullptr : work_.memory.span().data() + used;
                used += (static_cast<std::uint64_t>(rows * row_floats) + 15) / 16 * 16;
            };
            for (LayerMemory& layer : work_.layers) {
                take(layer.x, model_.width);
                take(layer.inverse_rms1, 1);
                take(layer.normed1, model_.width);
                take(layer.qkv, qkv);
                take(layer.attended, q);
                take(layer.log_sums, model_.heads);
                take(layer.middle, model_.width);
                take(layer.inverse_rms2, 1);
                take(layer.normed2, model_.width);
                take(layer.gate_up, 2 * model_.ffn);
                take(layer.hidden, model_.ffn);
            }
            take(work_.x, model_.width);
            take(work_.inverse_rms, 1);
            take(work_.normed, model_.width);
            take(work_.gradient_x, model_.width);
            take(work_.gradient_normed, model_.width);
            take(work_.gradient_wide, std::max({qkv + q, model_.ffn}));
            work_.logits = measuring ? nullptr : work_.memory.span().data() + used;
            used += static_cast<std::uint64_t>(std::min(rows, head_rows) * model_.vocab);
        }
    }

    void forward(const data::Batch& batch) {
        positions_ = static_cast<std::int64_t>(batch.tokens.size()) / batch.count;
        lay_out(static_cast<std::int64_t>(batch.tokens.size()));
        if (static_cast<std::int64_t>(rope_.cosine.size()) < positions_ * model_.head_width / 2)
            rope_ = rope_table(model_, positions_);
        const std::int64_t rows = work_.rows;
        const std::int64_t width = model_.width;
        const std::int64_t q = model_.heads * model_.head_width;
        const std::int64_t qkv = attention_shape().qkv_width();
        const auto epsilon = static_cast<float>(model_.norm_epsilon);

        const float* added = nullptr;
        embed(batch.tokens, width, weight(offsets_.embedding), work_.layers[0].x);
        for (std::size_t i = 0; i < work_.layers.size(); ++i) {
            const LayerMemory& m = work_.layers[i];
            const LayerOffsets& at = offsets_.layers[i];
            rms_norm(rows, width, epsilon, m.x, added, weight(at.norm1), m.normed1, m.inverse_rms1);
            gemm(rows, qkv, width, 1.0F, {m.normed1, width}, {weight(at.qkv), width, true}, 0.0F, m.qkv, qkv);
            rope(rope_, rows, positions_, model_.heads + model_.kv_heads, qkv, m.qkv, false);
            attention(attention_shape(), m.qkv, m.attended, m.log_sums);
            gemm(rows, width, q, 1.0F, {m.attended, q}, {weight(at.out), q, true}, 0.0F, m.middle, width);
            rms_norm(rows, width, epsilon, m.middle, m.x, weight(at.norm2), m.normed2, m.inverse_rms2);
            gemm(rows, 2 * model_.ffn, width, 1.0F, {m.normed2, width}, {weight(at.gate_up), width, true}, 0.0F,
                 m.gate_up, 2 * model_.ffn);
            swiglu(rows, model_.ffn, m.gate_up, m.hidden);
            float* next = i + 1 < work_.layers.size() ? work_.layers[i + 1].x : work_.x;
            gemm(rows, width, model_.ffn, 1.0F, {m.hidden, model_.ffn}, {weight(at.down), model_.ffn, true}, 0.0F, next,
                 width);
            added = m.middle;
        }
        rms_norm(rows, width, epsilon, work_.x, added, weight(offsets_.norm), work_.normed, work_.inverse_rms);
    }

    void head_logits(std::int64_t begin, std::int64_t count, float* logits) {
        gemm(count, model_.vocab, model_.width, 1.0F, {work_.normed + begin * model_.width, model_.width},
             {weight(offsets_.head), model_.width, true}, 0.0F, logits, model_.vocab);
    }

    // Loss over all rows; with a weight, also the gradients of the head and of its input.
    Measure head(const data::Batch& batch, std::optional<float> part_weight, bool first) {
        RowLosses total;
        std::optional<float> scale;
        if (part_weight) scale = *part_weight / static_cast<float>(work_.rows);
        for (std::int64_t begin = 0; begin < work_.rows; begin += head_rows) {
            const std::int64_t count = std::min(head_rows, work_.rows - begin);
            head_logits(begin, count, work_.logits);
            const RowLosses rows =
                cross_entropy(count, model_.vocab, batch.targets.data() + begin, work_.logits, scale);
            total.loss_sum += rows.loss_sum;
            total.correct += rows.correct;
            if (!scale) continue;
            const std::int64_t at = begin * model_.width;
            gemm(count, model_.width, model_.vocab, 1.0F, {work_.logits, model_.vocab},
                 {weight(offsets_.head), model_.width}, 0.0F, work_.gradient_normed + at, model_.width);
            gemm(model_.vocab, model_.width, count, 1.0F, {work_.logits, model_.vocab, true},
                 {work_.normed + at, model_.width}, first && begin == 0 ? 0.0F : 1.0F, gradient(offsets_.head),
                 model_.width);
        }
        return {total.loss_sum / static_cast<double>(work_.rows), total.correct,
                static_cast<std::uint64_t>(work_.rows)};
    }

    void backward(const data::Batch& batch, const Part& part) {
        const auto ready = [&](std::uint64_t from) {
            if (part.ready) part.ready(from);
        };
        const std::int64_t rows = work_.rows;
        const std::int64_t width = model_.width;
        const std::int64_t ffn = model_.ffn;
        const std::int64_t q = model_.heads * model_.head_width;
        const std::int64_t qkv = attention_shape().qkv_width();
        const float beta = part.first ? 0.0F : 1.0F;
        float* gx = work_.gradient_x;
        float* gn = work_.gradient_normed;

        std::memset(gx, 0, static_cast<std::size_t>(rows * width) * sizeof(float));
        rms_norm_backward(rows, width, work_.x, weight(offsets_.norm), work_.inverse_rms, gn, gx,
                          gradient(offsets_.norm), beta);
        ready(offsets_.norm);
        for (std::size_t i = work_.layers.size(); i-- > 0;) {
            const LayerMemory& m = work_.layers[i];
            const LayerOffsets& at = offsets_.layers[i];
            float* gh = work_.gradient_wide;
            gemm(rows, ffn, width, 1.0F, {gx, width}, {weight(at.down), ffn}, 0.0F, gh, ffn);
            gemm(width, ffn, rows, 1.0F, {gx, width, true}, {m.hidden, ffn}, beta, gradient(at.down), ffn);
            swiglu_backward(rows, ffn, m.gate_up, gh);
            gemm(rows, width, 2 * ffn, 1.0F, {m.gate_up, 2 * ffn}, {weight(at.gate_up), width}, 0.0F, gn, width);
            gemm(2 * ffn, width, rows, 1.0F, {m.gate_up, 2 * ffn, true}, {m.normed2, width}, beta, gradient(at.gate_up),
                 width);
            rms_norm_backward(rows, width, m.middle, weight(at.norm2), m.inverse_rms2, gn, gx, gradient(at.norm2),
                              beta);
            ready(at.norm2);

            float* ga = work_.gradient_wide;
            float* gqkv = work_.gradient_wide + rows * q;
            gemm(rows, q, width, 1.0F, {gx, width}, {weight(at.out), q}, 0.0F, ga, q);
            gemm(width, q, rows, 1.0F, {gx, width, true}, {m.attended, q}, beta, gradient(at.out), q);
            attention_backward(attention_shape(), m.qkv, m.attended, m.log_sums, ga, gqkv);
            rope(rope_, rows, positions_, model_.heads + model_.kv_heads, qkv, gqkv, true);
            gemm(rows, width, qkv, 1.0F, {gqkv, qkv}, {weight(at.qkv), width}, 0.0F, gn, width);
            gemm(qkv, width, rows, 1.0F, {gqkv, qkv, true}, {m.normed1, width}, beta, gradient(at.qkv), width);
            rms_norm_backward(rows, width, m.x, weight(at.norm1), m.inverse_rms1, gn, gx, gradient(at.norm1), beta);
            ready(at.norm1);
        }
        // A tied embedding already holds the head's gradient.
        float* table = gradient(offsets_.embedding);
        if (part.first && !model_.tied_head)
            std::memset(table, 0, static_cast<std::size_t>(model_.vocab * width) * sizeof(float));
        embed_backward(batch.tokens, width, gx, table);
        ready(0);
    }

    run::Llama model_;
    data::SampleShape sample_;
    int threads_;
    Offsets offsets_;
    state::Manifest manifest_;
    state::Arena arena_;
    state::Floats result_;
    Workspace work_;
    RopeTable rope_;
    std::int64_t positions_ = 0;
};

}  // namespace

std::unique_ptr<Engine> make_llama_engine(const EngineOptions& options) {
    return std::make_unique<LlamaEngine>(options);
}

}  // namespace chaos::compute
