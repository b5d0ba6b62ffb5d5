#include "node/description.h"

#include "base/file.h"
#include "base/words.h"
#include "elastic/describer.h"
#include "elastic/run_folder.h"
#include "elastic/work.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

namespace chaos::node {
namespace {

namespace fs = std::filesystem;
namespace wire = elastic::wire;

constexpr std::string_view file_keys[] = {"data.tokenizer", "model.init", "model.path"};
constexpr std::string_view data_keys[] = {"data.files", "data.labels"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

// ---- a member describes

Error too_large(const std::string& what) {
    return Error{"newcomers cannot be told what is trained, because " + what + " is more than " +
                 std::to_string(elastic::max_description_bytes >> 20) +
                 " MiB; whoever has the run file and its files joins with them: chaos up RUN.toml --join ADDR"};
}

Result<void> add_file(Description& description, const std::string& name, const fs::path& path) {
    std::error_code unknown;
    const std::uintmax_t size = fs::file_size(path, unknown);
    if (!unknown && size > elastic::max_description_bytes) return too_large(path.string());
    CHAOS_TRY(std::string content, read_file(path));
    description.files[name] = std::move(content);
    return {};
}

// A tokenizer, and the files beside it that an export takes along.
Result<void> add_tokenizer(Description& description, const std::string& key, const fs::path& tokenizer) {
    CHAOS_CHECK(add_file(description, key + "/tokenizer.json", tokenizer));
    for (const char* name : elastic::tokenizer_companions) {
        const fs::path beside = tokenizer.parent_path() / name;
        if (fs::exists(beside)) CHAOS_CHECK(add_file(description, key + "/" + name, beside));
    }
    return {};
}

// Undoes what reading the run file did.
std::string as_written(const fs::path& path, const fs::path& folder) {
    const std::string prefix = (folder / "").string();
    const std::string whole = path.string();
    return !folder.empty() && whole.starts_with(prefix) ? whole.substr(prefix.size()) : whole;
}

Result<void> add_data(Description& description, std::string_view key, const std::vector<fs::path>& files,
                      const fs::path& folder) {
    for (const fs::path& path : files) {
        CHAOS_TRY(const MappedFile file, MappedFile::open(path));
        description.data.push_back({.key = std::string(key),
                                    .path = as_written(path, folder),
                                    .bytes = file.bytes().size(),
                                    .hash = Sha256().add(file.bytes()).finish()});
    }
    return {};
}

// ---- a newcomer installs

// Below a folder, whatever the path says: ".." and a root lead nowhere.
fs::path below(const fs::path& path) {
    fs::path inside;
    for (const fs::path& part : path.lexically_normal().relative_path())
        if (part != ".." && part != ".") inside /= part;
    return inside;
}

fs::path description_file(const fs::path& dir) {
    return dir / "description";
}
fs::path places_file(const fs::path& dir) {
    return dir / "places";
}

fs::path beside_file(const fs::path& dir) {
    return dir / "run_folder";
}

// Where the data files of a description were found when it was installed here; empty: it was not.
std::vector<fs::path> kept_places(const fs::path& dir) {
    std::vector<fs::path> places;
    const Result<std::string> text = read_file(places_file(dir));
    if (!text) return places;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) places.emplace_back(line);
    return places;
}

std::vector<fs::path> places_of(const DataFile& file, const fs::path& kept, const fs::path& dir,
                                const fs::path& data_folder) {
    const fs::path path = file.path;
    std::vector<fs::path> places;
    const auto add = [&](const fs::path& place) {
        if (std::ranges::find(places, place) == places.end()) places.push_back(place);
    };
    if (path.is_relative()) add(dir / below(path));
    if (!data_folder.empty()) {
        if (path.is_relative()) add(data_folder / below(path));
        add(data_folder / path.filename());
    }
    if (!kept.empty()) add(kept);
    std::error_code nowhere;
    const fs::path here = fs::current_path(nowhere);
    if (path.is_relative() && !nowhere) add(here / below(path));
    if (path.is_absolute()) add(path);
    return places;
}

// Why it is not that file; empty: it is.
Result<std::string> difference(const fs::path& place, const DataFile& wanted) {
    std::error_code code;
    if (!fs::exists(place, code)) return "there is no " + place.string();
    CHAOS_TRY(const MappedFile found, MappedFile::open(place));
    if (found.bytes().size() != wanted.bytes)
        return place.string() + " has " + std::to_string(found.bytes().size()) + " bytes";
    if (Sha256().add(found.bytes()).finish() != wanted.hash)
        return place.string() + " has as many bytes, but another content";
    return std::string();
}

struct Search {
    std::optional<fs::path> found;
    std::string looked;
};

Search search(const DataFile& wanted, const std::vector<fs::path>& places) {
    Search search;
    for (const fs::path& place : places) {
        const Result<std::string> wrong = difference(place, wanted);
        if (wrong && wrong->empty()) {
            search.found = place;
            return search;
        }
        search.looked += (search.looked.empty() ? "" : "; ") + (wrong ? *wrong : wrong.error().message);
    }
    return search;
}

Result<run::Places> find_data(const Description& description, const fs::path& dir, const fs::path& data_folder) {
    run::Places found;
    std::string lacking;
    std::vector<fs::path> kept = kept_places(dir);
    kept.resize(description.data.size());
    for (std::size_t i = 0; i < description.data.size(); ++i) {
        const DataFile& file = description.data[i];
        const Search result = search(file, places_of(file, kept[i], dir, data_folder));
        if (result.found) {
            found[file.key].push_back(*result.found);
            continue;
        }
        lacking += "\n  " + file.path + ", " + std::to_string(file.bytes) + " bytes, SHA-256 " + hex(file.hash) + ": " +
                   result.looked;
    }
    if (lacking.empty()) return found;
    return Error{"this node lacks data of the run; put them below " + dir.string() +
                 " or the current folder, or say with --data FOLDER where they are:" + lacking};
}

fs::path place_in(const fs::path& dir, const std::string& file) {
    return dir / "files" / file;
}

Result<void> write_files(const Description& description, const fs::path& dir) {
    for (const auto& [name, content] : description.files) {
        const fs::path path = place_in(dir, name);
        CHAOS_CHECK(make_folder(path.parent_path()));
        CHAOS_CHECK(write_file_atomically(path, content));
    }
    return write_file_atomically(dir / "run.toml", description.run_text);
}

// Its files lie in `dir`; where its data lie, `places` says.
Result<run::Run> resolve(const Description& description, const fs::path& dir, run::Places places) {
    for (const auto& [name, unused] : description.files) {
        const fs::path path = place_in(dir, name);
        const std::string key = name.substr(0, name.find('/'));
        if (key == "model.init") places[key] = {path.parent_path()};
        if (key == "model.path") places[key] = {path};
        if (key == "data.tokenizer" && path.filename() == "tokenizer.json") places[key] = {path};
    }
    CHAOS_TRY(run::Run run, run::parse_run(description.run_text, "the cluster's run file", places));
    if (const auto weights = description.identity.find("model.init");
        weights != description.identity.end() && !run.model.init.empty())
        run.model.init_hash = weights->second;
    return run;
}

// In the description's order. A path that is no line is looked for again.
Result<void> write_places(const Description& description, const fs::path& dir, const run::Places& places) {
    std::map<std::string, std::size_t> next;
    std::string text;
    for (const DataFile& file : description.data) {
        std::error_code unknown;
        const fs::path place = fs::absolute(places.at(file.key)[next[file.key]++], unknown);
        text += (unknown || place.string().find('\n') != std::string::npos ? "" : place.string()) + "\n";
    }
    return write_file_atomically(places_file(dir), text);
}

// ---- what comes from others

Result<std::string> file_name(const std::string& name) {
    const std::size_t slash = name.find('/');
    const std::string key = name.substr(0, slash);
    const std::string last = slash == std::string::npos ? "" : name.substr(slash + 1);
    const bool plain = !last.empty() && last != "." && last != ".." && last.size() <= 255 &&
                       last.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
    if (plain && is_one_of(key, file_keys)) return name;
    return Error{"it names a file that no run needs: " + printable(name)};
}

// Paths are shown to people as they are.
bool is_control(char character) {
    return (character >= '\0' && character < ' ') || character == '\x7f';
}

Result<DataFile> data_file(const wire::RunDescription::Data& data) {
    const std::optional<cluster::Name> hash = elastic::name_from(data.hash());
    const bool sound = hash && is_one_of(data.key(), data_keys) && !data.path().empty() &&
                       std::ranges::none_of(data.path(), is_control) && fs::path(data.path()).has_filename();
    if (!sound) return Error{"it names data that cannot be: " + printable(data.path())};
    return DataFile{.key = data.key(), .path = data.path(), .bytes = data.bytes(), .hash = *hash};
}

}  // namespace

Result<Description> describe(const fs::path& run_file, const elastic::Trainer& trainer) {
    const run::Run& run = trainer.run();
    const fs::path folder = run_file.parent_path();
    Description description;
    CHAOS_TRY(description.run_text, read_file(run_file));
    description.identity = trainer.identity();
    if (!run.model.path.empty())
        CHAOS_CHECK(add_file(description, "model.path/" + run.model.path.filename().string(), run.model.path));
    if (!run.model.init.empty()) {
        CHAOS_CHECK(add_file(description, "model.init/config.json", run.model.init / "config.json"));
        if (!run.data.tokenizer.empty()) CHAOS_CHECK(add_tokenizer(description, "model.init", run.data.tokenizer));
    } else if (!run.data.tokenizer.empty()) {
        CHAOS_CHECK(add_tokenizer(description, "data.tokenizer", run.data.tokenizer));
    }
    CHAOS_CHECK(add_data(description, "data.files", run.data.files, folder));
    CHAOS_CHECK(add_data(description, "data.labels", run.data.labels, folder));
    return description;
}

Result<std::string> encode(const Description& description) {
    wire::RunDescription message;
    message.set_run_text(description.run_text);
    for (const auto& [name, content] : description.files) {
        wire::RunDescription::File& file = *message.add_files();
        file.set_name(name);
        file.set_content(content);
    }
    for (const auto& [key, value] : description.identity) {
        wire::Setting& setting = *message.add_identity();
        setting.set_key(key);
        setting.set_value(value);
    }
    for (const DataFile& one : description.data) {
        wire::RunDescription::Data& data = *message.add_data();
        data.set_key(one.key);
        data.set_path(one.path);
        data.set_bytes(one.bytes);
        data.set_hash(elastic::to_wire(one.hash));
    }
    if (message.ByteSizeLong() > elastic::max_description_bytes) return too_large("all that they need");
    return message.SerializeAsString();
}

Result<Description> decode_description(std::string_view bytes) {
    wire::RunDescription message;
    if (bytes.size() > elastic::max_description_bytes ||
        !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return Error{"it is no description of a run"};
    Description description;
    description.run_text = message.run_text();
    for (wire::RunDescription::File& file : *message.mutable_files()) {
        CHAOS_TRY(const std::string name, file_name(file.name()));
        description.files[name] = std::move(*file.mutable_content());
    }
    for (const wire::Setting& setting : message.identity()) description.identity[setting.key()] = setting.value();
    for (const wire::RunDescription::Data& data : message.data()) {
        CHAOS_TRY(DataFile file, data_file(data));
        description.data.push_back(std::move(file));
    }
    return description;
}

Result<run::Run> install(const Description& description, const fs::path& dir, const fs::path& data_folder) {
    CHAOS_TRY(run::Places places, find_data(description, dir, data_folder));
    CHAOS_CHECK(make_folder(dir));
    CHAOS_CHECK(write_places(description, dir, places));
    CHAOS_CHECK(write_files(description, dir));
    CHAOS_TRY(const std::string encoded, encode(description));
    CHAOS_CHECK(write_file_atomically(description_file(dir), encoded));
    std::error_code not_there;
    fs::remove(beside_file(dir), not_there);
    return resolve(description, dir, std::move(places));
}

Result<run::Identity> settings_of(const Description& description, const fs::path& dir) {
    run::Places places;
    for (const DataFile& file : description.data) places[file.key].emplace_back(file.path);
    CHAOS_TRY(const run::Run run, resolve(description, dir, std::move(places)));
    run::Identity settings = run::shared_settings(run);
    settings.insert(description.identity.begin(), description.identity.end());
    return settings;
}

Result<void> keep_place(const fs::path& run_file, const fs::path& dir) {
    std::error_code problem;
    const fs::path whole = fs::absolute(run_file, problem);
    if (problem) return Error{"cannot find out where " + run_file.string() + " is: " + problem.message()};
    return write_file_atomically(beside_file(dir), whole.lexically_normal().parent_path().string());
}

Result<run::Run> run_in(const fs::path& dir) {
    const fs::path run_file = dir / "run.toml";
    if (fs::exists(beside_file(dir))) {
        CHAOS_TRY(const std::string text, read_file(run_file));
        CHAOS_TRY(const std::string folder, read_file(beside_file(dir)));
        return run::parse_run(text, run_file.string(), fs::path(folder));
    }
    CHAOS_TRY(const std::optional<Description> description, installed(dir));
    if (!description) return run::read_run(run_file);
    CHAOS_TRY(run::Places places, find_data(*description, dir, {}));
    return resolve(*description, dir, std::move(places));
}

Result<std::optional<Description>> installed(const fs::path& dir) {
    const fs::path path = description_file(dir);
    if (!fs::exists(path)) return std::optional<Description>();
    CHAOS_TRY(const std::string bytes, read_file(path));
    Result<Description> description = decode_description(bytes);
    if (!description)
        return Error{path.string() + ": " + description.error().message + "; remove it to be told by the others again"};
    return std::optional(std::move(*description));
}

Result<void> check_same_run(const run::Identity& ours, const run::Identity& clusters) {
    const auto value = [](const run::Identity& identity, const std::string& key) {
        const auto at = identity.find(key);
        return at == identity.end() ? "not set" : at->second;
    };
    std::set<std::string> keys;
    for (const auto& [key, unused] : ours) keys.insert(key);
    for (const auto& [key, unused] : clusters) keys.insert(key);
    for (const std::string& key : keys) {
        const std::string here = value(ours, key);
        const std::string there = value(clusters, key);
        if (here == there) continue;
        const std::string other = "the cluster trains another run: ";
        if (key == "data.content") return Error{other + "its data have another content than those of data.files here"};
        if (key == "model.path") return Error{other + "its TorchScript file has another content than model.path here"};
        if (key == "model.init") return Error{other + "it began with other weights than those of model.init here"};
        return Error{other + printable(key) + " is " + printable(there) + " there, and " + printable(here) + " here"};
    }
    return {};
}

}  // namespace chaos::node
