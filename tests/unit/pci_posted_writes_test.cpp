// SPDX-License-Identifier: Apache-2.0
//
// Posted writes: both ends of the page by themselves, with a thread at each, and against a server with a client that
// writes whatever it likes into it.
#include "base/random.h"
#include "pci/posted_writes.h"
#include "pci/vfio_user_client.h"
#include "pci/vfio_user_version.h"
#include "unit/pci_vfio_user_support.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <semaphore>
#include <thread>

namespace mqblk::test {
namespace {

namespace vu = wire::vfio_user;
namespace cd = copy_device;
using pci::PostedReader;
using pci::PostedWriter;
using Push = PostedWriter::Push;

struct PostedPair {
    PostedPair() {
        if (!reader.open()) throw std::runtime_error("no memory");
        writer = PostedWriter::map(pci::OwnedFd(::dup(reader.fd()))).value();
    }
    PostedReader reader;
    PostedWriter writer;
};

TEST(PostedWrites, ArriveAsTheyWere) {
    PostedPair pair;
    vu::PostedWrite write{};
    EXPECT_FALSE(pair.reader.take(write));
    EXPECT_EQ(pair.writer.push(1, 0x400, 8, 0x0123456789abcdef), Push::queued);
    EXPECT_EQ(pair.writer.push(5, ~std::uint64_t{0}, 1, 7), Push::queued);
    ASSERT_TRUE(pair.reader.take(write));
    EXPECT_EQ(write.region, 1u);
    EXPECT_EQ(write.offset, 0x400u);
    EXPECT_EQ(write.bytes, 8u);
    EXPECT_EQ(write.value, 0x0123456789abcdefu);
    ASSERT_TRUE(pair.reader.take(write));
    EXPECT_EQ(write.region, 5u);
    EXPECT_EQ(write.offset, ~std::uint64_t{0});
    EXPECT_FALSE(pair.reader.take(write));
}

TEST(PostedWrites, AFullPageTakesNoneUntilPlacesAreReleased) {
    PostedPair pair;
    vu::PostedWrite write{};
    std::uint64_t pushed = 0, taken = 0;
    for (unsigned lap = 0; lap < 5; ++lap) {
        while (pair.writer.push(0, 0, 4, pushed) != Push::full) ++pushed;
        EXPECT_EQ(pushed - taken, vu::posted_entries);
        for (unsigned i = 0; i <= lap * 60; ++i) {
            ASSERT_TRUE(pair.reader.take(write));
            EXPECT_EQ(write.value, taken++);
        }
        EXPECT_EQ(pair.writer.push(0, 0, 4, pushed), Push::full) << "taken, not released";
        pair.reader.release();
    }
    PostedWriter none;
    EXPECT_EQ(none.push(0, 0, 4, 0), Push::full);
}

TEST(PostedWrites, ASleepingReaderIsWokenOnce) {
    PostedPair pair;
    vu::PostedWrite write{};
    ASSERT_TRUE(pair.reader.fall_asleep());
    EXPECT_EQ(pair.writer.push(0, 0, 4, 1), Push::queued_wake);
    EXPECT_EQ(pair.writer.push(0, 0, 4, 2), Push::queued);
    EXPECT_FALSE(pair.reader.fall_asleep()) << "there is something";
    pair.reader.wake_up();
    EXPECT_EQ(pair.writer.push(0, 0, 4, 3), Push::queued);
    while (pair.reader.take(write)) {
    }
    EXPECT_EQ(write.value, 3u);
    EXPECT_TRUE(pair.reader.fall_asleep());
    EXPECT_EQ(pair.writer.push(0, 0, 4, 4), Push::queued_wake);
}

// No write is lost, none comes out of order, no wake-up is missed: this would hang.
TEST(PostedWrites, BetweenTwoThreadsOfWhichOneSleeps) {
    constexpr std::uint64_t writes = 20000;
    PostedPair pair;
    std::counting_semaphore<> wake(0), room(0);
    std::thread thread([&] {
        SeededRandom random(1);
        for (std::uint64_t i = 0; i < writes;) {
            const Push pushed = pair.writer.push(0, 0, 8, i);
            if (pushed == Push::full) {
                room.acquire();
                continue;
            }
            ++i;
            if (pushed == Push::queued_wake) wake.release();
            if (random.below(8) == 0) std::this_thread::yield();
        }
    });
    vu::PostedWrite write{};
    for (std::uint64_t i = 0; i < writes;) {
        unsigned taken = 0;
        for (; pair.reader.take(write); ++i, ++taken) ASSERT_EQ(write.value, i);
        if (taken != 0) {
            pair.reader.release();
            room.release();
        } else if (pair.reader.fall_asleep()) {
            wake.acquire();
            pair.reader.wake_up();
        }
    }
    thread.join();
}

TEST(PostedWrites, AFileThatCouldShrinkIsRefused) {
    const pci::OwnedFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 20), 0);
    EXPECT_FALSE(PostedWriter::map(unsealed));
    const auto small = memory::Buffer::allocate(4096, memory::Backing::shared).value();
    EXPECT_FALSE(PostedWriter::map(pci::OwnedFd(::dup(small.fd())))) << "too small";
    EXPECT_FALSE(PostedWriter::map(pci::OwnedFd()));
}

