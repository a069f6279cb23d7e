// SPDX-License-Identifier: Apache-2.0
//
// What the host makes of what a target says of itself and its namespaces, and of a status.
#include "driver/nvme/connect_command.h"
#include "driver/nvme/controller_facts.h"
#include "driver/nvme/host_identity.h"
#include "driver/nvme/io_map.h"
#include "driver/nvme/namespace_changes.h"
#include "driver/nvme/namespace_facts.h"
#include "driver/nvme/status_text.h"
#include "wire/nvme_fabrics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace mqblk::driver::nvme {
namespace {

namespace sc = wire::nvme::status;

struct MeaningCase {
    std::uint16_t status;
    Status meaning;
    bool retry;
};
class NvmeStatus : public testing::TestWithParam<MeaningCase> {};
TEST_P(NvmeStatus, MeansAndRetries) {
    const auto& [status, meaning, retry] = GetParam();
    EXPECT_EQ(to_block_status(status), meaning);
    EXPECT_EQ(worth_retrying(status), retry);
    EXPECT_FALSE(worth_retrying(status | sc::do_not_retry));
    EXPECT_EQ(to_block_status(status | sc::do_not_retry | sc::more), meaning);
    EXPECT_FALSE(status_text(status).empty());
}
INSTANTIATE_TEST_SUITE_P(Table, NvmeStatus,
                         testing::Values(MeaningCase{sc::invalid_opcode, Status::not_supported, false},
                                         MeaningCase{sc::invalid_field, Status::invalid, false},
                                         MeaningCase{sc::data_transfer_error, Status::transport, true},
                                         MeaningCase{sc::internal_error, Status::io_error, true},
                                         MeaningCase{sc::aborted_by_request, Status::aborted, true},
                                         MeaningCase{sc::invalid_namespace, Status::removed, false},
                                         MeaningCase{sc::namespace_write_protected, Status::read_only, false},
                                         MeaningCase{sc::lba_out_of_range, Status::out_of_range, false},
                                         MeaningCase{sc::capacity_exceeded, Status::no_space, false},
                                         MeaningCase{sc::reservation_conflict, Status::protection, false},
                                         MeaningCase{sc::unrecovered_read_error, Status::medium_error, true},
                                         MeaningCase{sc::compare_failure, Status::miscompare, false},
                                         MeaningCase{sc::command_size_limit_exceeded, Status::not_supported, false},
                                         MeaningCase{sc::internal_path_error, Status::transport, true},
                                         MeaningCase{sc::ana_inaccessible, Status::transport, true},
                                         MeaningCase{sc::controller_path_error, Status::transport, true},
                                         MeaningCase{0x2ff, Status::medium_error, true},
                                         MeaningCase{0x3ff, Status::transport, true},
                                         MeaningCase{0x7ff, Status::io_error, true}));

ControllerFacts plain_controller() {
    ControllerFacts facts;
    facts.max_transfer_bytes = 1u << 20;
    facts.write_cache = true;
    facts.write_zeroes = true;
    facts.dataset_management = true;
    return facts;
}

wire::nvme::IdentifyNamespace plain_namespace(std::uint8_t shift = 9) {
    wire::nvme::IdentifyNamespace page;
    page.nsze = page.ncap = page.nuse = 1000;
    page.lbaf[0].data_shift = shift;
    return page;
}

TEST(NvmeNamespace, SizesAndLimits) {
    auto page = plain_namespace(12);
    page.nsfeat = wire::nvme::nsfeat::optimal_io;
    page.npwg = 3;   // 16 KiB
    page.nows = 15;  // 64 KiB
    page.npdg = 3;
    page.noiob = 32;
    page.nsattr = wire::nvme::nsattr_write_protected;
    const auto read = read_namespace(7, page, {}, plain_controller());
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->nsid, 7u);
    EXPECT_EQ(read->sectors, 8000u);
    EXPECT_TRUE(read->read_only);
    EXPECT_EQ(read->limits.logical_block_size, 4096u);
    EXPECT_EQ(read->limits.physical_block_size, 16384u);
    EXPECT_EQ(read->limits.io_min, 16384u);
    EXPECT_EQ(read->limits.io_opt, 65536u);
    EXPECT_EQ(read->limits.chunk_sectors, 256u);
    EXPECT_EQ(read->limits.max_sectors, 2048u);
    EXPECT_EQ(read->limits.discard_granularity, 16384u);
    EXPECT_TRUE(read->limits.write_cache);
    EXPECT_TRUE(read->limits.fua);
    EXPECT_GT(read->limits.max_discard_sectors, 0u);
}

