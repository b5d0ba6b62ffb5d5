#include "tensor/pulling.h"

#include "infer/images.h"
#include "temporary_folder.h"
#include "tensor/unit_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <csignal>
#include <optional>
#include <random>

namespace chaos::tensor {
namespace {

using chaos::test::TemporaryFolder;
using infer::Image;
using infer::Manifest;
using infer::Slice;
using infer::test::Holder;
using test::UnitNode;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t slow_bytes_per_s = 6 << 20;

// Holders of a model's file, and one who wants it.
struct Cluster {
    explicit Cluster(const std::string& name = "llama3-shakespeare-f16")
        : model(infer::test::model_path(name), folder / "cache"),
          units(
              std::make_shared<infer::FileUnits>(infer::FileUnits::open(model.file, infer::test::small_units).value())),
          layout(units->layout()) {
        newcomer = std::make_unique<UnitNode>(loop);
    }

    UnitNode& add_holder(std::uint64_t bytes_per_s = 0) {
        net::LinkOptions options;
        options.max_send_bytes_per_s = bytes_per_s;
        holders.push_back(std::make_unique<UnitNode>(loop, options));
        holders.back()->giving.offer(model.manifest, units);
        newcomer->link_to(*holders.back());
        return *holders.back();
    }
    std::shared_ptr<Image> open_image(const std::string& name = "images") {
        return Image::open(folder / name, model.manifest).value();
    }
    [[nodiscard]] std::vector<bool> all() const { return units_of_slice(layout, whole(layout.outline.config)); }
    bool wait(const std::function<bool()>& condition) { return net::run_until(loop, condition); }
    // Everything that is wanted came, and is right.
    void expect_done(const std::shared_ptr<Image>& image, const std::vector<bool>& wanted) {
        EXPECT_TRUE(wait([&] { return newcomer->done || !newcomer->failure.empty(); }));
        EXPECT_EQ(newcomer->failure, "");
        infer::Pool pool(2);
        EXPECT_EQ(image->check(wanted, pool, {}).value(), 0U);
        EXPECT_EQ(bytes_of(layout, image->missing(wanted)), 0U);
    }

    TemporaryFolder folder;
    Holder model;
    std::shared_ptr<infer::FileUnits> units;
    const infer::Layout& layout;
    asio::io_context loop;
    std::vector<std::unique_ptr<UnitNode>> holders;
    std::unique_ptr<UnitNode> newcomer;
};

TEST(Pulling, ANodeWithoutFilesGetsItsSliceFromAllHolders) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster("llama3-shakespeare-q4_k_m");
    for (int i = 0; i < 3; ++i) cluster.add_holder(slow_bytes_per_s);
    std::optional<Manifest> manifest;
    cluster.newcomer->pulling.find_manifest(identity_of(cluster.model.manifest),
                                            [&](Manifest found) { manifest = std::move(found); });
    ASSERT_TRUE(cluster.wait([&] { return manifest.has_value(); }));
    const std::shared_ptr<Image> image = Image::open(cluster.folder / "images", *manifest).value();
    std::mt19937 random(5);
    const Slice slice = infer::test::random_slice(manifest->outline.config, random);
    const auto wanted = units_of_slice(image->layout(), slice);
    ASSERT_TRUE(image->make_room(wanted));
    cluster.newcomer->pulling.begin(image, wanted);
    cluster.expect_done(image, wanted);
    EXPECT_FALSE(cluster.newcomer->pulling.running());
    const auto progress = cluster.newcomer->pulling.progress();
    EXPECT_EQ(progress.bytes, bytes_of(image->layout(), wanted));
    EXPECT_EQ(progress.of_bytes, progress.bytes);
    EXPECT_THAT(cluster.newcomer->notes, IsEmpty());

    infer::Pool pool(2);
    const auto model = infer::Model::load(image->open_model().value(), slice, pool, {});
    ASSERT_TRUE(model) << model.error().message;

    // Nothing is missing the next time.
    cluster.newcomer->done = false;
    cluster.newcomer->pulling.begin(image, wanted);
    ASSERT_TRUE(cluster.wait([&] { return cluster.newcomer->done; }));
    EXPECT_EQ(cluster.newcomer->pulling.progress().of_bytes, 0U);
}

TEST(Pulling, AllHoldersSendAtOnce) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster;
    for (int i = 0; i < 3; ++i) cluster.add_holder(slow_bytes_per_s);
    const auto image = cluster.open_image();
    cluster.newcomer->pulling.begin(image, cluster.all());
    cluster.expect_done(image, cluster.all());
    const auto progress = cluster.newcomer->pulling.progress();
    EXPECT_EQ(cluster.newcomer->pulling.sources().size(), 3U);
    // Little comes twice.
    EXPECT_LT(progress.received_bytes, progress.bytes + progress.bytes / 2);
}

