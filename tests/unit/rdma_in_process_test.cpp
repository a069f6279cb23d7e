// SPDX-License-Identifier: Apache-2.0
//
// RDMA in one process: what an adapter checks, and how connections begin and end.
#include "fabric/rdma/in_process.h"
#include "rdma_support.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace mqblk::fabric::rdma {
namespace {

using test::RdmaEnd;
using test::RdmaPair;

TEST(RdmaInProcess, ConnectsWithPrivateDataBothWays) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("hello", "welcome"));
    EXPECT_EQ(pair.requested_with, "hello");
    EXPECT_EQ(pair.near.private_data, "welcome");
    EXPECT_TRUE(pair.far.established_);
}

TEST(RdmaInProcess, NobodyListens) {
    RdmaPair pair;
    pair.listener.reset();
    EXPECT_FALSE(pair.connect("", ""));
    ASSERT_TRUE(pair.near.error.has_value());
    EXPECT_EQ(pair.near.error->code(), Errc::unreachable);
    EXPECT_NE(pair.near.error->message().find("target"), std::string::npos);
}

TEST(RdmaInProcess, RejectsWithData) {
    RdmaPair pair;
    pair.reject_with = "no";
    EXPECT_FALSE(pair.connect("", ""));
    EXPECT_EQ(pair.near.reason, reject_consumer_defined);
    EXPECT_EQ(pair.near.private_data, "no");
}

TEST(RdmaInProcess, AnswerThatDoesNotComeTimesOut) {
    RdmaPair pair;
    pair.answer = false;
    EXPECT_FALSE(pair.connect("", ""));
    ASSERT_TRUE(pair.near.error.has_value());
    EXPECT_EQ(pair.near.error->code(), Errc::timed_out);
}

TEST(RdmaInProcess, SendsArriveInPostedReceives) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    std::memcpy(pair.near.memory.data(), "0123456789", 10);
    ASSERT_TRUE(pair.far.qp->post_receive(7, std::array{pair.far.piece(0, 4), pair.far.piece(100, 20)}));
    ASSERT_TRUE(pair.near.qp->post_send(9, std::array{pair.near.piece(0, 10)}));
    const auto received = pair.far.take();
    EXPECT_EQ(received.id, 7u);
    EXPECT_EQ(received.status, WorkStatus::success);
    EXPECT_EQ(received.bytes, 10u);
    EXPECT_EQ(std::memcmp(pair.far.memory.data(), "0123", 4), 0);
    EXPECT_EQ(std::memcmp(pair.far.memory.data() + 100, "456789", 6), 0);
    const auto sent = pair.near.take();
    EXPECT_EQ(sent.id, 9u);
    EXPECT_EQ(sent.op, WorkOp::send);
    EXPECT_EQ(sent.status, WorkStatus::success);
}

TEST(RdmaInProcess, SendWaitsForReceiver) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    ASSERT_TRUE(pair.near.qp->post_send(1, std::array{pair.near.piece(0, 8)}));
    pair.turn(5);
    EXPECT_FALSE(pair.near.has_completion());
    ASSERT_TRUE(pair.far.qp->post_receive(2, std::array{pair.far.piece(0, 8)}));
    EXPECT_EQ(pair.near.take().status, WorkStatus::success);
    EXPECT_EQ(pair.far.take().status, WorkStatus::success);
}

TEST(RdmaInProcess, ReceiverNotReadyForTooLong) {
    RdmaPair pair;
    pair.rnr_retry_count = 2;
    ASSERT_TRUE(pair.connect("", ""));
    ASSERT_TRUE(pair.near.qp->post_send(1, std::array{pair.near.piece(0, 8)}));
    ASSERT_TRUE(pair.turn_until([&] { return pair.near.has_completion(); }));
    EXPECT_EQ(pair.near.take().status, WorkStatus::rnr_retry_exceeded);
    EXPECT_TRUE(pair.turn_until([&] { return pair.near.disconnected_ == 1 && pair.far.disconnected_ == 1; }));
}

TEST(RdmaInProcess, ReceiveTooSmallFailsBothEnds) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    ASSERT_TRUE(pair.far.qp->post_receive(1, std::array{pair.far.piece(0, 7)}));
    ASSERT_TRUE(pair.far.qp->post_receive(2, std::array{pair.far.piece(0, 7)}));
    ASSERT_TRUE(pair.near.qp->post_send(3, std::array{pair.near.piece(0, 8)}));
    EXPECT_EQ(pair.far.take().status, WorkStatus::local_length_error);
    EXPECT_EQ(pair.far.take().status, WorkStatus::flushed);
    EXPECT_EQ(pair.near.take().status, WorkStatus::remote_invalid_request);
    ASSERT_TRUE(pair.near.qp->post_send(4, std::array{pair.near.piece(0, 1)}));
    EXPECT_EQ(pair.near.take().status, WorkStatus::flushed);
}

