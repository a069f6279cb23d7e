// SPDX-License-Identifier: Apache-2.0
//
// What a connection costs while nothing happens on it, and that it wakes up again.
#include "support/tcp_served.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <thread>
#include <vector>

namespace mqblk::test {
namespace {

using namespace wire;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
std::size_t heap_bytes() {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
}

// The whole connection, with a controller of its own, and after it has moved data once.
TEST(NvmeTcpIdle, ConnectionsAreSmall) {
    constexpr std::size_t count = 200, most_bytes = 100 * 1024;
    Served served;
    std::vector<std::unique_ptr<ScriptedHost>> hosts;
    const auto connect = [&] {
        auto host = served.dial();
        ASSERT_TRUE(host->initialize({true, true}));
        const auto connected = host->connect(0, served_nqn, 0xffff);
        ASSERT_TRUE(connected && nvme::status_of(*connected) == 0);
        ASSERT_TRUE(host->enable());
        hosts.push_back(std::move(host));
    };
    connect();
    const std::size_t before = heap_bytes();
    while (hosts.size() <= count) connect();
    std::size_t each = SIZE_MAX;
    for (int tries = 0; tries < 1000 && each >= most_bytes; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        served.on_thread([] {});
        each = (heap_bytes() - before) / count;
    }
    RecordProperty("bytes", std::to_string(each));
    EXPECT_LT(each, most_bytes);
}
#endif

TEST(NvmeTcpIdle, WakesUpFromRest) {
    Served served;
    const auto host = served.dial();
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    pause();
    ASSERT_TRUE(host->initialize());
    pause();
    const auto connected = host->connect(0, served_nqn, 0xffff);
    ASSERT_TRUE(connected && nvme::status_of(*connected) == 0);
    ASSERT_TRUE(host->enable());
    nvme::PropertyCommand property;
    property.offset = nvme::property::csts;
    const Bytes capsule = host->capsule(std::bit_cast<nvme::Command>(property));
    for (std::size_t cut : {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{71}}) {
        pause();
        ASSERT_TRUE(host->send(std::span(capsule).first(cut)));  // it rests again with the beginning of a PDU
        pause();
        ASSERT_TRUE(host->send(std::span(capsule).subspan(cut)));
        const auto response = host->expect<nvme_tcp::CapsuleResp>();
        ASSERT_TRUE(response);
        EXPECT_EQ(response->completion.result & nvme::csts::ready, nvme::csts::ready);
    }
}

}  // namespace
}  // namespace mqblk::test
