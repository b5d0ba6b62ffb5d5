#include "cli/serving_control.h"

#include "base/hash.h"
#include "infer/window_plan.h"
#include "node/status.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

namespace chaos::cli {
namespace {

using nlohmann::json;
using node::text_of;

constexpr const char* status_topic = "status";

json members_of(const cluster::View& view, cluster::NodeId self) {
    json members = json::array();
    for (const cluster::MemberInfo& member : view.members)
        members.push_back({{"node", text_of(member.id.node)},
                           {"name", cluster::brief(member.id.node)},
                           {"standing", member.standing == cluster::Standing::active ? "active" : "syncing"},
                           {"since_epoch", member.since_epoch},
                           {"address", member.address},
                           {"self", member.id.node == self}});
    return members;
}

json range_of(const infer::Extent& extent) {
    return {extent.first, extent.count};
}

json milliseconds_of(const std::optional<double>& s) {
    return s ? json(*s * 1e3) : json();
}

}  // namespace

Result<std::unique_ptr<ServingControl>> ServingControl::open(boost::asio::io_context& loop,
                                                             const std::filesystem::path& dir, tensor::Member& member,
                                                             const std::string& model, std::function<void()> leave) {
    std::unique_ptr<ServingControl> control(new ServingControl(member, model, std::move(leave)));
    CHAOS_TRY(control->socket_, node::ControlSocket::open(loop, dir, *control));
    return control;
}

ServingControl::~ServingControl() {
    if (socket_ != nullptr) socket_->stop();
}

ServingControl::ServingControl(tensor::Member& member, const std::string& model, std::function<void()> leave)
    : member_(member), model_(model), leave_(std::move(leave)), story_([this](const node::Event& event) {
          if (socket_ != nullptr) socket_->publish(node::events_topic, node::to_json(event));
      }) {}

void ServingControl::note(const std::string& text) {
    node::Event event{.time = 0.0, .kind = "note", .text = text};
    if (view_ != nullptr) event.view = view_->name;
    story_.add(std::move(event));
    changed();
}

void ServingControl::adopted(const cluster::ViewPtr& view) {
    const cluster::DecidePtr decision = member_.live().core().decision(*view);
    for (node::Event& event : node::changes(view_.get(), *view, decision ? &decision->delta : nullptr))
        story_.add(std::move(event));
    view_ = view;
    changed();
}

void ServingControl::changed() {
    socket_->refresh(status_topic, [this] { return status(); });
}

void ServingControl::answer(const json& request, const node::Reply& reply) {
    const auto command = request.at("command").get<std::string>();
    if (command == "status") {
        if (!request.value("watch", false)) return reply.answer(status());
        reply.send(status());
        return reply.subscribe(status_topic);
    }
    if (command == "events") return node::answer_events(story_, request, reply);
    if (command == "why") return reply.answer({{"why", why()}, {"details", member_.session().state().reasons}});
    if (command == "leave") {
        leave_();
        return reply.answer({{"text",
                              "takes no more requests, and leaves when the answers under way have ended; "
                              "asked once more, at once"}});
    }
    reply.refuse("a node that serves knows status, events, why and leave, not " + command);
}

std::string ServingControl::why() const {
    const tensor::Session::State state = member_.session().state();
    if (const auto progress = member_.holdings().progress()) {
        const std::string lacking = progress->lacking_bytes == 0
                                        ? ""
                                        : "; nobody here has " + infer::bytes_text(progress->lacking_bytes) +
                                              " of it: a node with its files "
                                              "must come";
        return "gets its part of the model: " + infer::bytes_text(progress->bytes) + " of " +
               infer::bytes_text(progress->of_bytes) + " from " + std::to_string(progress->holders) + " nodes" +
               lacking;
    }
    if (!state.whole) return "waits until those who compute have their parts; " + member_.live().core().why();
    if (state.offers_less)
        return "does not compute: it offers shorter texts, or fewer at once, than the others write (--context, "
               "--parallel). It answers, and they write";
    if (!state.computes)
        return "does not compute" + (state.left_out.empty() ? "" : ": " + state.left_out) +
               ". It answers, and they write";
    return state.texts == 0 ? "waits for requests" : "writes";
}

json ServingControl::status() const {
    const cluster::Member& core = member_.live().core();
    const net::Links& links = member_.live().links();
    const cluster::ViewPtr view = core.view();
    const cluster::NodeId self = member_.live().id();
    const tensor::Session::State state = member_.session().state();
    json together = json::array();
    for (const cluster::NodeId node : state.members) together.push_back(text_of(node));
    json status{{"node", text_of(self)},
                {"name", cluster::brief(self)},
                {"role", node::words_of(core.role())},
                {"model", model_},
                {"view", view ? json(hex(view->name)) : json()},
                {"epoch", view ? json(view->epoch) : json()},
                {"members", view ? members_of(*view, self) : json::array()},
                {"links", view ? node::links_of(*view) : json::array()},
                {"connections", node::connections_of(links)},
                {"counters", node::counters_of(member_.live())},
                {"together", together},
                {"exchange", state.exchange},
                {"computes", state.computes},
                {"whole", state.whole},
                {"share",
                 {{"heads", range_of(state.slice.heads)},
                  {"ffn", range_of(state.slice.ffn)},
                  {"vocab", range_of(state.slice.vocab)},
                  {"weight_bytes", state.weight_bytes}}},
                {"predicted_ms_per_token", state.predicted_s > 0.0 ? json(state.predicted_s * 1e3) : json()},
                {"forecast", state.forecast},
                {"measured_ms_per_token", milliseconds_of(state.measured_s)},
                {"measured_own_ms_per_token", milliseconds_of(state.measured_own_s)},
                {"texts", state.texts},
                {"passes", state.passes},
                {"healed", state.healed},
                {"given_bytes", member_.holdings().given_bytes()},
                {"reasons", state.reasons},
                {"why", why()},
                {"uptime_s", std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count()},
                {"pid", ::getpid()},
                {"listen", member_.live().address()}};
    status["getting"] = json();
    if (const auto progress = member_.holdings().progress())
        status["getting"] = {{"bytes", progress->bytes},
                             {"of_bytes", progress->of_bytes},
                             {"lacking_bytes", progress->lacking_bytes},
                             {"holders", progress->holders}};
    return status;
}

}  // namespace chaos::cli
