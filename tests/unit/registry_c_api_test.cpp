// SPDX-License-Identifier: Apache-2.0
//
// The C face: synchronous and asynchronous I/O, limits, and errors as a number and a sentence.
#include <mqblk/mqblk.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

namespace mqblk {
namespace {

struct CApi : testing::Test {
    void SetUp() override {
        ASSERT_EQ(mqblk_context_open(&context), 0);
        ASSERT_EQ(mqblk_open(context, "ram://?size=1M", &device), 0) << mqblk_last_error();
    }
    void TearDown() override {
        mqblk_close(device);
        mqblk_context_close(context);
    }
    mqblk_context* context = nullptr;
    mqblk_device* device = nullptr;
};

TEST_F(CApi, SizeAndLimits) {
    EXPECT_EQ(mqblk_size(device), 1u << 20);
    mqblk_limits limits;
    mqblk_get_limits(device, &limits);
    EXPECT_EQ(limits.logical_block_size, 512u);
    EXPECT_GT(limits.max_discard_bytes, 0u);
    EXPECT_EQ(limits.read_only, 0);
}

TEST_F(CApi, SynchronousFromSeveralThreads) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) {
        threads.emplace_back([this, i] {
            std::vector<unsigned char> data(4096, static_cast<unsigned char>(i + 1)), back(4096);
            EXPECT_EQ(mqblk_write(device, data.data(), data.size(), i * 4096), 0) << mqblk_last_error();
            EXPECT_EQ(mqblk_read(device, back.data(), back.size(), i * 4096), 0);
            EXPECT_EQ(data, back);
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(mqblk_flush(device), 0);
    EXPECT_EQ(mqblk_write_zeroes(device, 4096, 0), 0);
    EXPECT_EQ(mqblk_discard(device, 4096, 4096), 0);
    std::vector<unsigned char> back(4096);
    EXPECT_EQ(mqblk_read(device, back.data(), back.size(), 0), 0);
    EXPECT_EQ(back, std::vector<unsigned char>(4096));
}

/// docs/uris.md: a null disk that is opened directly leaves memory as it is, a target fills it.
TEST_F(CApi, WhatReadsOfANullDiskGive) {
    struct Case {
        const char* uri;
        unsigned char expected;
    };
    for (const Case& c :
         {Case{"null://", 0xff}, Case{"null://?threaded=1", 0xff}, Case{"null://?latency=1us", 0xff},
          Case{"null://?zero=1", 0}, Case{"null://?zero=1&threaded=1", 0}, Case{"null://?zero=1&latency=1us", 0},
          Case{"nvme+loop:///1?ns=[null://]", 0}, Case{"nvme+loop:///1?ns=[null://?threaded=1]", 0},
          Case{"nvme+loop:///1?ns=[null://?latency=1us]", 0}}) {
        mqblk_device* null = nullptr;
        ASSERT_EQ(mqblk_open(context, c.uri, &null), 0) << mqblk_last_error();
        std::vector<unsigned char> data(65536, 0xff);
        EXPECT_EQ(mqblk_read(null, data.data(), data.size(), 4096), 0);
        EXPECT_EQ(data, std::vector<unsigned char>(65536, c.expected)) << c.uri;
        mqblk_close(null);
    }
}

TEST_F(CApi, ErrorsAreANumberAndASentence) {
    unsigned char data[1024] = {};
    EXPECT_EQ(mqblk_read(device, data, 512, 1u << 20), -ENXIO);
    EXPECT_STREQ(mqblk_last_error(),
                 "ram://?size=1M: read of 512 bytes at byte 1048576 failed: beyond the end of the device");
    EXPECT_EQ(mqblk_write(device, data, 700, 0), -EINVAL);
    EXPECT_EQ(mqblk_discard(device, 512, 3), -EINVAL);
    mqblk_device* other = device;
    EXPECT_EQ(mqblk_open(context, "ram://?size=1000", &other), -EINVAL);
    EXPECT_EQ(other, nullptr);
    EXPECT_THAT(mqblk_last_error(), testing::HasSubstr("multiple of the block"));
}

TEST_F(CApi, Asynchronous) {
    mqblk_queue* queue = nullptr;
    ASSERT_EQ(mqblk_queue_open(device, &queue), 0) << mqblk_last_error();
    std::vector<unsigned char> data(16 * 4096, 7);
    std::vector<mqblk_io> ios(16);
    unsigned done = 0;
    for (std::size_t i = 0; i < ios.size(); ++i) {
        ios[i] = {};
        ios[i].op = MQBLK_WRITE;
        ios[i].flags = MQBLK_FUA;
        ios[i].buffer = data.data() + i * 4096;
        ios[i].bytes = 4096;
        ios[i].offset = i * 4096;
        ios[i].context = &done;
        ios[i].done = [](mqblk_io* io) {
            EXPECT_EQ(io->result, 0);
            ++*static_cast<unsigned*>(io->context);
        };
        mqblk_submit(queue, &ios[i]);
    }
    while (mqblk_outstanding(queue) > 0) mqblk_wait(queue);
    EXPECT_EQ(done, 16u);
    EXPECT_EQ(mqblk_poll(queue), 0u);
    mqblk_queue_close(queue);
    std::vector<unsigned char> back(data.size());
    EXPECT_EQ(mqblk_read(device, back.data(), back.size(), 0), 0);
    EXPECT_EQ(back, data);
}

}  // namespace
}  // namespace mqblk