TEST(NvmeNamespace, WithoutLimitDataIsHeldToWhatAnyTargetCanTake) {
    ControllerFacts controller = plain_controller();
    controller.max_transfer_bytes = 0;
    for (const std::uint8_t shift : {9, 12}) {
        const auto read = read_namespace(1, plain_namespace(shift), {}, controller);
        ASSERT_TRUE(read);
        EXPECT_EQ(read->limits.max_sectors, 2048u);
        EXPECT_EQ(read->limits.max_write_zeroes_sectors, 65536u << (shift - 9)) << "carries no data";
    }
}

TEST(NvmeNamespace, ChangesAreTold) {
    const auto with = [](std::uint32_t nsid, std::uint64_t sectors) {
        NamespaceFacts facts;
        facts.nsid = nsid;
        facts.sectors = sectors;
        return facts;
    };
    const NamespaceMap before{{1, with(1, 8)}, {2, with(2, 8)}, {4, with(4, 8)}, {5, with(5, 8)}, {6, with(6, 8)}};
    NamespaceMap after{{1, with(1, 8)}, {4, with(4, 16)}, {5, with(5, 8)}, {6, with(6, 8)}, {7, with(7, 8)}};
    after[5].ids.uuid = "another";
    after[6].read_only = true;
    EXPECT_EQ(describe_changes(before, before), "");
    EXPECT_EQ(describe_changes(before, after),
              "2 is gone, 4 has 8192 bytes now, 5 is another disk now, "
              "6 is write-protected now, 7 is new");
    NamespaceMap many;
    for (std::uint32_t nsid = 1; nsid <= 1000; ++nsid) many.emplace(nsid, with(nsid, 8));
    EXPECT_EQ(describe_changes(many, {}),
              "1 is gone, 2 is gone, 3 is gone, 4 is gone, 5 is gone, 6 is gone, 7 is gone, 8 is gone, "
              "and 992 more changes");
}

TEST(NvmeNamespace, ReadsIds) {
    std::array<std::uint8_t, 64> list{};
    list[0] = wire::nvme::descriptor_type::uuid;
    list[1] = 16;
    for (std::uint8_t i = 0; i < 16; ++i) list[4u + i] = static_cast<std::uint8_t>(0x10 + i);
    auto page = plain_namespace();
    page.eui64[7] = 9;
    const auto read = read_namespace(1, page, list, plain_controller());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->ids.uuid, "10111213-1415-1617-1819-1a1b1c1d1e1f");
    EXPECT_EQ(read->ids.eui64, "0000000000000009");
    EXPECT_EQ(read->ids.nguid, "");
}

TEST(NvmeNamespace, RefusesWhatCannotBeUsed) {
    const auto refused = [](wire::nvme::IdentifyNamespace page, std::span<const std::uint8_t> list = {}) {
        const auto read = read_namespace(1, page, list, plain_controller());
        return read ? std::string() : read.error().message();
    };
    auto page = plain_namespace();
    page.ncap = 0;
    EXPECT_NE(refused(page).find("not active"), std::string::npos);
    for (const unsigned shift : {0u, 8u, 13u, 63u, 64u, 255u}) {
        EXPECT_NE(refused(plain_namespace(static_cast<std::uint8_t>(shift))), "") << shift;
    }
    page = plain_namespace();
    page.lbaf[0].metadata_bytes = 8;
    EXPECT_NE(refused(page).find("metadata"), std::string::npos);
    page = plain_namespace(12);
    page.nsze = ~0ull;
    EXPECT_NE(refused(page), "");
    const std::uint8_t broken[] = {wire::nvme::descriptor_type::uuid, 15, 0, 0, 1, 2, 3};
    EXPECT_NE(refused(plain_namespace(), broken), "");
    const std::uint8_t zoned[] = {wire::nvme::descriptor_type::csi, 1, 0, 0, 2};
    EXPECT_NE(refused(plain_namespace(), zoned).find("command set 2"), std::string::npos);
}

