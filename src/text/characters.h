// The three questions about characters that added tokens and the Digits pre-tokenizer ask.
#pragma once

namespace chaos::text {

// Unicode's White_Space: what \s means to Rust's regular expressions.
[[nodiscard]] bool is_white_space(char32_t code);

// What \w means to Rust's regular expressions: letters, marks, decimal digits, connectors and joiners.
[[nodiscard]] bool is_word_character(char32_t code);

// The general categories Nd, Nl and No: Rust's char::is_numeric.
[[nodiscard]] bool is_numeric(char32_t code);

}  // namespace chaos::text
