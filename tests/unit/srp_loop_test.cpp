// SPDX-License-Identifier: Apache-2.0
//
// The SRP target in this process, from several threads at once: each has both ends of its connections in a reactor of
// its own, and takes them along.
#include "registry/srp_loop.h"
#include "unit/reactor_support.h"
#include "unit/srp_harness.h"

#include <atomic>
#include <thread>

namespace mqblk::test {
namespace {

using ScsiStatus = wire::scsi::Status;

/// Runs one command that has `data` by a direct descriptor, and returns its status.
ScsiStatus run_command(Reactor& reactor, SrpInitiator& initiator, const wire::scsi::Cdb& cdb, SrpBytes& data, bool out,
                       unsigned patience = 10'000'000) {
    SrpBytes descriptors;
    std::uint32_t rkey = 0;
    if (!data.empty()) {
        rkey = initiator.domain().register_range(
            data.data(), data.size(),
            fabric::rdma::access_local_write | fabric::rdma::access_remote_write | fabric::rdma::access_remote_read);
        append(descriptors, srpw::Descriptor{.address = reinterpret_cast<std::uintptr_t>(data.data()),
                                             .key = rkey,
                                             .bytes = static_cast<std::uint32_t>(data.size())});
    }
    const std::uint8_t format = data.empty() ? 0 : out ? 0x10 : 0x01;
    initiator.answers.clear();
    EXPECT_TRUE(initiator.send(SrpWorld::command(cdb, 1, 0, format, descriptors)));
    for (unsigned i = 0; i < patience && initiator.answers.empty() && !initiator.disconnected_; ++i) {
        reactor.run_once(Reactor::Sleep::no);
        initiator.poll();
    }
    if (rkey != 0) initiator.domain().unregister(rkey);
    if (initiator.answers.empty()) return ScsiStatus::task_aborted;
    return static_cast<ScsiStatus>(srpw::decode_rsp(initiator.answers.front())->rsp.status);
}

TEST(SrpLoop, ThreadsComeAndGo) {
    const auto home = uring_reactor();
    auto loop = registry::SrpLoop::create(*home, {}, {{.lun = 0, .device = SrpWorld::ram(4 << 20)}});
    ASSERT_TRUE(loop);
    std::atomic<unsigned> verified{0};
    const auto work = [&](std::uint8_t number) {
        for (unsigned round = 0; round < 3; ++round) {
            const auto reactor = uring_reactor();
            std::vector<std::unique_ptr<SrpInitiator>> channels;
            for (unsigned i = 0; i < 2; ++i) {
                auto& channel = *channels.emplace_back(std::make_unique<SrpInitiator>((*loop)->network(), *reactor));
                channel.login.initiator_port.second = number;
                channel.login.req_flags = i == 0 ? srpw::multichannel_single : srpw::multichannel_multi;
                channel.qp =
                    (*loop)->network().open(*reactor, registry::SrpLoop::address(), channel, std::chrono::seconds(30));
                EXPECT_TRUE(run_until(*reactor, [&] { return channel.granted || channel.failed_; }));
                ASSERT_TRUE(channel.granted);
            }
            SrpBytes nothing, data(65536, std::byte(number)), back(data.size());
            static_cast<void>(run_command(*reactor, *channels[0], wire::scsi::build_test_unit_ready(), nothing, true));
            const std::uint64_t lba = number * 1024u;
            for (unsigned i = 0; i < 20; ++i) {
                SrpInitiator& channel = *channels[i % 2];
                EXPECT_EQ(run_command(*reactor, channel, wire::scsi::build_write(lba, 128), data, true),
                          ScsiStatus::good);
                EXPECT_EQ(run_command(*reactor, channel, wire::scsi::build_read(lba, 128), back, false),
                          ScsiStatus::good);
                if (back == data) ++verified;
            }
        }
    };
    std::vector<std::thread> threads;
    for (std::uint8_t i = 1; i <= 3; ++i) threads.emplace_back(work, i);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(verified, 3u * 3 * 20);
    EXPECT_EQ((*loop)->target().connections(), 0u);
}

// Initiators on threads of their own take the unit from each other and reset it: what is not aborted is answered.
TEST(SrpLoop, ThreadsPreemptAndResetEachOther) {
    const auto home = uring_reactor();
    auto loop = registry::SrpLoop::create(*home, {}, {{.lun = 0, .device = SrpWorld::ram(1 << 20)}});
    ASSERT_TRUE(loop);
    std::atomic<unsigned> taken{0}, resets{0};
    const auto work = [&](std::uint8_t number) {
        constexpr unsigned patience = 5000;  // for what may have been aborted
        const auto reactor = uring_reactor();
        SrpInitiator channel((*loop)->network(), *reactor);
        channel.login.initiator_port.second = number;
        channel.qp = (*loop)->network().open(*reactor, registry::SrpLoop::address(), channel, std::chrono::seconds(30));
        EXPECT_TRUE(run_until(*reactor, [&] { return channel.granted || channel.failed_; }));
        ASSERT_TRUE(channel.granted);
        for (unsigned round = 0; round < 200; ++round) {
            const auto reserve = [&](wire::scsi::ReserveOut action, std::uint64_t key, std::uint64_t service_key) {
                SrpBytes data;
                append(data, wire::scsi::ReserveOutParameters{.key = key, .service_key = service_key});
                const auto cdb = wire::scsi::build_persistent_reserve_out(static_cast<std::uint8_t>(action), 1);
                return run_command(*reactor, channel, cdb, data, true, patience);
            };
            static_cast<void>(reserve(wire::scsi::ReserveOut::register_and_ignore, 0, number));
            if (reserve(wire::scsi::ReserveOut::reserve, number, 0) == ScsiStatus::good) ++taken;
            for (std::uint8_t other = 1; other <= 3; ++other) {
                if (other != number &&
                    reserve(wire::scsi::ReserveOut::preempt_and_abort, number, other) == ScsiStatus::good)
                    ++taken;
            }
            SrpBytes block(4096, std::byte(number));
            static_cast<void>(run_command(*reactor, channel, wire::scsi::build_write(0, 8), block, true, patience));
            channel.answers.clear();
            ASSERT_TRUE(channel.send(SrpWorld::task(srpw::TaskFunction::lun_reset, 50)));
            for (bool done = false; !done && !channel.disconnected_;) {  // a reset is answered always
                reactor->run_once(Reactor::Sleep::no);
                channel.poll();
                for (const auto& answer : channel.answers)
                    done = done || srpw::decode_rsp(answer)->rsp.tag.value() == 50;
            }
            ++resets;
        }
    };
    std::vector<std::thread> threads;
    for (std::uint8_t i = 1; i <= 3; ++i) threads.emplace_back(work, i);
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(resets, 600u);
    EXPECT_GT(taken, 0u);
    EXPECT_EQ((*loop)->target().connections(), 0u);
}

}  // namespace
}  // namespace mqblk::test
