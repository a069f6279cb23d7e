// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "block/pool_trimmer.h"
#include "memory/buffer.h"
#include "memory/buffer_pool.h"
#include "memory/segments.h"
#include "unit/manual_reactor.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <vector>

namespace mqblk::memory {
namespace {

std::size_t resident_pages(const Buffer& buffer) {
    std::vector<unsigned char> pages(buffer.size() / Buffer::page_bytes);
    EXPECT_EQ(::mincore(buffer.data(), buffer.size(), pages.data()), 0);
    return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(Buffer, RefusesNothingAndTooMuch) {
    EXPECT_EQ(Buffer::allocate(0).error().code(), Errc::invalid_argument);
    EXPECT_EQ(Buffer::allocate(~std::size_t{0}).error().code(), Errc::invalid_argument);
    EXPECT_EQ(Buffer::allocate(std::size_t{1} << 62).error().code(), Errc::no_space);
}

TEST(Buffer, ZeroesAnyRangeAndGivesPagesBack) {
    for (const Backing backing : {Backing::anonymous, Backing::shared}) {
        auto buffer = *Buffer::allocate(64 * 4096 + 1, backing);
        ASSERT_EQ(buffer.size(), 65u * 4096);
        EXPECT_EQ(buffer.fd() >= 0, backing == Backing::shared);
        SeededRandom random(7);
        std::vector<std::byte> model(buffer.size());
        for (int round = 0; round < 300; ++round) {
            const std::size_t offset = random.below(buffer.size());
            const std::size_t bytes = random.below(buffer.size() - offset + 1);
            if (random.below(2) == 0) {
                const auto value = static_cast<int>(1 + random.below(255));
                std::memset(buffer.data() + offset, value, bytes);
                std::memset(model.data() + offset, value, bytes);
            } else {
                buffer.zero(offset, bytes);
                std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{0});
            }
            ASSERT_EQ(std::memcmp(buffer.data(), model.data(), model.size()), 0) << "round " << round;
        }
        std::memset(buffer.data(), 1, buffer.size());
        EXPECT_EQ(resident_pages(buffer), 65u);
        buffer.zero(100, 60 * 4096);
        EXPECT_LE(resident_pages(buffer), 6u);
    }
}

TEST(Buffer, PopulateTakesWhatWasAskedFor) {
    for (const Backing backing : {Backing::anonymous, Backing::shared}) {
        auto buffer = *Buffer::allocate(64 * 4096, backing);
        ASSERT_EQ(resident_pages(buffer), 0u);
        ASSERT_TRUE(buffer.populate(0));
        EXPECT_EQ(resident_pages(buffer), 0u);
        ASSERT_TRUE(buffer.populate(16 * 4096));
        EXPECT_EQ(resident_pages(buffer), 16u);
        EXPECT_TRUE(std::ranges::all_of(buffer.span(), [](std::byte b) { return b == std::byte{0}; }));
    }
}

TEST(Buffer, SharedMemoryIsSeenThroughItsDescriptor) {
    auto buffer = *Buffer::allocate(8192, Backing::shared);
    void* const other = ::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, buffer.fd(), 0);
    ASSERT_NE(other, MAP_FAILED);
    std::memcpy(buffer.data() + 5000, "seen", 4);
    EXPECT_EQ(std::memcmp(static_cast<const char*>(other) + 5000, "seen", 4), 0);
    ::munmap(other, 8192);
    Buffer moved = std::move(buffer);
    EXPECT_EQ(std::memcmp(moved.data() + 5000, "seen", 4), 0);
    EXPECT_EQ(buffer.data(), nullptr);  // NOLINT: what a move leaves is part of the contract
}

/// `bytes` cut into random pieces, some of them empty.
std::vector<Segment> random_pieces(Random& random, std::byte* data, std::size_t bytes) {
    std::vector<Segment> result;
    while (bytes > 0) {
        if (random.below(4) == 0) result.push_back({data, 0});
        const std::size_t piece = 1 + random.below(std::min<std::size_t>(bytes, 40));
        result.push_back({data, piece});
        data += piece;
        bytes -= piece;
    }
    return result;
}

TEST(Segments, AgreeWithFlatMemory) {
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        std::vector<std::byte> first(random.below(300)), second(random.below(300));
        for (auto& byte : first) byte = static_cast<std::byte>(random.next());
        const auto from = random_pieces(random, first.data(), first.size());
        const auto to = random_pieces(random, second.data(), second.size());
        const std::size_t both = std::min(first.size(), second.size());
        ASSERT_EQ(total_bytes(from), first.size());
        ASSERT_EQ(copy(Segments(to), Segments(from)), both);
        ASSERT_TRUE(std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(both), second.begin()));
        const auto difference = first_difference(Segments(from), Segments(to));
        ASSERT_EQ(difference.has_value(), first.size() != second.size());
        ASSERT_EQ(difference.value_or(both), both);
        if (both > 0) {
            const std::size_t at = random.below(both);
            second[at] ^= std::byte{0x10};
            ASSERT_EQ(first_difference(Segments(from), second), at);
            second[at] ^= std::byte{0x10};
        }

