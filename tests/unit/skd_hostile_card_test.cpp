// SPDX-License-Identifier: Apache-2.0
//
// The S1120 driver on a card that lies: registers that say anything, writes that get lost, completions that nobody
// asked for, interrupts for nothing. Whatever it does, each request ends once, and so does the driver.
#include "base/random.h"
#include "device/skd/card.h"
#include "driver/ram/ram.h"
#include "driver/skd/skd.h"
#include "pci/in_process.h"
#include "reactor/simulated.h"
#include "support/skd_disk.h"
#include "unit/disk_exerciser.h"
#include "wire/skd.h"

#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <optional>
#include <utility>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
namespace reg = wire::skd::reg;

/// How often it lies, in a thousand accesses; and how many completions it makes up in a second.
struct Lies {
    unsigned reads = 0, writes = 0, completions = 0, interrupts = 0;
};

class LyingCard final : public pci::Model {
  public:
    LyingCard(std::unique_ptr<device::skd::Card> card, std::uint64_t seed, const Lies& lies)
        : card_(std::move(card)), random_(seed), lies_(lies), timer_([this] { lie(); }) {}

    const pci::FunctionSpec& spec() const noexcept override { return card_->spec(); }
    Result<> attach(pci::Host& host) override {
        host_ = &host;
        timer_.arm(host.reactor(), host.reactor().now() + step);
        return card_->attach(host);
    }
    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        const std::uint64_t truth = card_->bar_read(bar, offset, bytes);
        if (random_.below(1000) >= lies_.reads) return truth;
        constexpr std::uint64_t favourites[] = {0, 1, 3, 5, 8, 0xff, 0xffffffff, 0x01100000, 0x02000000, 0x0500ffff};
        const std::uint64_t lie =
            random_.below(2) == 0 ? favourites[random_.below(std::size(favourites))] : random_.next();
        return bytes == 8 ? lie : lie & ((1ull << (8 * bytes)) - 1);
    }
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override {
        if (offset == reg::msg_to_device_arg) ring_ = value;
        if (random_.below(1000) >= lies_.writes) card_->bar_write(bar, offset, bytes, value);
    }
    void reset() noexcept override { card_->reset(); }
    bool quiet() const noexcept override { return card_->quiet(); }
    void interrupts_changed() noexcept override { card_->interrupts_changed(); }

  private:
    static constexpr Duration step = 1ms;
    static constexpr unsigned steps_a_second = 1000;

    void lie() {
        for (unsigned i = 0; i < lies_.completions / steps_a_second; ++i) {
            const wire::skd::CompletionEntry entry{
                .returned_bytes = static_cast<std::uint32_t>(random_.next()),
                .tag = static_cast<std::uint16_t>(random_.below(100) | random_.below(8) << 10),
                .status = static_cast<std::uint8_t>(random_.below(2) == 0 ? 2 : random_.next()),
                .cycle = static_cast<std::uint8_t>(1 + random_.below(3))};
            const std::uint64_t place =
                ring_ + wire::skd::completion_offset(static_cast<unsigned>(random_.below(wire::skd::completion_depth)));
            if (ring_ != 0) static_cast<void>(host_->memory().publish(place, std::bit_cast<std::uint64_t>(entry)));
        }
        for (unsigned i = 0; i < lies_.interrupts / steps_a_second; ++i)
            host_->raise(static_cast<unsigned>(random_.below(std::max(1u, host_->interrupt_vectors()))));
        timer_.arm(host_->reactor(), host_->reactor().now() + step);
    }

    std::unique_ptr<device::skd::Card> card_;
    SeededRandom random_;
    const Lies& lies_;
    pci::Host* host_ = nullptr;
    std::uint64_t ring_ = 0;
    Timer timer_;
};

