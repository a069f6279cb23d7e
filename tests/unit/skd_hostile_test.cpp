// SPDX-License-Identifier: Apache-2.0
//
// What a hostile host puts before the S1120 model: messages, lists and addresses that no driver would write. The answer
// is a status or a state; the card goes on, or waits for a reset.
#include "base/random.h"
#include "support/skd_host.h"

#include <functional>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using scsiw::SenseKey;
using skdw::DriveState;
using skdw::SgDescriptor;

class SkdHostile : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(host.start()); }

    void expect_sense(const SkdDone& done, SenseKey key, std::uint16_t code) {
        EXPECT_EQ(done.status, scsiw::Status::check_condition);
        ASSERT_TRUE(done.sense);
        EXPECT_EQ(done.sense->key, key);
        EXPECT_EQ(done.sense->code, code);
    }
    /// A READ of 8 blocks whose list is `descriptors`, which lies at the start of the lists' memory and may point
    /// anywhere in it.
    SkdDone run_list(const std::vector<SgDescriptor>& descriptors, std::uint64_t at = 0) {
        std::memcpy(host.lists().data() + at, descriptors.data(), descriptors.size() * sizeof(SgDescriptor));
        const std::uint64_t bell = host.prepare({{.cdb = scsiw::build_read(0, 8), .tag = 7, .said_bytes = 4096}});
        message(bell)->request[0].sg_list_address = host.lists().address(at);
        host.ring_doorbell(bell);
        const auto done = host.wait_next();
        if (!done) {
            ADD_FAILURE() << "no completion";
            return {};
        }
        return *done;
    }
    skdw::FitMessage* message(std::uint64_t bell) {
        const std::uint64_t at = skdw::decode_doorbell(bell).address - host.messages().address();
        return reinterpret_cast<skdw::FitMessage*>(host.messages().data() + at);
    }
    SgDescriptor piece(std::uint32_t bytes, std::uint64_t next, std::uint32_t control = skdw::sg_not_last) {
        return {.control = control,
                .bytes = bytes,
                .host_address = host.data_address(),
                .device_address = 0,
                .next_address = next};
    }
    bool works() { return host.run(scsiw::build_read(0, 8), 4096).status == scsiw::Status::good; }
    std::uint64_t list_at(std::size_t index) { return host.lists().address(index * sizeof(SgDescriptor)); }

    SkdHost host;
};

TEST_F(SkdHostile, ListsThatLoop) {
    expect_sense(run_list({piece(0, list_at(0))}), SenseKey::illegal_request, 0x2600);
    // Four bytes at a time it would take 1,024 descriptors, and two that point at each other give them all.
    EXPECT_EQ(run_list({piece(4, list_at(1)), piece(4, list_at(0))}).status, scsiw::Status::good);
    const std::uint64_t bell = host.prepare({{.cdb = scsiw::build_read(0, 2048), .tag = 7, .said_bytes = 1 << 20}});
    message(bell)->request[0].sg_list_address = list_at(0);
    host.ring_doorbell(bell);
    const auto done = host.wait_next();
    ASSERT_TRUE(done);
    expect_sense(*done, SenseKey::illegal_request, 0x2600);
    EXPECT_TRUE(works());
}

TEST_F(SkdHostile, LongListsInAllDoorbellsLeaveOthersATurn) {
    const SgDescriptor descriptors[] = {piece(4, list_at(1)), piece(4, list_at(0))};
    std::memcpy(host.lists().data(), descriptors, sizeof descriptors);
    const std::vector<SkdRequest> requests(14, {.cdb = scsiw::build_read(0, 2048), .said_bytes = 1 << 20});
    const std::uint64_t bell = host.prepare(requests);
    for (auto& request : message(bell)->request) request.sg_list_address = list_at(0);
    const auto& counters = host.card().counters();
    const std::uint64_t before = counters.commands;
    for (unsigned i = 0; i < 256; ++i) host.ring_doorbell(bell);
    host.reactor().run_once(Reactor::Sleep::no);
    EXPECT_GE(counters.commands - before, 14u);
    EXPECT_LE(counters.commands - before, 2 * 14u) << "8,192 descriptors, and what is left of a message";
    host.run_until([&] { return counters.commands - before == 256u * 14; });
    EXPECT_EQ(counters.commands - before, 256u * 14);
    EXPECT_EQ(host.card().in_flight(), 0u);
    EXPECT_EQ(counters.overruns, 0u);
}