        std::vector<std::byte> flat(first.size() + 8);
        ASSERT_EQ(copy(std::span(flat), Segments(from)), first.size());
        ASSERT_TRUE(std::equal(first.begin(), first.end(), flat.begin()));

        const std::size_t offset = random.below(first.size() + 1);
        const std::size_t bytes = random.below(first.size() - offset + 1);
        std::vector<Segment> room(from.size());
        const auto part = sub_range(from, offset, bytes, room);
        ASSERT_TRUE(part);
        ASSERT_EQ(total_bytes(*part), bytes);
        ASSERT_FALSE(first_difference(*part, std::span(first).subspan(offset, bytes)));
        if (part->size() > 1) {
            ASSERT_FALSE(sub_range(from, offset, bytes, std::span(room).first(part->size() - 1)));
        }
        ASSERT_FALSE(sub_range(from, offset, first.size() - offset + 1, room));

        fill(to, std::byte{0x5a});
        ASSERT_TRUE(std::ranges::all_of(second, [](std::byte byte) { return byte == std::byte{0x5a}; }));
    }
}

TEST(BufferPool, CreateChecksItsNumbers) {
    EXPECT_FALSE(BufferPool::create(1 << 20, 2048));
    EXPECT_FALSE(BufferPool::create(1 << 20, 5000));
    EXPECT_FALSE(BufferPool::create(1 << 20, std::size_t{2} << 30));
    EXPECT_FALSE(BufferPool::create(std::size_t{1} << 42, 4096));
    const auto pool = *BufferPool::create(1, 4096);
    EXPECT_EQ(pool->budget_bytes(), 4096u);
    BufferRequest request;
    request.bytes = 4097;
    EXPECT_EQ(pool->get(request), BufferPool::Grant::too_large);
    request.bytes = 0;
    EXPECT_EQ(pool->get(request), BufferPool::Grant::too_large);
}

struct Demand : BufferRequest {
    std::vector<Demand*>* served = nullptr;
    Demand(std::size_t size, std::vector<Demand*>& list) : served(&list) {
        bytes = size;
        ready = [](BufferRequest& request) noexcept {
            auto& self = static_cast<Demand&>(request);
            self.served->push_back(&self);
        };
    }
};

TEST(BufferPool, ServesStrictlyInOrder) {
    const auto pool = *BufferPool::create(64 * 1024, 64 * 1024);
    std::vector<Demand*> served;
    Demand first(32 * 1024, served), second(16 * 1024, served), large(64 * 1024, served), small(512, served),
        cancelled(512, served), last(1024, served);
    ASSERT_EQ(pool->get(first), BufferPool::Grant::granted);
    ASSERT_EQ(pool->get(second), BufferPool::Grant::granted);
    ASSERT_EQ(pool->get(large), BufferPool::Grant::waiting);
    ASSERT_EQ(pool->get(small), BufferPool::Grant::waiting) << "there is room, but another came first";
    ASSERT_EQ(pool->get(cancelled), BufferPool::Grant::waiting);
    ASSERT_EQ(pool->get(last), BufferPool::Grant::waiting);
    pool->cancel(cancelled);
    pool->put(first.data, first.bytes);
    EXPECT_TRUE(served.empty());
    pool->put(second.data, second.bytes);
    ASSERT_EQ(served, std::vector<Demand*>{&large});
    pool->put(large.data, large.bytes);
    ASSERT_EQ(served, (std::vector<Demand*>{&large, &small, &last}));
    EXPECT_EQ(pool->waiting(), 0u);
    pool->put(small.data, small.bytes);
    pool->put(last.data, last.bytes);
    EXPECT_EQ(pool->used_bytes(), 0u);
}

TEST(BufferPool, CancellingTheFirstServesTheNext) {
    const auto pool = *BufferPool::create(8192, 8192);
    std::vector<Demand*> served;
    Demand holder(4096, served), large(8192, served), small(4096, served);
    ASSERT_EQ(pool->get(holder), BufferPool::Grant::granted);
    ASSERT_EQ(pool->get(large), BufferPool::Grant::waiting);
    ASSERT_EQ(pool->get(small), BufferPool::Grant::waiting);
    pool->cancel(large);
    ASSERT_EQ(served, std::vector<Demand*>{&small});
    pool->put(small.data, small.bytes);
    pool->put(holder.data, holder.bytes);
}