void run_with_lies(std::uint64_t seed, const Lies& given, driver::skd::IsrType type) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Lies lies = given;
    SimulatedWorld world(seed);
    const auto reactor = world.make_reactor();
    device::skd::Options timed;
    timed.profile = device::skd::Profile::s1120;  // so that there is time for lies
    auto card = device::skd::Card::create(driver::ram::open({.bytes = 4 << 20, .disk = {}}).value(), timed).value();
    // Only what the driver maps is in reach of a card that may use it too late.
    auto function = pci::make_in_process(std::make_unique<LyingCard>(std::move(card), seed, lies), *reactor,
                                         {.reaches_everything = false})
                        .value();
    driver::skd::Options options;
    options.isr_type = type;
    auto opened = driver::skd::open(std::move(function), reactor->shareable(), options);
    if (!opened) {
        EXPECT_FALSE(opened.error().message().empty());
        return;
    }
    std::optional<DiskUser> user(std::in_place, *opened, *reactor);
    for (unsigned round = 0; round < 40; ++round) {
        SkdFlight flight(user->channel(), round % 2 == 0 ? Op::write : Op::read, 0, 100);
        flight.submit();
        // Restarts that lead nowhere have bounds: 16 of them, of 4 minutes each, or a card that is busy for 20.
        ASSERT_TRUE(world.run_until(
            [&] {
                user->channel().poll();
                return flight.done();
            },
            2h));
        ASSERT_EQ(flight.ended(), 100u);
    }
    user.reset();
    opened = fail(Errc::closed, "closed");
}

/// Its firmware is another one when `updated`.
class UpdatedCard final : public pci::Model {
  public:
    UpdatedCard(std::unique_ptr<device::skd::Card> card, const bool& updated)
        : card_(std::move(card)), updated_(updated) {}

    const pci::FunctionSpec& spec() const noexcept override { return card_->spec(); }
    Result<> attach(pci::Host& host) override { return card_->attach(host); }
    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        const auto word = static_cast<std::uint32_t>(card_->bar_read(bar, offset, bytes));
        using enum wire::skd::MessageType;
        const bool asked = offset == reg::msg_from_device && wire::skd::message_type(word) == fitfw_init;
        return asked && updated_ ? wire::skd::make_message(fitfw_init, 0, 0x20) : word;
    }
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override {
        card_->bar_write(bar, offset, bytes, value);
    }
    void reset() noexcept override { card_->reset(); }
    bool quiet() const noexcept override { return card_->quiet(); }
    void interrupts_changed() noexcept override { card_->interrupts_changed(); }

  private:
    std::unique_ptr<device::skd::Card> card_;
    const bool& updated_;
};

TEST(SkdHostileCard, AProtocolThatIsAnotherAfterAResetFailsWhatWasOutstanding) {
    bool updated = false;
    SimulatedWorld world(1);
    const auto reactor = world.make_reactor();
    auto card = device::skd::Card::create(driver::ram::open({.bytes = 4 << 20, .disk = {}}).value(), {}).value();
    device::skd::Card& below = *card;
    auto function = pci::make_in_process(std::make_unique<UpdatedCard>(std::move(card), updated), *reactor).value();
    auto opened = driver::skd::open(std::move(function), reactor->shareable(), {});
    ASSERT_TRUE(opened) << opened.error().message();
    DiskUser user(*opened, *reactor);
    below.inject({.kind = device::skd::FaultKind::lost_completion, .count = 0});
    updated = true;
    SkdFlight flight(user.channel(), Op::read, 0, 50);
    flight.submit();
    ASSERT_TRUE(world.run_until(
        [&] {
            user.channel().poll();
            return flight.done();
        },
        1min));
    EXPECT_EQ(flight.with(Status::io_error), 50u);
}

TEST(SkdHostileCard, CompletionsThatNobodyAskedFor) {
    for (std::uint64_t seed = 1; seed <= 15; ++seed)
        run_with_lies(seed, {.completions = 4000}, driver::skd::IsrType::msix);
}

TEST(SkdHostileCard, RegistersThatSayAnything) {
    for (std::uint64_t seed = 1; seed <= 15; ++seed) {
        run_with_lies(seed, {.reads = 5}, driver::skd::IsrType::msix);
        run_with_lies(seed, {.reads = 20}, driver::skd::IsrType::legacy);
    }
}

TEST(SkdHostileCard, WritesThatGetLostAndInterruptsForNothing) {
    for (std::uint64_t seed = 1; seed <= 15; ++seed)
        run_with_lies(seed, {.writes = 5, .interrupts = 1000}, static_cast<driver::skd::IsrType>(seed % 3));
}

TEST(SkdHostileCard, AllAtOnce) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed)
        run_with_lies(seed, {.reads = 2, .writes = 2, .completions = 400, .interrupts = 200},
                      static_cast<driver::skd::IsrType>(seed % 3));
}

}  // namespace
}  // namespace mqblk::test
