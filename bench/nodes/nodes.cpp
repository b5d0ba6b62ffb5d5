#include "nodes/nodes.h"

#include "node/ask.h"

#include <unistd.h>
#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace chaos::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds look_again{5};
constexpr milliseconds answer_patience{10'000};

// An mlp of one hidden layer: (inputs + 1) x hidden + (hidden + 1) x classes parameters, each with two slots.
constexpr std::uint64_t inputs = 63;
constexpr std::uint64_t classes = 10;
constexpr std::uint64_t bytes_per_parameter = 12;

std::uint64_t hidden_for(std::uint64_t state_bytes) {
    return std::max<std::uint64_t>(state_bytes / bytes_per_parameter / (inputs + 1 + classes), 1);
}

}  // namespace

double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path chaos_program() {
    return CHAOS_PROGRAM;
}

std::filesystem::path toy_plugin() {
    return CHAOS_TOY_PLUGIN;
}

Wanted is_kind(const std::string& kind) {
    return [kind](const json& line) { return line.value("kind", "") == kind; };
}

Wanted tells(const std::string& kind, const std::string& part_of_text) {
    return [kind, part_of_text](const json& line) {
        return line.value("kind", "") == kind && line.value("text", "").find(part_of_text) != std::string::npos;
    };
}

Wanted trained_step(std::uint64_t step) {
    return [step](const json& line) {
        return line.value("kind", "") == "trained" && line.value("step", std::uint64_t{0}) >= step;
    };
}

Result<NodeProcess> NodeProcess::start(const NodeStart& start) {
    // Whatever ends the experiment ends its nodes.
    std::vector<std::string> arguments{"setpriv", "--pdeathsig", "KILL", "env"};
    arguments.insert(arguments.end(), {"CHAOS_HOME=" + start.home.string(), "OMP_WAIT_POLICY=passive"});
    if (start.toy) arguments.push_back(std::string("CHAOS_PLUGIN=") + CHAOS_TOY_PLUGIN);
    for (const auto& [name, value] : start.environment) arguments.push_back(name + "=" + value);
    arguments.insert(arguments.end(), {CHAOS_PROGRAM, start.command});
    if (start.command == "up") arguments.push_back(start.run_file);
    for (const std::string& address : start.join) {
        if (start.command == "up") arguments.emplace_back("--join");
        arguments.push_back(address);
    }
    arguments.insert(arguments.end(), {"--dir", start.dir.string(), "--json"});
    if (!start.listen.empty()) arguments.insert(arguments.end(), {"--listen", start.listen});
    arguments.insert(arguments.end(), start.more.begin(), start.more.end());
    CHAOS_TRY(testbed::Process process, testbed::Process::start(arguments, start.place));
    return NodeProcess(std::move(process), start.dir);
}

const std::vector<Line>& NodeProcess::lines() {
    const std::string more = process_.out(read_bytes_);
    read_bytes_ += more.size();
    begun_ += more;
    std::size_t first = 0;
    for (std::size_t end = begun_.find('\n'); end != std::string::npos; end = begun_.find('\n', first)) {
        const json content = json::parse(begun_.substr(first, end - first), nullptr, false);
        first = end + 1;
        if (!content.is_object()) continue;
        lines_.push_back({.time = content.value("time", 0.0), .content = content});
    }
    begun_.erase(0, first);
    return lines_;
}

Result<Line> NodeProcess::wait_for(const Wanted& wanted, milliseconds patience, std::size_t from) {
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (true) {
        const bool last = process_.ended();
        const std::vector<Line>& all = lines();
        for (; from < all.size(); ++from)
            if (wanted(all[from].content)) return all[from];
        if (last) return Error{"a node ended: " + last_words()};
        if (std::chrono::steady_clock::now() > limit) return Error{"a node does not come that far: " + last_words()};
        std::this_thread::sleep_for(look_again);
    }
}

Result<json> NodeProcess::status() const {
    return ask({{"command", "status"}});
}

Result<json> NodeProcess::ask(const json& request) const {
    json answer;
    const node::OnLine keep = [&](const json& line) -> Result<void> {
        answer = line;
        return {};
    };
    CHAOS_CHECK(node::ask(dir_, request, keep, answer_patience));
    return answer;
}

double NodeProcess::cpu_seconds() const {
    std::ifstream file("/proc/" + std::to_string(process_.pid()) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');  // the name may hold anything
    if (name_end == std::string::npos) return 0.0;
    std::istringstream words(text.substr(name_end + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) words >> skipped;
    double user = 0.0;
    double system = 0.0;
    words >> user >> system;
    return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::uint64_t NodeProcess::memory_bytes() const {
    std::ifstream file("/proc/" + std::to_string(process_.pid()) + "/statm");
    std::uint64_t all = 0;
    std::uint64_t resident = 0;
    file >> all >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t NodeProcess::descriptors() const {
    std::error_code gone;
    std::size_t count = 0;
    for (fs::directory_iterator at("/proc/" + std::to_string(process_.pid()) + "/fd", gone), end; at != end;
         at.increment(gone))
        ++count;
    return count;
}

std::string NodeProcess::last_words() {
    constexpr std::size_t last = 12;
    const std::vector<Line>& all = lines();
    std::string text = dir_.filename().string() + "\n";
    for (std::size_t i = all.size() > last ? all.size() - last : 0; i < all.size(); ++i)
        text += "  " + all[i].content.dump() + "\n";
    return text + process_.err();
}

Result<std::uint64_t> compute_again(const std::vector<std::filesystem::path>& dirs,
                                    const std::filesystem::path& run_file, bool toy) {
    std::vector<std::string> command = {chaos_program(), "replay"};
    if (toy) command.insert(command.begin(), {"env", "CHAOS_PLUGIN=" + toy_plugin().string()});
    for (const std::filesystem::path& dir : dirs) command.push_back(dir);
    command.insert(command.end(), {"--run", run_file.string()});
    CHAOS_TRY(const std::string told, testbed::run_program(command));
    const std::size_t words = told.find(" steps computed again: equal bits");
    if (words == std::string::npos) return Error{"the run computed again is another one: " + told};
    return std::stoull(told.substr(told.rfind('\n', words) + 1));
}

std::string toy_run_text(std::uint64_t state_bytes, std::uint64_t batch, std::uint64_t steps) {
    std::ostringstream text;
    text << "[model]\nkind = \"mlp\"\nhidden = [" << hidden_for(state_bytes) << "]\n"
         << "[data]\nkind = \"synthetic\"\nshape = [" << inputs << "]"
         << "\nsamples = 1000\nheld_out = 0\n"
         << "[train]\nthreads = 1\nbatch = " << batch << "\nsteps = " << steps
         << "\neval_every = 0\ncheckpoint_every = 0\n";
    return text.str();
}

std::uint64_t toy_state_bytes(std::uint64_t state_bytes) {
    const std::uint64_t hidden = hidden_for(state_bytes);
    return bytes_per_parameter * ((inputs + 1) * hidden + (hidden + 1) * classes);
}

}  // namespace chaos::bench