/// Random traffic: blocks never overlap, lie inside the arena, keep what is written to them, and everybody is served.
TEST(BufferPool, RandomTrafficKeepsEveryPromise) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        const std::size_t max_block = std::size_t{4096} << random.below(5);
        const auto pool = *BufferPool::create(max_block * (1 + random.below(6)), max_block);
        std::vector<Demand*> served;
        std::deque<Demand> demands;
        std::vector<Demand*> waiting, held;
        std::map<std::byte*, std::size_t> blocks;
        const auto take = [&](Demand& demand) {
            const std::size_t size = std::bit_ceil(std::max<std::size_t>(demand.bytes, 512));
            ASSERT_GE(demand.data, pool->arena().data());
            ASSERT_LE(demand.data + size, pool->arena().data() + pool->budget_bytes());
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(demand.data) % std::min<std::size_t>(size, 4096), 0u);
            const auto after = blocks.lower_bound(demand.data);
            ASSERT_TRUE(after == blocks.end() || demand.data + size <= after->first);
            ASSERT_TRUE(after == blocks.begin() || std::prev(after)->first + std::prev(after)->second <= demand.data);
            blocks.emplace(demand.data, size);
            std::memset(demand.data, static_cast<int>(reinterpret_cast<std::uintptr_t>(&demand) >> 4) & 0xff,
                        demand.bytes);
            held.push_back(&demand);
        };
        const auto give_back = [&](std::size_t index) {
            Demand& demand = *held[index];
            held[index] = held.back();
            held.pop_back();
            const auto mark = static_cast<std::byte>((reinterpret_cast<std::uintptr_t>(&demand) >> 4) & 0xff);
            ASSERT_EQ(demand.data[0], mark);
            ASSERT_EQ(demand.data[demand.bytes - 1], mark);
            blocks.erase(demand.data);
            served.clear();
            pool->put(demand.data, demand.bytes);
            for (Demand* next : served) {
                ASSERT_EQ(next, waiting.front()) << "out of order";
                waiting.erase(waiting.begin());
                take(*next);
            }
        };
        for (int step = 0; step < 3000; ++step) {
            if (random.below(100) < 52) {
                Demand& demand =
                    demands.emplace_back(1 + random.below(random.below(3) == 0 ? max_block : 2048), served);
                const auto grant = pool->get(demand);
                ASSERT_NE(grant, BufferPool::Grant::too_large);
                if (grant == BufferPool::Grant::granted) {
                    ASSERT_TRUE(waiting.empty());
                    take(demand);
                } else {
                    waiting.push_back(&demand);
                }
            } else if (!held.empty()) {
                give_back(random.below(held.size()));
            }
            if (HasFatalFailure()) return;
            if (random.below(200) == 0) pool->trim();
        }
        while (!held.empty()) give_back(random.below(held.size()));
        ASSERT_TRUE(waiting.empty());
        ASSERT_EQ(pool->used_bytes(), 0u);
    }
}

TEST(BufferPool, IdleMemoryGoesBack) {
    test::ManualClock clock;
    SeededRandom random(1);
    test::ManualReactor reactor(clock, random);
    const auto pool = *BufferPool::create(1 << 20, 64 * 1024);
    const block::PoolTrimmer trimmer(reactor, *pool);
    EXPECT_EQ(resident_pages(pool->arena()), 0u);
    std::vector<Demand*> served;
    std::deque<Demand> demands;
    for (int i = 0; i < 32; ++i) {
        Demand& demand = demands.emplace_back(32 * 1024, served);
        ASSERT_EQ(pool->get(demand), BufferPool::Grant::granted);
        std::memset(demand.data, 1, demand.bytes);
    }
    EXPECT_EQ(resident_pages(pool->arena()), 256u);
    for (std::size_t i = 0; i < 31; ++i) pool->put(demands[i].data, demands[i].bytes);
    clock.advance(std::chrono::seconds(1));
    reactor.run_once(Reactor::Sleep::no);
    EXPECT_EQ(resident_pages(pool->arena()), 256u) << "it was busy in the last second";
    clock.advance(std::chrono::seconds(1));
    reactor.run_once(Reactor::Sleep::no);
    EXPECT_EQ(resident_pages(pool->arena()), 8u) << "only what is in use stays";
    EXPECT_EQ(demands[31].data[32 * 1024 - 1], std::byte{1});
    EXPECT_EQ(reactor.next_deadline(), never) << "an idle pool needs no timer";
    pool->put(demands[31].data, demands[31].bytes);
}

/// Warm: the same few blocks again and again, not ever further into the budget.
TEST(BufferPool, SteadyTrafficStaysSmall) {
    const auto pool = *BufferPool::create(64 << 20, 1 << 20);
    std::vector<Demand*> served;
    Demand demand(4096, served);
    for (int i = 0; i < 10000; ++i) {
        ASSERT_EQ(pool->get(demand), BufferPool::Grant::granted);
        demand.data[0] = std::byte{1};
        pool->put(demand.data, demand.bytes);
    }
    EXPECT_EQ(resident_pages(pool->arena()), 1u);
}

}  // namespace
}  // namespace mqblk::memory
