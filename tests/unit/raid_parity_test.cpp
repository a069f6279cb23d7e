// SPDX-License-Identifier: Apache-2.0
//
// P, Q and recovery against arithmetic in GF(2^8) that is written out bit by bit.
#include "base/random.h"
#include "driver/raid/parity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace mqblk::driver::raid {
namespace {

unsigned char times(unsigned char a, unsigned char b) {
    unsigned char result = 0;
    for (int i = 0; i < 8; ++i) {
        if ((b >> i & 1) != 0) result ^= a;
        a = static_cast<unsigned char>(a << 1 ^ ((a & 0x80) != 0 ? 0x1d : 0));
    }
    return result;
}

struct Stripe {
    std::vector<std::vector<std::byte>> chunks;
    std::vector<std::byte*> at;

    Stripe(unsigned data, std::size_t bytes, Random& random) : chunks(data + 2, std::vector<std::byte>(bytes)) {
        for (unsigned i = 0; i < data; ++i)
            for (auto& each : chunks[i]) each = static_cast<std::byte>(random.next());
        for (std::size_t k = 0; k < bytes; ++k) {
            unsigned char p = 0, q = 0, weight = 1;
            for (unsigned i = 0; i < data; ++i) {
                const auto value = static_cast<unsigned char>(chunks[i][k]);
                p ^= value;
                q ^= times(value, weight);
                weight = times(weight, 2);
            }
            chunks[data][k] = std::byte{p};
            chunks[data + 1][k] = std::byte{q};
        }
        for (auto& chunk : chunks) at.push_back(chunk.data());
    }
};

TEST(RaidParity, IsWhatTheFieldSays) {
    SeededRandom random(1);
    for (unsigned data = 3; data <= max_data; ++data) {
        for (const std::size_t bytes : {std::size_t{512}, std::size_t{1536}, std::size_t{96}}) {
            const Stripe stripe(data, bytes, random);
            const Parity parity(data);
            std::vector<std::byte> p(bytes), q(bytes), only_p(bytes), only_q(bytes);
            parity.generate(stripe.at.data(), p.data(), q.data(), bytes);
            parity.generate(stripe.at.data(), only_p.data(), nullptr, bytes);
            parity.generate(stripe.at.data(), nullptr, only_q.data(), bytes);
            ASSERT_EQ(p, stripe.chunks[data]) << data;
            ASSERT_EQ(q, stripe.chunks[data + 1]) << data;
            ASSERT_EQ(only_p, p);
            ASSERT_EQ(only_q, q);
        }
    }
}

TEST(RaidParity, IsTheSameForAlignedMemory) {
    SeededRandom random(2);
    constexpr std::size_t bytes = 4096;
    for (unsigned data = 3; data <= max_data; data += 5) {
        const Stripe stripe(data, bytes, random);
        std::vector<std::byte> memory((data + 3) * bytes);
        auto* const base =
            reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) & ~63ull);
        std::vector<const std::byte*> chunks;
        for (unsigned i = 0; i < data; ++i) {
            std::memcpy(base + i * bytes, stripe.at[i], bytes);
            chunks.push_back(base + i * bytes);
        }
        std::byte* const p = base + data * bytes;
        std::byte* const q = p + bytes;
        Parity(data).generate(chunks.data(), p, q, bytes);
        EXPECT_EQ(std::memcmp(p, stripe.at[data], bytes), 0);
        EXPECT_EQ(std::memcmp(q, stripe.at[data + 1], bytes), 0);
    }
}

