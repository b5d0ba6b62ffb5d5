// chaos serve --dir, --join, --local: a model that several nodes compute together; each of them answers.
#include "cli/chat_model.h"
#include "cli/kept_cluster.h"
#include "cli/progress.h"
#include "cli/quantities.h"
#include "cli/serving.h"
#include "cli/serving_control.h"
#include "elastic/run_folder.h"
#include "infer/model_text.h"
#include "infer/speed.h"
#include "net/address.h"
#include "node/identity.h"
#include "tensor/enquiry.h"
#include "tensor/member.h"

#include <boost/asio/post.hpp>

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

namespace chaos::cli {
namespace {

namespace fs = std::filesystem;

void say(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
}

// What this node has of the model, and what it is.
struct Opened {
    std::string name;  // for clients
    tensor::Source source;
    infer::ModelFile model;  // whose weights need not all be here
    std::function<Result<infer::ModelFile>()> again;
    bool whole = false;  // they are
};

// Its files lie here.
Result<Opened> open_files(const ServeOptions& options, const fs::path& dir) {
    struct Files {
        explicit Files(infer::ModelFile opened) : file(std::move(opened)) {}
        infer::ModelFile file;
        std::optional<infer::FileUnits> units;
    };
    CHAOS_TRY(infer::ModelFile file, infer::ModelFile::open(options.model));
    CHAOS_TRY(infer::ModelFile again, infer::ModelFile::open(options.model));
    const auto files = std::make_shared<Files>(std::move(file));
    CHAOS_TRY(files->units, infer::FileUnits::open(files->file));
    const std::string name = model_name(options.model);
    // Where there is no home, the node's own folder does.
    const auto cache = cache_folder(options.compute.memory);
    infer::Pool pool{threads_or_all(options.compute.threads)};
    CHAOS_TRY(infer::Manifest manifest,
              infer::manifest_of(files->file, *files->units, (cache ? *cache : dir) / "manifests", pool,
                                 show_progress("hashing " + name)));
    return Opened{.name = name,
                  .source = {.manifest = std::move(manifest),
                             .files = std::shared_ptr<const infer::UnitSource>(files, &*files->units),
                             .image = nullptr},
                  .model = std::move(again),
                  .again = [path = options.model] { return infer::ModelFile::open(path); },
                  .whole = true};
}

// Others have it.
Result<Opened> ask_others(const ServeOptions& options, const std::vector<std::string>& addresses, const fs::path& dir,
                          const node::Identity& identity) {
    boost::asio::io_context loop{1};
    tensor::EnquiryOptions enquiry{.addresses = addresses, .links = {}, .folder = dir / "models"};
    CHAOS_TRY(enquiry.limit_bytes, cache_limit_bytes(options.compute.memory));
    enquiry.note = say;
    CHAOS_TRY(tensor::FoundModel found, tensor::find_model(loop, identity.key, identity.credential, enquiry));
    CHAOS_TRY(infer::ModelFile model, found.image->open_model());
    return Opened{.name = found.name,
                  .source = {.manifest = found.image->manifest(), .files = nullptr, .image = found.image},
                  .model = std::move(model),
                  .again = [image = found.image] { return image->open_model(); },
                  .whole = false};
}

// Without MODEL's files: from this node's own disk, or from others. `known` are others of the last time.
Result<Opened> open_without_files(const ServeOptions& options, const std::optional<KeptCluster>& known,
                                  const fs::path& dir, const node::Identity& identity) {
    std::vector<std::string> addresses = options.join;
    if (addresses.empty()) {
        CHAOS_TRY(const std::uint64_t limit_bytes, cache_limit_bytes(options.compute.memory));
        CHAOS_TRY(const auto kept, open_kept_model(dir, options.model.string(),
                                                   known ? std::optional(known->model) : std::nullopt, limit_bytes));
        if (kept) {
            const bool others_known =
                known && !known->addresses.empty() && known->model == infer::identity_of(kept->image->manifest());
            if (!kept->whole && !others_known)
                return Error{(dir / "models").string() + " has only a part of " + kept->name +
                             ": name a node that has the rest by --join, or the model's files"};
            CHAOS_TRY(infer::ModelFile model, kept->image->open_model());
            return Opened{.name = kept->name,
                          .source = {.manifest = kept->image->manifest(), .files = nullptr, .image = kept->image},
                          .model = std::move(model),
                          .again = [image = kept->image] { return image->open_model(); },
                          .whole = kept->whole};
        }
    }
    if (!options.model.empty() && options.join.empty())
        return Error{"there is no model " + options.model.string() + ", neither its files nor a copy in " +
                     (dir / "models").string()};
    if (known) addresses.insert(addresses.end(), known->addresses.begin(), known->addresses.end());
    if (addresses.empty())
        return Error{"name a model; or, with --join, a node that has it: then this one gets its part from there"};
    return ask_others(options, addresses, dir, identity);
}

// Whoever joins has the model that the others serve. Where nobody answers yet, somebody may later.
Result<void> check_model(const ServeOptions& options, const Opened& opened, const node::Identity& identity) {
    constexpr std::chrono::seconds patience{3};
    if (options.join.empty() || opened.source.files == nullptr) return {};
    boost::asio::io_context loop{1};
    tensor::EnquiryOptions enquiry{.addresses = options.join, .links = {}, .folder = {}};
    enquiry.patience = patience;
    const auto served = tensor::ask_model(loop, identity.key, identity.credential, enquiry);
    if (!served || served->identity == infer::identity_of(opened.source.manifest)) return {};
    return Error{"those at " + options.join.front() + " serve " + served->name + ", and " + options.model.string() +
                 " is another model, or the same one in other files; without a model this node gets theirs"};
}

// Further processes of this machine, which end with this one.
class Others {
public:
    Others() = default;
    Others(const Others&) = delete;
    Others& operator=(const Others&) = delete;
    // One that is frozen would not hear that it is to end.
    ~Others() {
        for (const pid_t child : children_) {
            ::kill(child, SIGTERM);
            ::kill(child, SIGCONT);
        }
        const auto late = std::chrono::steady_clock::now() + longest_end;
        for (const pid_t child : children_) {
            while (::waitpid(child, nullptr, WNOHANG) == 0) {
                if (std::chrono::steady_clock::now() >= late) ::kill(child, SIGKILL);
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
        }
    }

    // `keys` is a descriptor that it gets, too; -1: none.
    [[nodiscard]] Result<void> start(const std::vector<std::string>& words, int keys) {
        std::vector<char*> arguments;
        arguments.reserve(words.size() + 1);
        for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        const pid_t parent = ::getpid();
        const pid_t child = ::fork();
        if (child < 0) return Error{"cannot start another process"};
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (keys >= 0) ::fcntl(keys, F_SETFD, 0);
            if (::getppid() == parent) ::execv("/proc/self/exe", arguments.data());
            ::_exit(127);
        }
        children_.push_back(child);
        return {};
    }

private:
    // Answers under way, and leaving, may take no longer.
    static constexpr std::chrono::seconds longest_end{40};

