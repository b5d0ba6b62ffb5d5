#include "text/characters.h"

#include <utf8proc.h>

namespace chaos::text {
namespace {

utf8proc_category_t category_of(char32_t code) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool within(char32_t code, char32_t first, char32_t last) {
    return code >= first && code <= last;
}

}  // namespace

bool is_white_space(char32_t code) {
    return within(code, 0x09, 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           within(code, 0x2000, 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}

bool is_word_character(char32_t code) {
    switch (category_of(code)) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ME:
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_PC:
            return true;
        default:
            // Join_Control, and the circled and squared letters: symbols by category, alphabetic all the same.
            return code == 0x200C || code == 0x200D || within(code, 0x24B6, 0x24E9) || within(code, 0x1F130, 0x1F149) ||
                   within(code, 0x1F150, 0x1F169) || within(code, 0x1F170, 0x1F189);
    }
}

bool is_numeric(char32_t code) {
    if (code < 0x80) return within(code, '0', '9');
    switch (category_of(code)) {
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_NO:
            return true;
        default:
            return false;
    }
}

}  // namespace chaos::text