TEST_F(SkdHostile, ListsThatAreWrong) {
    const auto last = skdw::sg_last;
    expect_sense(run_list({piece(4096, 0, 0x123)}), SenseKey::illegal_request, 0x2600);
    expect_sense(run_list({piece(4095, 0, last)}), SenseKey::illegal_request, 0x2600);
    expect_sense(run_list({piece(0, 0, last)}), SenseKey::illegal_request, 0x2600);
    expect_sense(run_list({piece(2048, 0, last)}), SenseKey::aborted_command, 0x4b00);
    expect_sense(run_list({piece(2048, 1)}), SenseKey::illegal_request, 0x2600);
    expect_sense(run_list({piece(2048, 0)}), SenseKey::aborted_command, 0x4b00);
    expect_sense(run_list({piece(2048, ~std::uint64_t{31})}), SenseKey::aborted_command, 0x4b00);
    SgDescriptor misaligned = piece(4096, 0, last);
    misaligned.host_address = host.data_address() + 2;
    expect_sense(run_list({misaligned}), SenseKey::illegal_request, 0x2600);
    // A list that ends where its memory ends, with more to come.
    const std::size_t end = host.lists().size() / sizeof(SgDescriptor);
    expect_sense(run_list({piece(2048, list_at(end))}, (end - 1) * sizeof(SgDescriptor)), SenseKey::aborted_command,
                 0x4b00);
    // More than is wanted is no harm.
    EXPECT_EQ(run_list({piece(0x10000, 0, last)}).bytes, 4096u);
    EXPECT_TRUE(works());
}

TEST_F(SkdHostile, DataWhereThereIsNoMemory) {
    for (const std::uint64_t address :
         {std::uint64_t{0}, std::uint64_t{4}, ~std::uint64_t{0} - 4095, host.data_address() - 2048,
          host.data_address() + SkdHost::data_bytes - 2048, std::uint64_t{1} << 52}) {
        SgDescriptor wrong = piece(4096, 0, skdw::sg_last);
        wrong.host_address = address;
        expect_sense(run_list({wrong}), SenseKey::aborted_command, 0x4b00);
        const SkdRequest write{.cdb = scsiw::build_write(0, 8), .data = {{address, 4096}}};
        expect_sense(host.run(write), SenseKey::aborted_command, 0x4b00);
    }
    EXPECT_TRUE(works());
}

TEST_F(SkdHostile, LengthsThatDisagree) {
    // The list says more than the CDB: the CDB counts. Less: what there is, in whole blocks.
    SkdRequest read{.cdb = scsiw::build_read(0, 8), .data = {{host.data_address(), 8192}}};
    EXPECT_EQ(host.run(read).bytes, 4096u);
    read.said_bytes = 0xfffffffc;
    EXPECT_EQ(host.run(read).bytes, 4096u);
    read.said_bytes = 1000;
    EXPECT_EQ(host.run(read).bytes, 512u);
    read.said_bytes = 0;
    EXPECT_EQ(host.run(read).bytes, 0u);
    read.cdb = scsiw::build_read(0, 65535);
    expect_sense(host.run(read), SenseKey::illegal_request, 0x2400);
    EXPECT_TRUE(works());
}

TEST_F(SkdHostile, MessagesThatAreWrong) {
    const std::function<void(skdw::FitMessage&)> wrongs[] = {
        [](skdw::FitMessage& m) { m.header.protocol_id = 1; },
        [](skdw::FitMessage& m) { m.header.requests = 3; },  // beyond the 128 bytes that the doorbell names
        [](skdw::FitMessage& m) { m.header.requests = 255; },
    };
    for (const auto& spoil : wrongs) {
        const std::uint64_t bell = host.prepare(
            {{.cdb = scsiw::build_test_unit_ready(), .tag = 1}, {.cdb = scsiw::build_test_unit_ready(), .tag = 2}});
        spoil(*message(bell));
        host.ring_doorbell(bell);
        for (int i = 0; i < 2; ++i) {
            const auto done = host.wait_next();
            ASSERT_TRUE(done);
            expect_sense(*done, SenseKey::illegal_request, 0x2400);
        }
        EXPECT_FALSE(host.wait_next(100ms));
    }
    const std::uint64_t none = host.prepare({{.cdb = scsiw::build_test_unit_ready(), .tag = 1}});
    message(none)->header.requests = 0;
    host.ring_doorbell(none);
    EXPECT_FALSE(host.wait_next(100ms));
    host.ring_doorbell(0);  // FLUSH_QUEUE
    host.ring_doorbell(4);
    const std::uint64_t other_queue = host.prepare({{.cdb = scsiw::build_test_unit_ready(), .tag = 1}}) | 2u << 1;
    host.ring_doorbell(other_queue);
    const auto done = host.wait_next();
    ASSERT_TRUE(done);
    expect_sense(*done, SenseKey::illegal_request, 0x2400);
    SkdRequest long_cdb{.cdb = scsiw::build_test_unit_ready(), .tag = 9};
    const std::uint64_t bell = host.prepare({long_cdb});
    message(bell)->request[0].additional_cdb_words = 4;
    host.ring_doorbell(bell);
    expect_sense(host.wait_next().value(), SenseKey::illegal_request, 0x2400);
    EXPECT_TRUE(works());
}

