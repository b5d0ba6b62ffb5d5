#include "sim/report.h"

#include "base/file.h"

namespace chaos::sim {

std::string report_page(const World&, const Outcome&) {
    return "<!doctype html>";
}

Result<void> write_report(const std::filesystem::path& path, const World& world, const Outcome& outcome) {
    const std::string page = report_page(world, outcome);
    return write_file_atomically(path, page);
}

}  // namespace chaos::sim
