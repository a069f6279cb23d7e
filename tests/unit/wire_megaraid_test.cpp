// SPDX-License-Identifier: Apache-2.0
//
// MegaRAID's descriptors, frames and lists byte for byte; and that no decoder reads beyond what is there.
#include "base/random.h"
#include "wire/megaraid.h"
#include "wire/megaraid_info.h"
#include "wire/megaraid_layout.h"
#include "wire/megaraid_map.h"
#include "wire/megaraid_mfi.h"
#include "wire/megaraid_mfi_queue.h"
#include "wire/megaraid_mpi.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace mqblk::test {
namespace {

namespace mr = wire::megaraid;

template <class T>
std::vector<unsigned> bytes_of(const T& value, std::size_t from, std::size_t count) {
    const auto* const raw = reinterpret_cast<const unsigned char*>(&value) + from;
    return {raw, raw + count};
}
using Bytes = std::vector<unsigned>;

TEST(WireMegaraid, StateWords) {
    EXPECT_EQ(mr::make_state(mr::State::ready, mr::state_msix_capable | 1008), 0xb40003f0u);
    EXPECT_EQ(mr::state_of(0xf0000003), mr::State::fault);
    EXPECT_EQ(mr::max_commands_of(0xc40003f0), 1008u);
    EXPECT_EQ(mr::usable_commands(1008), 1007u);
    EXPECT_EQ(mr::usable_commands(5000), 1007u);
    EXPECT_EQ(mr::usable_commands(0), 0u);
    EXPECT_EQ(mr::reply_queue_depth(1007), 2016u);
    EXPECT_EQ(mr::reply_queue_depth(927), 1856u);
}

TEST(WireMegaraid, Capabilities) {
    const mr::Capability asked{.reply_queues = 16,
                               .chain_frame_bytes = 4096,
                               .large_io = true,
                               .reply_array = true,
                               .sync_cache = true,
                               .dma64 = false};
    EXPECT_EQ(mr::encode_capability(asked, mr::Generation::invader), 0x01c3c100u);
    EXPECT_EQ(mr::encode_capability({.reply_queues = 8}, mr::Generation::thunderbolt), 0x00000107u);
    for (const auto generation : {mr::Generation::thunderbolt, mr::Generation::invader}) {
        const auto got = mr::decode_capability(mr::encode_capability(asked, generation), generation);
        EXPECT_EQ(got.reply_queues, 16u);
        EXPECT_EQ(got.chain_frame_bytes, 4096u);
        EXPECT_TRUE(got.large_io && got.reply_array && got.sync_cache);
    }
    EXPECT_EQ(mr::decode_capability(0, mr::Generation::invader).chain_frame_bytes, 1024u) << "never less";
    EXPECT_EQ(mr::decode_capability(0x003fc000, mr::Generation::invader).reply_queues, 256u);
}

TEST(WireMegaraid, ReplyIndexRegisters) {
    EXPECT_EQ(mr::reply_index_register(7, true), 0x30cu);
    EXPECT_EQ(mr::reply_index_register(8, true), 0x31cu);
    EXPECT_EQ(mr::reply_index_register(127, true), 0x3fcu);
    EXPECT_EQ(mr::reply_index_register(12, false), 0x6cu);
    EXPECT_EQ(mr::reply_index_value(13, 0x123, true), 0x05000123u);
    EXPECT_EQ(mr::reply_index_value(13, 0x123, false), 0x0d000123u);
}

TEST(WireMegaraid, Descriptors) {
    const mr::RequestDescriptor request{mr::request_flags(mr::RequestType::ld_io), 3, 0x0102, 0, 0x0405};
    EXPECT_EQ(bytes_of(request, 0, 8), (Bytes{0x0e, 3, 0x02, 0x01, 0, 0, 0x05, 0x04}));
    EXPECT_EQ(request.type(), mr::RequestType::ld_io);
    EXPECT_EQ(mr::mfa_descriptor(0x1'2345'6700), 0x1'2345'6702u);
    EXPECT_EQ(mr::mfa_address(0x1'2345'6702), 0x1'2345'6700u);
    const mr::ReplyDescriptor reply{0, 5, 0x0a0b, {}};
    EXPECT_EQ(bytes_of(reply, 0, 8), (Bytes{0, 5, 0x0b, 0x0a, 0, 0, 0, 0}));
    const auto unused = std::bit_cast<mr::ReplyDescriptor>(mr::reply_unused);
    EXPECT_EQ(unused.type(), mr::ReplyType::unused);
}

TEST(WireMegaraid, Frames) {
    mr::DcmdFrame dcmd;
    dcmd.header = {.command = 5, .status = 0xff, .sges = 1, .context = 7, .flags = 0x0031, .data_bytes = 0x800};
    dcmd.opcode = mr::dcmd::ctrl_get_info;
    dcmd.mailbox.set_half(0, 0x0201);
    dcmd.mailbox.set_word(2, 0xfe00ffff);
    EXPECT_EQ(bytes_of(dcmd, 0, 8), (Bytes{5, 0, 0xff, 0, 0, 0, 0, 1}));
    EXPECT_EQ(bytes_of(dcmd, 0x10, 16), (Bytes{0x31, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 1, 1, 2, 0, 0}));
    EXPECT_EQ(bytes_of(dcmd, 0x24, 4), (Bytes{0xff, 0xff, 0, 0xfe}));
    EXPECT_EQ(dcmd.mailbox.word(2), 0xfe00ffffu);
    EXPECT_EQ(dcmd.mailbox.half(0), 0x0201);

    mr::ScsiIoRequest io;
    io.dev_handle = 0x0203;
    io.function = 0xf1;
    io.sense_low = 0x11223344;
    io.data_bytes = 0x1000;
    io.io_flags = mr::io_fast_path | 10;
    io.control = mr::control_read;
    io.cdb[0] = 0x28;
    io.context.target_id = 0x0102;
    io.context.status = 0x2d;
    io.context.ex_status = 2;
    io.sgl[7].flags = mr::sge_chain;
    EXPECT_EQ(bytes_of(io, 0, 4), (Bytes{3, 2, 0, 0xf1}));
    EXPECT_EQ(bytes_of(io, 0x0c, 4), (Bytes{0x44, 0x33, 0x22, 0x11}));
    EXPECT_EQ(bytes_of(io, 0x1c, 4), (Bytes{0, 0x10, 0, 0}));
    EXPECT_EQ(bytes_of(io, 0x24, 2), (Bytes{10, 0x40}));
    EXPECT_EQ(bytes_of(io, 0x3c, 5), (Bytes{0, 0, 0, 2, 0x28}));
    EXPECT_EQ(bytes_of(io, 0x66, 2), (Bytes{2, 1}));
    EXPECT_EQ(bytes_of(io, mr::context_answer_offset, 2), (Bytes{2, 0x2d}));
    EXPECT_EQ(bytes_of(io, 0xff, 1), (Bytes{0x80}));

    mr::IocInit init;
    init.msg_version = mr::mpi_version;
    init.request_frame_words = 64;
    EXPECT_EQ(bytes_of(init, 0, 16), (Bytes{4, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0}));
    EXPECT_EQ(bytes_of(init, 0x1a, 2), (Bytes{64, 0}));
}

TEST(WireMegaraid, TheMfiGenerationsPostsAndQueue) {
    EXPECT_EQ(mr::mfi_post(0x80001000, 64), 0x80001001u);
    EXPECT_EQ(mr::mfi_post(0x80001040, 65), 0x80001043u);
    EXPECT_EQ(mr::mfi_post(0x80001000, 128), 0x80001003u);
    EXPECT_EQ(mr::mfi_post(0xfffff000, 512), 0xfffff00fu);
    EXPECT_EQ(mr::mfi_post(0x80001000, 2048), 0x8000100fu) << "seven more, no matter how many";
    EXPECT_EQ(mr::mfi_posted_address(0x8000104f), 0x80001040u);
    const mr::MfiQueueInfo info{
        .entries = 0x3e8, .replies = 0x80002040, .producer = 0x80002000, .consumer = 0x80002004};
    EXPECT_EQ(bytes_of(info, 0, 16), (Bytes{0, 0, 0, 0, 0xe8, 3, 0, 0, 0x40, 0x20, 0, 0x80, 0, 0, 0, 0}));
    EXPECT_EQ(bytes_of(info, 16, 16), (Bytes{0, 0x20, 0, 0x80, 0, 0, 0, 0, 4, 0x20, 0, 0x80, 0, 0, 0, 0}));
    EXPECT_EQ(mr::mfi_max_sges_of(0xb45003e8), 0x50u);
    EXPECT_EQ(mr::max_commands_of(0xb45003e8), 1000u);
    EXPECT_TRUE(mr::is_fusion(mr::Generation::invader) && mr::is_fusion(mr::Generation::thunderbolt));
    EXPECT_FALSE(mr::is_fusion(mr::Generation::sas1078) || mr::is_fusion(mr::Generation::unknown));
    EXPECT_TRUE(mr::is_later_generation(0x0016) && mr::is_later_generation(0x10e6));
    EXPECT_FALSE(mr::is_later_generation(0x0018) || mr::is_later_generation(0x005d));
}

TEST(WireMegaraid, ElementsOfAFrameInThreeForms) {
    const unsigned char raw[] = {0x00, 0x10, 0x20, 0x30, 0x01, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
                                 0x00, 0x00, 0x00, 0x00, 0x44, 0x33, 0x22, 0x11, 0x00, 0x04, 0x00, 0x00};
    const auto sgl = std::as_bytes(std::span(raw));
    auto range = mr::decode_mfi_sge(sgl, mr::mfi_ieee, 0);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->address, 0x1'3020'1000u);
    EXPECT_EQ(range->bytes, 0x200u);
    EXPECT_FALSE(mr::decode_mfi_sge(sgl, mr::mfi_ieee, 1)) << "half an element is none";
    range = mr::decode_mfi_sge(sgl, mr::mfi_sgl64, 1);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->address, 0x11223344'00000000u);
    EXPECT_EQ(range->bytes, 0x400u);
    range = mr::decode_mfi_sge(sgl, 0, 2);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->address, 0x11223344u);
    EXPECT_EQ(range->bytes, 0x400u);
    EXPECT_FALSE(mr::decode_mfi_sge(sgl, 0, 3));
    EXPECT_FALSE(mr::decode_mfi_sge({}, 0, 0));
}

