#include "fuzz/seeds.h"

#include "base/assert.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerInitialize(const int* argc, char*** argv) {
    const bool asked = *argc == 3 && std::string_view((*argv)[1]) == "--seeds";
    if (!asked) return 0;
    const std::filesystem::path folder = (*argv)[2];
    std::filesystem::create_directories(folder);
    std::size_t number = 0;
    for (const chaos::fuzz::Bytes& seed : chaos::fuzz::seeds()) {
        std::ofstream file(folder / ("seed-" + std::to_string(number++)), std::ios::binary);
        file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
        CHAOS_ASSERT(file.flush().good());
    }
    std::exit(0);
}
