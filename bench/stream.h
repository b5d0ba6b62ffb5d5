// A client of the API that reads one text as it is written, and notes when each token came.
#pragma once

#include "base/result.h"
#include "testbed/process.h"

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace chaos::bench {

// "10.77.0.1:8080"; the socket belongs to the network of the calling thread.
[[nodiscard]] Result<testbed::Descriptor> connect_to(const std::string& address);

class Stream {
public:
    // Asks for a completion. The request says "stream".
    static Result<Stream> ask(testbed::Descriptor connection, const nlohmann::json& request);

    // Takes what has come, waiting for something. An answer that is an error, or ends without an end, is one; so is
    // silence for a minute.
    [[nodiscard]] Result<void> receive();
    [[nodiscard]] Result<void> receive_tokens(std::size_t count);  // until there are so many, or all
    [[nodiscard]] Result<void> receive_all();

    struct Token {
        double time = 0.0;
        std::string text{};
    };
    [[nodiscard]] const std::vector<Token>& tokens() const { return tokens_; }
    [[nodiscard]] bool done() const { return done_; }
    // Readable where receive() need not wait.
    [[nodiscard]] int socket() const { return connection_.get(); }
    [[nodiscard]] std::string text() const;
    // From the request to the first token.
    [[nodiscard]] double first_token_s() const { return tokens_.front().time - asked_; }
    // Between tokens, on the average, and as most of them.
    [[nodiscard]] double token_s() const;
    [[nodiscard]] double median_token_s() const;

private:
    [[nodiscard]] Result<void> take(std::string_view event);

    testbed::Descriptor connection_;
    double asked_ = 0.0;
    std::string received_;
    bool body_ = false;  // its head has been read
    std::vector<Token> tokens_;
    bool done_ = false;
};

// A text of so many tokens after a prompt of so many, different ones for different numbers: nothing can be guessed, or
// taken from another text.
[[nodiscard]] nlohmann::json some_text(std::size_t number, std::size_t prompt_tokens, std::size_t tokens);

}  // namespace chaos::bench
