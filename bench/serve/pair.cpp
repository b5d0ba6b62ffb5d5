// All three processes are there all the time, and take turns: what is compared meets the same neighbours.
#include "sections.h"
#include "served.h"
#include "synthetic_model.h"
#include "temporary_folder.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace chaos::bench {

Result<void> measure_pair(const Wish& wish, Findings& findings) {
    const test::TemporaryFolder folder;
    const std::filesystem::path model = folder.path() / "model.gguf";
    CHAOS_CHECK(write_synthetic_model(model, {.tokenizer = true}));
    const std::vector<std::string> common = {"--parallel", "1", "--context", "256", "--threads"};
    auto two_threads = common;
    two_threads.emplace_back("2");
    auto one_thread = common;
    one_thread.insert(one_thread.end(), {"1", "--everyone"});
    CHAOS_TRY(const ServedNode alone,
              ServedNode::start({.model = model, .folder = folder.path(), .more = two_threads}));
    CHAOS_TRY(const ServedNode first,
              ServedNode::start({.model = model, .folder = folder.path(), .name = "first", .more = one_thread}));
    CHAOS_TRY(const ServedNode second, ServedNode::start({.model = model,
                                                          .folder = folder.path(),
                                                          .name = "second",
                                                          .join = {first.address()},
                                                          .more = one_thread}));
    CHAOS_CHECK(first.wait_until_with(1));
    CHAOS_CHECK(second.wait_until_with(1));
    std::vector<double> ratios;
    std::vector<double> of_one;
    std::vector<double> of_two;
    const std::size_t tokens = wish.quick ? 32 : 64;
    const std::size_t rounds = wish.quick ? 3 : 9;
    for (std::size_t round = 0; round < rounds; ++round) {
        CHAOS_TRY(const Stream one, alone.write(some_text(round, 8, tokens)));
        CHAOS_TRY(const Stream two, first.write(some_text(round, 8, tokens)));
        if (one.text() != two.text()) return Error{"two processes write another text than one"};
        of_one.push_back(1.0 / one.token_s());
        of_two.push_back(1.0 / two.token_s());
        ratios.push_back(one.token_s() / two.token_s());
        std::fprintf(stderr, "  round %zu: one process %.1f tokens/s, two %.1f\n", round + 1, of_one.back(),
                     of_two.back());
    }
    findings.add("one_process_tokens_per_s", median(of_one), 1);
    findings.add("two_processes_tokens_per_s", median(of_two), 1);
    findings.add("two_process_ratio", median(ratios), 3, ">= 0.8");
    return {};
}

}  // namespace chaos::bench
