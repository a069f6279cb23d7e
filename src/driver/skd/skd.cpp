// SPDX-License-Identifier: Apache-2.0
#include "driver/skd/skd.h"

#include "block/driver.h"
#include "block/queue.h"
#include "driver/skd/controller.h"
#include "driver/skd/io_queue.h"
#include "pci/function.h"

#include <utility>

namespace mqblk::driver::skd {

namespace {

constexpr std::uint32_t preferred_bytes = 8192;

class SkdDriver final : public block::Driver {
  public:
    SkdDriver(std::shared_ptr<Reactor> home, std::unique_ptr<Controller> controller, const Options& options)
        : home_(std::move(home)), controller_(std::move(controller)), options_(options) {
        shape_.max_queues = 1;
        shape_.payload_bytes = sizeof(Context);
        shape_.timeout = options.timeout;
    }
    ~SkdDriver() override { controller_->stop(); }

    Result<> start() {
        if (auto started = controller_->start(); !started) return started;
        shape_.depth = controller_->depth();
        auto memory = CommandMemory::create(controller_->function().dma(), shape_.depth, options_.sgs_per_request);
        if (!memory) return std::unexpected(memory.error());
        memory_ = std::move(*memory);
        return {};
    }

    const Shape& shape() const noexcept override { return shape_; }
    std::shared_ptr<Reactor> home() noexcept override { return home_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue& queue, Reactor&) override {
        return std::make_unique<IoQueue>(*controller_, *memory_, queue, options_);
    }

    [[nodiscard]] block::Disk disk() const {
        const DiskFacts& facts = controller_->facts();
        block::Disk disk;
        disk.limits.io_opt = preferred_bytes;
        disk.limits.max_sectors = wire::skd::max_transfer_bytes / sector_bytes;
        disk.limits.max_segments = options_.sgs_per_request;
        disk.limits.write_cache = disk.limits.fua = true;
        disk.sectors = facts.sectors;
        disk.identity.name = options_.name;
        disk.identity.driver = "skd";
        disk.identity.model = "sTec S1120";
        disk.identity.serial = facts.serial;
        disk.details = controller_->details();
        return disk;
    }

  private:
    const std::shared_ptr<Reactor> home_;  ///< outlives all that lives in it
    const std::unique_ptr<Controller> controller_;
    std::unique_ptr<CommandMemory> memory_;
    const Options options_;
    Shape shape_;
};

}  // namespace

Result<std::shared_ptr<Device>> open(std::unique_ptr<pci::Function> function, std::shared_ptr<Reactor> home,
                                     const Options& options) {
    auto controller = Controller::create(std::move(function), *home, options);
    if (!controller) return std::unexpected(controller.error());
    auto driver = std::make_shared<SkdDriver>(std::move(home), std::move(*controller), options);
    if (auto started = driver->start(); !started) return std::unexpected(started.error());
    block::Disk disk = driver->disk();
    return block::QueueSet::create(std::move(driver))->add_disk(std::move(disk));
}

}  // namespace mqblk::driver::skd