TEST(WireMegaraid, ListsEndWhereTheirBytesEnd) {
    std::vector<std::byte> bytes(8 + 2 * sizeof(mr::PdAddress));
    bytes[4] = std::byte{2};
    bytes[8 + 24] = std::byte{9};
    auto disks = mr::decode_pd_list(bytes);
    ASSERT_TRUE(disks);
    ASSERT_EQ(disks->size(), 2u);
    EXPECT_EQ((*disks)[1].device_id, 9);
    bytes[4] = std::byte{3};
    EXPECT_FALSE(mr::decode_pd_list(bytes));
    bytes[4] = bytes[5] = bytes[6] = bytes[7] = std::byte{0xff};
    EXPECT_FALSE(mr::decode_pd_list(bytes));
    EXPECT_FALSE(mr::decode_pd_list(std::span(bytes).first(7)));

    std::vector<std::byte> targets(mr::target_list_bytes(256));
    EXPECT_EQ(targets.size(), 268u);
    targets[4] = std::byte{2};
    targets[12] = std::byte{7};
    const auto ids = mr::decode_target_list(targets, 256);
    ASSERT_TRUE(ids);
    EXPECT_EQ((*ids)[1], 7);
    EXPECT_FALSE(mr::decode_target_list(targets, 1)) << "more than the firmware may have";
    EXPECT_FALSE(mr::decode_target_list(std::span(targets).first(12), 256));

    std::vector<std::byte> volumes(8 + sizeof(mr::LdEntry));
    volumes[0] = std::byte{1};
    EXPECT_TRUE(mr::decode_ld_list(volumes, 64));
    volumes[0] = std::byte{2};
    EXPECT_FALSE(mr::decode_ld_list(volumes, 64));
}

