#include "tensor/giving.h"

#include "infer/images.h"
#include "temporary_folder.h"
#include "tensor/unit_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace chaos::tensor {
namespace {

using chaos::test::TemporaryFolder;
using infer::test::Holder;
using test::UnitNode;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

struct Pair {
    Pair() : model(infer::test::model_path("llama3-shakespeare-f16"), folder / "cache") {
        image = infer::Image::open(folder / "images", model.manifest).value();
        giver.giving.offer(model.manifest, image);
        asker.link_to(giver);
    }

    // Asks for units and takes what comes: the bytes, or nothing.
    std::optional<std::vector<std::byte>> ask(std::size_t first, std::size_t count,
                                              std::optional<std::string> identity = std::nullopt) {
        std::optional<std::vector<std::byte>> content;
        const int before = asker.refusals;
        const Digest own = identity_of(model.manifest);
        wire::UnitWork message;
        wire::UnitAsk& wish = *message.mutable_unit_ask();
        wish.set_identity(identity.value_or(std::string(reinterpret_cast<const char*>(own.data()), own.size())));
        wish.set_first(static_cast<std::uint32_t>(first));
        wish.set_count(static_cast<std::uint32_t>(count));
        wish.set_transfer(asker.transfers.expect(giver.id, 64 << 20, [&](const net::Transfers::Arrived& arrived) {
            content.emplace(arrived.bytes.get(), arrived.bytes.get() + arrived.count);
        }));
        asker.send(giver.id, message);
        EXPECT_TRUE(net::run_until(loop, [&] { return content || asker.refusals > before; }));
        return content;
    }

    TemporaryFolder folder;
    Holder model;
    asio::io_context loop;
    std::shared_ptr<infer::Image> image;
    UnitNode giver{loop};
    UnitNode asker{loop};
};

TEST(Giving, SendsWhatItHas) {
    CHAOS_NEED_SHARED("models");
    Pair pair;
    for (const std::size_t unit : {4U, 5U, 6U}) EXPECT_TRUE(pair.image->keep(unit, pair.model.unit(unit)).value());
    std::vector<std::byte> wanted = pair.model.unit(4);
    const std::vector<std::byte> more = pair.model.unit(5);
    wanted.insert(wanted.end(), more.begin(), more.end());
    EXPECT_EQ(pair.ask(4, 2), wanted);
    EXPECT_EQ(pair.giver.giving.given_bytes(), wanted.size());
    EXPECT_EQ(pair.ask(6, 2), std::nullopt);
    // It is let go once it is confirmed, at the latest with the next ping.
    EXPECT_TRUE(pair.giver.links.ping(pair.asker.id));
    EXPECT_TRUE(net::run_until(pair.loop, [&] { return pair.giver.giving.load().bytes_on_their_way == 0; }));
}

TEST(Giving, RefusesWhatMakesNoSense) {
    CHAOS_NEED_SHARED("models");
    Pair pair;
    pair.giver.giving.offer(pair.model.manifest,
                            std::make_shared<infer::FileUnits>(infer::FileUnits::open(pair.model.file, 2048).value()));
    const std::size_t units = pair.model.units.layout().units.size();
    EXPECT_NE(pair.ask(units - 1, 1), std::nullopt);
    EXPECT_EQ(pair.ask(units, 1), std::nullopt);
    EXPECT_EQ(pair.ask(0, 0), std::nullopt);
    EXPECT_EQ(pair.ask(units - 1, 2), std::nullopt);
    EXPECT_EQ(pair.ask(UINT32_MAX, UINT32_MAX), std::nullopt);
    EXPECT_EQ(pair.ask(0, units), std::nullopt);  // more than an ask may be for
    EXPECT_EQ(pair.ask(0, 1, "another model"), std::nullopt);
    pair.giver.gives = false;
    EXPECT_EQ(pair.ask(0, 1), std::nullopt);
    pair.giver.gives = true;
    EXPECT_NE(pair.ask(0, 1), std::nullopt);
    pair.giver.giving.withdraw();
    EXPECT_EQ(pair.ask(0, 1), std::nullopt);
}

TEST(Giving, WhatTheDiskLostIsNotSent) {
    CHAOS_NEED_SHARED("models");
    Pair pair;
    EXPECT_TRUE(pair.image->keep(9, pair.model.unit(9)).value());
    {
        std::fstream file(pair.folder / "images" / hex(pair.image->identity()) / "image",
                          std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(pair.image->layout().units[9].offset));
        file.write("flip", 4);
    }
    // However often others ask for it, it is said once.
    EXPECT_EQ(pair.ask(9, 1), std::nullopt);
    EXPECT_EQ(pair.ask(9, 1), std::nullopt);
    EXPECT_THAT(pair.giver.spoilt, Each(9U));
    EXPECT_THAT(pair.giver.notes, ElementsAre(HasSubstr("not what it was")));
}

// Who asks for more than it takes does not fill the giver's memory.
TEST(Giving, ManyAsksTakeTheirTurn) {
    CHAOS_NEED_SHARED("models");
    Pair pair;
    const auto units = std::make_shared<infer::FileUnits>(infer::FileUnits::open(pair.model.file, 2048).value());
    pair.giver.giving.offer(pair.model.manifest, units);
    const Digest own = identity_of(pair.model.manifest);
    int arrived = 0;
    int asked = 0;
    std::uint64_t most = 0;
    for (; asked < 600; ++asked) {
        wire::UnitWork message;
        wire::UnitAsk& wish = *message.mutable_unit_ask();
        wish.set_identity(std::string(reinterpret_cast<const char*>(own.data()), own.size()));
        wish.set_first(100);
        wish.set_count(300);
        wish.set_transfer(
            pair.asker.transfers.expect(pair.giver.id, 64 << 20, [&](const net::Transfers::Arrived&) { ++arrived; }));
        pair.asker.send(pair.giver.id, message);
    }
    EXPECT_TRUE(net::run_until(pair.loop, [&] {
        most = std::max(most, pair.giver.giving.load().bytes_on_their_way);
        EXPECT_LE(pair.giver.giving.load().wishes, 256U);
        return arrived + pair.asker.refusals == asked;
    }));
    EXPECT_GT(arrived, 256);
    EXPECT_GT(pair.asker.refusals, 0);
    EXPECT_LE(most, 32U << 20);
}

}  // namespace
}  // namespace chaos::tensor
