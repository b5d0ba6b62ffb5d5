#include "collective/outcome.h"

namespace chaos::collective {
namespace {

const char* reason(Why why) {
    switch (why) {
        case Why::plan_differs:
            return "it executes another plan";
        case Why::no_such_tree:
            return "the plan has no such tree";
        case Why::no_such_chunk:
            return "the tree has no such chunk";
        case Why::wrong_size:
            return "the chunk has another size";
        case Why::not_from_there:
            return "in that tree such chunks come from elsewhere";
        case Why::repeated:
            return "it came before";
        case Why::not_asked_for:
            return "it is not due yet";
        case Why::far_ahead:
            return "that step cannot have begun";
    }
    return "unknown";
}

}  // namespace

std::string say(const Refusal& refusal) {
    const ChunkHeader& header = refusal.header;
    return "refused a " + std::string(header.down ? "result" : "sum") + " of step " +
           std::to_string(header.exchange.step) + " in epoch " + std::to_string(header.exchange.epoch) + " from " +
           cluster::brief(refusal.from) + " (tree " + std::to_string(header.tree) + ", chunk " +
           std::to_string(header.chunk) + ", " + std::to_string(header.bytes) + " bytes): " + reason(refusal.why);
}

}  // namespace chaos::collective
