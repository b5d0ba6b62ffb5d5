// Ends a text at the first of some strings, though it comes piece by piece: what may be the beginning of one is held
// back until it is clear.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace chaos::infer {

class StopStrings {
public:
    // Empty strings stop nothing.
    explicit StopStrings(std::vector<std::string> strings);

    // Takes the next piece and returns what can be shown now. Once stopped() it returns nothing.
    [[nodiscard]] std::string push(std::string_view piece);
    // What was held back, when the text has ended otherwise.
    [[nodiscard]] std::string finish();
    [[nodiscard]] bool stopped() const { return stopped_; }

private:
    std::vector<std::string> strings_;
    std::string held_;
    bool stopped_ = false;
};

}  // namespace chaos::infer
