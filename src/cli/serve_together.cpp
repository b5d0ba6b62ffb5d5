// chaos serve --dir, --join, --local: a model that several nodes compute together; each of them answers.
#include "base/hash.h"
#include "cli/chat_model.h"
#include "cli/serving.h"
#include "elastic/run_folder.h"
#include "infer/model_text.h"
#include "node/identity.h"
#include "tensor/member.h"

#include <boost/asio/post.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>

namespace chaos::cli {
namespace {

namespace fs = std::filesystem;

// What tells models apart: shapes, and the beginnings of all tensors.
cluster::Name name_of(const infer::ModelFile& file) {
    constexpr std::size_t beginning = 4096;
    Sha256 hash;
    for (const infer::TensorShape& shape : infer::tensors_of(file.config())) {
        const infer::StoredTensor& tensor = file.tensor(shape.name);
        hash.add(shape.name);
        const std::array numbers = {static_cast<std::uint64_t>(tensor.type), tensor.rows, tensor.columns};
        hash.add(std::as_bytes(std::span(numbers)));
        hash.add(tensor.bytes.first(std::min(tensor.bytes.size(), beginning)));
    }
    return hash.finish();
}

// Further processes of this machine, which end with this one.
class Others {
public:
    Others() = default;
    Others(const Others&) = delete;
    Others& operator=(const Others&) = delete;
    ~Others() {
        for (const pid_t child : children_) ::kill(child, SIGTERM);
        for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
    }

    [[nodiscard]] Result<void> start(const std::vector<std::string>& words) {
        std::vector<char*> arguments;
        arguments.reserve(words.size() + 1);
        for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
        arguments.push_back(nullptr);
        const pid_t parent = ::getpid();
        const pid_t child = ::fork();
        if (child < 0) return Error{"cannot start another process"};
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGTERM);
            if (::getppid() == parent) ::execv("/proc/self/exe", arguments.data());
            ::_exit(127);
        }
        children_.push_back(child);
        return {};
    }

private:
    std::vector<pid_t> children_;
};

// What the others of --local are told.
std::vector<std::string> words_for(const ServeOptions& options, const fs::path& dir, std::size_t number,
                                   const std::string& address) {
    std::vector<std::string> words = {"chaos",
                                      "serve",
                                      options.model.string(),
                                      "--dir",
                                      (dir / ("local-" + std::to_string(number))).string(),
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--join",
                                      address,
                                      "--parallel",
                                      std::to_string(options.compute.parallel),
                                      "--detect-ms",
                                      std::to_string(options.detect_ms)};
    const auto add = [&](const std::string& name, const std::string& value) {
        if (value.empty()) return;
        words.push_back(name);
        words.push_back(value);
    };
    add("--threads", options.compute.threads > 0 ? std::to_string(options.compute.threads) : "");
    add("--context", options.compute.context > 0 ? std::to_string(options.compute.context) : "");
    add("--memory", options.compute.memory.budget);
    add("--cache", options.compute.memory.cache.string());
    add("--cache-limit", options.compute.memory.cache_limit);
    add("--institution", options.institution);
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
    return member;
}

}  // namespace

Result<void> serve_together(const ServeOptions& given) {
    ServeOptions options = given;
    const fs::path dir = options.dir.empty() ? "node" : options.dir;
    if (options.local > 1 && options.compute.threads == 0)
        options.compute.threads = std::max<std::size_t>(1, threads_or_all(0) / options.local);
    CHAOS_TRY(const elastic::RunFolder folder, elastic::RunFolder::open(dir));
    CHAOS_TRY(const node::Identity identity, node::identity_of({.dir = dir,
                                                                .token = options.token,
                                                                .certificate = options.certificate,
                                                                .institution = options.institution,
                                                                .may_make_institution = options.join.empty()}));
    CHAOS_TRY(const auto file, infer::ModelFile::open(options.model));
    const infer::Config& config = file.config();
    CHAOS_TRY(auto tokenizer, infer::tokenizer_of(file));
    CHAOS_TRY(auto format, infer::chat_format_of(file));
    CHAOS_TRY(const auto how, how_to_answer(config, options.model, options.compute));
    CHAOS_TRY(const OpenService open, open_service(options));

    tensor::MemberOptions member_options =
        options_of(options, how, options.address.empty() ? open.url : options.address);
    member_options.model = name_of(file);
    if (const std::string& budget = options.compute.memory.budget; !budget.empty()) {
        CHAOS_TRY(member_options.session.memory_bytes, parse_bytes(budget, "--memory"));
    }
    boost::asio::io_context loop{1};
    std::unique_ptr<serve::ModelGenerator> generator;
    bool announced = false;
    const auto load = [&options, &config, &how](const infer::Slice& slice,
                                                std::size_t batch) -> Result<tensor::LoadedSlice> {
        CHAOS_TRY(auto again, infer::ModelFile::open(options.model));
        const infer::Config part = infer::part_of(config, slice);
        CHAOS_TRY(std::shared_ptr<LoadedModel> loaded,
                  load_model(std::move(again),
                             {.threads = options.compute.threads,
                              .memory = options.compute.memory,
                              .kv_bytes = how.parallel * infer::KvCache::bytes(part, how.context, infer::KvType::f16),
                              .min_tokens = batch,
                              .logits = infer::Scheduler::min_batch(how.parallel),
                              .slice = slice}));
        return tensor::LoadedSlice{&*loaded->model, &loaded->pool, loaded};
    };
    tensor::Member member(loop, identity.key, identity.credential, member_options, config,
                          {.load = load,
                           .whole =
                               [&] {
                                   if (announced) return;
                                   announced = true;
                                   open.service->set_generator(*generator);
                                   announce(open, how.name);
                               },
                           .note =
                               [](const std::string& text) {
                                   std::printf("%s\n", text.c_str());
                                   std::fflush(stdout);
                               }});
    generator = serve::ModelGenerator::make(member.writer(), config, std::move(tokenizer), std::move(format), how);
    open.service->pass_on_tls([&](int descriptor) {
        boost::asio::post(loop, [&member, descriptor] { member.live().links().adopt(descriptor); });
    });
    open.service->stop_on_signals();
    CHAOS_CHECK(member.start());
    std::printf("node %s in %s; others join with --join %s\n", cluster::brief(member.live().id()).c_str(),
                dir.string().c_str(), member.live().address().c_str());
    std::fflush(stdout);
    Others others;
    for (std::size_t number = 1; number < options.local; ++number)
        CHAOS_CHECK(others.start(words_for(options, dir, number, member.live().address())));
    const Serving serving(*open.service, [&member] { member.leave(); });
    return member.run();
}

}  // namespace chaos::cli
