#include "elastic/work.h"

#include <cstring>

namespace chaos::elastic {

std::vector<std::uint8_t> bytes_of(const wire::Work& message) {
    std::vector<std::uint8_t> bytes(message.ByteSizeLong());
    message.SerializeWithCachedSizesToArray(bytes.data());
    return bytes;
}

Result<wire::Work> work_from(std::span<const std::uint8_t> bytes) {
    wire::Work message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return Error{"it sent what is no message of a member at work"};
    return message;
}

std::optional<cluster::Name> name_from(const std::string& bytes) {
    cluster::Name name{};
    if (bytes.size() != name.size()) return std::nullopt;
    std::memcpy(name.data(), bytes.data(), name.size());
    return name;
}

std::string to_wire(const cluster::Name& name) {
    return {reinterpret_cast<const char*>(name.data()), name.size()};
}

wire::StepRecord to_wire(const state::StepRecord& record) {
    wire::StepRecord to;
    to.set_step(record.step);
    to.set_view(to_wire(record.view));
    to.set_pass(record.pass);
    to.set_index(record.index);
    to.set_samples(record.samples);
    to.set_learning_rate(record.scalars.learning_rate);
    to.set_clip_scale(record.scalars.clip_scale);
    to.set_bias_correction1(record.scalars.bias_correction1);
    to.set_bias_correction2(record.scalars.bias_correction2);
    to.set_norm(record.norm);
    to.set_loss(record.loss);
    to.set_result_hash(record.result_hash);
    return to;
}

std::optional<state::StepRecord> record_from(const wire::StepRecord& record) {
    const std::optional<cluster::Name> view = name_from(record.view());
    if (!view) return std::nullopt;
    return state::StepRecord{.step = record.step(),
                             .view = *view,
                             .pass = record.pass(),
                             .index = record.index(),
                             .samples = record.samples(),
                             .scalars = {.learning_rate = record.learning_rate(),
                                         .clip_scale = record.clip_scale(),
                                         .bias_correction1 = record.bias_correction1(),
                                         .bias_correction2 = record.bias_correction2()},
                             .norm = record.norm(),
                             .loss = record.loss(),
                             .result_hash = record.result_hash()};
}

}  // namespace chaos::elastic