TEST(RaidParity, AnyTwoFollowFromTheOthers) {
    SeededRandom random(3);
    constexpr std::size_t bytes = 64;
    for (unsigned data = 3; data <= max_data; ++data) {
        const Stripe stripe(data, bytes, random);
        for (unsigned a = 0; a < data + 2; ++a) {
            for (unsigned b = a; b < data + 2; ++b) {
                Stripe damaged = stripe;
                for (unsigned i = 0; i < damaged.at.size(); ++i) damaged.at[i] = damaged.chunks[i].data();
                const Mask lost = bit(a) | bit(b);
                for (const unsigned each : {a, b}) std::ranges::fill(damaged.chunks[each], std::byte{0x77});
                const auto recovery = Recovery::make(data, first_bits(data + 2) & ~lost, lost);
                ASSERT_TRUE(recovery) << data << " without " << a << " and " << b;
                ASSERT_EQ(recovery->sources() & lost, 0u);
                recovery->apply(damaged.at.data(), bytes);
                ASSERT_EQ(damaged.chunks, stripe.chunks) << data << " without " << a << " and " << b;
            }
        }
        EXPECT_FALSE(Recovery::make(data, first_bits(data + 2) & ~Mask{7}, 7));
        EXPECT_FALSE(Recovery::make(data, first_bits(data - 1), bit(data)));
    }
}

TEST(RaidParity, ChangesAddUp) {
    SeededRandom random(4);
    constexpr std::size_t bytes = 1024;
    for (unsigned data = 3; data <= max_data; data += 3) {
        const Stripe before(data, bytes, random);
        Stripe after = before;
        const auto changed = static_cast<unsigned>(random.below(data));
        std::vector<std::byte> difference(bytes);
        for (auto& each : difference) each = static_cast<std::byte>(random.next());
        for (std::size_t k = 0; k < bytes; ++k) after.chunks[changed][k] ^= difference[k];
        const Parity parity(data);
        // In two pieces of any length.
        const std::size_t cut = 4 * (1 + random.below(200));
        std::byte* const p = after.chunks[data].data();
        std::byte* const q = after.chunks[data + 1].data();
        parity.update(changed, difference.data(), p, q, cut);
        parity.update(changed, difference.data() + cut, p + cut, q + cut, bytes - cut);
        std::vector<const std::byte*> at;
        for (auto& chunk : after.chunks) at.push_back(chunk.data());
        std::vector<std::byte> want_p(bytes), want_q(bytes);
        parity.generate(at.data(), want_p.data(), want_q.data(), bytes);
        EXPECT_EQ(after.chunks[data], want_p) << data;
        EXPECT_EQ(after.chunks[data + 1], want_q) << data;
    }
}

TEST(RaidParity, OneWrongChunkIsFound) {
    SeededRandom random(5);
    constexpr std::size_t bytes = 512;
    for (unsigned data = 3; data <= max_data; ++data) {
        for (unsigned wrong = 0; wrong < data + 2; ++wrong) {
            Stripe stripe(data, bytes, random);
            const Parity parity(data);
            const auto examine = [&] {
                std::vector<std::byte> p(bytes), q(bytes);
                std::vector<const std::byte*> at;
                for (auto& chunk : stripe.chunks) at.push_back(chunk.data());
                parity.generate(at.data(), p.data(), q.data(), bytes);
                for (std::size_t k = 0; k < bytes; ++k) {
                    p[k] ^= stripe.chunks[data][k];
                    q[k] ^= stripe.chunks[data + 1][k];
                }
                return diagnose(data, p.data(), q.data(), bytes);
            };
            EXPECT_EQ(examine().kind, Diagnosis::Kind::sound);
            for (int i = 0; i < 5; ++i)
                stripe.chunks[wrong][random.below(bytes / 2)] ^= static_cast<std::byte>(1 + random.below(255));
            stripe.chunks[wrong][bytes - 1] ^= std::byte{1};
            ASSERT_EQ(examine().kind, Diagnosis::Kind::one_wrong);
            ASSERT_EQ(examine().wrong, wrong);
            // Another one as well, at another byte: none alone explains both.
            stripe.chunks[(wrong + 1) % (data + 2)][bytes - 2] ^= std::byte{1};
            ASSERT_EQ(examine().kind, Diagnosis::Kind::beyond_repair);
        }
    }
}

}  // namespace
}  // namespace mqblk::driver::raid
