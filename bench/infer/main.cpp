// ./dev bench infer [--quick] [SECTION]: how near the inference engine comes to what the machine can do, measured in
// the same run. The sections, all of them where none is named:
//
//   kernels   products of weights and activations (kernels.h)
//   engine    whole tokens and prompts (engine.h)
//   start     from the start of the program to the first token (start.h)
//   window    a memory smaller than the weights (window.h)
//   clients   a server with several clients at once (clients.h)
#include "clients.h"
#include "engine.h"
#include "findings.h"
#include "kernels.h"
#include "report.h"
#include "start.h"
#include "window.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace chaos::bench {
namespace {

struct Section {
    const char* name;
    Result<void> (*measure)(bool quick, Findings& findings);
};
constexpr std::array sections = {Section{"kernels", measure_kernels}, Section{"engine", measure_engine},
                                 Section{"start", measure_start}, Section{"window", measure_window},
                                 Section{"clients", measure_clients}};

bool is_section(const std::string& name) {
    return std::ranges::any_of(sections, [&](const Section& section) { return section.name == name; });
}

// An empty name stands for all sections.
Result<void> run_bench(bool quick, const std::string& name) {
    const double load = load_average();
    Findings findings;
    for (const Section& section : sections)
        if (name.empty() || section.name == name) CHAOS_CHECK(section.measure(quick, findings));
    std::printf("%s%s\n", table_text(findings.table).c_str(), json_line("infer", load, findings.figures).c_str());
    return {};
}

}  // namespace
}  // namespace chaos::bench

int main(int count, char** arguments) {
    using namespace chaos::bench;
    bool quick = false;
    std::string section;
    for (int i = 1; i < count; ++i) {
        const std::string argument = arguments[i];
        if (argument == "--quick") {
            quick = true;
        } else if (section.empty() && is_section(argument)) {
            section = argument;
        } else {
            std::fprintf(stderr, "usage: bench_infer [--quick] [kernels|engine|start|window|clients]\n");
            return 1;
        }
    }
    const chaos::Result<void> done = run_bench(quick, section);
    if (done.ok()) return 0;
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return 1;
}