struct AccessCase {
    const char* name;
    bool read;
    std::uint8_t access;
    std::uint64_t offset, bytes;
    bool valid_key;
    WorkStatus status;
};

class RdmaAccess : public ::testing::TestWithParam<AccessCase> {};

TEST_P(RdmaAccess, IsChecked) {
    const AccessCase& it = GetParam();
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    std::byte* const base = pair.far.memory.data() + 1000;
    const std::uint32_t key = pair.far.qp->domain()->register_range(base, 512, it.access);
    ASSERT_NE(key, 0u);
    if (!it.valid_key) pair.far.qp->domain()->unregister(key);
    std::iota(reinterpret_cast<std::uint8_t*>(base), reinterpret_cast<std::uint8_t*>(base) + 512, std::uint8_t{1});
    const RemotePlace place{.address = reinterpret_cast<std::uintptr_t>(base) + it.offset, .key = key};
    const std::array local{pair.near.piece(0, static_cast<std::uint32_t>(it.bytes))};
    ASSERT_TRUE(it.read ? pair.near.qp->post_read(1, local, place) : pair.near.qp->post_write(1, local, place));
    EXPECT_EQ(pair.near.take().status, it.status);
    const bool same = std::memcmp(pair.near.memory.data(), base + it.offset, it.bytes) == 0;
    if (it.status == WorkStatus::success) {
        EXPECT_TRUE(same);
    }
    EXPECT_EQ(pair.turn_until([&] { return pair.near.disconnected_ == 1; }), it.status != WorkStatus::success);
    if (it.valid_key) pair.far.qp->domain()->unregister(key);
}

constexpr std::uint8_t all_access = access_local_write | access_remote_read | access_remote_write;
INSTANTIATE_TEST_SUITE_P(
    All, RdmaAccess,
    ::testing::Values(
        AccessCase{"read", true, access_remote_read, 10, 500, true, WorkStatus::success},
        AccessCase{"write", false, access_remote_write | access_local_write, 0, 512, true, WorkStatus::success},
        AccessCase{"read_past_end", true, all_access, 1, 512, true, WorkStatus::remote_access_error},
        AccessCase{"read_before_begin", true, all_access, ~std::uint64_t{0}, 4, true, WorkStatus::remote_access_error},
        AccessCase{"read_not_allowed", true, access_remote_write, 0, 4, true, WorkStatus::remote_access_error},
        AccessCase{"write_not_allowed", false, access_remote_read, 0, 4, true, WorkStatus::remote_access_error},
        AccessCase{"stale_key", true, all_access, 0, 4, false, WorkStatus::remote_access_error}),
    [](const auto& each) { return each.param.name; });

TEST(RdmaInProcess, LocalKeysAreChecked) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    ASSERT_TRUE(pair.far.qp->post_receive(1, std::array{pair.far.piece(0, 64)}));
    LocalPiece piece = pair.near.piece(0, 8);
    piece.key ^= 0x100;
    ASSERT_TRUE(pair.near.qp->post_send(2, std::array{piece}));
    EXPECT_EQ(pair.near.take().status, WorkStatus::local_protection_error);
}

TEST(RdmaInProcess, PageListsAreOneRange) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    const auto domain = pair.far.qp->domain();
    auto region = domain->allocate_region(8);
    ASSERT_TRUE(region.has_value());
    const auto page = [&](unsigned index) {
        return reinterpret_cast<std::uintptr_t>(pair.far.memory.data()) + std::uint64_t{index} * 4096;
    };
    const std::array pages{page(5), page(2), page(9)};
    const PageList list{.pages = pages, .first_byte_offset = 100, .bytes = 2 * 4096 + 50, .address = 77};
    const std::uint32_t before = region->key;
    ASSERT_TRUE(pair.far.qp->post_register(1, *region, list, access_remote_read | access_remote_write));
    EXPECT_NE(region->key, before);
    for (std::size_t i = 0; i < pair.near.memory.size(); ++i) pair.near.memory.data()[i] = std::byte(i * 7 >> 3);
    const auto bytes = static_cast<std::uint32_t>(list.bytes);
    ASSERT_TRUE(
        pair.near.qp->post_write(2, std::array{pair.near.piece(0, bytes)}, {.address = 77, .key = region->key}));
    EXPECT_EQ(pair.near.take().status, WorkStatus::success);
    const std::byte* const near = pair.near.memory.data();
    const std::byte* const far = pair.far.memory.data();
    EXPECT_EQ(std::memcmp(far + 5 * 4096 + 100, near, 3996), 0);
    EXPECT_EQ(std::memcmp(far + 2 * 4096, near + 3996, 4096), 0);
    EXPECT_EQ(std::memcmp(far + 9 * 4096, near + 3996 + 4096, list.bytes - 3996 - 4096), 0);
    // Invalid from now on, and a new key when it is used again.
    ASSERT_TRUE(pair.far.qp->post_invalidate(3, region->key));
    const std::uint32_t stale = region->key;
    ASSERT_TRUE(pair.far.qp->post_register(4, *region, list, access_remote_read));
    EXPECT_NE(region->key, stale);
    EXPECT_EQ(region->key >> 8, stale >> 8);
    ASSERT_TRUE(pair.near.qp->post_read(5, std::array{pair.near.piece(0, 4)}, {.address = 77, .key = stale}));
    EXPECT_EQ(pair.near.take().status, WorkStatus::remote_access_error);
    domain->free_region(*region);
}