TEST(Pulling, WhatADeadHolderOwedComesFromOthers) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster;
    UnitNode& dying = cluster.add_holder(slow_bytes_per_s);
    cluster.add_holder(slow_bytes_per_s);
    const auto image = cluster.open_image();
    cluster.newcomer->pulling.begin(image, cluster.all());
    ASSERT_TRUE(cluster.wait([&] { return cluster.newcomer->pulling.progress().bytes > cluster.layout.bytes / 5; }));
    EXPECT_FALSE(cluster.newcomer->done);
    dying.links.stop();
    cluster.expect_done(image, cluster.all());
    EXPECT_GT(cluster.newcomer->pulling.sources().at(dying.id), 0U);
}

TEST(Pulling, AFrozenHolderIsNotWaitedFor) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster;
    UnitNode& freezing = cluster.add_holder();
    UnitNode& other = cluster.add_holder(slow_bytes_per_s);
    freezing.instead = [](NodeId, const wire::UnitWork& message) { return message.has_unit_ask(); };
    const auto image = cluster.open_image();
    cluster.newcomer->pulling.begin(image, cluster.all());
    cluster.expect_done(image, cluster.all());
    EXPECT_TRUE(cluster.newcomer->is_named_in_notes(freezing));
    EXPECT_FALSE(cluster.newcomer->is_named_in_notes(other));
    EXPECT_EQ(cluster.newcomer->pulling.sources().size(), 1U);
}

TEST(Pulling, ALiarIsNamedAndNothingOfItIsKept) {
    CHAOS_NEED_SHARED("models");
    for (const bool short_ones : {false, true}) {
        Cluster cluster;
        UnitNode& liar = cluster.add_holder();
        cluster.add_holder(slow_bytes_per_s);
        int asked = 0;
        liar.instead = [&](NodeId from, const wire::UnitWork& message) {
            if (!message.has_unit_ask()) return false;
            std::uint64_t bytes = 0;
            for (std::size_t i = 0; i < message.unit_ask().count(); ++i)
                bytes += cluster.layout.units[message.unit_ask().first() + i].bytes;
            const auto noise = std::make_shared<std::vector<std::byte>>(bytes - (short_ones ? 1 : 0), std::byte{7});
            EXPECT_TRUE(liar.transfers.send(from, net::BulkKind::state, message.unit_ask().transfer(), *noise, noise));
            ++asked;
            return true;
        };
        const auto image = cluster.open_image();
        cluster.newcomer->pulling.begin(image, cluster.all());
        cluster.expect_done(image, cluster.all());
        EXPECT_GT(asked, 0);
        EXPECT_TRUE(cluster.newcomer->is_named_in_notes(liar));
        EXPECT_EQ(cluster.newcomer->pulling.sources().count(liar.id), 0U);
    }
}

TEST(Pulling, WhoSaysThatItHasWhatItHasNotIsTakenAtItsLaterWord) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster;
    UnitNode& boaster = cluster.add_holder();
    cluster.add_holder(slow_bytes_per_s);
    // It has nothing, and says that it has all.
    boaster.giving.withdraw();
    boaster.instead = [&](NodeId from, const wire::UnitWork& message) {
        if (!message.has_holding_ask()) return false;
        wire::UnitWork answer;
        answer.mutable_holding()->set_identity(message.holding_ask().identity());
        answer.mutable_holding()->set_all(true);
        boaster.send(from, answer);
        return true;
    };
    const auto image = cluster.open_image();
    cluster.newcomer->pulling.begin(image, cluster.all());
    cluster.expect_done(image, cluster.all());
    EXPECT_GT(cluster.newcomer->refusals, 0);
}

TEST(Pulling, HoldingsThatCannotBeAreBlamed) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster;
    UnitNode& liar = cluster.add_holder();
    cluster.add_holder();
    for (const auto& runs : {std::vector<std::uint32_t>{0, UINT32_MAX}, {5, 10, 3, 2}, {UINT32_MAX, 1}}) {
        liar.instead = [&](NodeId from, const wire::UnitWork& message) {
            if (!message.has_holding_ask()) return false;
            wire::UnitWork answer;
            answer.mutable_holding()->set_identity(message.holding_ask().identity());
            answer.mutable_holding()->mutable_runs()->Add(runs.begin(), runs.end());
            liar.send(from, answer);
            return true;
        };
        cluster.newcomer->notes.clear();
        cluster.newcomer->done = false;
        const auto image = cluster.open_image("images" + std::to_string(runs[0]) + std::to_string(runs.size()));
        cluster.newcomer->pulling.begin(image, cluster.all());
        EXPECT_TRUE(cluster.wait([&] { return cluster.newcomer->is_named_in_notes(liar); }));
        cluster.expect_done(image, cluster.all());
    }
}

