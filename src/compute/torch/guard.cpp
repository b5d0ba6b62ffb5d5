#include "compute/torch/guard.h"

namespace chaos::compute {

namespace {

// TorchScript prints its own stack first and what went wrong last, behind "RuntimeError: ".
constexpr std::string_view script_error = "RuntimeError: ";

Error first_line(std::string_view text) {
    if (const auto found = text.rfind(script_error); found != std::string_view::npos) {
        text.remove_prefix(found + script_error.size());
    }
    const auto begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) return Error{"LibTorch failed without saying why"};
    const auto line = text.substr(begin, text.find('\n', begin) - begin);
    return Error{std::string(line)};
}

}  // namespace

Error readable_error(const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    return first_line(torch_error != nullptr ? torch_error->what_without_backtrace() : error.what());
}

}  // namespace chaos::compute
