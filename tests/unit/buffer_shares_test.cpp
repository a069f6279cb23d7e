// SPDX-License-Identifier: Apache-2.0
//
// Shares of a buffer pool: something is left for whoever comes, turns are taken, and everybody is served.
#include "memory/buffer_shares.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

namespace mqblk::memory {
namespace {

constexpr std::size_t block = 4096;

struct Demand : SharedBufferRequest {
    Demand(BufferAccount& of, std::size_t size, std::vector<Demand*>& log) : served(&log) {
        account = &of;
        bytes = size;
        ready = [](BufferRequest& request) noexcept {
            auto& self = static_cast<Demand&>(request);
            self.served->push_back(&self);
        };
    }
    std::vector<Demand*>* served;
};

class Shares : public testing::Test {
  protected:
    Demand& ask(BufferAccount& account, std::size_t bytes = block) {
        Demand& demand = demands_.emplace_back(account, bytes, log);
        if (shares.get(demand) == BufferPool::Grant::granted) log.push_back(&demand);
        return demand;
    }
    void give_back(Demand& demand) { shares.put(*demand.account, demand.data, demand.bytes); }
    void give_all_back() {
        for (std::size_t i = 0; i < log.size(); ++i) give_back(*log[i]);  // it grows as others are served
    }

    std::unique_ptr<BufferPool> pool = *BufferPool::create(16 * block, block);
    BufferShares shares{*pool};
    std::vector<Demand*> log;

  private:
    std::deque<Demand> demands_;
};

TEST_F(Shares, EachNewcomerFindsHalfOfTheRest) {
    std::deque<BufferAccount> accounts(5);
    std::vector<std::size_t> got;
    for (auto& account : accounts) {
        for (int i = 0; i < 100; ++i) ask(account);
        got.push_back(account.used_bytes / block);
    }
    EXPECT_EQ(got, (std::vector<std::size_t>{8, 4, 2, 1, 1}));
    EXPECT_EQ(pool->used_bytes(), pool->budget_bytes());
    give_all_back();
    EXPECT_EQ(log.size(), 500u);
    EXPECT_EQ(pool->used_bytes(), 0u);
    EXPECT_EQ(shares.waiting(), 0u);
}

TEST_F(Shares, WhoHoldsNothingWaitsForMemoryOnly) {
    BufferAccount hog, other;
    for (int i = 0; i < 100; ++i) ask(hog);
    const std::size_t before = log.size();
    Demand& first = ask(other);
    ASSERT_EQ(log.size(), before + 1) << "a hundred others were asked for before";
    EXPECT_EQ(log.back(), &first);
    give_all_back();
    EXPECT_EQ(log.size(), 101u);
}

TEST_F(Shares, OneBlockIsEnoughForEverybody) {
    pool.reset();
    const auto tiny = *BufferPool::create(block, block);
    BufferShares few(*tiny);
    BufferAccount one, two;
    std::vector<Demand*> served;
    Demand a(one, block, served), b(one, block, served), c(two, block, served);
    ASSERT_EQ(few.get(a), BufferPool::Grant::granted);
    ASSERT_EQ(few.get(b), BufferPool::Grant::waiting);
    ASSERT_EQ(few.get(c), BufferPool::Grant::waiting);
    few.put(one, a.data, a.bytes);
    ASSERT_EQ(served, std::vector<Demand*>{&c}) << "it held nothing";
    few.put(two, c.data, c.bytes);
    ASSERT_EQ(served, (std::vector<Demand*>{&c, &b}));
    few.put(one, b.data, b.bytes);
    EXPECT_EQ(tiny->used_bytes(), 0u);
    pool = *BufferPool::create(16 * block, block);
}

TEST_F(Shares, TurnsAreTaken) {
    BufferAccount one, two;
    for (int i = 0; i < 20; ++i) ask(one);
    for (int i = 0; i < 20; ++i) ask(two);
    const std::size_t before = log.size();
    for (std::size_t i = 0; i < before; ++i) give_back(*log[i]);
    std::size_t of_one = 0, most_apart = 0;
    for (std::size_t i = before; i < log.size(); ++i) {
        of_one += log[i]->account == &one ? 1 : 0;
        const std::size_t of_two = i + 1 - before - of_one;
        most_apart = std::max(most_apart, of_one > of_two ? of_one - of_two : of_two - of_one);
    }
    EXPECT_LE(most_apart, 6u);
    for (std::size_t i = before; i < log.size(); ++i) give_back(*log[i]);
    EXPECT_EQ(log.size(), 40u);
}

TEST_F(Shares, TooLargeIsSaidAtOnce) {
    BufferAccount account;
    ask(account);
    Demand large(account, 2 * block, log), none(account, 0, log);
    EXPECT_EQ(shares.get(large), BufferPool::Grant::too_large);
    EXPECT_EQ(shares.get(none), BufferPool::Grant::too_large);
    EXPECT_EQ(account.used_bytes, block);
    give_all_back();
}

/// Demands of several accounts, some of them cancelled: nobody is forgotten, and no account has more than its share but
/// for its first.
TEST_F(Shares, RandomTrafficServesEverybody) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        SeededRandom random(seed);
        log.clear();
        std::deque<BufferAccount> accounts(1 + random.below(5));
        std::vector<Demand*> waiting, held;
        std::size_t seen = 0;
        const auto take_served = [&] {
            for (; seen < log.size(); ++seen) {
                std::erase(waiting, log[seen]);
                held.push_back(log[seen]);
            }
        };
        for (int step = 0; step < 2000; ++step) {
            const auto what = random.below(100);
            if (what < 55) {
                waiting.push_back(&ask(accounts[random.below(accounts.size())], 1 + random.below(block)));
            } else if (what < 90 && !held.empty()) {
                std::swap(held[random.below(held.size())], held.back());
                Demand& demand = *held.back();
                held.pop_back();
                give_back(demand);
            } else if (!waiting.empty()) {
                std::swap(waiting[random.below(waiting.size())], waiting.back());
                Demand& demand = *waiting.back();
                waiting.pop_back();
                shares.cancel(demand);
            }
            take_served();
        }
        while (!held.empty()) {
            Demand& demand = *held.back();
            held.pop_back();
            give_back(demand);
            take_served();
        }
        EXPECT_TRUE(waiting.empty());
        EXPECT_EQ(pool->used_bytes(), 0u);
        for (const BufferAccount& account : accounts) EXPECT_EQ(account.used_bytes, 0u);
    }
}

}  // namespace
}  // namespace mqblk::memory
