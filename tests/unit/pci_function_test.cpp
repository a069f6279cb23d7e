// SPDX-License-Identifier: Apache-2.0
//
// What every Function does, whichever way it is had: one suite on each.
#include "pci/dma_transfer.h"
#include "unit/pci_worlds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <numeric>
#include <vector>

namespace mqblk::test {
namespace {

namespace cd = copy_device;
using pci::InterruptType;

class PciFunction : public testing::TestWithParam<PciWay> {
  protected:
    void SetUp() override { world_ = GetParam().make(); }
    pci::Function& function() { return world_->function(); }
    pci::Bar bar() { return function().bar(2).value(); }

    /// A ring of 16 and a page to copy from and to.
    struct Driver {
        pci::DmaMemory ring, data, done;
        std::uint32_t tail = 0;
        std::uint32_t completed() const {
            return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(done.data()))
                .load(std::memory_order_acquire);
        }
    };
    Driver start() {
        Driver driver;
        driver.ring = function().dma().allocate(4096).value();
        driver.data = function().dma().allocate(64 << 10).value();
        driver.done = function().dma().allocate(4096, pci::AddressLimit::below_4g).value();
        function().set_bus_master(true);
        bar().write64(cd::ring_address, driver.ring.address());
        bar().write32(cd::ring_entries, 16);
        bar().write64(cd::done_address, driver.done.address());
        return driver;
    }
    static void put(Driver& driver, std::uint64_t from, std::uint64_t to, std::uint32_t bytes, std::uint32_t vector) {
        const cd::Descriptor command{from, to, bytes, vector};
        std::memcpy(driver.ring.data() + sizeof command * (driver.tail++ % 16), &command, sizeof command);
    }
    bool wait_for(const Driver& driver) {
        return world_->run_until([&] { return driver.completed() == driver.tail; });
    }

    std::unique_ptr<PciWorld> world_;
};

TEST_P(PciFunction, SaysWhoItIs) {
    const pci::FunctionId id = pci::read_id(function());
    EXPECT_EQ(id.vendor, 0x1b39);
    EXPECT_EQ(id.device, 0x7e57);
    EXPECT_EQ(id.subsystem_device, 2);
    EXPECT_EQ(id.class_code, 0x018000u);
    EXPECT_EQ(id.revision, 3);
    EXPECT_FALSE(function().name().empty());
}

TEST_P(PciFunction, CapabilitiesAreFoundByWalking) {
    for (const std::uint8_t id : {pci::cap::power_management, pci::cap::msi, pci::cap::pci_express, pci::cap::msix}) {
        const auto offset = pci::find_capability(function(), id);
        ASSERT_TRUE(offset) << int{id};
        EXPECT_EQ(function().config_read(*offset, 1), id);
        EXPECT_FALSE(pci::find_capability(function(), id, *offset));
    }
    EXPECT_FALSE(pci::find_capability(function(), 0x42));
    const unsigned msix = *pci::find_capability(function(), pci::cap::msix);
    EXPECT_EQ(function().config_read(msix + pci::cap::msix_control, 2) & 0x7ff, cd::vectors - 1);
    EXPECT_EQ(function().config_read(msix + pci::cap::msix_table, 4), cd::table | 2);
}

TEST_P(PciFunction, BusMasteringIsOffUntilTurnedOn) {
    EXPECT_EQ(function().config_read(pci::reg::command, 2) & pci::command::bus_master, 0u);
    function().set_bus_master(true);
    EXPECT_NE(function().config_read(pci::reg::command, 2) & pci::command::bus_master, 0u);
    function().set_bus_master(false);
    EXPECT_EQ(function().config_read(pci::reg::command, 2) & pci::command::bus_master, 0u);
}

TEST_P(PciFunction, ConfigurationSpaceKeepsWhatCannotBeWritten) {
    function().config_write(pci::reg::vendor_id, 4, 0);
    EXPECT_EQ(function().config_read(pci::reg::vendor_id, 4), 0x7e571b39u);
    EXPECT_EQ(function().config_read(0x1000, 4), 0xffffffffu);
}

TEST_P(PciFunction, RegistersOfEveryWidth) {
    const pci::Bar b = bar();
    EXPECT_EQ(b.size(), 0x4000u);
    b.write64(cd::scratch, 0x0123456789abcdef);
    EXPECT_EQ(b.read64(cd::scratch), 0x0123456789abcdefu);
    EXPECT_EQ(b.read32(cd::scratch + 4), 0x01234567u);
    EXPECT_EQ(b.read16(cd::scratch + 2), 0x89abu);
    EXPECT_EQ(b.read8(cd::scratch + 7), 0x01u);
    b.write8(cd::scratch + 1, 0x55);
    b.write16(cd::scratch + 2, 0xaaaa);
    b.write32(cd::scratch + 4, 0x76543210);
    EXPECT_EQ(b.read64(cd::scratch), 0x76543210aaaa55efu);
    EXPECT_EQ(b.read32(cd::magic), cd::magic_value);
    EXPECT_EQ(b.read32(0x4000), 0xffffffffu);
    b.write32(0x4000, 1);
    EXPECT_EQ(b.read64(~std::uint64_t{7}), ~std::uint64_t{0});
}

TEST_P(PciFunction, ABarThatIsNotThereIsNamed) {
    for (const unsigned index : {1u, 3u, 5u, 6u, 77u}) {
        const auto none = function().bar(index);
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().code(), Errc::not_found);
        EXPECT_NE(none.error().message().find("BAR " + std::to_string(index)), std::string::npos);
        EXPECT_NE(none.error().message().find(function().name()), std::string::npos);
    }
    EXPECT_TRUE(function().bar(0));
}

