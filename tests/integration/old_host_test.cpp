// SPDX-License-Identifier: Apache-2.0
//
// Hosts of earlier days, whose ways a target must put up with.
#include "scripted_session.h"

namespace mqblk::test {
namespace {

using namespace wire;
using namespace wire::nvme_tcp;
namespace io_opcode = wire::nvme::io_opcode;

class OldHost : public testing::TestWithParam<Digests> {};

// A host that never heard of MAXH2CDATA answers an R2T with one PDU (Linux before 5.18).
TEST_P(OldHost, EveryR2TFitsOnePdu) {
    for (const std::uint32_t limit : {4096u, 65536u, device::nvme::TcpTarget::Options{}.max_h2c_data_bytes}) {
        ServedOptions options;
        options.tcp.max_h2c_data_bytes = limit;
        Served served(options);
        for (const std::uint32_t max_r2t : {0u, 3u}) {
            Session session(served, GetParam(), max_r2t);
            const std::uint32_t bytes = 1u << 20;
            const Bytes data = pattern_of(bytes, limit + max_r2t);
            ASSERT_TRUE(session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::write, 9, 0, bytes / 512))));
            for (std::uint32_t sent = 0; sent < bytes;) {
                const auto r2t = session.io->expect<R2T>();
                ASSERT_TRUE(r2t) << "after " << sent << " bytes, MAXH2CDATA " << limit;
                ASSERT_LE(r2t->r2tl, limit);
                const auto piece = std::span(data).subspan(r2t->r2to, r2t->r2tl);
                ASSERT_TRUE(session.io->send(session.io->h2c_data(9, r2t->ttag, r2t->r2to, piece, true)));
                sent += r2t->r2tl;
            }
            const auto response = session.io->expect<CapsuleResp>();
            ASSERT_TRUE(response && nvme::status_of(response->completion) == 0);
            EXPECT_TRUE(session.read(0, bytes) == data);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Digests, OldHost, testing::ValuesIn(all_digests), [](const auto& test) {
    return std::string(test.param.header ? "Header" : "No") + (test.param.data ? "Data" : "None");
});

}  // namespace
}  // namespace mqblk::test
