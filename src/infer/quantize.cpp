#include "infer/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace chaos::infer {
namespace {

constexpr float largest_f16 = 65504.0F;

// The row of the model that lies at `at` when rows lie in pairs: the inverse of paired_row().
std::uint64_t row_of_pair(std::uint64_t at, std::uint64_t head_width) {
    const std::uint64_t within = at % head_width;
    return at - within + within / 2 + (within % 2 == 0 ? 0 : head_width / 2);
}

StoredType type_for(const TensorShape& shape, StoredType type) {
    if (shape.vector) return StoredType::f32;
    return shape.columns % blocks_of(type).columns == 0 ? type : StoredType::f16;
}

// Turns rows of a tensor into those of a file, some at a time on all threads.
class RowWriter {
public:
    RowWriter(const ModelFile& file, Pool& pool, const Progress& progress)
        : file_(file), pool_(pool), progress_(progress) {
        total_ = file.bytes();
    }

    Result<void> write(const TensorShape& shape, StoredType type, const Sink& sink) {
        const StoredTensor& tensor = file_.tensor(shape.name);
        const std::uint64_t bytes = row_bytes(type, tensor.columns);
        const std::uint64_t step = std::max<std::uint64_t>(1, (std::uint64_t{8} << 20) / bytes);
        std::vector<std::byte> rows;
        for (std::uint64_t from = 0; from < tensor.rows; from += step) {
            const std::uint64_t count = std::min(step, tensor.rows - from);
            rows.resize(count * bytes);
            std::atomic<bool> good = true;
            pool_.run(count, [&](std::size_t i) {
                if (!encode(shape, tensor, from + i, type, std::span(rows).subspan(i * bytes, bytes))) good = false;
            });
            if (!good)
                return Error{file_.path().string() + ": tensor " + shape.name + " holds values that " +
                             std::string(blocks_of(type).name) + " cannot have: they are not finite, or too large"};
            CHAOS_CHECK(sink(rows));
            done_ += count * row_bytes(tensor.type, tensor.columns);
            if (progress_) progress_(done_, total_);
        }
        return {};
    }

private:
    // False where a value has no place in the type.
    bool encode(const TensorShape& shape, const StoredTensor& tensor, std::uint64_t at, StoredType type,
                std::span<std::byte> out) const {
        const Config& config = file_.config();
        const bool paired = shape.paired && (config.kind == "llama" || config.kind == "mistral");
        const auto head = static_cast<std::uint64_t>(config.head_width);
        std::vector<float> values;
        if (shape.vector) {
            values = stored_vector(tensor);
            if (paired) {
                std::vector<float> ordered(values.size());
                for (std::size_t i = 0; i < values.size(); ++i) ordered[i] = values[row_of_pair(i, head)];
                values = std::move(ordered);
            }
        } else {
            const auto row = stored_row(tensor, paired ? row_of_pair(at, head) : at);
            if (tensor.type == type) {
                std::copy(row.begin(), row.end(), out.begin());
                return true;
            }
            values.resize(tensor.columns);
            decode_row(tensor.type, row, values);
        }
        const float most = type == StoredType::f32 ? std::numeric_limits<float>::max() : largest_f16;
        if (!std::all_of(values.begin(), values.end(), [&](float value) { return std::fabs(value) <= most; }))
            return false;
        encode_row(type, values, out);
        return true;
    }

    const ModelFile& file_;
    Pool& pool_;
    const Progress& progress_;
    std::uint64_t done_ = 0;
    std::uint64_t total_ = 0;
};

}  // namespace

Result<void> quantize(const ModelFile& file, const std::filesystem::path& target, StoredType type, Pool& pool,
                      const Progress& progress) {
    for (const std::filesystem::path& path : file.weight_paths()) {
        std::error_code error;  // of a target that does not exist yet
        if (!std::filesystem::equivalent(path, target, error)) continue;
        return Error{target.string() +
                     (file.weight_paths().size() == 1 ? " is the model itself" : " is a part of the model itself") +
                     ": name another file"};
    }
    CHAOS_TRY(const GgufMetadata metadata, gguf_metadata(file, type));
    RowWriter rows(file, pool, progress);
    std::vector<GgufOutput> tensors;
    for (const TensorShape& shape : tensors_of(file.config())) {
        const StoredType stored = type_for(shape, type);
        const auto extents = shape.vector ? std::vector{shape.columns} : std::vector{shape.columns, shape.rows};
        tensors.push_back({shape.gguf_name, stored, extents,
                           [&rows, shape, stored](const Sink& sink) { return rows.write(shape, stored, sink); }});
    }
    const std::vector<float>& divisors = file.config().rope.divisors;
    if (!divisors.empty())
        tensors.push_back({"rope_freqs.weight", StoredType::f32, {divisors.size()}, [&divisors](const Sink& sink) {
                               return sink(std::as_bytes(std::span(divisors)));
                           }});
    return write_gguf(target, metadata, tensors);
}

}  // namespace chaos::infer
