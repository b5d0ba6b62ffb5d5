#include "live/member.h"

#include "base/cpu_time.h"
#include "net/address.h"
#include "net/admission.h"

#include <algorithm>
#include <chrono>
#include <ctime>

namespace chaos::live {
namespace {

cluster::Nanoseconds now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Larger than that of any earlier life, as long as the machine's clock is not set back.
std::uint64_t incarnation_of_now() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
}

// What happens all the time, whether or not anything changes.
bool is_routine(const cluster::Event& event, const cluster::Actions& actions) {
    if (std::holds_alternative<cluster::Applied>(event) || std::holds_alternative<cluster::Measured>(event) ||
        std::holds_alternative<cluster::MeasuredSpeed>(event))
        return true;
    if (const auto* received = std::get_if<cluster::Received>(&event))
        return std::holds_alternative<cluster::Heartbeat>(received->message->body);
    if (!std::holds_alternative<cluster::Tick>(event)) return false;
    return std::ranges::all_of(actions, [](const cluster::Action& action) {
        const auto* send = std::get_if<cluster::Send>(&action);
        return send != nullptr && std::holds_alternative<cluster::Heartbeat>(send->message->body);
    });
}

constexpr std::chrono::milliseconds first_pause{200};
constexpr std::chrono::milliseconds longest_pause{5000};

}  // namespace

Member::Member(net::asio::io_context& loop, const net::SecretKey& key, const net::Credential& credential,
               const cluster::Name& run, const Options& options, Worker& worker, net::BulkReceiver& receiver)
    : loop_(loop),
      id_(net::node_id(key.public_key())),
      signer_(key),
      institution_(credential.institution),
      options_(options),
      worker_(worker),
      tick_(loop),
      links_(loop, key, credential, options.links, *this, receiver),
      watch_(loop, links_,
             {.measured =
                  [this](NodeId peer, std::uint64_t bytes_per_s) {
                      constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
                      tell(cluster::Measured{.peer = peer,
                                             .rate = static_cast<std::uint32_t>(std::min(bytes_per_s / 1000, most))});
                  },
              .may_probe = [this](NodeId peer) { return trains(id_) && trains(peer); }}) {
    identity_ = {.member = {.node = id_, .incarnation = incarnation_of_now()},
                 .run = run,
                 .settings = options.settings,
                 .credential = net::encode(credential),
                 .address = options.address,
                 .speed = 0};
}

// A timer that cannot be cancelled would be a broken invariant.
Member::~Member() {  // NOLINT(bugprone-exception-escape)
    stop();
}

Result<void> Member::start() {
    CHAOS_ASSERT(core_ == nullptr && !stopped_);
    CHAOS_TRY(std::optional<cluster::DiskRecord> record, kept_vote());
    for (const std::string& address : options_.listen) {
        const Result<net::tcp::endpoint> where = links_.listen(address);
        if (!where) {
            stop();  // nobody may come in where it listens already
            return where.error();
        }
        if (identity_.address.empty())
            identity_.address = net::address_for_others(net::to_text(*where), options_.contacts);
    }
    core_ = std::make_unique<cluster::Member>(options_.core, identity_, signer_, std::move(record), options_.checkpoint,
                                              now());
    stable_ = core_->stable();
    schedule_tick();
    watch_.start();
    return {};
}

bool Member::trains(NodeId node) const {
    const ViewPtr view = core_->view();
    return view != nullptr && view->is_active(node);
}

void Member::found(std::uint32_t batch, bool strict) {
    cluster::FoundCommand command;
    command.founding.run = identity_.run;
    command.founding.batch = batch;
    command.founding.strict = strict;
    command.founding.institutions = {{.root = institution_}};
    tell(command);
}

void Member::join(std::vector<std::string> addresses) {
    for (std::string& address : addresses) {
        contacts_.push_back({.address = std::move(address),
                             .pause = first_pause,
                             .timer = std::make_unique<net::asio::steady_timer>(loop_)});
        contact(contacts_.size() - 1);
    }
}

// Those who are in know whom to join by if they fall out.
bool Member::is_in() const {
    return core_->role() == cluster::Role::active || core_->role() == cluster::Role::syncing;
}

