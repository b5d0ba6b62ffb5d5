#include "tensor/holdings.h"

#include "infer/images.h"
#include "temporary_folder.h"
#include "tensor/unit_node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace chaos::tensor {
namespace {

using infer::Slice;

// A slice that comes next must not take the place of the one that is being loaded, or streamed.
TEST(Holdings, NothingOfTheSliceInForceIsLetGoForOneToCome) {
    CHAOS_NEED_SHARED("models");
    chaos::test::TemporaryFolder folder;
    const infer::test::Holder holder(infer::test::model_path("llama3-shakespeare-f16"), folder / "cache");
    const infer::Layout& layout = holder.units.layout();
    Slice here = infer::whole(layout.outline.config);
    Slice other = here;
    for (const auto part : {&Slice::heads, &Slice::ffn, &Slice::vocab}) {
        (here.*part).count /= 2;
        (other.*part).first = (here.*part).end();
        (other.*part).count -= (here.*part).count;
    }
    const std::vector<bool> units = units_of_slice(layout, here);
    const std::uint64_t enough = bytes_of(layout, units) * 5 / 4;
    asio::io_context loop;
    test::UnitNode node(loop);
    for (const bool tight : {true, false}) {
        const std::shared_ptr<infer::Image> image =
            infer::Image::open(folder / (tight ? "tight" : "wide"), holder.manifest,
                               tight ? enough : infer::no_limit_bytes)
                .value();
        fill(*image, holder, units);
        std::string notes;
        Holdings holdings(loop, node.links, node.transfers,
                          {.manifest = holder.manifest, .files = nullptr, .image = image},
                          {.send = [](NodeId, const wire::UnitWork&) {},
                           .note = [&](const std::string& text) { notes += text + "\n"; }});
        std::optional<Result<void>> got;
        holdings.want(here, [&](const Result<void>& how) { got = how; });
        ASSERT_TRUE(net::run_until(loop, [&] { return got.has_value(); }));
        ASSERT_TRUE(*got) << got->error().message;
        got.reset();
        holdings.want_ahead(other, [&](const Result<void>& how) { got = how; });
        ASSERT_TRUE(net::run_until(loop, [&] { return got || holdings.progress(); })) << notes;
        EXPECT_EQ(bytes_of(layout, image->missing(units)), 0U);
        infer::Pool pool(1);
        EXPECT_EQ(image->check(units, pool, {}).value(), 0U);
        // There is no room for it, which is no reason to do without this node; or it waits for somebody who has it.
        EXPECT_EQ(got.has_value(), tight) << notes;
        if (!tight) continue;
        EXPECT_TRUE(*got) << got->error().message;
        // Once it is in force, the other one goes.
        holdings.want(other, [](const Result<void>&) {});
        ASSERT_TRUE(net::run_until(loop, [&] { return holdings.progress().has_value(); })) << notes;
        EXPECT_GT(bytes_of(layout, image->missing(units)), 0U);
    }
}

// A copy of what is not needed is no reason to remove another model.
TEST(Holdings, NothingGoesForWhatIsNotNeeded) {
    CHAOS_NEED_SHARED("models");
    chaos::test::TemporaryFolder folder;
    const infer::test::Holder holder(infer::test::model_path("llama3-shakespeare-f16"), folder / "cache");
    const infer::Layout& layout = holder.units.layout();
    Slice here = infer::whole(layout.outline.config);
    here.heads.count /= 2;
    here.ffn.count /= 2;
    const std::filesystem::path other = folder / "images" / std::string(64, 'f');
    std::filesystem::create_directories(other);
    std::ofstream(other / "image") << std::string(1 << 20, 'x');
    const std::shared_ptr<infer::Image> image =
        infer::Image::open(folder / "images", holder.manifest, layout.bytes + (1 << 18)).value();
    fill(*image, holder, units_of_slice(layout, here));
    asio::io_context loop;
    test::UnitNode node(loop);
    std::string notes;
    std::vector<wire::UnitWork> sent;
    Holdings holdings(loop, node.links, node.transfers, {.manifest = holder.manifest, .files = nullptr, .image = image},
                      {.send = [&](NodeId, const wire::UnitWork& message) { sent.push_back(message); },
                       .note = [&](const std::string& text) { notes += text + "\n"; }});
    bool got = false;
    holdings.want(here, [&](const Result<void>&) { got = true; });
    ASSERT_TRUE(net::run_until(loop, [&] { return got; }));
    holdings.want_rest();
    ASSERT_TRUE(net::run_until(loop, [&] { return notes.find("does without") != std::string::npos; })) << notes;
    EXPECT_TRUE(std::filesystem::exists(other / "image"));
    // Nor is it given while there is something to compute; what others need is.
    for (const bool rest : {true, false}) {
        holdings.set_busy(true);
        wire::UnitWork message;
        const Digest identity = infer::identity_of(holder.manifest);
        message.mutable_holding_ask()->set_identity(std::string(identity.begin(), identity.end()));
        message.mutable_holding_ask()->set_rest(rest);
        holdings.received(node.id, message);
        ASSERT_FALSE(sent.empty());
        EXPECT_EQ(sent.back().holding().runs_size() == 0, rest);
        wire::UnitWork ask;
        ask.mutable_unit_ask()->set_identity(message.holding_ask().identity());
        ask.mutable_unit_ask()->set_transfer(7);
        ask.mutable_unit_ask()->set_count(1);
        ask.mutable_unit_ask()->set_rest(rest);
        sent.clear();
        holdings.received(node.id, ask);
        EXPECT_EQ(sent.size(), rest ? 1U : 0U);
    }
}

// Else a node that is to end, or to get something else, would read the rest of its disk first.
TEST(Holdings, WhatNobodyWaitsForIsNotCompared) {
    CHAOS_NEED_SHARED("models");
    chaos::test::TemporaryFolder folder;
    const infer::test::Holder holder(infer::test::model_path("llama3-shakespeare-f16"), folder / "cache");
    const infer::Layout& layout = holder.units.layout();
    const std::vector<bool> all(layout.units.size(), true);
    const std::shared_ptr<infer::Image> image =
        infer::Image::open(folder / "images", holder.manifest, infer::no_limit_bytes).value();
    fill(*image, holder, all);
    {
        std::fstream file(image->folder() / "image", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(layout.units.back().offset));
        file.write("damaged!", 8);
    }
    asio::io_context loop;
    test::UnitNode node(loop);
    {
        Holdings holdings(loop, node.links, node.transfers,
                          {.manifest = holder.manifest, .files = nullptr, .image = image},
                          {.send = [](NodeId, const wire::UnitWork&) {}, .note = [](const std::string&) {}});
        holdings.want(infer::whole(layout.outline.config), [](const Result<void>&) {});
    }
    EXPECT_TRUE(image->has(layout.units.size() - 1));
}

// What was let go, and is back, may be as wrong as anything else.
TEST(Holdings, WhatWasLetGoIsComparedAgain) {
    CHAOS_NEED_SHARED("models");
    chaos::test::TemporaryFolder folder;
    const infer::test::Holder holder(infer::test::model_path("llama3-shakespeare-f16"), folder / "cache");
    const infer::Layout& layout = holder.units.layout();
    Slice here = infer::whole(layout.outline.config);
    Slice other = here;
    for (const auto part : {&Slice::heads, &Slice::ffn, &Slice::vocab}) {
        (here.*part).count /= 2;
        (other.*part).first = (here.*part).end();
        (other.*part).count -= (here.*part).count;
    }
    const std::vector<bool> units = units_of_slice(layout, here);
    const std::shared_ptr<infer::Image> image =
        infer::Image::open(folder / "tight", holder.manifest, bytes_of(layout, units) * 5 / 4).value();
    fill(*image, holder, units);
    asio::io_context loop;
    test::UnitNode node(loop);
    Holdings holdings(loop, node.links, node.transfers, {.manifest = holder.manifest, .files = nullptr, .image = image},
                      {.send = [](NodeId, const wire::UnitWork&) {}, .note = [](const std::string&) {}});
    bool got = false;
    holdings.want(here, [&](const Result<void>&) { got = true; });
    ASSERT_TRUE(net::run_until(loop, [&] { return got; }));
    holdings.want(other, [](const Result<void>&) {});
    ASSERT_TRUE(net::run_until(loop, [&] { return holdings.progress().has_value(); }));
    const std::vector<bool> gone = image->missing(units);
    const auto unit = static_cast<std::size_t>(std::ranges::find(gone, true) - gone.begin());
    ASSERT_LT(unit, gone.size());
    fill(*image, holder, units);
    {
        std::fstream file(image->folder() / "image", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(layout.units[unit].offset));
        file.write("damaged!", 8);
    }
    got = false;
    holdings.want(here, [&](const Result<void>&) { got = true; });
    // It is missing, and nobody has it.
    ASSERT_TRUE(net::run_until(loop, [&] { return got || holdings.progress(); }));
    EXPECT_FALSE(got);
    EXPECT_FALSE(image->has(unit));
}

}  // namespace
}  // namespace chaos::tensor
