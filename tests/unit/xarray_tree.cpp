// SPDX-License-Identifier: Apache-2.0
//
// XArray against std::map, and with readers and writers at once.
#include "base/random.h"
#include "base/xarray.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mqblk {
namespace {

TEST(XArray, EmptyHasNothing) {
    const XArray<int> array;
    EXPECT_TRUE(array.empty());
    for (const std::uint32_t index : {0u, 63u, 64u, 4096u, UINT32_MAX}) EXPECT_EQ(array.load(index), nullptr);
    array.for_each(0, [](std::uint32_t, int&) { return ADD_FAILURE(), true; });
}

TEST(XArray, TheFirstOfAnIndexStays) {
    XArray<int> array;
    int first = 1, second = 2;
    EXPECT_TRUE(array.insert(5, first));
    EXPECT_FALSE(array.insert(5, second));
    EXPECT_EQ(array.load(5), &first);
    EXPECT_EQ(array.erase(5), &first);
    EXPECT_EQ(array.erase(5), nullptr);
    EXPECT_TRUE(array.insert(5, second));
    EXPECT_EQ(array.load(5), &second);
}

TEST(XArray, HoldsTheEdgesOfEveryLevel) {
    XArray<std::uint32_t> array;
    std::vector<std::uint32_t> indexes{0, UINT32_MAX};
    for (unsigned bits = 6; bits < 32; bits += 6) {
        for (const std::uint32_t edge : {(1u << bits) - 1, 1u << bits, (1u << bits) + 1}) indexes.push_back(edge);
    }
    for (int round = 0; round < 2; ++round) {
        for (auto& index : indexes) EXPECT_TRUE(array.insert(index, index));
        EXPECT_EQ(array.size(), indexes.size());
        auto sorted = indexes;
        std::ranges::sort(sorted);
        std::vector<std::uint32_t> seen;
        array.for_each(0, [&](std::uint32_t index, std::uint32_t& value) {
            EXPECT_EQ(index, value);
            return seen.push_back(index), true;
        });
        EXPECT_EQ(seen, sorted);
        for (const auto index : indexes) {
            EXPECT_EQ(*array.load(index), index);
            EXPECT_NE(array.erase(index), nullptr);
            EXPECT_EQ(array.load(index), nullptr);
        }
        EXPECT_TRUE(array.empty());
        std::ranges::reverse(indexes);
    }
}

TEST(XArray, BehavesAsAMap) {
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
        SCOPED_TRACE(seed);
        SeededRandom random(seed);
        std::vector<int> values(256);
        XArray<int> array;
        std::map<std::uint32_t, int*> model;
        const unsigned bits = seed == 4 ? 32 : static_cast<unsigned>(6 * seed - 1);
        for (int step = 0; step < 4000; ++step) {
            // Some neighbours among indexes from everywhere.
            const auto index =
                static_cast<std::uint32_t>(random.below(1ull << bits) & (random.below(3) == 0 ? ~0u : ~0x3fu));
            int& value = values[random.below(values.size())];
            switch (random.below(4)) {
                case 0:
                case 1:
                    EXPECT_EQ(array.insert(index, value), model.try_emplace(index, &value).second);
                    break;
                case 2: {
                    const auto from = model.lower_bound(index);  // mostly one that exists
                    const std::uint32_t victim = from == model.end() ? index : from->first;
                    int* const expected = from == model.end() ? nullptr : from->second;
                    EXPECT_EQ(array.erase(victim), expected);
                    model.erase(victim);
                    break;
                }
                default: {
                    const auto at = model.find(index);
                    EXPECT_EQ(array.load(index), at == model.end() ? nullptr : at->second);
                    std::vector<std::pair<std::uint32_t, int*>> seen, expected;
                    array.for_each(index, [&](std::uint32_t i, int& v) {
                        seen.emplace_back(i, &v);
                        return seen.size() < 5;
                    });
                    for (auto it = model.lower_bound(index); it != model.end() && expected.size() < 5; ++it) {
                        expected.emplace_back(*it);
                    }
                    EXPECT_EQ(seen, expected);
                }
            }
            ASSERT_EQ(array.size(), model.size());
        }
        for (const auto& [index, value] : std::map(model)) EXPECT_EQ(array.erase(index), value);
        EXPECT_TRUE(array.empty());
    }
}

