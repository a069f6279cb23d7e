// SPDX-License-Identifier: Apache-2.0
//
// The S1120 driver's parts that need no card: ids, what sense data means, the completion ring as its consumer, options.
#include "driver/skd/completions.h"
#include "driver/skd/options.h"
#include "driver/skd/request_id.h"
#include "driver/skd/sense.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace mqblk::driver::skd {
namespace {

using wire::scsi::SenseKey;
using wire::skd::ErrorEntry;

TEST(SkdRequestId, EachSendingOfATagHasAnotherId) {
    std::uint16_t id = first_id(IdTable::read_write, 199);
    std::set<std::uint16_t> seen;
    for (unsigned i = 0; i < 64; ++i) {
        EXPECT_EQ(slot_of(id), 199u);
        EXPECT_TRUE(is_read_write(id));
        EXPECT_FALSE(is_internal(id));
        EXPECT_TRUE(seen.insert(id).second);
        id = next_id(id);
    }
    EXPECT_EQ(id, first_id(IdTable::read_write, 199)) << "six bits";
    EXPECT_EQ(first_id(IdTable::internal, 0), 0x100);
    EXPECT_TRUE(is_internal(next_id(first_id(IdTable::internal, 0))));
    EXPECT_FALSE(is_read_write(0x200));
    EXPECT_FALSE(is_internal(0x300));
}

ErrorEntry error_of(std::uint8_t type, SenseKey key, unsigned code, unsigned qualifier) {
    ErrorEntry error;
    error.sense.response_code = type;
    error.sense.key = static_cast<std::uint8_t>(key);
    error.sense.code = static_cast<std::uint16_t>(code << 8 | qualifier);
    return error;
}

TEST(SkdSense, TheTable) {
    struct Row {
        std::uint8_t status, type;
        SenseKey key;
        unsigned code, qualifier;
        Verdict verdict;
    };
    const Row rows[] = {
        {0x00, 0x00, SenseKey::no_sense, 0, 0, Verdict::good},
        {0x00, 0x70, SenseKey::medium_error, 0x11, 0, Verdict::good},  // no check condition, no sense
        {0x02, 0x70, SenseKey::recovered_error, 0x17, 1, Verdict::good},
        {0x02, 0xf0, SenseKey::recovered_error, 0x17, 1, Verdict::good},  // with information
        {0x02, 0x70, SenseKey::recovered_error, 0x0b, 1, Verdict::good},
        {0x02, 0x70, SenseKey::no_sense, 0x0b, 1, Verdict::smart_alert},
        {0x02, 0x70, SenseKey::no_sense, 0x5d, 0x10, Verdict::smart_alert},
        {0x02, 0x70, SenseKey::no_sense, 0x00, 0, Verdict::error},
        {0x02, 0x70, SenseKey::aborted_command, 0x4b, 0, Verdict::requeue},
        {0x02, 0x70, SenseKey::unit_attention, 0x0b, 9, Verdict::requeue},
        {0x02, 0x70, SenseKey::unit_attention, 0x5d, 9, Verdict::requeue},
        {0x02, 0x70, SenseKey::unit_attention, 0x80, 0x30, Verdict::requeue},
        {0x02, 0x70, SenseKey::unit_attention, 0x80, 0x31, Verdict::error},
        {0x02, 0x70, SenseKey::unit_attention, 0x3f, 0x01, Verdict::busy_imminent},
        {0x02, 0x70, SenseKey::unit_attention, 0x29, 0x00, Verdict::error},
        {0x02, 0x70, SenseKey::medium_error, 0x11, 0, Verdict::error},
        {0x02, 0x71, SenseKey::recovered_error, 0x17, 1, Verdict::error},  // of an earlier command
        {0x02, 0x72, SenseKey::recovered_error, 0x17, 1, Verdict::error},
        {0x02, 0x00, SenseKey::no_sense, 0, 0, Verdict::error},
        {0x08, 0x70, SenseKey::recovered_error, 0, 0, Verdict::error},
        {0xff, 0xff, SenseKey::completed, 0xff, 0xff, Verdict::error},
    };
    for (const Row& row : rows) {
        const ErrorEntry error = error_of(row.type, row.key, row.code, row.qualifier);
        EXPECT_EQ(judge(row.status, error), row.verdict) << int(row.status) << " " << int(row.type) << " "
                                                         << int(row.key) << " " << row.code << " " << row.qualifier;
    }
    ErrorEntry flagged = error_of(0x70, SenseKey::recovered_error, 0, 0);
    flagged.sense.key |= 0xe0;  // the bits beside the key do not count
    EXPECT_EQ(judge(2, flagged), Verdict::good);
}

TEST(SkdSense, ErrorsAsTheBlockLayerTellsThem) {
    const auto status = [](std::uint8_t scsi, SenseKey key, unsigned code, unsigned qualifier) {
        return status_of(scsi, error_of(0x70, key, code, qualifier));
    };
    EXPECT_EQ(status(2, SenseKey::medium_error, 0x11, 0), Status::medium_error);
    EXPECT_EQ(status(2, SenseKey::illegal_request, 0x21, 0), Status::out_of_range);
    EXPECT_EQ(status(2, SenseKey::illegal_request, 0x20, 0), Status::not_supported);
    EXPECT_EQ(status(2, SenseKey::illegal_request, 0x24, 0), Status::io_error);
    EXPECT_EQ(status(2, SenseKey::data_protect, 0x27, 0), Status::read_only);
    EXPECT_EQ(status(2, SenseKey::data_protect, 0x27, 7), Status::no_space);
    EXPECT_EQ(status(2, SenseKey::miscompare, 0x1d, 0), Status::miscompare);
    EXPECT_EQ(status(2, SenseKey::aborted_command, 0x4b, 0), Status::aborted);
    EXPECT_EQ(status(2, SenseKey::hardware_error, 0x44, 0), Status::io_error);
    EXPECT_EQ(status(0x18, SenseKey::medium_error, 0, 0), Status::protection);
    EXPECT_EQ(status(0x28, SenseKey::medium_error, 0, 0), Status::io_error) << "stale sense does not count";
}

class RingTest : public testing::Test {
  protected:
    RingTest() {
        reader_.use(memory_);
        reader_.reset();
    }
    void post(std::uint16_t id, std::uint8_t status = 0) {
        const wire::skd::CompletionEntry entry{
            .returned_bytes = 512, .tag = id, .status = status, .cycle = position_.cycle};
        if (status == 2) {
            const ErrorEntry error = error_of(0x70, SenseKey::medium_error, 0x11, position_.index);
            std::memcpy(memory_ + wire::skd::error_offset(position_.index), &error, sizeof error);
        }
        std::memcpy(memory_ + wire::skd::completion_offset(position_.index), &entry, sizeof entry);
        position_.advance();
    }

