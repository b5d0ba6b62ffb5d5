#include "compute/plugin.h"

#include "compute/plugin_entry.h"

#include <dlfcn.h>
#include <cstdlib>

namespace chaos::compute {
namespace {

constexpr const char* file_name = "libchaos_torch.so";
constexpr const char* how_to_install = "install it with: apt-get install libtorch-dev libopenblas0-openmp";

std::filesystem::path find_plugin() {
    if (const char* named = std::getenv("CHAOS_PLUGIN"); named != nullptr && *named != '\0') return named;
    std::error_code code;
    const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", code).parent_path();
    for (const auto& candidate : {folder / file_name, folder / "../lib/chaos" / file_name})
        if (std::filesystem::exists(candidate, code)) return candidate;
    return {};
}

// Debian picks OpenBLAS' pthread variant, or the 20 times slower reference BLAS, by its alternatives. The OpenMP
// variant shares its threads with LibTorch; loaded first, under the name LibTorch asks for, it is the one it gets.
bool preload_blas() {
    std::error_code code;
    for (const auto& triplet : std::filesystem::directory_iterator("/usr/lib", code)) {
        const std::filesystem::path folder = triplet.path() / "openblas-openmp";
        if (!std::filesystem::exists(folder / "libblas.so.3", code)) continue;
        bool loaded = true;
        for (const char* name : {"libopenblas.so.0", "libblas.so.3", "liblapack.so.3"})
            if (std::filesystem::exists(folder / name, code))
                loaded = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr && loaded;
        if (loaded) return true;
    }
    return false;
}

// Debian's LibTorch takes its BLAS from outside; wheels bring their own.
bool uses_system_blas() {
    void* blas = dlopen("libblas.so.3", RTLD_NOW | RTLD_NOLOAD);
    if (blas != nullptr) dlclose(blas);
    return blas != nullptr;
}

}  // namespace

Result<Plugin> Plugin::load() {
    const std::filesystem::path path = find_plugin();
    if (path.empty())
        return Error{std::string("this installation of chaos cannot train: ") + file_name +
                     " is not there. It is built where LibTorch is installed; " + how_to_install +
                     ", then build again"};
    const bool good_blas = preload_blas();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const std::string why = dlerror();
        if (why.find("libtorch") != std::string::npos || why.find("libc10") != std::string::npos)
            return Error{std::string("training needs LibTorch, which is not installed here; ") + how_to_install + " (" +
                         why + ")"};
        return Error{"cannot load " + path.string() + ": " + why};
    }
    auto* version = reinterpret_cast<EngineVersionEntry*>(dlsym(library, engine_version_entry));
    auto* make = reinterpret_cast<MakeEngineEntry*>(dlsym(library, make_engine_entry));
    if (version == nullptr || make == nullptr) return Error{path.string() + " is not a compute plugin of chaos"};
    if (std::string_view(version()) != CHAOS_ENGINE_VERSION)
        return Error{path.string() + " belongs to another version of chaos (it has engine version " + version() +
                     ", this program needs " CHAOS_ENGINE_VERSION "); build both together"};
    std::string advice;
    if (!good_blas && uses_system_blas())
        advice =
            "training is several times slower without libopenblas0-openmp; install it with: apt-get install "
            "libopenblas0-openmp";
    return Plugin(make, std::move(advice));
}

Result<std::unique_ptr<Engine>> Plugin::make_engine(const EngineOptions& options) const {
    Result<std::unique_ptr<Engine>> engine = Error{"the compute plugin gave no answer"};
    make_(options, &engine);
    return engine;
}

}  // namespace chaos::compute