TEST_P(PciFunction, CopiesThroughItsRing) {
    Driver driver = start();
    std::iota(reinterpret_cast<std::uint8_t*>(driver.data.data()),
              reinterpret_cast<std::uint8_t*>(driver.data.data()) + 5000, 1);
    for (unsigned i = 0; i < 40; ++i) {
        put(driver, driver.data.address(), driver.data.address(8192 + 5000 * (i % 10)), 5000, 0);
        bar().write32(cd::doorbell, driver.tail);
        ASSERT_TRUE(wait_for(driver)) << i;
    }
    for (unsigned i = 0; i < 10; ++i) {
        EXPECT_EQ(std::memcmp(driver.data.data(), driver.data.data() + 8192 + 5000 * i, 5000), 0) << i;
    }
    EXPECT_EQ(bar().read32(cd::failures), 0u);
}

TEST_P(PciFunction, TheDoorbellInItsAreaWorksMappedOrNot) {
    Driver driver = start();
    const pci::Bar doorbells = function().bar_at(2, cd::area).value();
    for (unsigned i = 0; i < 100; ++i) {
        put(driver, driver.data.address(), driver.data.address(4096), 64, 0);
        doorbells.write32(cd::area, driver.tail);
        ASSERT_TRUE(wait_for(driver)) << i;
    }
    EXPECT_EQ(doorbells.read32(cd::area), 100u);
    EXPECT_EQ(bar().read32(cd::magic), cd::magic_value) << "registers beside the area";
}

/// Where the model cannot reach all memory of the process.
class CheckedPciFunction : public PciFunction {};