// Any page whatever gives limits that hold together, or a refusal.
TEST(NvmeNamespace, AnyPageIsSafe) {
    std::uint64_t state = 88172645463325252u;
    unsigned accepted = 0;
    for (int round = 0; round < 20000; ++round) {
        auto page = plain_namespace();
        std::array<std::uint8_t, 128> bytes;
        for (auto& byte : bytes) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            byte = static_cast<std::uint8_t>(state);
        }
        std::memcpy(static_cast<void*>(&page), bytes.data(), bytes.size());
        page.nsze = page.nsze.value() >> (state % 64);  // else hardly any can be addressed
        for (auto& format : page.lbaf) format.data_shift = static_cast<std::uint8_t>(9 + state % 5);
        ControllerFacts controller = plain_controller();
        controller.max_transfer_bytes = state % 3 == 0 ? 0 : std::uint64_t{4096} << (state % 20);
        controller.discard_blocks = state % 7 == 0 ? 0 : state;
        const auto read = read_namespace(1, page, {}, controller);
        if (!read) continue;
        ++accepted;
        EXPECT_TRUE(read->limits.validate()) << round;
    }
    EXPECT_GT(accepted, 100u);
}

TEST(NvmeController, ReadsLimits) {
    wire::nvme::IdentifyController page;
    page.cntlid = 3;
    page.kas = 10;
    page.sqes = 0x66;
    page.cqes = 0x44;
    page.sgls = wire::nvme::sgls_supported | wire::nvme::sgls_in_capsule_offset;
    page.ioccsz = 1028;
    page.iorcsz = 1;
    page.mdts = 8;
    wire::nvme::set_text(page.mn, "a\x1bmodel", ' ');
    ControllerExpectation expected;
    expected.controller_id = 3;
    const auto read = read_controller(page, expected);
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->max_transfer_bytes, 1u << 20);
    EXPECT_EQ(read->in_capsule_bytes, 16384u);
    EXPECT_EQ(read->model, "a?model") << "control characters reach no terminal";
    page.mdts = 255;
    EXPECT_EQ(read_controller(page, expected)->max_transfer_bytes, 0u);
    page.ioccsz = 0xffffffff;
    EXPECT_LE(read_controller(page, expected)->in_capsule_bytes, 1u << 20);
    page.sgls = wire::nvme::sgls_supported;
    EXPECT_EQ(read_controller(page, expected)->in_capsule_bytes, 0u);
}

TEST(NvmeCommandIds, TagAndGenerationSurvive) {
    for (const unsigned depth : {1u, 128u, 4096u, 4097u, 65535u}) {
        const CommandIds ids(depth);
        std::set<std::uint16_t> seen;
        for (const std::uint32_t tag : {0u, 1u, depth / 2, depth - 1}) {
            if (tag >= depth) continue;
            for (const std::uint16_t generation : {0, 1, 2, 15, 16, 65535}) {
                const std::uint16_t id = ids.make(tag, generation);
                EXPECT_EQ(ids.tag(id), tag) << depth;
                EXPECT_EQ(ids.generation(id), generation & ids.generation_mask()) << depth;
            }
        }
    }
    EXPECT_EQ(CommandIds(128).make(5, 3), 0x3005) << "as Linux makes them";
}

TEST(NvmeHostIdentity, IsStableAndValid) {
    const auto first = host_identity("", ""), second = host_identity("", "");
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->nqn, second->nqn);
    EXPECT_EQ(first->id, second->id);
    EXPECT_TRUE(first->nqn.starts_with("nqn.2014-08.org.nvmexpress:uuid:"));
    EXPECT_NE(host_identity("nqn.a", "")->id, host_identity("nqn.b", "")->id);
    const auto given = host_identity("nqn.a", "01020304-0506-0708-090A-0b0c0d0e0f10");
    ASSERT_TRUE(given);
    for (std::uint8_t i = 0; i < 16; ++i) EXPECT_EQ(given->id[i], i + 1);
    for (const char* bad : {"x", "01020304-0506-0708-090a-0b0c0d0e0f1", "0102030405060708090a0b0c0d0e0f10----",
                            "g1020304-0506-0708-090a-0b0c0d0e0f10"}) {
        EXPECT_FALSE(host_identity("nqn.a", bad)) << bad;
    }
    EXPECT_TRUE(check_nqn("NQN", std::string(223, 'n')));
    EXPECT_FALSE(check_nqn("NQN", std::string(224, 'n')));
    EXPECT_FALSE(check_nqn("NQN", ""));
    EXPECT_FALSE(check_nqn("NQN", "a b"));
}

}  // namespace
}  // namespace mqblk::driver::nvme
