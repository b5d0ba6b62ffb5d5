// Parsing a run file given as text, for tests.
#pragma once

#include "run/run.h"
#include "temporary_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace chaos::run::test {

// The run; a refused text fails the test.
inline Run parsed(const std::string& text, const std::filesystem::path& folder = {}) {
    auto run = parse_run(text, "run.toml", folder);
    if (run.ok()) return *run;
    ADD_FAILURE() << run.error().message << "\nin\n" << text;
    return {};
}

// The sentence a text is refused with, or "" when it is accepted.
inline std::string error_of(const std::string& text, const std::filesystem::path& folder = {}) {
    const auto run = parse_run(text, "run.toml", folder);
    return run.ok() ? "" : run.error().message;
}

// The least that a text run and an image run need, for tests of other keys.
inline const std::string text_data = "[data]\nfiles = \"a.txt\"\n";
inline const std::string image_data = "[data]\nkind = \"synthetic\"\n";

using chaos::test::TemporaryFolder;

}  // namespace chaos::run::test