    alignas(8) std::byte memory_[wire::skd::completion_ring_bytes()];
    wire::skd::RingPosition position_;
    CompletionReader reader_;
};

TEST_F(RingTest, YieldsWhatIsThereOnceAndInOrder) {
    const auto nothing = [](const Completion&, const ErrorEntry&) { ADD_FAILURE(); };
    EXPECT_FALSE(reader_.pending());
    EXPECT_EQ(reader_.drain(nothing), 0u);
    std::uint16_t next = 0, expected = 0;
    for (unsigned round = 0; round < 300; ++round) {  // the cycle wraps at 255
        for (unsigned i = 0; i < 251; ++i, ++next) post(next, next % 7 == 0 ? 2 : 0);
        EXPECT_TRUE(reader_.pending());
        EXPECT_EQ(reader_.drain([&](const Completion& completion, const ErrorEntry& error) {
            EXPECT_EQ(completion.id, expected);
            EXPECT_EQ(completion.returned_bytes, 512u);
            EXPECT_EQ(completion.status, expected % 7 == 0 ? 2 : 0);
            EXPECT_EQ(error.sense.response_code, completion.status == 2 ? 0x70 : 0) << "no stale sense";
            ++expected;
        }),
                  251u);
        EXPECT_FALSE(reader_.pending());
    }
}

TEST_F(RingTest, ACardThatFillsTheRingForEverIsLeftInTime) {
    // Every entry claims to be the next one.
    unsigned seen = 0;
    post(0);
    const unsigned drained = reader_.drain([&](const Completion&, const ErrorEntry&) {
        ++seen;
        post(0);
    });
    EXPECT_EQ(drained, wire::skd::completion_depth);
    EXPECT_EQ(seen, drained);
}

TEST(SkdOptions, AreCheckedBySentencesThatNameThem) {
    const auto refused = [](auto change, const char* part) {
        Options options;
        change(options);
        const auto checked = check_options(options);
        ASSERT_FALSE(checked) << part;
        EXPECT_NE(checked.error().message().find(part), std::string::npos) << checked.error().message();
    };
    EXPECT_TRUE(check_options({}));
    refused([](Options& o) { o.max_queue_depth = 0; }, "max_queue_depth=0: must be from 1 to 200");
    refused([](Options& o) { o.max_queue_depth = 201; }, "max_queue_depth=201");
    refused([](Options& o) { o.max_req_per_msg = 15; }, "max_req_per_msg=15: must be from 1 to 14");
    refused([](Options& o) { o.sgs_per_request = 4097; }, "sgs_per_request=4097: must be from 1 to 4096");
    refused([](Options& o) { o.timeout = {}; }, "timeout");
}

}  // namespace
}  // namespace mqblk::driver::skd