    std::vector<pid_t> children_;
};

// The API keys for the others of --local, in memory: everybody on the machine may read what stands in their arguments.
class KeyFile {
public:
    static Result<KeyFile> make(const std::vector<std::string>& keys) {
        KeyFile file;
        if (keys.empty()) return file;
        file.descriptor_ = ::memfd_create("chaos-keys", MFD_CLOEXEC);
        std::string lines;
        for (const std::string& key : keys) lines += key + "\n";
        if (file.descriptor_ < 0 ||
            ::write(file.descriptor_, lines.data(), lines.size()) != static_cast<ssize_t>(lines.size()))
            return Error{"there is no memory for the API keys"};
        return file;
    }
    ~KeyFile() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    KeyFile(KeyFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    KeyFile(const KeyFile&) = delete;
    KeyFile& operator=(const KeyFile&) = delete;

    // -1: there are no keys.
    [[nodiscard]] int descriptor() const { return descriptor_; }
    // As who has the descriptor sees it; empty: there is none.
    [[nodiscard]] std::string path() const {
        return descriptor_ < 0 ? "" : "/proc/self/fd/" + std::to_string(descriptor_);
    }

private:
    KeyFile() = default;
    int descriptor_ = -1;
};

// What the others of --local are told.
std::vector<std::string> words_for(const ServeOptions& options, const fs::path& dir, std::size_t number,
                                   const std::string& address, const KeyFile& keys, bool has_files) {
    std::vector<std::string> words = {"chaos",       "serve",
                                      "--dir",       (dir / ("local-" + std::to_string(number))).string(),
                                      "--listen",    "127.0.0.1:0",
                                      "--join",      address,
                                      "--parallel",  std::to_string(options.compute.parallel),
                                      "--detect-ms", std::to_string(options.detect_ms),
                                      "--everyone"};
    const auto add = [&](const std::string& name, const std::string& value) {
        if (value.empty()) return;
        words.push_back(name);
        words.push_back(value);
    };
    if (has_files) words.insert(words.begin() + 2, options.model.string());
    add("--threads", options.compute.threads > 0 ? std::to_string(options.compute.threads) : "");
    add("--context", options.compute.context > 0 ? std::to_string(options.compute.context) : "");
    add("--memory", options.compute.memory.budget);
    add("--cache", options.compute.memory.cache.string());
    add("--cache-limit", options.compute.memory.cache_limit);
    add("--institution", options.institution);
    add("--api-key-file", keys.path());
    return words;
}

tensor::MemberOptions options_of(const ServeOptions& options, const serve::ModelGeneratorOptions& how,
                                 const std::string& address) {
    constexpr std::uint32_t with_all = 16;
    tensor::MemberOptions member;
    member.live.address = address;
    member.live.core.detect = options.detect_ms * cluster::millisecond;
    member.live.core.heartbeat = member.live.core.detect / 4;
    member.live.core.links_wanted = with_all;
    member.live.core.links_allowed = 2 * with_all;
    member.live.core.may_found = options.join.empty();
    member.join = options.join;
    member.session.sequences = how.parallel;
    member.session.context = how.context;
    member.session.everyone = options.everyone || options.local > 1;
    return member;
}

// What this node can do.
Result<void> measure(const ServeOptions& options, const tensor::Subject& subject, tensor::SessionOptions& session) {
    CHAOS_TRY(session.memory_bytes, budget_bytes(options.compute.memory));
    CHAOS_TRY(session.program_bytes, resident_bytes());
    const std::uint64_t most_bytes = std::min<std::uint64_t>(infer::enough_to_measure_bytes, session.memory_bytes / 4);
    infer::Pool pool{threads_or_all(options.compute.threads)};
    CHAOS_TRY(session.speed, infer::measure_speed(subject.tensors, pool, most_bytes));
    return {};
}

}  // namespace

Result<void> serve_together(const ServeOptions& given) {
    ServeOptions options = given;
    const fs::path dir = options.dir.empty() ? "node" : options.dir;
    if (options.local > 1 && options.compute.threads == 0)
        options.compute.threads = std::max<std::size_t>(1, threads_or_all(0) / options.local);
    // What there is counts once, and not for each of them.
    if (options.local > 1 && options.compute.memory.budget.empty()) {
        CHAOS_TRY(const std::uint64_t bytes, budget_bytes(options.compute.memory));
        options.compute.memory.budget = std::to_string(bytes / options.local) + "B";
    }
    for (const std::string& address : options.join) CHAOS_CHECK(net::address_from_text(address));
    if (!options.address.empty()) CHAOS_CHECK(net::address_from_text(options.address));
    CHAOS_TRY(const elastic::RunFolder folder, elastic::RunFolder::open(dir));
    CHAOS_TRY(const node::Identity identity, node::identity_of({.dir = dir,
                                                                .token = options.token,
                                                                .certificate = options.certificate,
                                                                .institution = options.institution,
                                                                .may_make_institution = options.join.empty()}));
    std::optional<KeptCluster> known = read_kept_cluster(dir);
    std::error_code error;
    const bool has_files = !options.model.empty() && fs::exists(options.model, error);
    // A path that is wrong is said as that.
    const bool may_be_a_name = options.join.empty() && !options.model.has_parent_path();
    CHAOS_TRY(Opened opened, options.model.empty() || (!has_files && may_be_a_name)
                                 ? open_without_files(options, known, dir, identity)
                                 : open_files(options, dir));
    CHAOS_CHECK(check_model(options, opened, identity));
    KeptCluster cluster{.model = infer::identity_of(opened.source.manifest), .addresses = {}};
    if (known && known->model == cluster.model) cluster.addresses = known->addresses;
    tensor::Subject subject{.config = opened.model.config(), .tensors = infer::packed_tensors(opened.model)};
    CHAOS_TRY(auto tokenizer, infer::tokenizer_of(opened.model));
    auto format = infer::chat_format_of(opened.model);
    CHAOS_TRY(const auto how, how_to_answer(subject.config, opened.name, options.compute));
    CHAOS_TRY(const OpenService open, open_service(options));

    const std::vector<std::string>& contacts = options.join.empty() ? cluster.addresses : options.join;
    tensor::MemberOptions member_options = options_of(
        options, how, options.address.empty() ? net::address_for_others(open.url, contacts) : options.address);
    // Whoever was named may be gone; and who has only a part of the model is of no use alone.
    std::vector<std::string>& asked =
        options.join.empty() && opened.whole ? member_options.others : member_options.join;
    for (const std::string& address : cluster.addresses)
        if (std::ranges::find(asked, address) == asked.end()) asked.push_back(address);
    member_options.name = opened.name;
    CHAOS_CHECK(measure(options, subject, member_options.session));
    boost::asio::io_context loop{1};
    std::unique_ptr<serve::ModelGenerator> generator;
    std::unique_ptr<ServingControl> control;
    bool announced = false;
    // Sums of prompts are large and short-lived: their memory goes back to the system.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
    const auto load = [&options, &config = subject.config,
                       &again = opened.again](const tensor::Portion& portion) -> Result<tensor::LoadedSlice> {
        ::malloc_trim(0);  // what it took to get here
        CHAOS_TRY(infer::ModelFile file, again());
        const infer::Config part = infer::part_of(config, portion.slice);
        CHAOS_TRY(std::shared_ptr<LoadedModel> loaded,
                  load_model(
                      std::move(file),
                      {.threads = options.compute.threads,
                       .memory = options.compute.memory,
                       .kv_bytes = portion.sequences * infer::KvCache::bytes(part, portion.context, infer::KvType::f16),
                       .min_tokens = portion.batch,
                       .logits = infer::Scheduler::min_batch(portion.sequences),
                       .slice = portion.slice}));
        return tensor::LoadedSlice{
            .model = &*loaded->model,
            .pool = &loaded->pool,
            .disk_bytes_per_s = loaded->forecast ? static_cast<std::uint64_t>(loaded->forecast->disk_bytes_per_s) : 0,
            .owner = loaded};
    };
    // Where there is nobody else any more, those who were there last may come back.
    const auto keep_others = [&cluster, &dir,
                              self = net::node_id(identity.key.public_key())](const cluster::View& view) {
        std::vector<std::string> addresses = addresses_of(view, self);
        if (addresses.empty() || addresses == cluster.addresses) return;
        cluster.addresses = std::move(addresses);
        if (const auto kept = keep_cluster(dir, cluster); !kept) say(kept.error().message);
    };
    tensor::Member member(loop, identity.key, identity.credential, member_options, subject, opened.source,
                          {.load = load,
                           .whole =
                               [&](bool whole) {
                                   open.service->set_writes(whole);
                                   if (!whole || announced) return;
                                   announced = true;
                                   open.service->set_generator(*generator);
                                   announce(open, generator->facts());
                               },
                           .note =
                               [&control](const std::string& text) {
                                   say(text);
                                   if (control != nullptr) control->note(text);
                               },
                           .adopted =
                               [&](const cluster::ViewPtr& view) {
                                   keep_others(*view);
                                   if (control != nullptr) control->adopted(view);
                               }});
    generator =
        serve::ModelGenerator::make(member.writer(), subject.config, std::move(tokenizer), std::move(format), how);
    open.service->pass_on_tls([&](int descriptor) {
        boost::asio::post(loop, [&member, descriptor] { member.live().links().adopt(descriptor); });
    });
    open.service->stop_on_signals();
    CHAOS_TRY(control, ServingControl::open(loop, dir, member, how.name, [&open] { open.service->stop(); }));
    CHAOS_CHECK(member.start());
    say("node " + cluster::brief(member.live().id()) + " in " + dir.string() + "; others join with --join " +
        member.live().address());
    Others others;
    if (options.local > 1) {
        CHAOS_TRY(const KeyFile keys, KeyFile::make(open.keys));
        for (std::size_t number = 1; number < options.local; ++number)
            CHAOS_CHECK(others.start(words_for(options, dir, number, member.live().address(), keys, has_files),
                                     keys.descriptor()));
    }
    const Serving serving(*open.service, [&member] { member.leave(); });
    return member.run();
}

}  // namespace chaos::cli
