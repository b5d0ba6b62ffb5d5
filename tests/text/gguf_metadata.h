// What a GGUF file of the reference models says about its tokenizer. It believes the file: others test that lying ones
// are caught.
#pragma once

#include "text/gguf_vocabulary.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace chaos::test {

class GgufMetadata {
public:
    static text::GgufVocabulary read(const std::filesystem::path& path) {
        GgufMetadata reader(path);
        reader.skip(4 + 4 + 8);  // the magic, the version, the number of tensors
        const auto count = reader.number<std::uint64_t>();
        for (std::uint64_t index = 0; index < count; ++index) {
            const std::string key = reader.string();
            reader.take(key, reader.number<std::uint32_t>());
        }
        return std::move(reader.vocabulary_);
    }

private:
    enum Type : std::uint32_t { flag = 7, string_type = 8, array = 9 };

    explicit GgufMetadata(const std::filesystem::path& path) : file_(path, std::ios::binary) {}

    void skip(std::size_t bytes) { file_.seekg(static_cast<std::streamoff>(bytes), std::ios::cur); }

    template <class T>
    T number() {
        T value{};
        file_.read(reinterpret_cast<char*>(&value), sizeof value);
        if (!file_) throw std::runtime_error("a GGUF file ends early");
        return value;
    }

    std::string string() {
        std::string text(number<std::uint64_t>(), '\0');
        file_.read(text.data(), static_cast<std::streamsize>(text.size()));
        return text;
    }

    static std::size_t bytes_of(std::uint32_t type) {
        constexpr std::size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        return bytes[type];
    }

    void take(const std::string& key, std::uint32_t type) {
        const std::string prefix = "tokenizer.ggml.";
        const std::string name = key.starts_with(prefix) ? key.substr(prefix.size()) : "";
        if (type == array) {
            take_array(name);
        } else if (type == string_type) {
            const std::string text = string();
            if (name == "model") vocabulary_.model = text;
            if (name == "pre") vocabulary_.pre = text;
        } else if (name == "bos_token_id") {
            vocabulary_.bos_token_id = number<std::int32_t>();
        } else if (name == "eos_token_id") {
            vocabulary_.eos_token_id = number<std::int32_t>();
        } else if (name == "unknown_token_id") {
            vocabulary_.unknown_token_id = number<std::int32_t>();
        } else if (name == "add_bos_token") {
            vocabulary_.add_bos_token = number<std::uint8_t>() != 0;
        } else if (name == "add_eos_token") {
            vocabulary_.add_eos_token = number<std::uint8_t>() != 0;
        } else if (name == "add_space_prefix") {
            vocabulary_.add_space_prefix = number<std::uint8_t>() != 0;
        } else {
            skip(bytes_of(type));
        }
    }

    void take_array(const std::string& name) {
        const auto type = number<std::uint32_t>();
        const auto count = number<std::uint64_t>();
        for (std::uint64_t index = 0; index < count; ++index) {
            if (type == string_type) {
                std::string text = string();
                if (name == "tokens")
                    vocabulary_.tokens.push_back(std::move(text));
                else if (name == "merges")
                    vocabulary_.merges.push_back(std::move(text));
            } else if (name == "scores") {
                vocabulary_.scores.push_back(number<float>());
            } else if (name == "token_type") {
                vocabulary_.token_types.push_back(number<std::int32_t>());
            } else {
                skip(bytes_of(type));
            }
        }
    }

    std::ifstream file_;
    text::GgufVocabulary vocabulary_;
};

}  // namespace chaos::test