TEST(WireMegaraid, MapsAreCheckedAsAWhole) {
    std::vector<std::byte> bytes(mr::legacy_map_bytes(2));
    auto& map = *reinterpret_cast<mr::MapLegacy*>(bytes.data());
    map.bytes = static_cast<std::uint32_t>(bytes.size());
    map.volumes = 2;
    std::memset(map.target_to_ld, mr::ld_invalid, sizeof map.target_to_ld);
    map.target_to_ld[5] = 1;
    map.array[3].pd[2] = 17;
    map.device[17].current = 0x1234;
    auto* const volumes = reinterpret_cast<mr::LdSpanMap*>(bytes.data() + sizeof map);
    volumes[1].span[0].array = 3;
    const auto view = mr::decode_legacy_map(bytes);
    ASSERT_TRUE(view);
    const mr::LdSpanMap* ld = view->find(5);
    ASSERT_EQ(ld, &volumes[1]);
    EXPECT_EQ(view->handle(*ld, 0, 2), 0x1234);
    EXPECT_EQ(view->find(4), nullptr);
    EXPECT_EQ(view->find(1000), nullptr);
    EXPECT_EQ(view->handle(*ld, 8, 0), mr::handle_invalid);
    EXPECT_EQ(view->handle(*ld, 0, 32), mr::handle_invalid);
    map.array[3].pd[2] = 300;
    EXPECT_EQ(view->handle(*ld, 0, 2), mr::handle_invalid);
    volumes[1].span[0].array = 128;
    EXPECT_EQ(view->handle(*ld, 0, 2), mr::handle_invalid);
    EXPECT_FALSE(mr::decode_legacy_map(std::span(bytes).first(bytes.size() - 1)));
    map.volumes = 1;
    EXPECT_FALSE(mr::decode_legacy_map(bytes)) << "size and number contradict each other";
    map.volumes = 65;
    EXPECT_FALSE(mr::decode_legacy_map(bytes));

    std::vector<std::byte> large(mr::extended_map_bytes);
    auto& extended = *reinterpret_cast<mr::MapExtended*>(large.data());
    extended.volumes = 256;
    EXPECT_TRUE(mr::decode_extended_map(large));
    EXPECT_FALSE(mr::decode_extended_map(std::span(large).first(large.size() - 1)));
    extended.volumes = 257;
    EXPECT_FALSE(mr::decode_extended_map(large));

    std::vector<std::byte> disks(mr::pd_map_bytes(3));
    disks[4] = std::byte{3};
    ASSERT_TRUE(mr::decode_pd_map(disks));
    disks[4] = std::byte{4};
    EXPECT_FALSE(mr::decode_pd_map(disks));
}

