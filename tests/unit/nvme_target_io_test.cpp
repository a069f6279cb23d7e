// SPDX-License-Identifier: Apache-2.0
//
// I/O commands: what they do, and with which status they refuse what they must not do.
#include "nvme_target_harness.h"

#include <algorithm>

namespace mqblk::nvme_test {
namespace {

namespace opcode = wire::io_opcode;

/// How the namespace's device reaches its media: lent in place, or through a channel.
struct Media {
    const char* name;
    unsigned block;
    bool fua;  ///< force unit access keeps a write from being lent
};

class Io : public TargetTest, public ::testing::WithParamInterface<Media> {
  protected:
    static constexpr std::uint64_t disk_bytes = 4 << 20;
    Io() {
        nsid = add(ram(disk_bytes, GetParam().block));
        admin_queue = open_admin();
        queue = open_io(1);
        block = GetParam().block;
        control = GetParam().fua ? wire::rw_fua : 0;
    }
    std::uint16_t write(std::uint64_t first, std::span<std::byte> data) {
        return queue->code(io(opcode::write, nsid, first, static_cast<std::uint32_t>(data.size() / block), control),
                           data);
    }
    Bytes read(std::uint64_t first, std::uint32_t blocks) {
        Bytes data(std::size_t{blocks} * block, std::byte{0xee});
        EXPECT_EQ(queue->code(io(opcode::read, nsid, first, blocks), data), status::success);
        return data;
    }

    std::uint32_t nsid = 0, block = 512, control = 0;
    std::unique_ptr<Queue> admin_queue, queue;
};

INSTANTIATE_TEST_SUITE_P(Media, Io,
                         ::testing::Values(Media{"b512", 512, false}, Media{"b4096", 4096, false},
                                           Media{"b512fua", 512, true}, Media{"b4096fua", 4096, true}),
                         [](const auto& media) { return media.param.name; });

TEST_P(Io, ReadsWhatWasWritten) {
    Bytes model(disk_bytes);
    SeededRandom places(GetParam().block);
    for (int i = 0; i < 200; ++i) {
        const std::uint64_t blocks = disk_bytes / block;
        const auto count = static_cast<std::uint32_t>(1 + places.below(64 * 1024 / block));
        const std::uint64_t first = places.below(blocks - count + 1);
        Bytes data = pattern(std::size_t{count} * block, static_cast<unsigned>(i));
        ASSERT_EQ(write(first, data), status::success);
        std::copy(data.begin(), data.end(), model.begin() + static_cast<std::ptrdiff_t>(first * block));
    }
    for (std::uint64_t first = 0; first < disk_bytes / block; first += 65536 / block) {
        const Bytes data = read(first, 65536 / block);
        ASSERT_TRUE(std::equal(data.begin(), data.end(), model.begin() + static_cast<std::ptrdiff_t>(first * block)));
    }
}

TEST_P(Io, RangesBeyondTheEnd) {
    const std::uint64_t blocks = disk_bytes / block;
    Bytes data(2 * block);
    struct Case {
        std::uint64_t first;
        std::uint32_t count;
        std::uint16_t code;
    };
    for (const Case& item : {Case{blocks - 2, 2, status::success}, Case{blocks - 1, 2, status::lba_out_of_range},
                             Case{blocks, 1, status::lba_out_of_range}, Case{~0ull, 1, status::lba_out_of_range},
                             Case{~0ull, 2, status::lba_out_of_range}, Case{1ull << 63, 2, status::lba_out_of_range}}) {
        const auto bytes = std::span(data).first(std::size_t{item.count} * block);
        for (const std::uint8_t what : {opcode::read, opcode::write, opcode::compare}) {
            EXPECT_EQ(queue->code(io(what, nsid, item.first, item.count), bytes), item.code) << int{what};
            std::ranges::fill(data, std::byte{0});
        }
        for (const std::uint8_t what : {opcode::write_zeroes, opcode::verify}) {
            EXPECT_EQ(queue->code(io(what, nsid, item.first, item.count)), item.code) << int{what};
        }
    }
}

TEST_P(Io, TheSglMustFitTheCommand) {
    Bytes data(2 * block);
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 0, 1), data), status::sgl_invalid_data_length);
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 0, 1), std::span(data).first(block - 1)),
              status::sgl_invalid_data_length);
    EXPECT_EQ(queue->code(io(opcode::write, nsid, 0, 2)), status::sgl_invalid_data_length);
    EXPECT_EQ(queue->code(io(opcode::flush, nsid), data), status::sgl_invalid_data_length);
    auto command = io(opcode::read, nsid, 0, 2);
    command.flags = wire::flag_psdt_sgl;
    command.data.length = 2 * block;
    for (const std::uint8_t type : {0x01, 0x20, 0x30, 0x40, 0x4f, 0x5b}) {
        command.data.type = type;
        const std::uint16_t expected = type == 0x01 ? status::invalid_field : status::sgl_invalid_type;
        EXPECT_EQ(queue->code(command, data, true), expected) << int{type};
    }
    command.data.type = wire::sgl_data_block;
    for (const std::uint8_t flags : {0x00, 0x80, 0xc0, 0x44, 0x60, 0x43}) {
        command.flags = flags;
        EXPECT_EQ(queue->code(command, data, true), status::invalid_field) << int{flags};
    }
}

