// SPDX-License-Identifier: Apache-2.0
//
// Firmware that is not what it was: its state goes round in circles, or after a reset another disk answers in the place
// of one that is open. The driver comes to an end of the first, and writes nothing to the second.
#include "driver/megaraid/megaraid.h"
#include "support/megaraid_world.h"
#include "unit/disk_exerciser.h"
#include "wire/megaraid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace mqblk::driver::megaraid {
namespace {

using test::DiskUser;
using test::MegaraidWorld;
using test::MegaraidWorldOptions;
using namespace std::chrono_literals;
namespace mrw = wire::megaraid;

constexpr std::size_t unsteady_io_bytes = 4096;

/// While `turning`, another state at every read; the low bits too.
class TurningState final : public test::OtherSpec {
  public:
    TurningState(std::unique_ptr<pci::Model> model, std::vector<mrw::State> states, const std::atomic<bool>& turning)
        : TurningState(model->spec(), std::move(model), std::move(states), turning) {}
    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        if (offset != mrw::reg::scratch_pad || !turning_) return OtherSpec::bar_read(bar, offset, bytes);
        const auto count = reads_++;
        return static_cast<std::uint32_t>(states_[count % states_.size()]) << 28 | (count & 0xff);
    }

  private:
    TurningState(const pci::FunctionSpec& spec, std::unique_ptr<pci::Model>&& model, std::vector<mrw::State> states,
                 const std::atomic<bool>& turning)
        : OtherSpec(std::move(model), spec), states_(std::move(states)), turning_(turning) {}
    const std::vector<mrw::State> states_;
    const std::atomic<bool>& turning_;
    std::uint32_t reads_ = 0;
};

MegaraidWorldOptions turning_world(std::vector<mrw::State> states, const std::atomic<bool>& turning) {
    MegaraidWorldOptions options{.jbods = 1};
    options.wrap = [states = std::move(states), &turning](std::unique_ptr<pci::Model> model) {
        return std::make_unique<TurningState>(std::move(model), states, turning);
    };
    return options;
}

TEST(MegaraidUnsteady, AStateThatChangesWithoutEndIsASentence) {
    using enum mrw::State;
    const std::atomic<bool> turning{true};
    for (const auto& states : {std::vector{fw_init, device_scan}, std::vector{operational, flush_cache, fw_init_2},
                               std::vector{wait_handshake, boot_message_pending}}) {
        MegaraidWorld world(turning_world(states, turning));
        const auto started = world.start();
        ASSERT_FALSE(started);
        EXPECT_EQ(started.error().code(), Errc::timed_out) << started.error().message();
        EXPECT_NE(started.error().message().find("without getting ready"), std::string::npos)
            << started.error().message();
    }
}

TEST(MegaraidUnsteady, LowBitsThatChangeAreNoOtherState) {
    const std::atomic<bool> turning{true};
    MegaraidWorldOptions options = turning_world({mrw::State::device_scan}, turning);
    options.driver.state_bound = 100ms;
    MegaraidWorld world(options);
    const auto started = world.start();
    ASSERT_FALSE(started);
    EXPECT_NE(started.error().message().find("does not leave state device_scan"), std::string::npos)
        << started.error().message();
}

TEST(MegaraidUnsteady, AResetThatLeadsNowhereIsGivenUp) {
    std::atomic<bool> turning{false};
    MegaraidWorld world(turning_world({mrw::State::fault, mrw::State::fw_init, mrw::State::device_scan}, turning));
    ASSERT_TRUE(world.start());
    DiskUser user(world.disk(0));
    world.on_model([](device::megaraid::Controller& model) { model.fault(true); });
    turning = true;
    auto data = test::pattern(unsteady_io_bytes, 5);
    EXPECT_EQ(user.write(0, data), Status::io_error);
}

/// Another controller answers once this one has been reset.
class OtherAfterReset final : public test::OtherSpec {
  public:
    OtherAfterReset(std::unique_ptr<pci::Model> model, std::unique_ptr<pci::Model> other)
        : OtherAfterReset(model->spec(), std::move(model), std::move(other)) {}
    Result<> attach(pci::Host& host) override {
        if (auto first = OtherSpec::attach(host); !first) return first;
        return other_->attach(host);
    }
    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        return is_other_ ? other_->bar_read(bar, offset, bytes) : OtherSpec::bar_read(bar, offset, bytes);
    }
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override {
        if (is_other_) return other_->bar_write(bar, offset, bytes, value);
        if (offset == mrw::reg::host_diag && (value & mrw::host_diag_reset_adapter) != 0) {
            is_other_ = true;
            return;
        }
        OtherSpec::bar_write(bar, offset, bytes, value);
    }
    void reset() noexcept override {
        OtherSpec::reset();
        other_->reset();
    }
    bool quiet() const noexcept override { return OtherSpec::quiet() && other_->quiet(); }
    void memory_changed() noexcept override {
        OtherSpec::memory_changed();
        other_->memory_changed();
    }
    void interrupts_changed() noexcept override {
        OtherSpec::interrupts_changed();
        other_->interrupts_changed();
    }

  private:
    OtherAfterReset(const pci::FunctionSpec& spec, std::unique_ptr<pci::Model>&& model,
                    std::unique_ptr<pci::Model> other)
        : OtherSpec(std::move(model), spec), other_(std::move(other)) {}
    const std::unique_ptr<pci::Model> other_;
    bool is_other_ = false;
};

class MegaraidOtherDisk : public testing::TestWithParam<unsigned> {};

TEST_P(MegaraidOtherDisk, GetsNothingOfWhatWasForTheFirst) {
    ram::Options ram;
    ram.bytes = 8u << 20;
    ram.disk.block = GetParam();
    ram.name = "other";
    const auto disk = *ram::open(ram);
    MegaraidWorldOptions options{.jbods = 1};
    options.wrap = [&](std::unique_ptr<pci::Model> model) {
        device::megaraid::Options other = options.model;
        other.serial = "ANOTHER";
        return std::make_unique<OtherAfterReset>(
            std::move(model), MegaraidWorld::need(device::megaraid::Controller::create({disk}, {}, other)));
    };
    MegaraidWorld world(options);
    ASSERT_TRUE(world.start());
    const auto first = *world.disk(0);
    {
        DiskUser user(first);
        auto data = test::pattern(unsteady_io_bytes, 7);
        ASSERT_EQ(user.write(0, data), Status::ok);
        world.on_model([](device::megaraid::Controller& model) { model.fault(false); });
        EXPECT_EQ(user.write(0, data), Status::removed);
        EXPECT_TRUE(first->removed());
    }
    EXPECT_EQ(first->limits().logical_block_size, 512u);
    Result<std::shared_ptr<Device>> second = world.disk(0);
    for (unsigned tries = 0; tries < 6000 && !second; ++tries) {
        std::this_thread::sleep_for(10ms);
        second = world.disk(0);
    }
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_NE(*second, first);
    EXPECT_EQ((*second)->limits().logical_block_size, GetParam());
    DiskUser user(second);
    std::vector<std::byte> content(unsteady_io_bytes);
    ASSERT_EQ(user.read(0, content), Status::ok);
    EXPECT_EQ(std::ranges::count(content, std::byte{0}), static_cast<std::ptrdiff_t>(unsteady_io_bytes));
}

INSTANTIATE_TEST_SUITE_P(BlockSizes, MegaraidOtherDisk, testing::Values(512u, 4096u));

}  // namespace
}  // namespace mqblk::driver::megaraid