TEST(WireMegaraid, EventsAreForWhoAskedForThem) {
    const std::uint32_t all = mr::class_locale(mr::EventClass::debug, mr::locale_all);
    EXPECT_EQ(all, 0xfe00ffffu);
    EXPECT_TRUE(mr::wants_event(all, mr::class_locale(mr::EventClass::info, mr::locale_pd)));
    EXPECT_FALSE(mr::wants_event(mr::class_locale(mr::EventClass::warning, mr::locale_all),
                                 mr::class_locale(mr::EventClass::info, mr::locale_pd)));
    EXPECT_FALSE(mr::wants_event(mr::class_locale(mr::EventClass::debug, mr::locale_ld),
                                 mr::class_locale(mr::EventClass::info, mr::locale_pd)));
}

TEST(WireMegaraid, EachBlockOfAVolumeHasItsOwnPlace) {
    for (const auto& [level, arms] : {std::pair{0u, 1u}, {0u, 5u}, {1u, 2u}, {5u, 3u}, {5u, 7u}, {6u, 4u}, {6u, 9u}}) {
        const auto layout = mr::make_layout(level, arms, 3);
        ASSERT_TRUE(layout);
        std::set<std::pair<unsigned, std::uint64_t>> seen;
        for (std::uint64_t block = 0; block < 8 * 500; ++block) {
            const mr::DiskBlock at = mr::locate(*layout, block);
            ASSERT_LT(at.arm, arms);
            ASSERT_LT(at.block, mr::disk_blocks(*layout, 8 * 500));
            ASSERT_TRUE(seen.emplace(at.arm, at.block).second) << "level " << level << " block " << block;
            ASSERT_EQ(mr::volume_block_of(*layout, at.arm, at.block), block) << "level " << level;
        }
        // What no block lies on is parity, or the mirror.
        for (unsigned arm = 0; arm < arms; ++arm) {
            for (std::uint64_t block = 0; block < 100; ++block) {
                const auto back = mr::volume_block_of(*layout, arm, block);
                if (level == 1) {
                    EXPECT_EQ(back, block);
                } else {
                    EXPECT_EQ(back.has_value(), seen.contains({arm, block}));
                }
            }
        }
        EXPECT_FALSE(mr::volume_block_of(*layout, arms, 0));
        EXPECT_FALSE(mr::volume_block_of(*layout, 0, ~std::uint64_t{0})) << "would not fit 64 bits";
    }
    EXPECT_FALSE(mr::make_layout(1, 3, 7));
    EXPECT_FALSE(mr::make_layout(5, 2, 7));
    EXPECT_FALSE(mr::make_layout(6, 3, 7));
    EXPECT_FALSE(mr::make_layout(10, 4, 7));
    EXPECT_FALSE(mr::make_layout(0, 33, 7));
    EXPECT_FALSE(mr::make_layout(0, 0, 7));
    EXPECT_FALSE(mr::make_layout(0, 1, 21));
}