TEST_P(Io, LargestTransfer) {
    const std::uint32_t most = target.limits().max_transfer_bytes;
    Bytes data = pattern(most + block, 5);
    EXPECT_EQ(write(0, std::span(data).first(most)), status::success);
    EXPECT_EQ(write(0, data), status::invalid_field);
    Bytes back(most + block);
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 0, most / block), std::span(back).first(most)), status::success);
    EXPECT_TRUE(std::equal(back.begin(), back.begin() + most, data.begin()));
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 0, most / block + 1), back), status::invalid_field);
}

TEST_P(Io, UnknownNamespacesAndCommands) {
    Bytes data(block);
    for (const std::uint32_t wrong : {0u, nsid + 1, 16384u, 16385u, 0xfffffffeu, wire::nsid_all}) {
        EXPECT_EQ(queue->code(io(opcode::read, wrong), data), status::invalid_namespace) << wrong;
        EXPECT_EQ(queue->code(io(opcode::flush, wrong)), status::invalid_namespace) << wrong;
    }
    for (const std::uint8_t what : {0x03, 0x04, 0x06, 0x0d, 0x0e, 0x11, 0x15, 0x79, 0x7a, 0x80, 0xff}) {
        EXPECT_EQ(queue->code(io(what, nsid)), status::invalid_opcode) << int{what};
    }
}

TEST_P(Io, WriteZeroes) {
    Bytes data = pattern(16 * block, 1);
    ASSERT_EQ(write(0, data), status::success);
    EXPECT_EQ(queue->code(io(opcode::write_zeroes, nsid, 4, 8)), status::success);
    std::fill(data.begin() + 4 * block, data.begin() + 12 * block, std::byte{0});
    EXPECT_EQ(read(0, 16), data);
    EXPECT_EQ(queue->code(io(opcode::write_zeroes, nsid, 0, 2, wire::rw_deallocate | control)), status::success);
    std::fill(data.begin(), data.begin() + 2 * block, std::byte{0});
    EXPECT_EQ(read(0, 16), data);
}

TEST_P(Io, CompareAndVerify) {
    Bytes data = pattern(200 * 1024, 9);
    const std::uint32_t blocks = static_cast<std::uint32_t>(data.size()) / block;
    ASSERT_EQ(write(8, data), status::success);
    EXPECT_EQ(queue->code(io(opcode::compare, nsid, 8, blocks), data), status::success);
    data.back() ^= std::byte{1};
    EXPECT_EQ(queue->code(io(opcode::compare, nsid, 8, blocks), data), status::compare_failure);
    data.back() ^= std::byte{1};
    data[100'000] ^= std::byte{0x80};
    EXPECT_EQ(queue->code(io(opcode::compare, nsid, 8, blocks), data), status::compare_failure);
    EXPECT_EQ(queue->code(io(opcode::verify, nsid, 8, blocks)), status::success);
    const std::uint32_t most = target.limits().max_transfer_bytes / block;
    EXPECT_EQ(queue->code(io(opcode::verify, nsid, 0, most)), status::success);
    EXPECT_EQ(queue->code(io(opcode::verify, nsid, 0, most + 1)), status::invalid_field);
}

[[nodiscard]] wire::Command discard(std::uint32_t nsid, unsigned ranges, bool deallocate = true) {
    auto command = io(opcode::dataset_management, nsid);
    command.cdw10 = ranges - 1;
    command.cdw11 = deallocate ? wire::dsm_deallocate : 0u;
    command.cdw12 = 0;
    return command;
}

TEST_P(Io, DatasetManagement) {
    Bytes data = pattern(1024 * block, 2);
    for (unsigned part = 0; part < 8; ++part) {
        ASSERT_EQ(write(part * 128, std::span(data).subspan(std::size_t{part} * 128 * block, 128 * block)),
                  status::success);
    }
    const auto read_all = [&] {
        Bytes all;
        for (unsigned part = 0; part < 8; ++part) {
            const Bytes piece = read(part * 128, 128);
            all.insert(all.end(), piece.begin(), piece.end());
        }
        return all;
    };
    std::vector<wire::DsmRange> ranges(256);
    for (unsigned i = 0; i < ranges.size(); ++i) {
        ranges[i].first_block = 4 * i;
        ranges[i].blocks = i % 3;
    }
    const auto bytes = std::as_writable_bytes(std::span(ranges));
    ASSERT_EQ(queue->code(discard(nsid, 256, false), bytes), status::success) << "only a hint";
    EXPECT_EQ(read_all(), data);
    ASSERT_EQ(queue->code(discard(nsid, 256), bytes), status::success);
    for (unsigned i = 0; i < ranges.size(); ++i) {
        std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(4ull * i * block), std::size_t{i % 3} * block,
                    std::byte{0});
    }
    EXPECT_EQ(read_all(), data) << "the RAM disk reads zeroes where it discarded";
}

