// SPDX-License-Identifier: Apache-2.0
//
// The S1120 driver on the model of the card, both in one simulated reactor: virtual time, nothing blocks, and the test
// holds the card in its hand.
#pragma once

#include "device/skd/card.h"
#include "driver/ram/ram.h"
#include "driver/skd/skd.h"
#include "pci/in_process.h"
#include "reactor/simulated.h"

#include <mqblk/device.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mqblk::test {

struct SkdDiskOptions {
    driver::skd::Options driver{};
    device::skd::Options card{};
    std::shared_ptr<Device> disk{};  ///< null: RAM of 16 MiB
    bool reaches_everything = true;  ///< the card, without mapping
    std::uint64_t seed = 1;
};

class SkdDisk {
  public:
    explicit SkdDisk(SkdDiskOptions options = {}) : world_(options.seed), reactor_(world_.make_reactor()) {
        disk_ = options.disk != nullptr ? options.disk : driver::ram::open({.bytes = 16 << 20, .disk = {}}).value();
        auto card = device::skd::Card::create(disk_, options.card).value();
        card_ = card.get();
        auto function =
            pci::make_in_process(std::move(card), *reactor_, {.reaches_everything = options.reaches_everything})
                .value();
        function_ = function.get();
        opened_ = driver::skd::open(std::move(function), reactor_->shareable(), options.driver);
    }

    [[nodiscard]] bool opened() const noexcept { return opened_.has_value(); }
    [[nodiscard]] const std::string& error() const { return opened_.error().message(); }
    [[nodiscard]] std::shared_ptr<Device> device() {
        if (!opened_) throw std::runtime_error(error());
        return *opened_;
    }
    void close() { opened_ = fail(Errc::closed, "closed"); }

    [[nodiscard]] SimulatedWorld& world() noexcept { return world_; }
    [[nodiscard]] Reactor& reactor() noexcept { return *reactor_; }
    [[nodiscard]] device::skd::Card& card() noexcept { return *card_; }
    [[nodiscard]] pci::Function& function() noexcept { return *function_; }
    [[nodiscard]] Device& below() noexcept { return *disk_; }

  private:
    SimulatedWorld world_;
    std::unique_ptr<Reactor> reactor_;
    std::shared_ptr<Device> disk_;
    device::skd::Card* card_ = nullptr;
    pci::Function* function_ = nullptr;
    Result<std::shared_ptr<Device>> opened_ = fail(Errc::closed, "not opened");
};

/// Reads and writes in flight together, each ending exactly once.
class SkdFlight {
  public:
    SkdFlight(Channel& channel, Op op, std::uint64_t first_sector, unsigned count, unsigned sectors = 8)
        : channel_(channel),
          memory_(std::size_t{count} * sectors * 512, std::byte{0x5a}),
          segments_(count),
          bios_(count) {
        for (unsigned i = 0; i < count; ++i) {
            segments_[i] = {memory_.data() + std::size_t{i} * sectors * 512, std::size_t{sectors} * 512};
            Bio& bio = bios_[i];
            bio.op = op;
            bio.sector = first_sector + std::uint64_t{i} * sectors;
            bio.sectors = sectors;
            bio.data = {&segments_[i], 1};
            bio.flags = bio_nomerge;
            bio.context = this;
            bio.done = [](Bio& ended) noexcept {
                auto& self = *static_cast<SkdFlight*>(ended.context);
                ++self.ended_;
                ++self.by_status_[static_cast<std::size_t>(ended.status)];
            };
        }
    }
    void submit() {
        channel_.plug();
        for (Bio& bio : bios_) channel_.submit(bio);
        channel_.unplug();
    }
    [[nodiscard]] bool done() const noexcept { return ended_ >= bios_.size(); }
    [[nodiscard]] unsigned ended() const noexcept { return ended_; }
    [[nodiscard]] unsigned with(Status status) const noexcept { return by_status_[static_cast<std::size_t>(status)]; }
    [[nodiscard]] const Bio& bio(unsigned index) const { return bios_[index]; }
    [[nodiscard]] std::vector<std::byte>& memory() noexcept { return memory_; }

  private:
    Channel& channel_;
    std::vector<std::byte> memory_;
    std::vector<Segment> segments_;
    std::vector<Bio> bios_;
    unsigned ended_ = 0;
    unsigned by_status_[16] = {};
};

}  // namespace mqblk::test