TEST(WireMegaraid, TheFastPathIsForOneStrip) {
    mr::LdRaid raid;
    raid.blocks = 10'000;
    raid.strip_shift = 7;
    EXPECT_FALSE(mr::fits_fast_path(raid, 0, 8, true));
    raid.capability = mr::ld_fast_path | mr::ld_fp_read;
    EXPECT_TRUE(mr::fits_fast_path(raid, 0, 128, true));
    EXPECT_TRUE(mr::fits_fast_path(raid, 120, 8, true));
    EXPECT_FALSE(mr::fits_fast_path(raid, 121, 8, true));
    EXPECT_FALSE(mr::fits_fast_path(raid, 0, 8, false));
    EXPECT_FALSE(mr::fits_fast_path(raid, 0, 0, true));
    EXPECT_FALSE(mr::fits_fast_path(raid, 9'999, 2, true));
    EXPECT_FALSE(mr::fits_fast_path(raid, ~std::uint64_t{0}, 2, true));
    raid.strip_shift = 200;
    EXPECT_FALSE(mr::fits_fast_path(raid, 0, 8, true));
}

TEST(WireMegaraid, DecodersTakeAnyBytes) {
    SeededRandom random(11);
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::byte> bytes(random.below(sizeof(mr::MapLegacy) + 3000));
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.below(3));
        (void)mr::decode_pd_list(bytes);
        (void)mr::decode_ld_list(bytes, 256);
        (void)mr::decode_target_list(bytes, 256);
        (void)mr::decode_pd_map(bytes);
        if (const auto view = mr::decode_legacy_map(bytes)) (void)view->find(3);
        mr::LdRaid raid;
        if (bytes.size() >= sizeof raid) {
            std::memcpy(&raid, bytes.data(), sizeof raid);
            if (const auto layout = mr::layout_of(raid)) (void)mr::locate(*layout, random.next());
        }
    }
}

}  // namespace
}  // namespace mqblk::test
