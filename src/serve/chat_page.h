// web/chat.html, as it was when the program was built.
#pragma once

#include <string_view>

namespace chaos::serve {

extern const std::string_view chat_page;

}  // namespace chaos::serve
