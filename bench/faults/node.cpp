#include "node.h"

#include "toy_node/toy_node.h"

#include <chrono>
#include <cstdio>

namespace chaos::bench {
namespace {

long long now_ns() {
    return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

int run_node(const std::vector<std::string>& arguments) {
    if (arguments.size() < 3) return 2;
    toy::ToyCluster cluster;
    cluster.addresses.assign(arguments.begin() + 2, arguments.end());
    cluster.floats = 1 << 20;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    net::asio::io_context loop(1);
    toy::ToyNode* self = nullptr;
    toy::ToyNode node(loop, cluster, static_cast<unsigned>(std::stoul(arguments[0])), arguments[1],
                      {.applied =
                           [&](std::uint64_t step, const cluster::Name& lineage) {
                               std::printf("applied %llu %s %lld\n", static_cast<unsigned long long>(step),
                                           hex(lineage).substr(0, 16).c_str(), now_ns());
                               if (self->learner().wrong() > 0)
                                   std::printf("wrong %llu\n", static_cast<unsigned long long>(step));
                           },
                       .note = [](const std::string& text) { std::printf("note %s\n", text.c_str()); },
                       .link_down = [](cluster::NodeId) { std::printf("down %lld\n", now_ns()); },
                       .adopted =
                           [&](const cluster::ViewPtr&) {
                               const std::uint64_t committed = self->member().core().applied();
                               std::printf("view %llu %lld\n", static_cast<unsigned long long>(committed), now_ns());
                           }});
    self = &node;
    if (const auto started = node.start(); !started) {
        std::fprintf(stderr, "%s\n", started.error().message.c_str());
        return 1;
    }
    loop.run();
    return 0;
}

}  // namespace chaos::bench
