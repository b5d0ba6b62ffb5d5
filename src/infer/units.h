// A node that has no model file gets what it computes from others. The *units* of a model are what is sent, hashed and
// kept: some hundred KiB each, cut so that a slice (slice.h) needs few bytes that it does not compute with. All units,
// one behind the other, are the model's *image*:
//
//   vectors     all norms and biases of a layer: one unit
//   rows        embedding, q, k, v, gate, up, head: rows as the file has them. A unit has whole query heads, KV heads
//   or
//               FFN rows of a division, a power of two of them, as long as that is no more than unit_bytes; where one
//               is more, it is cut further
//   columns     o, down: blocks of columns, each of them all rows of these columns, likewise
//   texts       tokenizer and chat template
//
//   | vectors of layer 0 | vectors of layer 1 | ... | embedding | q of layer 0 | k | v | o | gate | up | down | ... |
//   texts
//                                                    each matrix begins at a multiple of 4096
//
// Numbers stay as the file has them, in type and in order, whatever the kernels make of them (packing.h): an image is
// never larger than the file, making a unit computes nothing, and a model that is loaded from an image is the model
// that is loaded from the file, bit by bit.
//
// Where everything lies is a pure function of the Outline: whoever knows that and the units' hashes (manifest.h) can
// take a unit from anybody.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "infer/model_file.h"
#include "infer/slice.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace chaos::infer {

// Small enough that little is asked for again when one is lost, and that a slice's edges cost little; large enough that
// the hashes of 100 GB are 13 MB. Of models beyond that, units are larger.
inline constexpr std::uint64_t default_unit_bytes = 256 << 10;
inline constexpr std::size_t max_units = 1 << 20;
[[nodiscard]] std::uint64_t unit_bytes_for(std::uint64_t model_bytes);
inline constexpr std::uint64_t max_text_bytes = 64 << 20;  // of all texts

// A file that says how to read and write text.
struct TextFile {
    std::string name;  // one of text_file_names()
    std::uint64_t bytes = 0;

    friend bool operator==(const TextFile&, const TextFile&) = default;
};
// Relative to the model's folder. A GGUF file's are what its metadata say of text, as a GGUF file without tensors.
inline constexpr const char* gguf_text_name = "text.gguf";
[[nodiscard]] std::span<const char* const> text_file_names();

// From this everything else follows.
struct Outline {
    Config config;
    bool paired = false;            // the rows of queries and keys lie in pairs (model_file.h)
    std::vector<StoredType> types;  // of tensors_of(config)
    std::vector<TextFile> texts;
    std::uint64_t unit_bytes = default_unit_bytes;
};

struct PlacedTensor {
    TensorShape shape;
    StoredTensor stored;  // without memory
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

struct PlacedText {
    std::string name;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
};

struct Unit {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;

    [[nodiscard]] std::uint64_t end() const { return offset + bytes; }
    friend bool operator==(const Unit&, const Unit&) = default;
};

struct Layout {
    Outline outline;
    std::vector<PlacedTensor> tensors;  // by offset
    std::vector<PlacedText> texts;
    std::vector<Unit> units;  // by offset
    std::uint64_t bytes = 0;  // of the image
};

// An outline may come from others: one that makes no sense is refused.
[[nodiscard]] Result<Layout> layout_of(Outline outline);

// For each unit, whether a slice needs it. Everybody needs the vectors, the texts and the embedding, of which a token
// reads one row.
[[nodiscard]] std::vector<bool> units_of_slice(const Layout& layout, const Slice& slice);
// Likewise, whether it has to do with text.
[[nodiscard]] std::vector<bool> units_of_texts(const Layout& layout);
[[nodiscard]] std::uint64_t bytes_of(const Layout& layout, const std::vector<bool>& units);

// Where units come from: a model's own files or an image. Any thread may read.
class UnitSource {
public:
    virtual ~UnitSource() = default;
    [[nodiscard]] virtual const Layout& layout() const = 0;
    [[nodiscard]] virtual bool has(std::size_t unit) const = 0;
    // `to` is as long as the unit. What is read is not checked.
    [[nodiscard]] virtual Result<void> read(std::size_t unit, std::span<std::byte> to) const = 0;
    // Gives back memory that reading took.
    virtual void release() const = 0;
};

// All units of a model that lies here.
class FileUnits final : public UnitSource {
public:
    // Must not outlive the file, or what that is moved into.
    static Result<FileUnits> open(const ModelFile& file) { return open(file, unit_bytes_for(file.bytes())); }
    static Result<FileUnits> open(const ModelFile& file, std::uint64_t unit_bytes);

    [[nodiscard]] const Layout& layout() const override { return layout_; }
    [[nodiscard]] bool has(std::size_t unit) const override { return unit < layout_.units.size(); }
    [[nodiscard]] Result<void> read(std::size_t unit, std::span<std::byte> to) const override;
    void release() const override;

private:
    FileUnits() = default;

    struct Text {
        std::string made;               // where the model has no such file
        std::vector<MappedFile> found;  // else this one
        [[nodiscard]] std::span<const std::byte> bytes() const;
    };
    Layout layout_;
    std::vector<StoredTensor> tensors_;  // in the layout's order
    std::vector<Text> texts_;
};

}  // namespace chaos::infer
