#include "base/file.h"
#include "cli/devices_file.h"
#include "cli/process.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace chaos::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* large_config =
    R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "intermediate_size": 28672,
        "max_position_embeddings": 131072})";

constexpr const char* eight_devices = R"(
[devices.pi]
count = 8
memory = "4GB"
speed = "8GB/s"
disk = "0.4GB/s"
network = "1Gb/s"

[links]
rate = "1Gb/s"
delay = "0.2ms"
)";

TEST(Plan, ALargeModelOnEightSmallDevices) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() / "large");
    ASSERT_TRUE(write_file_atomically(folder.path() / "large" / "config.json", large_config).ok());
    ASSERT_TRUE(write_file_atomically(folder.path() / "devices.toml", eight_devices).ok());
    const std::vector<std::string> command = {"plan", "--serve",    "large", "--devices", "devices.toml", "--context",
                                              "2048", "--parallel", "1",     "--type",    "q4_0"};
    const Outcome shown = run_chaos(command, folder.path());
    ASSERT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("pi8 "));
    EXPECT_THAT(shown.out, HasSubstr("8 of 8 devices: "));
    EXPECT_THAT(shown.out, HasSubstr("ms per token, simulated "));
    // Nodes would compute prompts so: all of them stream.
    EXPECT_THAT(shown.out, HasSubstr("tokens at once, not by halves: somebody has no room for 64"));
    std::vector<std::string> with_json = command;
    with_json.emplace_back("--json");
    const Outcome said = run_chaos(with_json, folder.path());
    ASSERT_EQ(said.code, 0) << said.err;
    const json plan = json::parse(said.out);
    EXPECT_EQ(plan["devices"].size(), 8U);
    std::uint64_t heads = 0;
    for (const json& device : plan["devices"]) {
        EXPECT_LE(device["memory_bytes"], 4'000'000'000U);
        EXPECT_EQ(device["heads"][0], heads);
        heads += device["heads"][1].get<std::uint64_t>();
    }
    EXPECT_EQ(heads, 64U);
    EXPECT_GT(plan["predicted_to_simulated"], 0.85);
    EXPECT_LT(plan["predicted_to_simulated"], 1.15);

    const Outcome no_type = run_chaos({"plan", "--serve", "large", "--devices", "devices.toml"}, folder.path());
    EXPECT_EQ(no_type.code, 2);
    EXPECT_THAT(no_type.err, HasSubstr("large has no weights; say by --type how they would be kept"));
    std::vector<std::string> by_ring = command;
    by_ring.insert(by_ring.end(), {"--exchange", "ring"});
    EXPECT_THAT(run_chaos(by_ring, folder.path()).err, HasSubstr("--exchange takes direct, scatter, star or tree"));
}

TEST(DevicesFile, ReadsDevicesAndLinks) {
    const auto file = cli::parse_devices(R"(
[devices.big]
memory = "16GB"
speed = "20GB/s"
message = "5us"
[devices.small]
count = 3
speed = "8GB/s"
disk = "500MB/s"
network = "100Mb/s"
[links]
rate = "1Gb/s"
delay = "0.2ms"
[links.big.small1]
delay = "1ms"
[links.small2]
small3 = "none"
)",
                                         "devices.toml");
    ASSERT_TRUE(file.ok()) << file.error().message;
    ASSERT_EQ(file->devices.size(), 4U);
    EXPECT_EQ(file->devices[0].name, "big");
    EXPECT_EQ(file->devices[0].memory_bytes, 16'000'000'000U);
    EXPECT_EQ(file->devices[0].message_ns, 5'000U);
    EXPECT_EQ(file->devices[3].name, "small3");
    EXPECT_EQ(file->devices[3].memory_bytes, plan::unlimited);
    EXPECT_EQ(file->devices[3].disk_bytes_per_s, 500'000'000U);
    EXPECT_EQ(file->devices[3].egress_bytes_per_s, 12'500'000U);
    ASSERT_EQ(file->links.size(), 5U);
    EXPECT_EQ(file->links[0].delay_ns, 1'000'000U);
    EXPECT_EQ(file->links[1].delay_ns, 200'000U);
    EXPECT_EQ(file->links[1].a_to_b_bytes_per_s, 125'000'000U);
}

TEST(DevicesFile, RefusesInWords) {
    const auto refused = [](const std::string& text) {
        const auto file = cli::parse_devices(text, "d.toml");
        return file.ok() ? "" : file.error().message;
    };
    EXPECT_THAT(refused(""), HasSubstr("d.toml has no device"));
    EXPECT_THAT(refused("[devices.a]\nmemory = \"1GB\"\n"), HasSubstr("d.toml:1: devices.a has no speed"));
    EXPECT_THAT(refused("[devices.a]\nspeed = \"1GB\"\n"), HasSubstr("d.toml:2: devices.a.speed must be a rate like"));
    EXPECT_THAT(refused("[devices.a]\nspeed = 3\n"), HasSubstr("devices.a.speed must be a rate like"));
    EXPECT_THAT(refused("[devices.a]\nspeeed = \"1GB/s\"\n"), HasSubstr("did you mean speed?"));
    EXPECT_THAT(refused("[device.a]\nspeed = \"1GB/s\"\n"), HasSubstr("a file of devices has tables"));
    EXPECT_THAT(refused("[devices.a]\nspeed = \"1GB/s\"\n[links.a.b]\nrate = \"1Gb/s\"\n"),
                HasSubstr("there is no device b to link"));
    EXPECT_THAT(refused("[devices.a]\ncount = 2\nspeed = \"1GB/s\"\n[links.a1.a2]\ndelay = \"1ms\"\n"),
                HasSubstr("the link of a1 and a2 has no rate"));
    EXPECT_THAT(refused("[devices.a]\ncount = 99\nspeed = \"1GB/s\"\n"), HasSubstr("a number from 1 to 64"));
    EXPECT_THAT(refused("[devices.a]\ncount = 2\nspeed = \"1GB/s\"\n[devices.a2]\nspeed = \"1GB/s\"\n"),
                HasSubstr("there are two devices a2"));
}

}  // namespace
}  // namespace chaos::test