TEST_F(SkdHostile, AMessageWhereThereIsNoMemoryIsAFault) {
    for (const std::uint64_t address :
         {std::uint64_t{64}, ~std::uint64_t{63}, host.messages().address() + host.messages().size() - 64}) {
        host.ring_doorbell(skdw::encode({.address = address, .bytes = 512}));
        ASSERT_TRUE(host.wait_state(DriveState::fault));
        host.soft_reset();
        ASSERT_TRUE(host.handshake());
        EXPECT_TRUE(works());
    }
}

TEST_F(SkdHostile, ARingWhereThereIsNoMemoryIsAFault) {
    host.write64(skdw::reg::msg_to_device_arg, 0x1000);
    EXPECT_NE(host.mailbox(skdw::make_message(skdw::MessageType::set_compq_addr)), 0u);
    host.send({{.cdb = scsiw::build_test_unit_ready(), .tag = 1}});
    ASSERT_TRUE(host.wait_state(DriveState::fault));
    host.soft_reset();
    ASSERT_TRUE(host.handshake());
    // A ring that would wrap around the address space is none.
    host.write64(skdw::reg::msg_to_device_arg, ~std::uint64_t{0} - 63);
    EXPECT_EQ(host.mailbox(skdw::make_message(skdw::MessageType::set_compq_addr)), 0u);
}

TEST_F(SkdHostile, MemoryThatGoesAwayWhileItIsUsed) {
    // The list's memory goes between the doorbell and the walk.
    auto lists = host.function().dma().allocate(4096).value();
    const SgDescriptor descriptor = piece(4096, 0, skdw::sg_last);
    std::memcpy(lists.data(), &descriptor, sizeof descriptor);
    const std::uint64_t bell = host.prepare({{.cdb = scsiw::build_read(0, 8), .tag = 7, .said_bytes = 4096}});
    message(bell)->request[0].sg_list_address = lists.address();
    host.ring_doorbell(bell);
    lists = {};
    expect_sense(host.wait_next().value(), SenseKey::aborted_command, 0x4b00);
    EXPECT_TRUE(works());
}

TEST_F(SkdHostile, AnyRegisterInAnyWidth) {
    SeededRandom random(3);
    for (int i = 0; i < 20000; ++i) {
        const unsigned shift = static_cast<unsigned>(random.below(4));
        const std::uint64_t offset = random.below(host.bar().size() >> shift) << shift;
        const std::uint64_t value = random.below(4) == 0 ? random.next() : random.below(0x800);
        switch (shift) {
            case 0:
                host.bar().write8(offset, static_cast<std::uint8_t>(value));
                (void)host.bar().read8(offset);
                break;
            case 1:
                host.bar().write16(offset, static_cast<std::uint16_t>(value));
                (void)host.bar().read16(offset);
                break;
            case 2:
                host.write(static_cast<unsigned>(offset), static_cast<std::uint32_t>(value));
                (void)host.bar().read32(offset);
                break;
            default:
                host.write64(static_cast<unsigned>(offset), value);
                (void)host.bar().read64(offset);
                break;
        }
        if (i % 64 == 0) host.run_for(1ms);
    }
    host.write(skdw::reg::control, skdw::control_hard_reset);
    host.run_for(1s);
    ASSERT_TRUE(host.start());
    EXPECT_TRUE(works());
}

}  // namespace
}  // namespace mqblk::test
