// SPDX-License-Identifier: Apache-2.0
#include "block/tag_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace mqblk::block {
namespace {

TEST(BlockTagSet, EveryTagOnceForEverySize) {
    struct Size {
        unsigned tags, reserved;
    };
    for (const Size size : {Size{1, 0},
                            {2, 1},
                            {3, 0},
                            {4, 0},
                            {5, 2},
                            {63, 0},
                            {64, 0},
                            {65, 1},
                            {128, 0},
                            {1000, 8},
                            {4097, 65},
                            {65536, 0},
                            {65536, 100}}) {
        TagSet set(size.tags, size.reserved);
        TagSet::User user(set);
        std::vector<bool> seen(size.tags);
        for (unsigned i = 0; i < size.tags - size.reserved; ++i) {
            const std::uint32_t tag = user.get();
            ASSERT_LT(tag, size.tags) << size.tags;
            ASSERT_GE(tag, size.reserved) << size.tags;
            ASSERT_FALSE(seen[tag]) << size.tags << " tag " << tag;
            seen[tag] = true;
        }
        EXPECT_EQ(user.get(), TagSet::none) << size.tags;
        for (unsigned i = 0; i < size.reserved; ++i) {
            const std::uint32_t tag = user.get_reserved();
            ASSERT_LT(tag, size.reserved) << size.tags;
            ASSERT_FALSE(seen[tag]);
            seen[tag] = true;
        }
        EXPECT_EQ(user.get_reserved(), TagSet::none);
        EXPECT_EQ(set.in_use(), size.tags);
        for (std::uint32_t tag = 0; tag < size.tags; ++tag) user.put(tag);
        EXPECT_EQ(set.in_use(), 0u);
        if (size.reserved < size.tags) {
            const std::uint32_t again = user.get();
            EXPECT_NE(again, TagSet::none);
            user.put(again);
        }
    }
}

TEST(BlockTagSet, TheLowestTagIsPreferred) {
    TagSet set(128);
    TagSet::User user(set);
    std::vector<std::uint32_t> tags;
    for (int i = 0; i < 100; ++i) tags.push_back(user.get());
    user.put(tags[3]);
    user.put(tags[70]);
    EXPECT_EQ(user.get(), tags[3]);
    EXPECT_EQ(user.get(), tags[70]);
    for (const std::uint32_t tag : tags) user.put(tag);
}

struct Waiter {
    explicit Waiter(TagSet& set) : user(set) {}
    TagSet::User user;
    std::vector<std::uint32_t> tags;
    std::atomic<unsigned> woken{0};
    bool wait() {
        return user.wait([](void* self) noexcept { ++static_cast<Waiter*>(self)->woken; }, this);
    }
    bool take() {
        const std::uint32_t tag = user.get();
        if (tag != TagSet::none) tags.push_back(tag);
        return tag != TagSet::none;
    }
    void give() {
        user.put(tags.back());
        tags.pop_back();
    }
    ~Waiter() {
        while (!tags.empty()) give();
    }
};

TEST(BlockTagSet, AnIdleUserLendsItsShareAndGetsItBack) {
    TagSet set(16);
    Waiter first(set), second(set);
    while (first.take()) {
    }
    EXPECT_EQ(first.tags.size(), 16u);
    ASSERT_FALSE(second.take());
    ASSERT_TRUE(second.wait());
    unsigned rounds = 0;
    while (second.tags.size() < 8 && ++rounds < 100) {
        if (first.tags.size() > 8) first.give();
        while (first.take()) {
        }
        while (second.take()) {
        }
        if (second.tags.size() < 8) static_cast<void>(second.wait());
    }
    EXPECT_EQ(second.tags.size(), 8u);
    EXPECT_EQ(first.tags.size(), 8u);
    second.user.cancel_wait();
    first.user.cancel_wait();
}

TEST(BlockTagSet, EachReachesFourHoweverManyShare) {
    TagSet set(8);
    std::vector<std::unique_ptr<Waiter>> users;
    for (int i = 0; i < 8; ++i) users.push_back(std::make_unique<Waiter>(set));
    for (auto& user : users) EXPECT_TRUE(user->take());  // all active: a share would be one
    for (std::size_t i = 1; i < users.size(); ++i) users[i]->give();
    unsigned got = 0;
    while (users[0]->take()) ++got;
    EXPECT_GE(got + 1, 4u);
}

TEST(BlockTagSet, WaitersAreServedInOrderAndNotOvertaken) {
    TagSet set(4);
    Waiter holder(set), a(set), b(set), c(set);
    while (holder.take()) {
    }
    ASSERT_EQ(holder.tags.size(), 4u);
    for (Waiter* waiter : {&a, &b, &c}) {
        ASSERT_FALSE(waiter->take());
        ASSERT_TRUE(waiter->wait());
    }
    holder.give();
    EXPECT_EQ(a.woken.load(), 1u);
    EXPECT_EQ(b.woken.load(), 0u);
    EXPECT_FALSE(holder.take()) << "the tag is kept for the first in line";
    EXPECT_TRUE(a.take());
    holder.give();
    EXPECT_EQ(b.woken.load(), 1u);
    b.user.cancel_wait();  // does not need it any more: the next in line gets it
    EXPECT_EQ(c.woken.load(), 1u);
    EXPECT_TRUE(c.take());
}

TEST(BlockTagSet, WaitReturnsFalseWhenATagCameFreeMeanwhile) {
    TagSet set(4);
    Waiter holder(set), late(set);
    while (holder.take()) {
    }
    ASSERT_FALSE(late.take());
    holder.give();  // nobody is in line yet
    EXPECT_FALSE(late.wait());
    EXPECT_EQ(late.woken.load(), 0u);
    EXPECT_TRUE(late.take());
}

/// More threads than tags: every tag has one holder, no wake-up is lost (or this would not end), all get their turns.
TEST(BlockTagSet, ThreadsShareScarceTags) {
    constexpr unsigned threads = 4, rounds = 3000;
    for (const unsigned tags : {2u, 5u, 16u}) {
        TagSet set(tags);
        std::vector<std::atomic<int>> owner(tags);
        std::atomic<unsigned> doubled{0};
        const auto work = [&] {
            Waiter self(set);
            for (unsigned done = 0; done < rounds;) {
                if (!self.take()) {
                    const unsigned before = self.woken.load();
                    if (self.wait())
                        while (self.woken.load() == before) std::this_thread::yield();
                    continue;
                }
                const std::uint32_t tag = self.tags.back();
                if (owner[tag].fetch_add(1) != 0) ++doubled;
                if (done % 3 == 0) std::this_thread::yield();
                owner[tag].fetch_sub(1);
                self.give();
                ++done;
            }
            self.user.cancel_wait();
        };
        std::vector<std::thread> running;
        for (unsigned i = 0; i < threads; ++i) running.emplace_back(work);
        for (std::thread& thread : running) thread.join();
        EXPECT_EQ(doubled.load(), 0u);
        EXPECT_EQ(set.in_use(), 0u);
    }
}

}  // namespace
}  // namespace mqblk::block
