// A file that lists devices which need not exist, and the links among them, for plans of how they would serve a model:
//
//   [devices.big]
//   memory = "16GB"         # what the program may take in all; left out: as much as it needs
//   speed = "20GB/s"        # weights multiplied for one token
//   disk = "3GB/s"          # weights that do not fit are streamed; left out: it cannot
//
//   [devices.small]
//   count = 3               # small1, small2 and small3
//   memory = "4GB"
//   speed = "8GB/s"
//   network = "1Gb/s"       # its card, each way; left out: only links are a limit
//   program = "60MB"        # what the program takes without weights (this is the default)
//   message = "15us"        # its own work for each message (likewise)
//   phase = "20us"          # of each phase beside weights: norms, threads that wake (likewise)
//   prompt = "400GB/s"      # weights times tokens, for prompts; left out: prompts are not predicted
//
//   [links]                 # of all that are not listed below
//   rate = "1Gb/s"
//   delay = "0.2ms"         # one way
//
//   [links.big.small1]
//   delay = "1ms"
//
//   [links.small2]
//   small3 = "none"         # no link
#pragma once

#include "base/result.h"
#include "plan/tensor_plan.h"

#include <filesystem>
#include <string>
#include <vector>

namespace chaos::cli {

struct DevicesFile {
    std::vector<plan::TensorDevice> devices;  // ids count from 1, in the file's order
    std::vector<plan::SyncLink> links;
};

[[nodiscard]] Result<DevicesFile> read_devices(const std::filesystem::path& path);
// `name` stands for the file in errors.
[[nodiscard]] Result<DevicesFile> parse_devices(const std::string& text, const std::string& name);

}  // namespace chaos::cli
