#include "infer/stop_strings.h"

#include <algorithm>
#include <utility>

namespace chaos::infer {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
    std::erase(strings_, "");
}

std::string StopStrings::push(std::string_view piece) {
    if (stopped_) return {};
    held_ += piece;
    std::size_t end = std::string::npos;
    for (const std::string& each : strings_) end = std::min(end, held_.find(each));
    if (end != std::string::npos) {
        stopped_ = true;
        held_.resize(end);
        return std::exchange(held_, {});
    }
    std::size_t keep = 0;
    for (const std::string& each : strings_)
        for (std::size_t size = std::min(each.size() - 1, held_.size()); size > keep; --size)
            if (held_.ends_with(std::string_view(each).substr(0, size))) keep = size;
    std::string shown = held_.substr(0, held_.size() - keep);
    held_.erase(0, shown.size());
    return shown;
}

std::string StopStrings::finish() {
    return std::exchange(held_, {});
}

}  // namespace chaos::infer
