// SPDX-License-Identifier: Apache-2.0
//
// Golden bytes of what the S1120 and its driver exchange, and the arithmetic of doorbells, messages and the ring.
#include "wire/scsi_cdb.h"
#include "wire/skd.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace mqblk::wire::skd {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes bytes_of(const T& value) {
    Bytes bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

TEST(WireSkd, FitMessageWithOneRead) {
    FitMessage message;
    message.header.requests = 1;
    message.request[0].sg_list_address = 0x0102030405060708;
    message.request[0].tag = 0x0a0b;
    message.request[0].sg_list_bytes = 0x1000;
    message.request[0].cdb = scsi::build_read(0x11223344, 8);
    Bytes expected(512);
    expected[0] = 3;
    expected[1] = 1;
    const Bytes request = {1, 2,    3, 4,    5, 6,    7,    8,    0x0b, 0x0a, 0, 0, 0,
                           0, 0x10, 0, 0x28, 0, 0x11, 0x22, 0x33, 0x44, 0,    0, 8};
    std::copy(request.begin(), request.end(), expected.begin() + 64);
    EXPECT_EQ(bytes_of(message), expected);
}

TEST(WireSkd, SgDescriptor) {
    const SgDescriptor last{.control = sg_last, .bytes = 0x200, .host_address = 0x0102030405060708};
    Bytes expected = {0x0e, 4, 0, 0, 0, 2, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
    expected.resize(32);
    EXPECT_EQ(bytes_of(last), expected);
}

TEST(WireSkd, Completion) {
    EXPECT_EQ(bytes_of(CompletionEntry{.returned_bytes = 0x01020304, .tag = 0x0605, .status = 2, .cycle = 9}),
              (Bytes{1, 2, 3, 4, 5, 6, 2, 9}));
    ErrorEntry error;
    error.sense = scsi::build_fixed_sense({.key = scsi::SenseKey::medium_error, .code = 0x1100, .information = 5});
    Bytes expected = {0xf0, 0, 3, 0, 0, 0, 5, 10, 0, 0, 0, 0, 0x11};
    expected.resize(32);
    EXPECT_EQ(bytes_of(error), expected);
}

TEST(WireSkd, Doorbell) {
    for (const auto& [requests, code] : {std::pair{1u, 1u}, {2u, 1u}, {3u, 2u}, {6u, 2u}, {7u, 3u}, {14u, 3u}}) {
        const std::uint64_t value = encode({.address = 0x123456780, .bytes = FitMessage::bytes(requests)});
        EXPECT_EQ(value, 0x123456780u | code << 4) << requests;
        const Doorbell read = decode_doorbell(value);
        EXPECT_EQ(read.address, 0x123456780u);
        EXPECT_GE(read.bytes, FitMessage::bytes(requests));
        EXPECT_EQ(read.queue, 0u);
    }
    EXPECT_EQ(decode_doorbell(0x46).queue, 3u);
    EXPECT_EQ(decode_doorbell(0x46).bytes, 64u);
}

TEST(WireSkd, Messages) {
    EXPECT_EQ(make_message(MessageType::fitfw_init, 0, 0x10), 0x01100000u);
    EXPECT_EQ(make_message(MessageType::set_compq_depth, 256), 0x03000100u);
    EXPECT_EQ(message_type(0x09001234), MessageType::cmd_log_time_stamp_hi);
    EXPECT_EQ(message_data(0x09001234), 0x1234);
    EXPECT_EQ(protocol_major_of(0x01100000), 1);
    EXPECT_EQ(state_of(0x0001ab03), DriveState::online);
    EXPECT_EQ(state_of(0xffffffff), DriveState::missing);
}

TEST(WireSkd, RingWrapsAndCycleCounts) {
    RingPosition position;
    for (unsigned i = 0; i < completion_depth; ++i) {
        EXPECT_EQ(position.index, i);
        EXPECT_EQ(position.cycle, 1);
        position.advance();
    }
    EXPECT_EQ(position.index, 0u);
    EXPECT_EQ(position.cycle, 2);
    for (unsigned i = 0; i < 254 * completion_depth; ++i) position.advance();
    EXPECT_EQ(position.cycle, 0);  // 255 is followed by 0
    EXPECT_EQ(error_offset(0), 2048u);
    EXPECT_EQ(error_offset(255), 2048u + 255 * 32);
}

}  // namespace
}  // namespace mqblk::wire::skd
