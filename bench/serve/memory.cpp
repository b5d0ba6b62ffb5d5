// The peak that the kernel kept (VmHWM) counts: it has everything in it, mapped pages of files, too, which would go
// where memory is short, but which a machine must have room for while they are there. It is counted from the start of
// a node that joins: loading its slice is in it. The one that was there first had the whole model until then, as
// whoever serves alone has to; its peak is counted from when it had let go of that. What is there in the end, without
// files, is told beside it.
#include "infer/packing.h"
#include "sections.h"
#include "served.h"
#include "synthetic_model.h"
#include "temporary_folder.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;

constexpr double megabyte = 1e6;

enum class Files { everywhere, on_the_first };  // the others get their slices from it

// What they have lies in `folder`, which they make.
Result<std::vector<ServedNode>> start_nodes(std::size_t count, const fs::path& model, Files files,
                                            const fs::path& folder, const std::vector<std::string>& more) {
    fs::create_directories(folder);
    std::vector<ServedNode> nodes;
    for (std::size_t i = 0; i < count; ++i) {
        NodeStart start{.model = model, .folder = folder, .name = "node-" + std::to_string(i)};
        if (i > 0 && files == Files::on_the_first) start.model.clear();
        if (i > 0) start.join = {nodes.front().address()};
        start.more = more;
        start.more.insert(start.more.end(), {"--cache", (folder / ("cache-" + start.name)).string()});
        CHAOS_TRY(ServedNode node, ServedNode::start(start));
        nodes.push_back(std::move(node));
    }
    for (const ServedNode& node : nodes) CHAOS_CHECK(node.wait_until_with(count - 1));
    nodes.front().forget_peak();
    return nodes;
}

// As much as a text makes them take: a prompt of a full batch, and some tokens.
Result<void> let_write(const std::vector<ServedNode>& nodes) {
    constexpr std::size_t tokens = 16;
    CHAOS_CHECK(nodes.front().write(some_text(1, 256, tokens)));
    return {};
}

Result<void> measure_two(const fs::path& model, Files files, const fs::path& folder, Findings& findings) {
    CHAOS_TRY(const auto nodes, start_nodes(2, model, files, folder,
                                            {"--parallel", "1", "--context", "512", "--threads", "1", "--everyone"}));
    CHAOS_CHECK(let_write(nodes));
    CHAOS_TRY(const auto file, infer::ModelFile::open(model));
    double beside = 0.0;
    double beside_now = 0.0;
    for (const ServedNode& node : nodes) {
        const auto slice = node.slice();
        if (!slice) return Error{"a node does not say what it has of the model"};
        const auto weights = static_cast<double>(infer::packed_bytes(infer::packed_tensors(file, *slice)));
        CHAOS_TRY(const ServedNode::Memory memory, node.memory());
        std::fprintf(stderr, "  weights %.1f MB, peak %.1f MB; at the end %.1f MB, and %.1f MB of files\n",
                     weights / megabyte, static_cast<double>(memory.peak_bytes) / megabyte,
                     static_cast<double>(memory.anonymous_bytes) / megabyte,
                     static_cast<double>(memory.file_bytes) / megabyte);
        beside = std::max(beside, static_cast<double>(memory.peak_bytes) - weights);
        beside_now = std::max(beside_now, static_cast<double>(memory.anonymous_bytes) - weights);
    }
    const std::string name = files == Files::everywhere ? "memory_beside_weights_" : "memory_fetched_beside_weights_";
    findings.add(name + "mb", beside / megabyte, 1, "<= 60");
    findings.add(name + "at_the_end_mb", beside_now / megabyte, 1);
    return {};
}

Result<void> measure_four(const fs::path& model, const fs::path& folder, Findings& findings) {
    CHAOS_TRY(const auto file, infer::ModelFile::open(model));
    const std::uint64_t budget = infer::packed_bytes(infer::packed_tensors(file)) / 4;
    CHAOS_TRY(const auto nodes, start_nodes(4, model, Files::everywhere, folder,
                                            {"--parallel", "1", "--context", "512", "--threads", "1", "--everyone",
                                             "--memory", std::to_string(budget / 1000) + "kB"}));
    CHAOS_CHECK(let_write(nodes));
    double worst = 0.0;
    for (const ServedNode& node : nodes) {
        CHAOS_TRY(const ServedNode::Memory memory, node.memory());
        std::fprintf(stderr, "  may have %.1f MB, peak %.1f MB; at the end %.1f MB, and %.1f MB of files\n",
                     static_cast<double>(budget) / megabyte, static_cast<double>(memory.peak_bytes) / megabyte,
                     static_cast<double>(memory.anonymous_bytes) / megabyte,
                     static_cast<double>(memory.file_bytes) / megabyte);
        worst = std::max(worst, static_cast<double>(memory.peak_bytes) / static_cast<double>(budget));
    }
    findings.add("memory_four_of_budget", worst, 3, "<= 1.0");
    return {};
}

}  // namespace

Result<void> measure_memory(const Wish&, Findings& findings) {
    const test::TemporaryFolder folder;
    const fs::path model = folder.path() / "model.gguf";
    CHAOS_CHECK(write_synthetic_model(model, {.tokenizer = true}));
    CHAOS_CHECK(measure_two(model, Files::everywhere, folder / "two", findings));
    CHAOS_CHECK(measure_two(model, Files::on_the_first, folder / "fetched", findings));
    return measure_four(model, folder / "four", findings);
}

}  // namespace chaos::bench
