// Every key of a run file, once: its name, the field it fills, what it accepts, when it applies and whether the
// mathematics depends on it. Reading, "did you mean" and the identity all walk this list, so none can forget a key.
#pragma once

#include "run/limits.h"
#include "run/run.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace chaos::run {

struct WholeNumber {
    std::int64_t* value;
    std::int64_t least;
    std::int64_t most;
};
struct RealNumber {
    enum class Ends { both, only_least, only_most };  // which ends of the range belong to it

    double* value;
    double least;
    double most;
    Ends ends = Ends::both;
};
struct Seed {
    std::uint64_t* value;
};
struct Flag {
    bool* value;
};
struct Word {
    std::string* value;
    std::span<const std::string_view> accepted;
};
struct WholeNumbers {
    std::vector<std::int64_t>* value;
    std::int64_t least;
    std::int64_t most;
    std::size_t max_count;
};
struct File {
    std::filesystem::path* value;
};
struct Folder {
    std::filesystem::path* value;
};
struct Files {
    std::vector<std::filesystem::path>* value;
};
using Field = std::variant<WholeNumber, RealNumber, Seed, Flag, Word, WholeNumbers, File, Folder, Files>;

// "", or why a key does not apply to this run, to follow the key's name.
using Refusal = std::string (*)(const Run& run);

struct Key {
    std::string_view name;
    Field field;
    Refusal refusal = nullptr;          // none: the key always applies
    bool mathematics = true;            // of a path: the content behind it, which the identity's caller adds as a hash
    std::string_view beside_init = {};  // not empty: why the key cannot be set together with model.init
    bool shared = false;                // no mathematics, but all members of a cluster need the same value
};

// Keys that others depend on (the kinds) come before those. The keys point into `run`, which must outlive them.
[[nodiscard]] std::vector<Key> keys(Run& run);

[[nodiscard]] bool is_one_of(std::string_view word, std::span<const std::string_view> words);

// The shortest text that reads back as the same number.
[[nodiscard]] std::string number_text(double number);

}  // namespace chaos::run
