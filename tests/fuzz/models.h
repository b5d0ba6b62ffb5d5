// What is done with a stranger's model: all that the commands do, on a few tokens.
#pragma once

#include "temporary_folder.h"

#include <filesystem>

namespace chaos::fuzz {

// Opens the model and, where that works, tokenizes, renders a chat, computes logits and writes it anew. Every error
// must name the folder, in which the model is, or be one of computing.
void use_model(const std::filesystem::path& path, const chaos::test::TemporaryFolder& folder);

}  // namespace chaos::fuzz
