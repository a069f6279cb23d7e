// SPDX-License-Identifier: Apache-2.0
//
// The null disk's control path: what it says of itself, and its queues.
#include "driver/null/null.h"

#include "base/units.h"
#include "block/queue.h"
#include "driver/null/null_queue.h"

#include <fmt/format.h>
#include <sys/mman.h>

namespace mqblk::driver::null {

namespace {

/// Zeroes to lend: pages that cannot be written, all of them the system's one page of zeroes.
class ZeroesForReaders final : public block::DirectAccess {
  public:
    ZeroesForReaders() noexcept
        : zeroes_(::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
    ~ZeroesForReaders() override {
        if (zeroes_ != MAP_FAILED) ::munmap(zeroes_, bytes);
    }
    Segment map(std::uint64_t sector, std::uint64_t sectors, bool for_write) noexcept override {
        const bool inside = sector <= disk_sectors && sectors <= disk_sectors - sector;
        if (for_write || !inside || zeroes_ == MAP_FAILED || sectors > bytes / sector_bytes) return {nullptr, 0};
        return {static_cast<std::byte*>(zeroes_), static_cast<std::size_t>(sectors * sector_bytes)};
    }

    std::uint64_t disk_sectors = 0;

  private:
    static constexpr std::size_t bytes = std::size_t{4} << 20;
    void* const zeroes_;
};

class NullDriver final : public block::Driver {
  public:
    explicit NullDriver(const Options& options)
        : shape_(block::shape_for(options.disk, sizeof(Payload))),
          latency_(options.latency),
          completion_(options.completion),
          zero_(options.zero) {
        zeroes_.disk_sectors = options.bytes / sector_bytes;
    }

    const Shape& shape() const noexcept override { return shape_; }

    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue& queue, Reactor& reactor) override {
        if (completion_ == CompletionMode::thread)
            return std::make_unique<ThreadQueue>(queue, reactor, latency_, zero_);
        if (latency_ != Duration::zero()) return std::make_unique<TimedQueue>(queue, reactor, latency_, zero_);
        if (zero_) return std::make_unique<ZeroQueue>();
        return std::make_unique<InlineQueue>();
    }

    [[nodiscard]] block::DirectAccess* direct() noexcept { return &zeroes_; }

  private:
    const Shape shape_;
    const Duration latency_;
    const CompletionMode completion_;
    const bool zero_;
    ZeroesForReaders zeroes_;
};

}  // namespace

Result<std::shared_ptr<Device>> open(const Options& options) {
    if (auto checked = block::check_disk_options("null", options.disk, options.bytes); !checked) {
        return std::unexpected(checked.error());
    }
    if (options.latency < Duration::zero() || options.latency > Options::max_latency) {
        return fail(Errc::invalid_argument,
                    fmt::format("null: latency={}: must be from 0 to {}", format_duration(options.latency),
                                format_duration(Options::max_latency)));
    }
    auto driver = std::make_shared<NullDriver>(options);
    const bool threaded = options.completion == CompletionMode::thread;

    block::Disk disk;
    disk.limits = block::limits_for(options.disk);
    disk.limits.max_discard_sectors = disk.limits.max_write_zeroes_sectors = QueueLimits::unlimited;
    disk.limits.discard_granularity = options.disk.block;
    disk.sectors = options.bytes / sector_bytes;
    disk.read_only = options.disk.read_only;
    disk.reads_nothing = !options.zero;
    disk.identity.name = options.name;
    disk.identity.driver = "null";
    disk.identity.model = "mqblk null disk";
    disk.details = {{"latency", format_duration(options.latency)},
                    {"completion", threaded ? "thread" : "inline"},
                    {"reads", options.zero ? "fill memory with zeroes" : "leave memory as it is"}};
    // Lending would skip the latency or the thread that were asked for.
    if (!threaded && options.latency == Duration::zero()) disk.direct = driver->direct();
    return block::QueueSet::create(std::move(driver))->add_disk(std::move(disk));
}

}  // namespace mqblk::driver::null