TEST(RdmaInProcess, UnsoundPageListsAreRefused) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    const auto domain = pair.far.qp->domain();
    auto pool = domain->make_pool(2, 4);
    ASSERT_TRUE(pool.has_value());
    const auto base = reinterpret_cast<std::uintptr_t>(pair.far.memory.data());
    const std::array<std::uint64_t, 5> pages{base, base, base, base, base};
    const auto try_list = [&](unsigned count, std::uint32_t first, std::uint64_t bytes) {
        return (*pool)->map({.pages = std::span(pages).first(count), .first_byte_offset = first, .bytes = bytes},
                            access_remote_read);
    };
    EXPECT_EQ(try_list(5, 0, 4096), 0u);
    EXPECT_EQ(try_list(0, 0, 4096), 0u);
    EXPECT_EQ(try_list(1, 0, 0), 0u);
    EXPECT_EQ(try_list(1, 1, 4096), 0u);
    EXPECT_EQ(try_list(1, 4096, 1), 0u);
    const std::uint32_t first = try_list(4, 0, 4 * 4096), second = try_list(1, 5, 4091);
    EXPECT_NE(first, 0u);
    EXPECT_NE(second, 0u);
    EXPECT_EQ(try_list(1, 0, 1), 0u) << "no region is free";
    (*pool)->unmap(first);
    (*pool)->unmap(first);
    const std::uint32_t again = try_list(1, 0, 1);
    EXPECT_NE(again, 0u);
    EXPECT_NE(again, first);
    (*pool)->unmap(again);
    (*pool)->unmap(second);
}

TEST(RdmaInProcess, DisconnectFlushesBothEnds) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    ASSERT_TRUE(pair.near.qp->post_receive(1, std::array{pair.near.piece(0, 8)}));
    ASSERT_TRUE(pair.far.qp->post_receive(2, std::array{pair.far.piece(0, 8)}));
    pair.far.qp->disconnect();
    EXPECT_EQ(pair.near.take().status, WorkStatus::flushed);
    EXPECT_EQ(pair.far.take().status, WorkStatus::flushed);
    EXPECT_TRUE(pair.turn_until([&] { return pair.near.disconnected_ == 1 && pair.far.disconnected_ == 1; }));
}

TEST(RdmaInProcess, DestroyedEndIsADisconnect) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    pair.far.qp.reset();
    EXPECT_TRUE(pair.turn_until([&] { return pair.near.disconnected_ == 1; }));
}

TEST(RdmaInProcess, QueuesAreBounded) {
    RdmaPair pair;
    ASSERT_TRUE(pair.connect("", ""));
    for (unsigned i = 0; i < RdmaEnd::receives; ++i)
        ASSERT_TRUE(pair.far.qp->post_receive(i, std::array{pair.far.piece(0, 8)}));
    EXPECT_FALSE(pair.far.qp->post_receive(99, std::array{pair.far.piece(0, 8)}));
    for (unsigned i = 0; i < RdmaEnd::sends; ++i)
        ASSERT_TRUE(pair.near.qp->post_send(i, std::array{pair.near.piece(0, 8)}));
    EXPECT_FALSE(pair.near.qp->post_send(99, std::array{pair.near.piece(0, 8)})) << "completions were not taken";
    EXPECT_EQ(pair.near.take().id, 0u);
    EXPECT_TRUE(pair.near.qp->post_send(99, std::array{pair.near.piece(0, 8)}));
}

}  // namespace
}  // namespace mqblk::fabric::rdma
