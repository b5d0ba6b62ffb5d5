// What a node asks before it joins: which model is it? Where it has no files of it, it gets the manifest and the texts
// (tokenizer, chat template), in an image that is on its disk from then on.
#pragma once

#include "base/result.h"
#include "infer/image.h"
#include "net/links.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace chaos::tensor {

struct EnquiryOptions {
    std::vector<std::string> addresses;  // of members
    net::LinkOptions links;
    std::filesystem::path folder;  // of images
    std::uint64_t limit_bytes = infer::no_limit_bytes;
    std::chrono::milliseconds patience{60'000};  // without anything that comes
    std::function<void(const std::string&)> note = [](const std::string&) {};
};

struct FoundModel {
    std::string name;  // for people and clients
    std::shared_ptr<infer::Image> image;
};

// What they serve: for who has the files of a model and wants to know whether it is that one.
struct ServedModel {
    std::string name;
    Digest identity{};
};
[[nodiscard]] Result<ServedModel> ask_model(net::asio::io_context& loop, const net::SecretKey& key,
                                            const net::Credential& credential, const EnquiryOptions& options);

// By whoever answers first. Runs the loop meanwhile, on which nothing else runs; if the loop is stopped, that is an
// error. All links are closed afterwards.
[[nodiscard]] Result<FoundModel> find_model(net::asio::io_context& loop, const net::SecretKey& key,
                                            const net::Credential& credential, const EnquiryOptions& options);

}  // namespace chaos::tensor