TEST_P(CheckedPciFunction, AnAddressThatIsNotMappedIsRefused) {
    Driver driver = start();
    const std::uint64_t end = driver.data.address() + driver.data.size();
    unsigned failures = 0;
    for (const std::uint64_t wrong : {std::uint64_t{0}, end, end - 32, ~std::uint64_t{0}, ~std::uint64_t{0} - 63}) {
        put(driver, wrong, driver.data.address(), 64, 0);
        put(driver, driver.data.address(), wrong, 64, 0);
        bar().write32(cd::doorbell, driver.tail);
        ASSERT_TRUE(wait_for(driver));
        EXPECT_EQ(bar().read32(cd::failures), failures += 2) << wrong;
    }
    // What was mapped and is no more.
    auto other = function().dma().allocate(4096).value();
    const std::uint64_t gone = other.address();
    other = {};
    put(driver, gone, driver.data.address(), 64, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(wait_for(driver));
    EXPECT_EQ(bar().read32(cd::failures), failures + 1);
}

TEST_P(PciFunction, TranslatesAnIosMemory) {
    pci::DmaSpace& dma = function().dma();
    auto first = memory::Buffer::allocate(32 << 10, dma.backing()).value();
    auto second = memory::Buffer::allocate(32 << 10, dma.backing()).value();
    const auto m1 = dma.map(first).value();
    const auto m2 = dma.map(second).value();
    const std::vector<Segment> list{
        {first.data() + 512, 512}, {first.data() + 1024, 512},      {nullptr, 0},
        {second.data(), 4096},     {first.data() + 8192, 24 << 10}, {second.data() + 4096, 512}};
    std::array<pci::DmaSegment, 8> room;
    const auto pieces = dma.translate(list, room);
    ASSERT_TRUE(pieces);
    ASSERT_EQ(pieces->size(), 4u);
    EXPECT_EQ((*pieces)[0].address, m1.address() + 512);
    EXPECT_EQ((*pieces)[0].bytes, 1024u) << "neighbours are joined";
    EXPECT_EQ((*pieces)[1].address, m2.address());
    EXPECT_EQ((*pieces)[2].bytes, 24u << 10);
    EXPECT_EQ((*pieces)[3].address, m2.address() + 4096);
    EXPECT_FALSE(dma.translate(list, std::span(room).first(3))) << "room for too few";
    EXPECT_EQ(dma.address(first.data() + 5, 100), m1.address() + 5);

    std::array<std::byte, 64> elsewhere{};
    const std::vector<Segment> other{{first.data(), 512}, {elsewhere.data(), 64}};
    EXPECT_EQ(dma.translate(other, room).has_value(), dma.reaches_everything());
    EXPECT_EQ(dma.address(elsewhere.data(), 64).has_value(), dma.reaches_everything());
    EXPECT_EQ(dma.address(first.data() + first.size() - 1, 2).has_value(), dma.reaches_everything());
}

TEST_P(PciFunction, MemoryThatCannotBeReachedIsCopied) {
    pci::DmaSpace& dma = function().dma();
    const bool copied = !dma.reaches_everything();
    auto pool = pci::BouncePool::create(dma, 0, 10000).value();
    Driver driver = start();
    std::vector<std::byte> from(10000), to(10000);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 5);
    const std::vector<Segment> out{{from.data(), 100}, {from.data() + 100, 9900}};
    const std::vector<Segment> in{{to.data(), 7000}, {to.data() + 7000, 3000}};
    std::array<pci::DmaSegment, 2> room;
    pci::DmaTransfer write, read, other;

    auto pieces = write.begin(dma, *pool, out, true, room);
    ASSERT_TRUE(pieces);
    EXPECT_EQ(pieces->size(), 1u) << "joined or copied";
    EXPECT_EQ(write.copied(), copied);
    put(driver, (*pieces)[0].address, driver.data.address(), 10000, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(wait_for(driver));
    EXPECT_EQ(other.begin(dma, *pool, in, false, room).has_value(), !copied) << "the pool is empty";
    write.end(*pool, out, false);
    EXPECT_EQ(pool->used_bytes(), 0u);

    pieces = read.begin(dma, *pool, in, false, room);
    ASSERT_TRUE(pieces);
    put(driver, driver.data.address(), (*pieces)[0].address, 10000, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(wait_for(driver));
    read.end(*pool, in, true);
    EXPECT_EQ(from, to);
    EXPECT_EQ(bar().read32(cd::failures), 0u);

    // What can be reached is not copied.
    const std::vector<Segment> reachable{{driver.data.data(), 512}};
    ASSERT_TRUE(write.begin(dma, *pool, reachable, true, room));
    EXPECT_FALSE(write.copied());
    write.end(*pool, reachable, false);
}

TEST_P(PciFunction, MemoryBelow4GIsThereAndUsableByEitherName) {
    auto low = function().dma().allocate(8192, pci::AddressLimit::below_4g).value();
    EXPECT_LE(low.address() + low.size(), 1ull << 32);
    Driver driver = start();
    std::memset(driver.data.data(), 0x5a, 4096);
    put(driver, driver.data.address(), low.address(4096), 4096, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(wait_for(driver));
    EXPECT_EQ(low.data()[8191], std::byte{0x5a});
    EXPECT_EQ(bar().read32(cd::failures), 0u);
}

TEST_P(PciFunction, OnlyWholePagesAreMapped) {
    auto buffer = memory::Buffer::allocate(8192, function().dma().backing()).value();
    for (const auto& wrong : {buffer.span().subspan(1, 4096), buffer.span().first(4097), buffer.span().first(0)}) {
        const auto mapped = function().dma().map(wrong);
        ASSERT_FALSE(mapped);
        EXPECT_EQ(mapped.error().code(), Errc::invalid_argument);
    }
}

TEST_P(PciFunction, VectorsBeyondWhatItHasAreRefused) {
    EXPECT_EQ(function().interrupt_counts().intx, 1u);
    EXPECT_EQ(function().interrupt_counts().msi, 4u);
    EXPECT_EQ(function().interrupt_counts().msix, cd::vectors);
    EXPECT_FALSE(function().enable_interrupts(InterruptType::msix, cd::vectors + 1));
    EXPECT_FALSE(function().enable_interrupts(InterruptType::msi, 3));
    EXPECT_FALSE(function().enable_interrupts(InterruptType::msi, 8));
    EXPECT_FALSE(function().enable_interrupts(InterruptType::intx, 2));
    EXPECT_FALSE(function().enable_interrupts(InterruptType::intx, 0));
    EXPECT_TRUE(function().enable_interrupts(InterruptType::msix, 3));
    EXPECT_FALSE(function().interrupt(3, world_->reactor(), [] {}));
    EXPECT_TRUE(function().enable_interrupts(InterruptType::none, 0));
    EXPECT_FALSE(function().interrupt(0, world_->reactor(), [] {}));
}

TEST_P(PciFunction, EachVectorArrivesWhereItShould) {
    for (const auto& [type, count] : {std::pair{InterruptType::msix, cd::vectors}, {InterruptType::msi, 4u}}) {
        ASSERT_TRUE(function().enable_interrupts(type, count));
        std::array<unsigned, cd::vectors> raised{};
        std::vector<std::unique_ptr<pci::Interrupt>> vectors;
        for (unsigned i = 0; i < count; ++i) {
            auto made = function().interrupt(i, world_->reactor(), [&raised, i] { ++raised[i]; });
            ASSERT_TRUE(made) << made.error().message();
            vectors.push_back(std::move(*made));
            vectors.back()->arm();
        }
        for (unsigned i = 0; i < count; ++i) {
            bar().write32(cd::raise, i);
            ASSERT_TRUE(world_->run_until([&] { return raised[i] == 1; })) << i;
        }
        for (unsigned i = 0; i < count; ++i) EXPECT_EQ(raised[i], 1u);
        // Not armed: remembered, once, however often.
        bar().write32(cd::raise, 1);
        bar().write32(cd::raise, 1);
        bar().write32(cd::raise, 0);
        vectors[0]->arm();
        ASSERT_TRUE(world_->run_until([&] { return raised[0] == 2; }));
        EXPECT_EQ(raised[1], 1u);
        vectors[1]->arm();
        ASSERT_TRUE(world_->run_until([&] { return raised[1] == 2; }));
        vectors[1]->arm();
        vectors[0]->arm();
        bar().write32(cd::raise, 0);
        ASSERT_TRUE(world_->run_until([&] { return raised[0] == 3; }));
        EXPECT_EQ(raised[1], 2u);
    }
}

TEST_P(PciFunction, ThePinIsALevel) {
    Driver driver = start();
    ASSERT_TRUE(function().enable_interrupts(InterruptType::intx, 1));
    unsigned raised = 0;
    const auto pin = function().interrupt(0, world_->reactor(), [&] { ++raised; }).value();
    pin->arm();
    put(driver, driver.data.address(), driver.data.address(4096), 64, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(world_->run_until([&] { return raised == 1; }));
    EXPECT_EQ(bar().read32(cd::cause), 1u);
    pin->arm();  // the cause is still there: it comes again
    ASSERT_TRUE(world_->run_until([&] { return raised == 2; }));
    bar().write32(cd::cause, 1);
    pin->arm();
    put(driver, driver.data.address(), driver.data.address(4096), 64, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(world_->run_until([&] { return raised == 3; }));
}

TEST_P(PciFunction, AnInterruptMayEndInItsOwnCallback) {
    ASSERT_TRUE(function().enable_interrupts(InterruptType::msix, 1));
    std::unique_ptr<pci::Interrupt> vector;
    bool raised = false;
    vector = function()
                 .interrupt(0, world_->reactor(),
                            [&] {
                                vector.reset();
                                raised = true;
                            })
                 .value();
    vector->arm();
    bar().write32(cd::raise, 0);
    EXPECT_TRUE(world_->run_until([&] { return raised; }));
}

TEST_P(PciFunction, ResetIsPowerOnAndWaitsForTheDevice) {
    Driver driver = start();
    ASSERT_TRUE(function().enable_interrupts(InterruptType::msix, 2));
    put(driver, driver.data.address(), driver.data.address(4096), 64, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(wait_for(driver));
    bar().write64(cd::scratch, 77);
    const std::uint32_t before = bar().read32(cd::resets);
    world_->with_model([](CopyDevice& model) { model.busy_passes = 5; });
    const auto done = world_->reset();
    ASSERT_TRUE(done) << done.error().message();
    world_->with_model([](CopyDevice& model) { EXPECT_EQ(model.busy_passes, 0u); });
    EXPECT_EQ(bar().read32(cd::resets), before + 1);
    EXPECT_EQ(bar().read64(cd::scratch), 0u);
    EXPECT_EQ(function().bar_at(2, cd::area).value().read32(cd::area), 0u);
    EXPECT_EQ(function().config_read(pci::reg::command, 2) & pci::command::bus_master, 0u);

    // Mappings and vectors are still there.
    unsigned raised = 0;
    const auto vector = function().interrupt(1, world_->reactor(), [&] { ++raised; }).value();
    vector->arm();
    function().set_bus_master(true);
    bar().write64(cd::ring_address, driver.ring.address());
    bar().write32(cd::ring_entries, 16);
    bar().write64(cd::done_address, driver.done.address());
    driver.tail = 0;
    put(driver, driver.data.address(), driver.data.address(4096), 64, 1);
    bar().write32(cd::doorbell, driver.tail);
    EXPECT_TRUE(world_->run_until([&] { return raised == 1; }));
    EXPECT_EQ(driver.completed(), 1u);
}

TEST_P(PciFunction, ACardThatIsPulledOutReadsAsOnes) {
    Driver driver = start();
    std::atomic<unsigned> told{0};
    function().on_lost([&] { ++told; });
    EXPECT_FALSE(function().lost());
    bar().write32(cd::vanish, 1);
    ASSERT_TRUE(world_->run_until([&] { return function().lost(); }));
    ASSERT_TRUE(world_->run_until([&] { return told == 1; }));
    EXPECT_EQ(bar().read32(cd::magic), 0xffffffffu);
    EXPECT_EQ(bar().read64(cd::scratch), ~std::uint64_t{0});
    EXPECT_EQ(bar().read8(cd::scratch), 0xffu);
    EXPECT_EQ(function().config_read(pci::reg::vendor_id, 2), 0xffffu);
    EXPECT_EQ(pci::read_id(function()).vendor, 0xffff);
    EXPECT_FALSE(pci::find_capability(function(), pci::cap::msix));
    bar().write32(cd::doorbell, 1);
    function().set_bus_master(true);

    const auto early = function().reconnect(std::chrono::milliseconds(1));
    ASSERT_FALSE(early);
    EXPECT_TRUE(function().lost());
    world_->with_model([](CopyDevice& model) { model.host().set_gone(false); });
    EXPECT_TRUE(function().lost()) << "until it is got back";
    const auto back = function().reconnect(std::chrono::seconds(30));
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_FALSE(function().lost());
    EXPECT_EQ(bar().read32(cd::magic), cd::magic_value);
    function().set_bus_master(true);
    bar().write64(cd::ring_address, driver.ring.address());
    bar().write32(cd::ring_entries, 16);
    bar().write64(cd::done_address, driver.done.address());
    put(driver, driver.data.address(), driver.data.address(4096), 64, 0);
    bar().write32(cd::doorbell, driver.tail);
    ASSERT_TRUE(wait_for(driver)) << "memory is mapped as before";
    EXPECT_EQ(told, 1u);
}

INSTANTIATE_TEST_SUITE_P(Ways, PciFunction, testing::ValuesIn(pci_ways), name_of);

std::vector<PciWay> checked_ways() {
    std::vector<PciWay> ways;
    std::ranges::copy_if(pci_ways, std::back_inserter(ways), &PciWay::checks_addresses);
    return ways;
}
INSTANTIATE_TEST_SUITE_P(Ways, CheckedPciFunction, testing::ValuesIn(checked_ways()), name_of);

}  // namespace
}  // namespace mqblk::test
