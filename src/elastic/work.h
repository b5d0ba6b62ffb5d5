// What messages of members at work (proto/elastic.proto) are made of and read as.
#pragma once

#include "base/result.h"
#include "cluster/id.h"
#include "state/record.h"

#include "proto/elastic.pb.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace chaos::elastic {

[[nodiscard]] std::vector<std::uint8_t> bytes_of(const wire::Work& message);

[[nodiscard]] Result<wire::Work> work_from(std::span<const std::uint8_t> bytes);

// nullopt: not as long as a name is.
[[nodiscard]] std::optional<cluster::Name> name_from(const std::string& bytes);
[[nodiscard]] std::string to_wire(const cluster::Name& name);

[[nodiscard]] wire::StepRecord to_wire(const state::StepRecord& record);
// nullopt: it is none.
[[nodiscard]] std::optional<state::StepRecord> record_from(const wire::StepRecord& record);

}  // namespace chaos::elastic
