// Python's Jinja2, which templates are compared with where it is installed.
#pragma once

#include "temporary_folder.h"

#include "base/file.h"

#include <gtest/gtest.h>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace chaos::test {

// How to start it; nothing where this machine has none.
inline std::optional<std::string> jinja_command() {
    for (const std::string python : {"python3", "/usr/bin/python3"}) {
        const std::string command = python + " '" CHAOS_SOURCE "/tests/text/jinja_reference.py'";
        if (std::system((command + " --version >/dev/null 2>&1").c_str()) == 0) return command;
    }
    return std::nullopt;
}

// What it makes of each {"template": ..., "variables": ...}: {"text": ...} or {"error": ...}.
inline std::vector<nlohmann::ordered_json> render_with_jinja(const std::string& command,
                                                             const std::vector<nlohmann::ordered_json>& cases) {
    const TemporaryFolder folder;
    std::string lines;
    for (const auto& one : cases) lines += one.dump() + "\n";
    const auto input = folder.write("cases", lines);
    const auto output = folder / "answers";
    const int code = std::system((command + " <'" + input.string() + "' >'" + output.string() + "'").c_str());
    EXPECT_EQ(code, 0);
    std::vector<nlohmann::ordered_json> answers;
    std::istringstream text(read_file(output).value());
    for (std::string line; std::getline(text, line);) {
        // Half a surrogate pair is no answer that could be compared.
        const auto answer = nlohmann::ordered_json::parse(line, nullptr, false);
        answers.push_back(answer.is_discarded() ? nlohmann::ordered_json{{"error", "no UTF-8"}} : answer);
    }
    return answers;
}

}  // namespace chaos::test

#define CHAOS_NEED_JINJA(command)                        \
    const auto command = ::chaos::test::jinja_command(); \
    if (!command) GTEST_SKIP() << "needs Python with Jinja2 (Debian: python3-jinja2)"
