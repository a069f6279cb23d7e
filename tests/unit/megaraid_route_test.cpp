// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID driver's pure parts: firmware states, limits, the RAID map's arithmetic against values worked out by
// hand, scatter-gather lists byte by byte, what answers mean.
#include "driver/megaraid/answer.h"
#include "driver/megaraid/command_memory.h"
#include "driver/megaraid/firmware.h"
#include "driver/megaraid/mfi_replies.h"
#include "driver/megaraid/reply_ring.h"
#include "driver/megaraid/route.h"
#include "driver/megaraid/sg_list.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace mqblk::driver::megaraid {
namespace {

using namespace wire::megaraid;

TEST(MegaraidFirmware, EachStateLeadsToReady) {
    struct Row {
        State state;
        bool resetting;
        Step step;
        std::uint32_t doorbell;
    };
    const Row rows[] = {
        {State::undefined, false, Step::wait, 0},
        {State::bb_init, false, Step::wait, 0},
        {State::fw_init, true, Step::wait, 0},
        {State::wait_handshake, false, Step::write, 0x18},
        {State::device_scan, false, Step::wait, 0},
        {State::boot_message_pending, false, Step::write, 0x10},
        {State::flush_cache, false, Step::wait, 0},
        {State::ready, false, Step::done, 0},
        {State::operational, false, Step::write, 0x07},
        {State::fault, false, Step::fail, 0},
        {State::fault, true, Step::wait, 0},
        {static_cast<State>(0x5), false, Step::fail, 0},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(testing::Message() << to_string(row.state) << " resetting " << row.resetting);
        const BringUp what = bring_up(row.state, row.resetting);
        EXPECT_EQ(what.step, row.step);
        EXPECT_EQ(what.doorbell, row.doorbell);
    }
    EXPECT_TRUE(reset_may_help(0xf0000002));
    EXPECT_FALSE(reset_may_help(0xf0000001));
}

TEST(MegaraidFirmware, LimitsFollowFromTheScratchPads) {
    // 1008 commands, MSI-X; 16 reply queues in the place of Invader, chain frames of 8 * 512 bytes.
    const Limits limits = read_limits(0xb40003f0, 15u << 14 | 1u << 22 | 8u << 5, Generation::invader);
    EXPECT_EQ(limits.commands, 1007u);
    EXPECT_EQ(limits.reply_queues, 16u);
    EXPECT_EQ(limits.chain_bytes, 4096u);
    EXPECT_EQ(limits.sges, 256u);
    EXPECT_EQ(limits.reply_depth, 2016u);
    EXPECT_TRUE(limits.combined_index);
    const Limits old = read_limits(0xb4000100, 7, Generation::thunderbolt);
    EXPECT_EQ(old.commands, 255u);
    EXPECT_EQ(old.reply_queues, 8u);
    EXPECT_EQ(old.sges, 64u);
    EXPECT_FALSE(old.combined_index);
    EXPECT_EQ(read_limits(0xb0000100, 7, Generation::thunderbolt).reply_queues, 1u);  // no MSI-X
}

Route volume(unsigned level, unsigned arms) {
    Route route;
    route.kind = Kind::volume;
    route.id = 5;
    route.mapped = true;
    route.sequence = 9;
    route.layout = make_layout(level, arms, 7);
    route.raid.capability = ld_fast_path | ld_fp_read | (level == 0 ? unsigned{ld_fp_write} : 0u);
    route.raid.blocks = 1u << 20;
    route.raid.strip_shift = 7;
    route.raid.level = static_cast<std::uint8_t>(level);
    route.raid.lock_on_read = 1;
    route.raid.lock_on_write = level >= 5 ? 3 : 2;
    route.fp_timeout_s = 20;
    route.handles.fill(handle_invalid);
    for (unsigned arm = 0; arm < arms; ++arm) route.handles[arm] = static_cast<std::uint16_t>(0x100 + arm);
    return route;
}

TEST(MegaraidRoute, TheMapsArithmetic) {
    struct Row {
        unsigned level, arms;
        Access access;
        std::uint64_t block, blocks;
        bool fast;
        std::uint16_t handle;  ///< or target id
        std::uint64_t at;
    };
    const Row rows[] = {
        {0, 3, Access::read, 0, 8, true, 0x100, 0},
        {0, 3, Access::read, 128, 8, true, 0x101, 0},
        {0, 3, Access::write, 3 * 128 + 5, 8, true, 0x100, 128 + 5},
        {0, 3, Access::read, 124, 8, false, 5, 0},  // over two strips
        {1, 2, Access::read, 7, 1, true, 0x100, 7},
        {1, 2, Access::read, 128 + 7, 1, true, 0x101, 128 + 7},  // the next strip from the mirror
        {1, 2, Access::write, 7, 1, false, 5, 0},
        {5, 4, Access::read, 3 * 128, 8, true, 0x103, 128},  // strip 3: row 1, arm 3
        {5, 4, Access::write, 0, 8, false, 5, 0},
        {6, 8, Access::read, 0, 8, true, 0x100, 0},            // Q of row 0 on arm 7, data from arm 0
        {6, 8, Access::read, 6 * 128, 8, true, 0x107, 128},    // Q of row 1 on arm 6, data from arm 7
        {6, 8, Access::read, (1u << 20) - 4, 8, false, 5, 0},  // beyond the end
        {0, 3, Access::other, 0, 8, false, 5, 0},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(testing::Message() << "RAID " << row.level << " of " << row.arms << " block " << row.block);
        const Route route = volume(row.level, row.arms);
        const Path path = choose_path(route, row.access, row.block, row.blocks, Generation::invader, true);
        EXPECT_EQ(path.fast, row.fast);
        EXPECT_EQ(path.dev_handle, row.handle);
        EXPECT_EQ(path.function, row.fast ? Function::scsi_io : Function::ld_io);
        EXPECT_EQ(path.context.target_id, 5u);
        if (row.fast) {
            EXPECT_EQ(path.block, row.at);
            EXPECT_EQ(path.type, RequestType::high_priority);
            EXPECT_EQ(path.context.lock_flags & 0x88, 0x88);
        }
        EXPECT_FALSE(choose_path(route, row.access, row.block, row.blocks, Generation::invader, false).fast);
    }
}

TEST(MegaraidRoute, ContextsOfTheGenerations) {
    const Route route = volume(6, 8);
    const Path write = choose_path(route, Access::write, 6 * 128, 6 * 128 + 1, Generation::invader, true);
    EXPECT_EQ(write.type, RequestType::ld_io);
    EXPECT_EQ(write.context.type, 0x12);
    EXPECT_EQ(write.context.lock_flags, 0x0b);  // exclusive, with the sequence number
    EXPECT_EQ(write.context.config_seq, 9u);
    EXPECT_EQ(write.context.lock_row, 128u);  // rows 1 and 2
    EXPECT_EQ(write.context.lock_length, 256u);
    const Path old = choose_path(route, Access::write, 0, 1, Generation::thunderbolt, true);
    EXPECT_EQ(old.context.type, 0);
    EXPECT_EQ(old.context.lock_flags, 0x03);
    EXPECT_EQ(old.context.config_seq, 0u);
    Route unlocked = route;
    unlocked.raid.lock_on_read = 0;
    EXPECT_EQ(choose_path(unlocked, Access::read, 0, 1, Generation::invader, true).type, RequestType::no_lock);
}

TEST(MegaraidRoute, DisksOfTheirOwn) {
    std::array<PdSequence, 2> map{};
    map[1].handle = 0x101;
    map[1].sequence = 4;
    map[1].capability = 1;
    const Route known = route_of_disk(map, 1);
    EXPECT_TRUE(known.task_management);
    const Path fast = choose_path(known, Access::write, 77, 8, Generation::invader, true);
    EXPECT_TRUE(fast.fast);
    EXPECT_FALSE(fast.moved);
    EXPECT_EQ(fast.dev_handle, 0x101);
    EXPECT_EQ(fast.context.target_id, 256);
    EXPECT_EQ(fast.context.raid_flags, 0x10);
    EXPECT_EQ(fast.context.config_seq, 4);
    for (const std::uint16_t id : {std::uint16_t{0}, std::uint16_t{7}}) {
        const Path firmware = choose_path(route_of_disk(map, id), Access::write, 77, 8, Generation::invader, true);
        EXPECT_FALSE(firmware.fast);
        EXPECT_EQ(firmware.type, RequestType::scsi_io);
        EXPECT_EQ(firmware.dev_handle, id);
        EXPECT_EQ(firmware.context.raid_flags, 0x10);
    }
    // A map of which there is nothing.
    EXPECT_FALSE(route_of_volume({}, 3).mapped);
}

struct NoBackend final : pci::DmaBackend {
    Result<> map(std::uint64_t, std::span<std::byte>, int, std::uint64_t) override { return {}; }
    void unmap(std::uint64_t, std::uint64_t) noexcept override {}
};

TEST(MegaraidSgList, ElementsAndTheChainFrame) {
    pci::DmaSpace space(std::make_unique<NoBackend>(), {});
    const auto memory = *CommandMemory::create(space, {.commands = 32, .chain_bytes = 1024});
    const auto fill = [&](unsigned count, Generation generation) {
        SgWriter writer(*memory, 3, count, generation);
        for (unsigned i = 0; i < count; ++i) writer.add(0x1000 * (i + 1), 512 + i);
        return writer;
    };
    EXPECT_EQ(fill(8, Generation::invader).chain_offset(false), 0);
    const IeeeSge* const sgl = memory->frame(3).sgl;
    EXPECT_EQ(sgl[7].address, 0x8000u);
    EXPECT_EQ(sgl[7].bytes, 519u);
    EXPECT_EQ(sgl[7].flags, 0x40);
    EXPECT_EQ(sgl[0].flags, 0);
    const SgWriter chained = fill(9, Generation::invader);
    EXPECT_EQ(chained.chain_offset(false), 0x0f);
    EXPECT_EQ(chained.chain_offset(true), 0);
    EXPECT_EQ(sgl[6].address, 0x7000u);
    EXPECT_EQ(sgl[7].flags, 0x80);
    EXPECT_EQ(sgl[7].bytes, 2 * 16u);
    EXPECT_EQ(sgl[7].address, memory->chain_address(3));
    const auto* const chain = reinterpret_cast<const IeeeSge*>(memory->chain(3));
    EXPECT_EQ(chain[0].address, 0x8000u);
    EXPECT_EQ(chain[1].address, 0x9000u);
    EXPECT_EQ(chain[1].flags, 0x40);
    EXPECT_EQ(fill(64, Generation::thunderbolt).chain_offset(true), 0x0f);
    EXPECT_EQ(sgl[7].flags, 0x83);
    EXPECT_EQ(sgl[7].bytes, 57 * 16u);
    EXPECT_EQ(chain[56].flags, 0);
    EXPECT_LT(memory->sense_address(32), 1ull << 32);
    EXPECT_EQ(smid_of(0), 1);
    EXPECT_EQ(tag_of(1008), 1007u);
}

TEST(MegaraidReplyRing, ReadsEachReplyOnceAndWraps) {
    alignas(8) std::array<std::uint64_t, 4> slots{};
    ReplyRing ring;
    ring.use(reinterpret_cast<std::byte*>(slots.data()), 1);
    ring.reset(4, false);
    std::uint16_t found = 0;
    EXPECT_FALSE(ring.next(found));
    unsigned at = 0;
    for (std::uint16_t smid = 1; smid < 12; ++smid) {
        const ReplyDescriptor reply{.flags = 0, .msix_index = 1, .smid = smid, .dependent = {}};
        slots[at] = std::bit_cast<std::uint64_t>(reply);
        at = (at + 1) % 4;
        EXPECT_TRUE(ring.pending());
        EXPECT_TRUE(ring.next(found));
        EXPECT_EQ(found, smid);
        EXPECT_FALSE(ring.next(found));
    }
    slots[at] = 0xffffffff00020000;  // half of it
    EXPECT_FALSE(ring.pending());
    slots[at] = 0x000000000002000f;  // of the type "unused"
    EXPECT_FALSE(ring.pending());
}

TEST(MegaraidMfiReplies, ReadsEachContextOnceAndWraps) {
    alignas(8) std::array<std::uint32_t, MfiReplies::bytes(4) / 4> words{};
    struct NoRegisters final : pci::BarAccess {
        virtual ~NoRegisters() = default;
        std::uint64_t bar_read(unsigned, std::uint64_t, unsigned) noexcept override { return 0; }
        void bar_write(unsigned, std::uint64_t, unsigned, std::uint64_t) noexcept override {}
    } access;
    const pci::Bar bar(access, 0, 4096);
    MfiReplies replies;
    std::uint16_t found = 0;
    EXPECT_FALSE(replies.next(found));  // without memory
    replies.use(reinterpret_cast<std::byte*>(words.data()));
    replies.reset(4);
    EXPECT_FALSE(replies.pending() || replies.next(found));
    std::uint32_t& producer = words[0];
    std::uint32_t* const entries = &words[MfiReplies::entries_offset / 4];
    for (std::uint16_t smid = 1; smid < 12; ++smid) {
        entries[producer] = smid;
        producer = (producer + 1) % 4;
        EXPECT_TRUE(replies.pending());
        EXPECT_TRUE(replies.front(found));
        EXPECT_EQ(found, smid);
        EXPECT_TRUE(replies.next(found));
        EXPECT_EQ(found, smid);
        EXPECT_FALSE(replies.next(found));
        replies.tell_now(bar);
        EXPECT_EQ(words[1], producer);
    }
    entries[producer] = 0x10001;  // of no command that there can be
    producer = (producer + 1) % 4;
    EXPECT_TRUE(replies.next(found));
    EXPECT_EQ(found, 0);
    for (const std::uint32_t beyond : {4u, 0xffffffffu}) {
        producer = beyond;
        EXPECT_FALSE(replies.pending() || replies.next(found));
        EXPECT_TRUE(replies.broken());
        producer = 0;
        EXPECT_FALSE(replies.pending() || replies.next(found)) << "until there was a reset";
        replies.reset(4);
        EXPECT_FALSE(replies.broken());
    }
}

TEST(MegaraidFirmware, LimitsOfTheMfiGeneration) {
    const Limits limits = read_limits(0xb45003e8, 15, Generation::sas1078);
    EXPECT_EQ(limits.commands, 999u);
    EXPECT_EQ(limits.reply_depth, 1000u);  // where the ring ends
    EXPECT_EQ(limits.sges, 80u);
    EXPECT_EQ(limits.chain_bytes, 2048u);
    EXPECT_TRUE(limits.msix && limits.ieee_lists);
    EXPECT_EQ(limits.reply_queues, 1u);
    const Limits most = read_limits(0xb0ffffff, 0, Generation::gen2);
    EXPECT_EQ(most.commands, 1007u);
    EXPECT_EQ(most.reply_depth, 65535u);
    EXPECT_EQ(most.sges, (2048 - 0x30) / 16u);
    EXPECT_FALSE(most.msix || most.ieee_lists);
}

TEST(MegaraidAnswer, EveryStatusHasAMeaning) {
    EXPECT_EQ(judge(0, 0, {}).verdict, Verdict::good);
    EXPECT_EQ(judge(0x0c, 0, {}).status, Status::removed);
    EXPECT_EQ(judge(0x33, 0, {}).status, Status::removed);
    EXPECT_EQ(judge(0x67, 0, {}).verdict, Verdict::by_firmware);
    EXPECT_EQ(judge(0x2e, 0x40, {}).verdict, Verdict::aborted);
    EXPECT_EQ(judge(0x2d, 0x02, {}).status, Status::io_error);  // without sense data
    for (unsigned status = 0; status < 256; ++status) {
        for (unsigned scsi = 0; scsi < 256; ++scsi) {
            const Answer answer = judge(static_cast<std::uint8_t>(status), static_cast<std::uint8_t>(scsi), {});
            EXPECT_EQ(answer.verdict == Verdict::good, answer.status == Status::ok);
        }
    }
}

}  // namespace
}  // namespace mqblk::driver::megaraid
