// SPDX-License-Identifier: Apache-2.0
//
// The mapping engine against a reference that goes byte by byte: whatever the list, the rules and the failures, the
// descriptors name just the list's bytes, in order, and are no more than its pieces.
#include "base/random.h"
#include "driver/srp/mapper.h"
#include "fabric/rdma/in_process_domain.h"
#include "rdma_support.h"

#include <vector>

namespace mqblk::driver::srp {
namespace {

namespace rdma = fabric::rdma;

struct MapperWorld {
    test::RdmaPair pair;
    std::shared_ptr<rdma::Domain> domain;
    explicit MapperWorld(rdma::InProcessOptions options) : pair(std::move(options)) {
        EXPECT_TRUE(pair.connect("", ""));
        domain = pair.near.qp->domain();
    }
    rdma::KeyTable& keys() { return static_cast<rdma::InProcessDomain&>(*domain).keys(); }
};

std::vector<std::byte*> bytes_of(Segments list) {
    std::vector<std::byte*> result;
    for (const Segment& each : list)
        for (std::size_t i = 0; i < each.bytes; ++i) result.push_back(each.data + i);
    return result;
}

std::vector<Segment> random_list(SeededRandom& random, memory::Buffer& memory) {
    std::vector<Segment> list;
    const bool pages = random.below(2) == 0;
    for (std::uint64_t count = 1 + random.below(40); count != 0; --count) {
        std::size_t at = random.below(memory.size() - 16384);
        std::size_t bytes = 1 + random.below(12000);
        if (pages && random.below(8) != 0) {
            at &= ~std::size_t{4095};
            bytes = (bytes + 4095) & ~std::size_t{4095};
        }
        if (!list.empty() && random.below(6) == 0 &&
            list.back().data + list.back().bytes + bytes < memory.data() + memory.size())
            list.push_back({list.back().data + list.back().bytes, bytes});  // goes on where the last one ends
        else
            list.push_back({memory.data() + at, bytes});
    }
    return list;
}

struct Rules {
    const char* name;
    bool fast, pools, first_byte_offset, cheap_ranges;
    std::uint32_t max_pages;
};

class SrpMapper : public ::testing::TestWithParam<Rules> {};

TEST_P(SrpMapper, DescriptorsAreTheList) {
    const Rules& rules = GetParam();
    constexpr std::uint64_t seed = 255;
    SeededRandom random(seed);
    unsigned refuse_in = 0;  // 0: none is
    rdma::InProcessOptions options;
    options.limits.fast_registration = rules.fast;
    options.limits.pools = rules.pools;
    options.limits.first_byte_offset = rules.first_byte_offset;
    options.limits.cheap_ranges = rules.cheap_ranges;
    options.limits.max_pages = rules.max_pages;
    options.refuse_registration = [&] { return refuse_in != 0 && --refuse_in == 0; };
    MapperWorld world(std::move(options));
    auto mapper = Mapper::create(world.domain, {.slots = 2, .table_entries = 64, .max_bytes = 1 << 20});
    ASSERT_TRUE(mapper.has_value());
    auto memory = std::move(*memory::Buffer::allocate(1 << 20));
    const unsigned keys = world.keys().in_use();
    for (unsigned round = 0; round < 400; ++round) {
        SCOPED_TRACE(round);
        const auto list = random_list(random, memory);
        refuse_in = random.below(3) == 0 ? static_cast<unsigned>(1 + random.below(5)) : 0;
        const auto mapped = (*mapper)->map(*world.pair.near.qp, 1, true, [&](auto&& add) {
            for (const Segment& each : list) add(each.data, each.bytes);
        });
        refuse_in = 0;
        if (!mapped.ok) {  // a range was refused
            ASSERT_EQ(world.keys().in_use(), keys);
            continue;
        }
        ASSERT_LE(mapped.count, list.size());
        std::vector<Segment> seen;
        for (std::uint32_t i = 0; i < mapped.count; ++i) {
            const auto& each = (*mapper)->table(1)[i];
            ASSERT_TRUE(world.keys().resolve(each.key, each.address, each.bytes, rdma::access_remote_write, seen));
            EXPECT_FALSE(world.keys().resolve(each.key, each.address, std::uint64_t{each.bytes} + 1,
                                              rdma::access_remote_write, seen));
        }
        ASSERT_EQ(bytes_of(seen), bytes_of(list)) << "seed " << seed;
        EXPECT_EQ(mapped.bytes, bytes_of(list).size());
        const auto first = (*mapper)->table(1)[0];
        (*mapper)->unmap(*world.pair.near.qp, 1);
        EXPECT_FALSE(world.keys().resolve(first.key, first.address, 1, 0, seen)) << "a key that is still valid";
        ASSERT_EQ(world.keys().in_use(), keys);
    }
    if (rules.max_pages >= Mapper::least_pages) {
        EXPECT_GT((*mapper)->fallbacks(), 0u);
    }
    mapper->reset();
    EXPECT_LT(world.keys().in_use(), keys);
}

INSTANTIATE_TEST_SUITE_P(All, SrpMapper,
                         ::testing::Values(Rules{"fast", true, true, true, true, 512},
                                           Rules{"pool", false, true, true, true, 512},
                                           Rules{"pool_from_page_begin", false, true, false, true, 128},
                                           Rules{"dear_ranges", true, false, true, false, 256},
                                           Rules{"ranges", false, false, true, true, 0}),
                         [](const auto& each) { return each.param.name; });

TEST(SrpMapperSizes, LargerRegistrationsAreTriedFirst) {
    for (const auto& [regions, pages] : {std::pair{1u << 16, 512u}, std::pair{3u, 0u}}) {
        rdma::InProcessOptions options;
        options.limits.max_regions = regions;
        MapperWorld world(std::move(options));
        const auto mapper = Mapper::create(world.domain, {.slots = 4, .table_entries = 64, .max_bytes = 8 << 20});
        ASSERT_TRUE(mapper.has_value());
        EXPECT_EQ((*mapper)->rules().max_pages, pages);
    }
}

TEST(SrpMapperSizes, ScatteredPagesShareRegistrations) {
    MapperWorld world({});
    auto memory = std::move(*memory::Buffer::allocate(2048 * 8192));
    const auto mapper = Mapper::create(world.domain, {.slots = 1, .table_entries = 2048, .max_bytes = 8 << 20});
    ASSERT_TRUE(mapper.has_value());
    const auto mapped = (*mapper)->map(*world.pair.near.qp, 0, false, [&](auto&& add) {
        for (std::size_t i = 0; i < 2048; ++i) add(memory.data() + i * 8192, 4096);
    });
    EXPECT_TRUE(mapped.ok);
    EXPECT_EQ(mapped.count, 4u);
    (*mapper)->unmap(*world.pair.near.qp, 0);
}

}  // namespace
}  // namespace mqblk::driver::srp
