#include "plain_library.h"

#include "compute/plugin.h"

#include <dlfcn.h>
#include <filesystem>

namespace chaos::bench {

Result<PlainLibrary> PlainLibrary::load() {
    CHAOS_TRY(const compute::Plugin plugin, compute::Plugin::load());
    if (!plugin.advice().empty()) return Error{"a fair comparison needs the fast BLAS: " + plugin.advice()};
    std::error_code code;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", code).parent_path() / "libbench_plain.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return Error{std::string("cannot load the plain loop: ") + dlerror()};
    auto* make = reinterpret_cast<MakePlainLoopEntry*>(dlsym(library, make_plain_loop_entry));
    if (make == nullptr) return Error{path.string() + " is not the library of the plain loop"};
    return PlainLibrary(make);
}

Result<std::unique_ptr<PlainLoop>> PlainLibrary::make_loop(const run::Run& run) const {
    std::unique_ptr<PlainLoop> loop(make_(run));
    if (loop == nullptr) return Error{"there is no plain loop for model.kind = \"" + run.model.kind + "\""};
    return loop;
}

}  // namespace chaos::bench
