// What a stranger says of what it can do, and how a stranger divides the model: the first byte says which.
#include "base/assert.h"
#include "fuzz/seeds.h"
#include "infer/small_model.h"
#include "infer/tensor_model.h"
#include "tensor/division.h"
#include "tensor/wire.h"

namespace {

using namespace chaos;
using namespace chaos::tensor;

void check_slices(const wire::Division& division) {
    for (std::size_t place = 0; place < static_cast<std::size_t>(division.members_size()); ++place) {
        const infer::Slice slice = slice_of(division, place);
        CHAOS_ASSERT(slice.heads.end() <= infer::test::divisible_config().heads &&
                     slice.ffn.end() <= infer::test::divisible_config().ffn &&
                     slice.vocab.end() <= infer::test::divisible_config().vocab);
        CHAOS_ASSERT(infer::part_of(infer::test::divisible_config(), slice).heads == slice.heads.count);
    }
}

// Three neighbours told it, the last of them something strange: whatever it is, the model is divided.
void divide_among(const wire::Able& strange) {
    const infer::Config config = infer::test::divisible_config();
    const std::vector<NodeId> nodes = {{1, 1}, {2, 2}, {3, 3}};
    std::vector<Fact> facts;
    std::map<NodeId, wire::Able> ables;
    for (const NodeId node : nodes) {
        wire::Able able;
        able.set_weight_bytes_per_s(1'000'000'000);
        able.set_context(32);
        able.set_sequences(2);
        for (const NodeId peer : nodes) {
            if (peer == node) continue;
            wire::Able::Link& link = *able.add_links();
            *link.mutable_peer() = to_wire(peer);
            link.set_little_ns(50'000);
            link.set_much_ns(90'000);
        }
        CHAOS_ASSERT(check_able(config, able));
        if (node == nodes.back()) able = strange;
        if (!check_able(config, able)) continue;
        facts.push_back({.node = node, .able = able});
        ables[node] = able;
    }
    const auto tensors = infer::packed_tensors(config, infer::Format::f32);
    for (const bool everyone : {false, true}) {
        auto divided = divide(config, tensors, facts, nodes.front(), everyone);
        CHAOS_ASSERT(divided && check_division(config, divided->division));
        check_slices(divided->division);
        CHAOS_ASSERT(same(divided->division, divided->division));
        predict_anew(config, tensors, ables, *divided);
    }
}

// A text that is computed changes nothing but its logits.
void prefer(const infer::Request& request) {
    std::vector<float> logits(static_cast<std::size_t>(infer::test::divisible_config().vocab));
    const auto drawn = std::span(request.prompt).last(request.drawn);
    infer::apply(request.preferences, drawn, logits);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return -1;
    const auto work = work_from({data + 1, size - 1});
    if (!work) return 0;
    if (data[0] % 2 == 0 && work->has_division() && check_division(infer::test::divisible_config(), work->division())) {
        check_slices(work->division());
        CHAOS_ASSERT(longest_message_bytes(infer::test::divisible_config(), work->division()) > max_work_bytes);
    }
    if (data[0] % 2 == 1 && work->has_able()) divide_among(work->able());
    if (work->has_ask()) {
        const infer::Request request = request_from(work->ask());
        if (infer::check(request, 32, infer::test::divisible_config().vocab)) {
            (void)to_wire(request);
            prefer(request);
        }
    }
    if (work->has_told()) (void)ended_from(work->told().ended());
    return 0;
}

std::vector<fuzz::Bytes> fuzz::seeds() {
    std::vector<Bytes> seeds;
    const auto add = [&](std::uint8_t kind, const wire::Work& work) {
        Bytes bytes = bytes_of(work);
        bytes.insert(bytes.begin(), kind);
        seeds.push_back(std::move(bytes));
    };
    wire::Work able;
    able.mutable_able()->set_weight_bytes_per_s(2'000'000'000);
    able.mutable_able()->set_memory_bytes(100'000'000);
    able.mutable_able()->set_context(16);
    able.mutable_able()->set_sequences(1);
    wire::Able::Link& link = *able.mutable_able()->add_links();
    *link.mutable_peer() = to_wire(NodeId{1, 1});
    link.set_little_ns(1'000'000);
    link.set_much_ns(1'100'000);
    add(1, able);
    wire::Work division;
    wire::Division& of = *division.mutable_division();
    of.set_generation(7);
    of.set_context(32);
    of.set_sequences(2);
    of.set_batch(64);
    for (std::uint32_t place = 0; place < 2; ++place) {
        wire::Division::Member& member = *of.add_members();
        *member.mutable_node() = to_wire(NodeId{place + 1, 0});
        member.mutable_heads()->set_first(2 * place);
        member.mutable_heads()->set_count(2);
        member.mutable_ffn()->set_first(256 * place);
        member.mutable_ffn()->set_count(256);
        member.mutable_vocab()->set_first(4 * place);
        member.mutable_vocab()->set_count(4);
    }
    add(0, division);
    wire::Work ask;
    infer::Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 5;
    request.preferences = {.bias = {{7, 1.5}}, .presence_penalty = 0.5, .frequency_penalty = 0.25};
    *ask.mutable_ask() = to_wire(request);
    add(0, ask);
    return seeds;
}