// Who is there is not known yet.
void Member::contact(std::size_t number) {
    if (is_in()) return;
    links_.dial(NodeId{}, contacts_[number].address);
}

void Member::stop() {
    if (stopped_) return;
    stopped_ = true;
    *runs_ = false;
    tick_.cancel();
    watch_.stop();
    for (Contact& contact : contacts_) contact.timer->cancel();
    links_.stop();
}

// ---- events

void Member::tell(const cluster::Event& event) {
    if (stopped_) return;
    inbox_.push_back(event);
    if (!draining_) drain();
}

// Events that actions cause are handled after these actions.
void Member::drain() {
    draining_ = true;
    while (!inbox_.empty() && !stopped_) {
        const cluster::Event event = std::move(inbox_.front());
        inbox_.pop_front();
        handle(event);
        if (core_->stable() == stable_ || stopped_) continue;
        stable_ = core_->stable();
        worker_.stable(stable_);
    }
    draining_ = false;
    if (!stopped_) schedule_tick();
}

void Member::handle(const cluster::Event& event) {
    const std::uint64_t before = thread_cpu_ns();
    cluster::Actions actions = core_->step(event, now());
    bool matters = !is_routine(event, actions);
    for (cluster::Action& action : actions) {
        if (stopped_) break;
        const auto* start = std::get_if<cluster::StartStep>(&action);
        if (start != nullptr && start->view->name != started_under_) {
            started_under_ = start->view->name;
            matters = true;  // the first step under another view makes its plan
        }
        carry_out(action);
    }
    if (matters) handling_cpu_ += std::chrono::nanoseconds(thread_cpu_ns() - before);
}

void Member::schedule_tick() {
    const cluster::Nanoseconds at = core_->wake_at();
    if (at == std::numeric_limits<cluster::Nanoseconds>::max()) return;
    tick_.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at)));
    tick_.async_wait([this, runs = runs_](boost::system::error_code cancelled) {
        if (!cancelled && *runs) tell(cluster::Tick{});
    });
}

Result<void> Member::admit(const net::Proven& peer) {
    if (options_.turns_away && options_.turns_away(peer.node)) return Error{"this node has no links with it"};
    const ViewPtr view = core_->view();  // none: a newcomer, and whom it joins is its user's choice
    return net::admit(view.get(), peer, std::time(nullptr));
}

void Member::link_up(NodeId peer) {
    worker_.link_up(peer);
    tell(cluster::LinkUp{peer});
}

void Member::answered(NodeId peer, const std::string& address) {
    for (Contact& contact : contacts_) {
        if (contact.reached || contact.address != address) continue;
        contact.reached = true;
        tell(cluster::JoinCommand{.contacts = {{.node = peer, .address = address}}});
    }
}

void Member::link_closed(NodeId peer, const std::string& why) {
    note("the link to " + cluster::brief(peer) + " closed: " + why);
    // The core first: what fails with the link has then a cause that it knows.
    tell(cluster::LinkClosed{peer});
    if (!stopped_) worker_.link_down(peer);
}

void Member::dial_failed(NodeId peer, const std::string& address, const std::string& why) {
    if (peer != NodeId{}) return tell(cluster::DialFailed{peer});
    for (std::size_t number = 0; number < contacts_.size(); ++number) {
        Contact& unreached = contacts_[number];
        if (unreached.reached || unreached.address != address || is_in()) continue;
        note("cannot join by " + address + ": " + why, cluster::About::was_refused);
        unreached.timer->expires_after(unreached.pause);
        unreached.pause = std::min(2 * unreached.pause, longest_pause);
        unreached.timer->async_wait([this, number, runs = runs_](boost::system::error_code cancelled) {
            if (!cancelled && *runs) contact(number);
        });
    }
}

void Member::received(NodeId from, std::span<const std::uint8_t> message) {
    ++messages_received_;
    Result<cluster::MessagePtr> decoded = cluster::decode_message(message);
    if (!decoded) return tell(cluster::ReceivedGarbage{from});
    tell(cluster::Received{.from = from, .message = std::move(*decoded)});
}

void Member::received_work(NodeId from, std::span<const std::uint8_t> message) {
    worker_.received(from, message);
}

