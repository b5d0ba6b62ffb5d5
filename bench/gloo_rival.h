// Gloo's ring all-reduce, the rival of ours. Only for programs that are linked with Gloo.
#pragma once

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>
#include <vector>

namespace chaos::bench {

class GlooRival {
public:
    // One of `count` processes. They find each other in the folder, and each listens at its own address.
    GlooRival(const std::string& folder, int number, int count, const std::string& address)
        : context_(std::make_shared<gloo::rendezvous::Context>(number, count)) {
        gloo::transport::tcp::attr here;
        here.hostname = address;
        auto device = gloo::transport::tcp::CreateDevice(here);
        gloo::rendezvous::FileStore store(folder);
        context_->connectFullMesh(store, device);
    }

    void barrier() {
        gloo::BarrierOptions options(context_);
        gloo::barrier(options);
    }

    void all_reduce(std::vector<float>& input, std::vector<float>& output) {
        gloo::AllreduceOptions options(context_);
        options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        options.setInput(input.data(), input.size());
        options.setOutput(output.data(), output.size());
        options.setReduceFunction(
            [](void* sum, const void* a, const void* b, std::size_t size) { gloo::sum<float>(sum, a, b, size); });
        gloo::allreduce(options);
    }

private:
    std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace chaos::bench