TEST(Pulling, GoesOnWhereItStopped) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster;
    cluster.add_holder(slow_bytes_per_s);
    std::uint64_t before = 0;
    {
        const auto image = cluster.open_image();
        cluster.newcomer->pulling.begin(image, cluster.all());
        ASSERT_TRUE(
            cluster.wait([&] { return cluster.newcomer->pulling.progress().bytes > cluster.layout.bytes / 4; }));
        cluster.newcomer.reset();
        before = bytes_of(cluster.layout, cluster.all()) - bytes_of(cluster.layout, image->missing(cluster.all()));
    }
    cluster.newcomer = std::make_unique<UnitNode>(cluster.loop);
    cluster.newcomer->link_to(*cluster.holders[0]);
    const auto image = cluster.open_image();
    cluster.newcomer->pulling.begin(image, cluster.all());
    EXPECT_GE(before, cluster.layout.bytes / 4);
    EXPECT_EQ(cluster.newcomer->pulling.progress().of_bytes, bytes_of(cluster.layout, cluster.all()) - before);
    cluster.expect_done(image, cluster.all());
}

// Who has nothing but what it just got gives that.
TEST(Pulling, NewcomersGiveToEachOther) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster("qwen3-tiny-q8_0");
    cluster.add_holder();
    UnitNode second(cluster.loop);
    second.link_to(*cluster.newcomer);
    const auto first_image = cluster.open_image();
    const auto second_image = cluster.open_image("others");
    cluster.newcomer->giving.offer(cluster.model.manifest, first_image);
    second.pulling.begin(second_image, cluster.all());
    ASSERT_TRUE(cluster.wait([&] {
        return second.pulling.progress().lacking_bytes == second.pulling.progress().of_bytes &&
               second.links.linked(cluster.newcomer->id);
    }));
    cluster.newcomer->pulling.begin(first_image, cluster.all());
    cluster.expect_done(first_image, cluster.all());
    EXPECT_TRUE(cluster.wait([&] { return second.done; }));
    EXPECT_EQ(second.pulling.sources().at(cluster.newcomer->id), bytes_of(cluster.layout, cluster.all()));
}

TEST(Pulling, AManifestOfAnotherModelIsNotTaken) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster("llama2-tiny-q4_0");
    UnitNode& liar = cluster.add_holder();
    UnitNode& stranger = cluster.add_holder();
    cluster.add_holder();
    const Holder other(infer::test::model_path("qwen3-tiny-q4_0"), cluster.folder / "cache");
    const auto wrong = std::make_shared<std::string>(encode(other.manifest));
    liar.instead = [&](NodeId from, const wire::UnitWork& message) {
        return message.has_manifest_ask() &&
               liar.transfers.send(from, net::BulkKind::state, message.manifest_ask().transfer(),
                                   std::as_bytes(std::span(*wrong)), wrong);
    };
    stranger.gives = false;
    std::optional<Manifest> manifest;
    cluster.newcomer->pulling.find_manifest(identity_of(cluster.model.manifest),
                                            [&](Manifest found) { manifest = std::move(found); });
    ASSERT_TRUE(cluster.wait([&] { return manifest.has_value(); }));
    EXPECT_EQ(identity_of(*manifest), identity_of(cluster.model.manifest));
}

TEST(Pulling, SaysWhenItCannotKeepWhatComes) {
    CHAOS_NEED_SHARED("models");
    Cluster cluster("llama2-tiny-q4_0");
    cluster.add_holder();
    const auto image = cluster.open_image();
    const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit nothing{.rlim_cur = 1, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &nothing), 0);
    cluster.newcomer->pulling.begin(image, cluster.all());
    EXPECT_TRUE(cluster.wait([&] { return !cluster.newcomer->failure.empty(); }));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, ignored);
    EXPECT_THAT(cluster.newcomer->failure, HasSubstr("cannot write"));
    EXPECT_FALSE(cluster.newcomer->pulling.running());
}

}  // namespace
}  // namespace chaos::tensor