/// A client that has the page and no manners.
class PostingClient {
  public:
    explicit PostingClient(const std::string& path) : client(path) {
        if (!client.negotiate(true) || client.answer().fds.size() != 1) throw std::runtime_error("no posted writes");
        void* const mapped =
            ::mmap(nullptr, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, client.answer().fds.front().get(), 0);
        if (mapped == MAP_FAILED) throw std::runtime_error("mmap");
        page = static_cast<vu::PostedWrites*>(mapped);
    }
    ~PostingClient() { ::munmap(page, sizeof *page); }

    void post(std::uint32_t region, std::uint64_t offset, std::uint32_t bytes, std::uint64_t value) {
        vu::PostedWrite& entry = page->entry[next_ % vu::posted_entries];
        entry.region = region;
        entry.offset = offset;
        entry.bytes = bytes;
        entry.value = value;
        std::atomic_ref(entry.turn).store(++next_);
    }

    RawClient client;
    vu::PostedWrites* page = nullptr;

  private:
    std::uint64_t next_ = 0;
};

class PostingToServer : public VfioUserServer {};

TEST_F(PostingToServer, OnlyWhoAsksIsOffered) {
    const auto offered = [](const RawClient& client) {
        return pci::decode_version(client.answer().payload).value().posted_writes;
    };
    {
        RawClient client(served.path());
        ASSERT_TRUE(client.negotiate());
        EXPECT_TRUE(client.answer().fds.empty());
        EXPECT_EQ(offered(client), 0u);
        const std::string text(reinterpret_cast<const char*>(client.answer().payload.data()) + sizeof(vu::Version));
        EXPECT_EQ(text.find("mqblk"), std::string::npos) << text;
    }
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate(true));
    EXPECT_EQ(client.answer().fds.size(), 1u);
    EXPECT_EQ(offered(client), vu::posted_writes_version);
}

TEST_F(PostingToServer, AMessageComesAfterWhatWasPostedBeforeIt) {
    PostingClient posting(served.path());
    for (std::uint32_t round = 1; round <= 200; ++round) {
        posting.post(2, cd::scratch, 4, round);
        EXPECT_EQ(posting.client.read_register(cd::scratch, 4), round);
    }
    EXPECT_EQ(posting.page->taken, 200u);
}

TEST_F(PostingToServer, WhatMakesNoSenseDoesNothing) {
    PostingClient posting(served.path());
    ASSERT_EQ(posting.client.write_register(cd::scratch, 0x1122334455667788, 8), 0);
    for (const std::uint32_t region : {0u, 1u, 3u, 5u, 6u, vu::config_region, 9u, ~0u}) {
        posting.post(region, 0, 8, ~std::uint64_t{0});
    }
    for (const std::uint32_t bytes : {0u, 3u, 5u, 16u, 0x80000000u, ~0u}) posting.post(2, cd::scratch, bytes, 0);
    for (const std::uint64_t offset : {std::uint64_t{cd::scratch + 1}, std::uint64_t{0x4000}, std::uint64_t{1} << 63,
                                       ~std::uint64_t{0}, ~std::uint64_t{7}}) {
        posting.post(2, offset, 8, 0);
    }
    EXPECT_EQ(posting.client.read_register(cd::scratch, 8), 0x1122334455667788u);
    EXPECT_EQ(posting.client.ask(vu::Command::region_read, vu::RegionAccess{0, vu::config_region, 4}), 0);
    EXPECT_EQ(posting.client.answer_as<std::uint32_t>(sizeof(vu::RegionAccess)), 0x7e571b39u);
}

TEST_F(PostingToServer, AnEntryOutOfTurnIsNotThere) {
    PostingClient posting(served.path());
    for (auto& entry : posting.page->entry)
        entry = {.turn = 2, .offset = cd::scratch, .value = 5, .region = 2, .bytes = 4};
    posting.page->entry[0].turn = ~std::uint64_t{0};
    EXPECT_EQ(posting.client.read_register(cd::scratch, 4), 0u);
    posting.page->taken = 1u << 31;
    posting.post(2, cd::scratch, 4, 9);  // and then entry 1, whose turn is right
    EXPECT_EQ(posting.client.read_register(cd::scratch, 4), 5u);
    EXPECT_EQ(posting.page->taken, 2u);
}

