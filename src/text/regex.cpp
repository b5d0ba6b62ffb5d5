#include "text/regex.h"

#include "text/regex_syntax.h"

#include <algorithm>
#include <array>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace chaos::text {
namespace {

constexpr std::size_t max_pattern_bytes = 64U << 10;
constexpr std::uint32_t max_match_steps = 10'000'000;
constexpr std::uint32_t max_match_heap_kib = 256U << 10;
constexpr std::size_t first_jit_stack_bytes = 64U << 10;
constexpr std::size_t max_jit_stack_bytes = 8U << 20;

struct Memory {
    Memory()
        : match(pcre2_match_data_create(1, nullptr)),
          context(pcre2_match_context_create(nullptr)),
          jit_stack(pcre2_jit_stack_create(first_jit_stack_bytes, max_jit_stack_bytes, nullptr)) {
        CHAOS_ASSERT(match != nullptr && context != nullptr);
        pcre2_set_match_limit(context, max_match_steps);
        pcre2_set_heap_limit(context, max_match_heap_kib);
        if (jit_stack != nullptr) pcre2_jit_stack_assign(context, nullptr, jit_stack);
    }
    ~Memory() {
        pcre2_jit_stack_free(jit_stack);
        pcre2_match_context_free(context);
        pcre2_match_data_free(match);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    pcre2_match_data* match;
    pcre2_match_context* context;
    pcre2_jit_stack* jit_stack;
};

Memory& memory_of_this_thread() {
    thread_local Memory memory;
    return memory;
}

std::string message_of(int code) {
    std::array<PCRE2_UCHAR, 256> buffer{};
    pcre2_get_error_message(code, buffer.data(), buffer.size());
    return {buffer.begin(), std::find(buffer.begin(), buffer.end(), PCRE2_UCHAR{0})};
}

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const {
    pcre2_code_free(code);
}

Result<Regex> Regex::compile(std::string_view pattern) {
    if (pattern.size() > max_pattern_bytes) return Error{"is longer than 64 KiB"};
    CHAOS_TRY(const std::string translated, to_pcre2(pattern));

    const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
        pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
    CHAOS_ASSERT(context != nullptr);
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &error_offset, context.get()));
    if (!code) return Error{"is not a regular expression we can compile: " + message_of(error)};
    // Where no machine code may be made, PCRE2 interprets the pattern.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    return Regex(std::move(code));
}

std::optional<Range> Regex::find(std::string_view text, std::size_t from) const {
    const Memory& memory = memory_of_this_thread();
    const auto match = [&](std::uint32_t options) {
        return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                           options | PCRE2_NO_UTF_CHECK, memory.match, memory.context);
    };
    int found = match(0);
    // The interpreter keeps its stack on the heap, which may grow larger.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found < 0) return std::nullopt;
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(memory.match);
    return Range{range[0], range[1]};
}

}  // namespace chaos::text