void Member::turned_away(const std::string& who, const std::string& why) {
    worker_.refused("turned away " + who + ": " + why, false);
}

void Member::note(const std::string& text, cluster::About about) {
    const auto line = lines_.next(text, net::Allowance::Clock::now());
    if (!line) return;
    if (about == cluster::About::event) return worker_.note(*line);
    worker_.refused(*line, about == cluster::About::was_refused);
}

// ---- actions

void Member::carry_out(cluster::Action& action) {
    std::visit(
        [&](auto& what) {
            using T = std::decay_t<decltype(what)>;
            if constexpr (std::is_same_v<T, cluster::Send>) {
                ++messages_sent_;
                (void)links_.send(what.to, what.message->bytes);  // that a link is gone, the core hears anyway
            } else if constexpr (std::is_same_v<T, cluster::Dial>) {
                dial(what.peer, what.address);
            } else if constexpr (std::is_same_v<T, cluster::CloseLink>) {
                links_.close(what.peer);
                worker_.link_down(what.peer);
            } else if constexpr (std::is_same_v<T, cluster::Persist>) {
                persist(what.record);
            } else if constexpr (std::is_same_v<T, cluster::Adopted>) {
                worker_.adopted(what.view);
            } else if constexpr (std::is_same_v<T, cluster::StartStep>) {
                worker_.start_step(what.step, what.view);
            } else if constexpr (std::is_same_v<T, cluster::StopStep>) {
                worker_.stop_step();
            } else if constexpr (std::is_same_v<T, cluster::TakeResult>) {
                worker_.take_result(what.step, what.holders);
            } else if constexpr (std::is_same_v<T, cluster::Restore>) {
                worker_.restore(what.applied, what.lineage);
            } else if constexpr (std::is_same_v<T, cluster::BeginSync>) {
                worker_.begin_sync(what.view);
            } else if constexpr (std::is_same_v<T, cluster::Activated>) {
                worker_.activated(what.first_step, what.view);
            } else if constexpr (std::is_same_v<T, cluster::Excluded>) {
                worker_.excluded(what.why, what.final);
            } else if constexpr (std::is_same_v<T, cluster::Left>) {
                worker_.left();
            } else if constexpr (std::is_same_v<T, cluster::LinkRefused>) {
                worker_.link_refused(what.peer, what.connect, what.text);
            } else {
                note(what.text, what.about);
            }
        },
        action);
}

void Member::dial(NodeId peer, const std::string& address) {
    // Behind NAT, only the other end can dial.
    if (address.empty()) return tell(cluster::DialFailed{peer});
    links_.dial(peer, address);
}

Result<std::optional<cluster::DiskRecord>> Member::kept_vote() {
    if (options_.folder.empty()) return std::optional<cluster::DiskRecord>{};
    const std::filesystem::path path = options_.folder / "vote";
    const std::string way_out =
        " (what this node voted for is lost; join with another folder, or, when no other node of its cluster runs any "
        "more, remove the file to found a cluster anew from the newest checkpoint)";
    Result<SlotFile> file = SlotFile::open(path);
    if (!file) return Error{file.error().message + way_out};
    vote_ = std::move(*file);
    const std::optional<std::string>& found = vote_->found();
    if (!found) return std::optional<cluster::DiskRecord>{};
    Result<cluster::DiskRecord> record =
        cluster::decode_disk_record({reinterpret_cast<const std::uint8_t*>(found->data()), found->size()});
    if (!record) return Error{path.string() + ": " + record.error().message + way_out};
    // Who took it up would go on with that run's members and its batch.
    if (record->view && record->view->run != identity_.run)
        return Error{path.string() + ": this node has a vote in the cluster of another run, " +
                     cluster::brief(record->view->run) + ", but is to train run " + cluster::brief(identity_.run) +
                     " (choose another folder, or, when no other node of that cluster runs any more, remove the file)"};
    return std::optional(std::move(*record));
}

void Member::persist(const cluster::DiskRecord& record) {
    if (!vote_) return;
    const std::vector<std::uint8_t> bytes = encode(record);
    const Result<void> written = vote_->write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (written) return;
    // A vote that is not on disk must not be cast.
    stop();
    worker_.failed(written.error());
}

}  // namespace chaos::live