TEST_F(PostingToServer, ACardThatVanishesByAPostedWriteEndsTheClient) {
    {
        PostingClient posting(served.path());
        for (unsigned i = 0; i < 10; ++i) posting.post(2, i == 3 ? cd::vanish : cd::scratch, 4, 1);
        static_cast<void>(posting.client.send(RawClient::message(vu::Command::device_reset, {}, 9)));
        EXPECT_TRUE(posting.client.closed());
    }
    ASSERT_TRUE(served.wait_until_free());
    served.with_model([](CopyDevice& model) { model.host().set_gone(false); });
    RawClient next(served.path());
    EXPECT_TRUE(next.negotiate());
}

// Whatever is in the page: the server goes on, and what this client used is gone with it.
TEST_F(PostingToServer, AnyBytesInThePage) {
    static_cast<void>(PostingClient(served.path()));
    ASSERT_TRUE(served.wait_until_free());
    const std::size_t before = open_descriptors();
    SeededRandom random(7);
    for (unsigned round = 0; round < 30; ++round) {
        PostingClient posting(served.path());
        std::uint64_t turn = 1 + random.below(3);
        for (auto& entry : posting.page->entry) {
            entry.offset = random.below(4) == 0 ? random.next() : random.below(0x80);
            entry.value = random.next();
            entry.region = static_cast<std::uint32_t>(random.below(4));
            entry.bytes = 1u << random.below(5);
            // Not the ways to leave, which is another test's.
            if (entry.offset < cd::vanish + 8 && entry.offset + 8 > cd::vanish) entry.offset = 0;
            std::atomic_ref(entry.turn).store(random.below(50) == 0 ? random.next() : turn++);
        }
        std::atomic_ref(posting.page->taken).store(random.next());
        std::atomic_ref(posting.page->asleep).store(static_cast<std::uint32_t>(random.next()));
        if (random.below(2) == 0) {
            EXPECT_EQ(posting.client.ask(vu::Command::device_reset, std::vector<std::byte>()), 0);
        }
    }
    ASSERT_TRUE(served.wait_until_free());
    EXPECT_LE(open_descriptors(), before);
    RawClient next(served.path());
    ASSERT_TRUE(next.negotiate());
    EXPECT_EQ(next.read_register(cd::magic, 4), cd::magic_value);
}

class PostingFunction : public VfioUserServer {
  protected:
    std::unique_ptr<pci::Function> open() {
        return pci::open_vfio_user(served.path(), {.answer_timeout = std::chrono::seconds(60)}).value();
    }
};

TEST_F(PostingFunction, MoreWritesThanThePageHoldsKeepTheirOrder) {
    const auto function = open();
    const pci::Bar bar = function->bar(2).value();
    std::promise<void> held, go_on;
    std::thread holder([&] {
        served.run([&] {
            held.set_value();
            go_on.get_future().wait();
        });
    });
    held.get_future().wait();
    std::thread writer([&] {
        for (std::uint32_t i = 1; i <= 2000; ++i) bar.write32(cd::order, i);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the page is full by now, or it does not matter
    go_on.set_value();
    writer.join();
    holder.join();
    EXPECT_EQ(bar.read32(cd::order), 2000u);
}

TEST_F(PostingFunction, WritesOfSeveralThreadsArriveInEachOnesOrder) {
    const auto function = open();
    const pci::Bar bar = function->bar(2).value();
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, at = cd::scratch + 8 * thread] {
            for (std::uint32_t i = 1; i <= 300; ++i) {
                bar.write32(at, i);
                if (i % 50 == 0) {
                    EXPECT_EQ(bar.read32(at), i);
                }
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

TEST_F(PostingFunction, ADoorbellWakesASleepingServer) {
    const auto function = open();
    const pci::Bar bar = function->bar(2).value();
    const auto memory = function->dma().allocate(8192).value();
    function->set_bus_master(true);
    bar.write64(cd::ring_address, memory.address());
    bar.write32(cd::ring_entries, 16);
    bar.write64(cd::done_address, memory.address(4096));
    auto& done = *reinterpret_cast<std::uint32_t*>(memory.data() + 4096);
    for (std::uint32_t i = 1; i <= 100; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(i % 10 * 100));
        bar.write32(cd::doorbell, i);
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (std::atomic_ref(done).load() != i && std::chrono::steady_clock::now() < limit) {
        }
        ASSERT_EQ(std::atomic_ref(done).load(), i);
    }
}

TEST_F(PostingFunction, WorksAsBeforeAfterAReconnect) {
    const auto function = open();
    const pci::Bar bar = function->bar(2).value();
    for (unsigned round = 0; round < 3; ++round) {
        for (std::uint32_t i = 1; i <= 300; ++i) bar.write32(cd::order, i);
        EXPECT_EQ(bar.read32(cd::order), 300u);
        served.restart();
        while (!function->lost()) std::this_thread::yield();
        bar.write32(cd::order, 1);  // goes nowhere
        ASSERT_TRUE(function->reconnect(std::chrono::seconds(60)));
        EXPECT_EQ(bar.read32(cd::order), 0u);
    }
}

}  // namespace
}  // namespace mqblk::test
