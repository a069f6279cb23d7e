// SPDX-License-Identifier: Apache-2.0
//
// S1120 cards by their URIs, as programs use them: a model in this process with threads of its own, one behind a
// socket, and what becomes of I/O when its server is killed; refusals in one sentence.
#include "base/random.h"
#include "program.h"

#include <mqblk/context.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <span>
#include <string>
#include <thread>
#include <vector>

namespace mqblk::test {
namespace {

using testing::HasSubstr;

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
    SeededRandom random(seed);
    std::vector<std::byte> result(bytes);
    for (std::byte& each : result) each = static_cast<std::byte>(random.next());
    return result;
}

/// One I/O at a time.
class SkdUser {
  public:
    explicit SkdUser(Device& device) : channel_(device.channel().value()) {}
    Status run(Op op, std::uint64_t sector, std::span<std::byte> data) {
        const Segment segment{data.data(), data.size()};
        Bio bio;
        bio.op = op;
        bio.sector = sector;
        bio.sectors = data.size() / 512;
        bio.data = {&segment, 1};
        bio.done = [](Bio&) noexcept {};
        channel_->submit(bio);
        while (channel_->outstanding() > 0) channel_->wait();
        return bio.status;
    }
    Channel& channel() { return *channel_; }

  private:
    std::unique_ptr<Channel> channel_;
};

/// `mqblk bench` with every block checked, at several sizes and depths.
void verify_by_program(const std::string& uri) {
    for (const auto& [bytes, depth] :
         {std::pair{"512", "1"}, {"512", "100"}, {"4k", "32"}, {"64k", "16"}, {"3M", "1"}}) {
        const auto ended =
            run_program({"bench", uri, "--rw", "randrw", "--verify", "--bs", bytes, "--depth", depth, "--size", "8M"});
        EXPECT_EQ(ended.code, 0) << bytes << " " << depth << ": " << ended.err;
        EXPECT_THAT(ended.out, HasSubstr(" 0 I/Os with data that differ"));
    }
}

/// Two threads on one disk, each on its half, every byte checked.
void exercise_by_two_threads(const std::shared_ptr<Device>& device, std::uint64_t seed) {
    std::vector<std::thread> threads;
    for (unsigned part = 0; part < 2; ++part) {
        threads.emplace_back([&device, part, seed] {
            const auto channel = device->channel();
            ASSERT_TRUE(channel);
            const std::uint64_t first = part * device->sectors() / 2;
            constexpr unsigned depth = 16;
            for (unsigned round = 0; round < 20; ++round) {
                auto data = pattern(depth * 4096, seed + part * 1000 + round);
                std::vector<std::byte> back(data.size());
                for (const bool write : {true, false}) {
                    std::vector<Segment> segments(depth);
                    std::vector<Bio> bios(depth);
                    for (unsigned i = 0; i < depth; ++i) {
                        segments[i] = {(write ? data : back).data() + i * 4096, 4096};
                        bios[i].op = write ? Op::write : Op::read;
                        bios[i].sector = first + (round * depth + i) * 8 % (device->sectors() / 2);
                        bios[i].sectors = 8;
                        bios[i].data = {&segments[i], 1};
                        bios[i].done = [](Bio&) noexcept {};
                        (*channel)->submit(bios[i]);
                    }
                    while ((*channel)->outstanding() > 0) (*channel)->wait();
                    for (const Bio& bio : bios) EXPECT_EQ(bio.status, Status::ok);
                }
                EXPECT_EQ(back, data) << "part " << part << " round " << round;
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

class SkdUris : public testing::TestWithParam<int> {
  protected:
    std::string isr_type() const { return "isr_type=" + std::to_string(GetParam()); }
    TemporaryDirectory dir_;
    std::string socket_ = dir_.file("skd.sock");
};

TEST_P(SkdUris, AModelInThisProcess) {
    Context context;
    for (const std::string& below : {std::string("ram://?size=8M"), "file://" + dir_.file("disk") + "?size=8M"}) {
        SCOPED_TRACE(below);
        {
            const auto device = context.open("skd+model://?disk=[" + below + "]&" + isr_type());
            ASSERT_TRUE(device) << device.error().message();
            exercise_by_two_threads(*device, 5);
        }
        verify_by_program("skd+model://?disk=[" + below + "]&" + isr_type());
    }
}

TEST_P(SkdUris, AModelBehindASocketForOneClientAfterTheOther) {
    Running server({"emulate", "skd", "--socket", socket_, "ram://?size=8M"});
    ASSERT_EQ(server.wait_for_line("ready"), "ready") << server.output();
    std::vector<std::byte> data = pattern(64 * 1024, 1), back(data.size());
    for (unsigned client = 0; client < 2; ++client) {
        Context context;
        const auto device = context.open("skd+vfio-user://" + socket_ + "?" + isr_type());
        ASSERT_TRUE(device) << device.error().message();
        SkdUser user(**device);
        if (client == 0) {
            exercise_by_two_threads(*device, 5);
            EXPECT_EQ(user.run(Op::write, 64, data), Status::ok);
        } else {
            EXPECT_EQ(user.run(Op::read, 64, back), Status::ok);
            EXPECT_EQ(back, data) << "what the client before wrote";
        }
    }
    verify_by_program("skd+vfio-user://" + socket_ + "?" + isr_type());
    EXPECT_EQ(server.end(SIGTERM), 0);
}

INSTANTIATE_TEST_SUITE_P(IsrType, SkdUris, testing::Values(0, 1, 2));

TEST(SkdModel, PeopleAreToldWhileItIsBusy) {
    const auto ended =
        run_program({"bench", "skd+model://?disk=[ram://?size=8M]&fault=busy@100,for=300ms", "--size", "4M"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("the card is busy; requests wait, at most 20 minutes before it is reset"));
    EXPECT_THAT(ended.err, HasSubstr("the card is back online"));
    const auto restarted =
        run_program({"bench", "skd+model://?disk=[ram://?size=8M]&fault=restart@100,for=100ms", "--size", "4M"});
    EXPECT_EQ(restarted.code, 0) << restarted.err;
    EXPECT_THAT(restarted.err, HasSubstr("the card restarts; requests wait, at most 4 minutes before they fail"));
}

TEST(SkdServer, OneThatStandsStillIsSaidAndInterruptedIsInterrupted) {
    const TemporaryDirectory dir;
    const std::string socket = dir.file("skd.sock");
    Running server({"emulate", "skd", "--socket", socket, "ram://?size=8M"});
    ASSERT_EQ(server.wait_for_line("ready"), "ready") << server.output();
    Running bench({"bench", "skd+vfio-user://" + socket, "--time", "100"}, Running::Errors::with_output);
    ::usleep(1000000);
    server.tell(SIGSTOP);
    ::usleep(300000);
    bench.tell(SIGINT);
    EXPECT_EQ(bench.wait(), 130);
    EXPECT_THAT(bench.output(), HasSubstr("its server did not answer within 5 s"));
    server.tell(SIGCONT);
    EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(SkdServer, WhenItIsKilledItsClientsRequestsFailAndNothingHangs) {
    const TemporaryDirectory dir;
    const std::string socket = dir.file("skd.sock");
    Running server({"emulate", "skd", "--socket", socket, "ram://?size=8M", "--fault", "late@20x0,by=1h"});
    ASSERT_EQ(server.wait_for_line("ready"), "ready") << server.output();
    Context context;
    const auto device = context.open("skd+vfio-user://" + socket);
    ASSERT_TRUE(device) << device.error().message();
    SkdUser user(**device);
    std::vector<std::byte> memory(40 * 512);
    std::vector<Segment> segments(40);
    std::vector<Bio> bios(40);
    for (unsigned i = 0; i < bios.size(); ++i) {
        segments[i] = {memory.data() + 512 * i, 512};
        bios[i].sector = i;
        bios[i].sectors = 1;
        bios[i].data = {&segments[i], 1};
        bios[i].done = [](Bio&) noexcept {};
        user.channel().submit(bios[i]);
    }
    for (unsigned i = 0; i < 10; ++i) user.channel().poll();
    server.end(SIGKILL);
    while (user.channel().outstanding() > 0) user.channel().wait();
    EXPECT_EQ(bios.back().status, Status::removed);
    std::vector<std::byte> data(512);
    EXPECT_EQ(user.run(Op::read, 0, data), Status::removed);
    const auto again = context.open("skd+vfio-user://" + socket);
    ASSERT_FALSE(again);
    EXPECT_THAT(again.error().message(), HasSubstr(socket));
}

TEST(SkdServer, ACardThatWasPulledOutServesAgainWhenItIsPutIn) {
    const TemporaryDirectory dir;
    const std::string socket = dir.file("skd.sock");
    Running server({"emulate", "skd", "--socket", socket, "ram://?size=8M", "--fault", "gone@10x1,for=300ms"});
    ASSERT_EQ(server.wait_for_line("ready"), "ready") << server.output();
    Context context;
    {
        const auto device = context.open("skd+vfio-user://" + socket);
        ASSERT_TRUE(device) << device.error().message();
        SkdUser user(**device);
        std::vector<std::byte> data(512);
        Status status = Status::ok;
        for (unsigned i = 0; i < 20 && status == Status::ok; ++i) status = user.run(Op::read, i, data);
        EXPECT_EQ(status, Status::removed);
    }
    auto again = context.open("skd+vfio-user://" + socket);
    for (unsigned i = 0; i < 600 && !again; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        again = context.open("skd+vfio-user://" + socket);
    }
    ASSERT_TRUE(again) << again.error().message();
    {
        SkdUser user(**again);
        std::vector<std::byte> data = pattern(64 * 1024, 1), back(data.size());
        EXPECT_EQ(user.run(Op::write, 64, data), Status::ok);
        EXPECT_EQ(user.run(Op::read, 64, back), Status::ok);
        EXPECT_EQ(back, data);
    }
    EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST(SkdUri, RefusalsNameTheRemedy) {
    const TemporaryDirectory dir;
    Context context;
    const std::pair<std::string, std::string> rows[] = {
        {"skd+model://", "\"disk\" is required, such as disk=[ram://?size=64M]"},
        {"skd+model://x?disk=[ram://?size=8M]", "takes no address"},
        {"skd+model://?disk=[ram://?size=8M&block=4096]", "use a disk with block=512"},
        {"skd+model://?disk=[ram://?size=8M]&profile=fast", "profile=fast: must be none or s1120"},
        {"skd+model://?disk=[ram://?size=8M]&fault=explode", "no such kind"},
        {"skd+model://?disk=[ram://?size=8M]&fault=late@7,by=9223372036s", "by=9223372036s: must not be over a year"},
        {"skd+model://?disk=[ram://?size=8M]&serial=STM0000123456", "serial: the serial number has 13 characters"},
        {"skd+model://?disk=[ram://?size=8M]&serial=STM%0a1", "not printable ASCII"},
        {"skd+model://?disk=[ram://?size=8M]&max_queue_depth=201", "max_queue_depth=201"},
        {"skd+model://?disk=[ram://?size=8M]&max_req_per_msg=15", "max_req_per_msg=15"},
        {"skd+model://?disk=[ram://?size=8M]&sgs_per_request=0", "sgs_per_request=0"},
        {"skd+model://?disk=[ram://?size=8M]&isr_type=3", "isr_type=3"},
        {"skd+model://?disk=[ram://?size=8M]&fault=gone@3", "plug it in"},
        {"skd+vfio-user://" + dir.file("none"), "start its server first"},
        {"skd+vfio-user://relative", "three slashes"},
        {"skd+pci://", "as `lspci -D` prints it"},
        {"skd+pci://nonsense", "0000:01:00.0"},
        {"skd+pci://ffff:ff:1f.7", "ffff:ff:1f.7"},
    };
    for (const auto& [uri, part] : rows) {
        const auto opened = context.open(uri);
        ASSERT_FALSE(opened) << uri;
        EXPECT_THAT(opened.error().message(), HasSubstr(part)) << uri;
        EXPECT_THAT(opened.error().message(), testing::Not(HasSubstr("\n")));
    }
}

TEST(SkdInfo, ShowsTheQueueUnderLinuxNames) {
    const auto ended = run_program({"info", "skd+model://?disk=[ram://?size=8M]&serial=STM000012345", "--json"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    for (const char* const part :
         {"\"add_random\": false", "\"hw_sector_size\": 512", "\"max_segments\": 256", "\"nr_requests\": 200",
          "\"rotational\": false", "\"rq_affinity\": 2", "\"scheduler\": \"[none] mq-deadline\"",
          "\"write_cache\": \"write back\"", "\"serial\": \"STM000012345\"", "\"drive_state\": \"online\""})
        EXPECT_THAT(ended.out, HasSubstr(part));
}

}  // namespace
}  // namespace mqblk::test
