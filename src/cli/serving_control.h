// What people ask a node that serves with others, through its control socket (node/control.h): status, events, why,
// leave.
#pragma once

#include "base/result.h"
#include "node/control.h"
#include "node/story.h"
#include "tensor/member.h"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace chaos::cli {

class ServingControl final : private node::ControlHandler {
public:
    // `leave`: ends the answers under way, then leaves; a second time at once.
    static Result<std::unique_ptr<ServingControl>> open(boost::asio::io_context& loop, const std::filesystem::path& dir,
                                                        tensor::Member& member, const std::string& model,
                                                        std::function<void()> leave);
    ~ServingControl() override;
    ServingControl(const ServingControl&) = delete;
    ServingControl& operator=(const ServingControl&) = delete;

    // What happened, which those who watch are shown. On the loop.
    void note(const std::string& text);
    void adopted(const cluster::ViewPtr& view);

private:
    ServingControl(tensor::Member& member, const std::string& model, std::function<void()> leave);
    void changed();
    void answer(const nlohmann::json& request, const node::Reply& reply) override;
    [[nodiscard]] nlohmann::json status() const;
    [[nodiscard]] std::string why() const;

    tensor::Member& member_;
    std::string model_;
    std::function<void()> leave_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    node::Story story_;
    cluster::ViewPtr view_;
    std::unique_ptr<node::ControlSocket> socket_;
};

}  // namespace chaos::cli