// Readers look while two writers add, remove and free. A value says which index it is at and whether it is alive; a
// reader that finds a freed one is caught here or by the sanitizers. Fixed entries must be seen all the time.
TEST(XArray, ReadersSeeWholeValuesWhileWritersChangeThem) {
    struct Value {
        std::uint32_t index;
        std::uint32_t check;
        ~Value() { check = 0; }
    };
    constexpr std::uint32_t fixed[] = {7, 4095, 4096, 300'000};
    constexpr std::uint32_t moving[] = {0, 1, 63, 64, 8000, 262'144, 20'000'000, UINT32_MAX};
    XArray<Value> array;
    std::vector<std::unique_ptr<Value>> kept;
    for (const auto index : fixed) {
        kept.push_back(std::make_unique<Value>(Value{index, ~index}));
        ASSERT_TRUE(array.insert(index, *kept.back()));
    }
    std::mutex mutex;
    std::atomic<bool> stop{false};
    std::atomic<unsigned> found{0}, wrong{0};
    const auto read = [&] {
        while (!stop.load(std::memory_order_relaxed)) {
            const rcu::ReadLock lock;
            for (const auto index : fixed) {
                const Value* value = array.load(index);
                if (value == nullptr || value->index != index || value->check != ~index) ++wrong;
            }
            for (const auto index : moving) {
                const Value* value = array.load(index);
                if (value == nullptr) continue;
                found.fetch_add(1, std::memory_order_relaxed);
                if (value->index != index || value->check != ~index) ++wrong;
            }
            std::size_t fixed_seen = 0;
            std::uint64_t previous = 0;
            array.for_each(0, [&](std::uint32_t index, const Value& value) {
                if (value.index != index || value.check != ~index || (previous > index)) ++wrong;
                previous = index + 1ull;
                return fixed_seen += std::ranges::count(fixed, index) > 0, true;
            });
            if (fixed_seen != std::size(fixed)) ++wrong;
        }
    };
    const auto write = [&](std::uint64_t seed) {
        SeededRandom random(seed);
        for (int round = 0; round < 1500; ++round) {
            const std::uint32_t index = moving[random.below(std::size(moving))];
            auto fresh = std::make_unique<Value>(Value{index, ~index});
            std::unique_ptr<Value> old;
            {
                const std::lock_guard lock(mutex);
                if (array.insert(index, *fresh)) {
                    fresh.release();
                    continue;
                }
                old.reset(array.erase(index));
            }
            rcu::synchronize();
        }
    };
    std::vector<std::thread> threads;
    threads.emplace_back(read);
    threads.emplace_back(read);
    std::thread first([&] { write(1); }), second([&] { write(2); });
    first.join();
    second.join();
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0u);
    for (const auto index : moving) delete array.erase(index);
    for (const auto index : fixed) EXPECT_NE(array.erase(index), nullptr);
    EXPECT_TRUE(array.empty());
}

TEST(Rcu, SynchronizeWaitsForReadersThatHadBegun) {
    std::atomic<bool> reading{false}, may_end{false}, ended{false};
    std::thread reader([&] {
        {
            const rcu::ReadLock outer;
            const rcu::ReadLock inner;
            reading = true;
            while (!may_end) std::this_thread::yield();
            ended = true;
        }
    });
    while (!reading) std::this_thread::yield();
    std::thread writer([&] {
        rcu::synchronize();
        EXPECT_TRUE(ended);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    may_end = true;
    writer.join();
    reader.join();
    rcu::synchronize();  // the reader's thread is gone and is not waited for
}

}  // namespace
}  // namespace mqblk