TEST_P(Io, DatasetManagementDoesNothingIfOneRangeIsBad) {
    Bytes data = pattern(16 * block, 4);
    ASSERT_EQ(write(0, data), status::success);
    std::vector<wire::DsmRange> ranges(3);
    ranges[0].blocks = 8;
    ranges[1].first_block = disk_bytes / block - 1;
    ranges[1].blocks = 2;
    ranges[2].blocks = 1;
    const auto bytes = std::as_writable_bytes(std::span(ranges));
    EXPECT_EQ(queue->code(discard(nsid, 3), bytes), status::lba_out_of_range);
    ranges[1].first_block = ~0ull;
    EXPECT_EQ(queue->code(discard(nsid, 3), bytes), status::lba_out_of_range);
    ranges[1].first_block = 0;
    ranges[1].blocks = 0xffffffff;
    EXPECT_EQ(queue->code(discard(nsid, 3), bytes), status::lba_out_of_range);
    EXPECT_EQ(queue->code(discard(nsid, 4), bytes), status::sgl_invalid_data_length);
    EXPECT_EQ(read(0, 16), data);
}

// Linux sends room for 256 ranges with each of its discards, and fills one.
TEST_P(Io, DatasetManagementWithRoomForMoreRanges) {
    Bytes data = pattern(16 * block, 5);
    ASSERT_EQ(write(0, data), status::success);
    std::vector<wire::DsmRange> ranges(257);
    for (unsigned i = 0; i < 3; ++i) {
        ranges[i].first_block = 4 * i;
        ranges[i].blocks = 2;
    }
    ranges[3].blocks = 0xffffffff;
    const auto bytes = std::as_writable_bytes(std::span(ranges));
    EXPECT_EQ(queue->code(discard(nsid, 3), bytes), status::sgl_invalid_data_length) << "more than there can be";
    EXPECT_EQ(read(0, 16), data);
    ASSERT_EQ(queue->code(discard(nsid, 3), bytes.first(4096)), status::success);
    for (unsigned i = 0; i < 3; ++i) {
        std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(4ull * i * block), 2ul * block, std::byte{0});
    }
    EXPECT_EQ(read(0, 16), data) << "the ranges that were counted, and only those";
}

TEST_P(Io, ManyAtOnce) {
    std::vector<Bytes> written, back(100);
    std::vector<Exchange*> exchanges;
    for (unsigned i = 0; i < 100; ++i) written.push_back(pattern(8192, i));
    for (unsigned i = 0; i < 100; ++i) {
        exchanges.push_back(
            &queue->start(io(opcode::write, nsid, std::uint64_t{i} * 8192 / block, 8192 / block, control), written[i]));
    }
    queue->turn_until([&] { return std::ranges::all_of(exchanges, &Exchange::done); });
    exchanges.clear();
    for (unsigned i = 0; i < 100; ++i) {
        back[i].resize(8192);
        exchanges.push_back(
            &queue->start(io(opcode::read, nsid, std::uint64_t{i} * 8192 / block, 8192 / block), back[i]));
    }
    queue->turn_until([&] { return std::ranges::all_of(exchanges, &Exchange::done); });
    EXPECT_EQ(back, written);
}

class IoOther : public TargetTest {};

TEST_F(IoOther, WriteProtectedNamespace) {
    const std::uint32_t nsid = add(ram(1 << 20, 512, true));
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes data(512);
    wire::DsmRange range;
    range.blocks = 1;
    EXPECT_EQ(queue->code(io(opcode::write, nsid), data), status::namespace_write_protected);
    EXPECT_EQ(queue->code(io(opcode::write_zeroes, nsid)), status::namespace_write_protected);
    EXPECT_EQ(queue->code(discard(nsid, 1), std::as_writable_bytes(std::span(&range, 1))),
              status::namespace_write_protected);
    EXPECT_EQ(queue->code(io(opcode::read, nsid), data), status::success);
}

TEST_F(IoOther, SegmentsOfOddSizes) {
    const std::uint32_t nsid = add(ram(1 << 20));
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes written = pattern(4096, 8), back(4096);
    ASSERT_EQ(queue->code(io(opcode::write, nsid, 0, 8), written), status::success);
    const Segment pieces[] = {
        {back.data(), 1}, {back.data() + 1, 0}, {back.data() + 1, 1000}, {back.data() + 1001, 3095}};
    Exchange exchange;
    exchange.loop.command = io(opcode::read, nsid, 0, 8);
    exchange.loop.command.flags = wire::flag_psdt_sgl;
    exchange.loop.command.data.length = 4096;
    exchange.loop.data = pieces;
    exchange.loop.data_bytes = 4096;
    exchange.loop.context = &exchange;
    exchange.loop.done = [](fabric::LoopCommand& ended, const wire::Completion& completion) noexcept {
        static_cast<Exchange*>(ended.context)->completion = completion;
        static_cast<Exchange*>(ended.context)->done = true;
    };
    queue->loop().submit(exchange.loop);
    queue->turn_until([&] { return exchange.done; });
    EXPECT_EQ(exchange.code(), status::success);
    EXPECT_EQ(back, written);
    exchange.done = false;
    exchange.loop.data_bytes = 4095;  // less memory than the SGL says
    queue->loop().submit(exchange.loop);
    queue->turn_until([&] { return exchange.done; });
    EXPECT_EQ(exchange.code(), status::sgl_invalid_data_length);
}

TEST_F(IoOther, NotReadyAfterDisable) {
    const std::uint32_t nsid = add(ram(1 << 20));
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    ASSERT_EQ(admin_queue->code(property_set(wire::property::cc, 0)), status::success);
    EXPECT_EQ(queue->code(io(opcode::flush, nsid)), status::command_sequence_error);
    ASSERT_EQ(admin_queue->code(property_set(wire::property::cc, enable_value)), status::success);
    EXPECT_EQ(queue->code(io(opcode::flush, nsid)), status::success);
}

TEST_F(IoOther, SlowBackendsEndInTheirOrder) {
    const std::uint32_t slow = add(null(1 << 20, std::chrono::milliseconds(50))), quick = add(ram(1 << 20));
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes data(4096), other(4096);
    // A Compare reads through the channel where nothing is lent for long enough; a write always does on a null disk.
    Exchange& late = queue->start(io(opcode::write, slow, 0, 8), data);
    Exchange& early = queue->run(io(opcode::read, quick, 0, 8), other);
    EXPECT_TRUE(early.done);
    EXPECT_FALSE(late.done);
    queue->turn_until([&] { return late.done; });
    EXPECT_EQ(late.code(), status::success);
}

TEST_F(IoOther, SmartCountsCommandsAndUnits) {
    const std::uint32_t first = add(ram(1 << 20)), second = add(null(1 << 20));
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes data(512 * 1000);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(queue->code(io(opcode::read, first, 0, 1000), data), status::success);
    ASSERT_EQ(queue->code(io(opcode::write, second, 0, 1), std::span(data).first(512)), status::success);
    const auto all = as<wire::SmartLog>(read_log(*admin_queue, wire::log_id::smart, 0, 512));
    EXPECT_EQ(all.host_reads.low, 3u);
    EXPECT_EQ(all.data_units_read.low, 3u);
    EXPECT_EQ(all.host_writes.low, 1u);
    EXPECT_EQ(all.data_units_written.low, 1u) << "rounded up";
    ASSERT_TRUE(target.remove_namespace(test_nqn, second));
    const auto rest = as<wire::SmartLog>(read_log(*admin_queue, wire::log_id::smart, 0, 512));
    EXPECT_EQ(rest.host_writes.low, 0u) << "counted where it happened";
}

}  // namespace
}  // namespace mqblk::nvme_test
