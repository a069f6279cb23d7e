// SPDX-License-Identifier: Apache-2.0
//
// Every operation is carried out in queue(), so nothing is ever outstanding. Several threads may work on the memory at
// once: as on any disk, what overlapping writes leave behind is one of them or a mixture by sectors.
#include "driver/ram/ram.h"

#include "base/tsan.h"
#include "block/device_core.h"
#include "block/queue.h"
#include "memory/buffer.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace mqblk::driver::ram {

namespace {

using block::Issue;
using block::Request;

/// The longest copy between two looks at anything else: 4 MiB.
constexpr std::uint32_t max_copy_sectors = (4u << 20) / sector_bytes;
/// Dropping pages takes the system time in proportion: 1 GiB at once.
constexpr std::uint32_t max_zero_sectors = (1u << 30) / sector_bytes;

/// Tells the thread sanitizer that what overlapping requests do to the medium is the users' business, as on any disk.
struct MediumAccess {
#if defined(MQBLK_TSAN)
    MediumAccess() noexcept { __tsan_ignore_thread_begin(); }
    ~MediumAccess() { __tsan_ignore_thread_end(); }
#endif
};

class RamQueue final : public block::HardwareQueue {
  public:
    RamQueue(memory::Buffer& media, const std::atomic<std::uint64_t>& sectors) noexcept
        : media_(media), sectors_(sectors) {}

    Issue queue(Request& request, bool) noexcept override {
        // The disk may have become smaller since the request was checked.
        const std::uint64_t size = sectors_.load(std::memory_order_acquire);
        if (request.sector > size || request.sectors > size - request.sector) [[unlikely]] {
            request.status = Status::out_of_range;
            return Issue::done;
        }
        [[maybe_unused]] const MediumAccess access;
        std::byte* at = media_.data() + request.sector * sector_bytes;
        switch (request.op) {
            case Op::read:
                request.for_each_segment([&](std::byte* data, std::size_t bytes) {
                    std::memcpy(data, at, bytes);
                    at += bytes;
                });
                break;
            case Op::write:
                request.for_each_segment([&](const std::byte* data, std::size_t bytes) {
                    std::memcpy(at, data, bytes);
                    at += bytes;
                });
                break;
            case Op::discard:
            case Op::write_zeroes:
                media_.zero(request.sector * sector_bytes, request.sectors * sector_bytes);
                break;
            case Op::flush:
                break;
        }
        request.status = Status::ok;
        return Issue::done;
    }
    unsigned poll() noexcept override { return 0; }
    bool prepare_sleep() noexcept override { return true; }
    block::Expired timeout(Request&) noexcept override { return block::Expired::extend; }
    void cancel_all(Status) noexcept override {}

  private:
    memory::Buffer& media_;
    const std::atomic<std::uint64_t>& sectors_;
};

class RamDriver final : public block::Driver, public block::DirectAccess {
  public:
    RamDriver(const Options& options, memory::Buffer media)
        : shape_(block::shape_for(options.disk, 0)),
          media_(std::move(media)),
          sectors_(options.bytes / sector_bytes),
          read_only_(options.disk.read_only) {}

    const Shape& shape() const noexcept override { return shape_; }

    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue&, Reactor&) override {
        return std::make_unique<RamQueue>(media_, sectors_);
    }

    Segment map(std::uint64_t sector, std::uint64_t sectors, bool for_write) noexcept override {
        const std::uint64_t size = sectors_.load(std::memory_order_acquire);
        if ((for_write && read_only_) || sector > size || sectors > size - sector) return {nullptr, 0};
        return {media_.data() + sector * sector_bytes, static_cast<std::size_t>(sectors * sector_bytes)};
    }

    Result<> resize(Device& device, std::uint64_t bytes) {
        if (bytes > media_.size()) {
            return fail(Errc::no_space, fmt::format("ram: this disk can grow to {} bytes; {} are more than that",
                                                    media_.size(), bytes));
        }
        const std::lock_guard lock(resizing_);
        // No request is at work on the memory while its end moves: those that come then meet the new one.
        block::QueueSet& set = device.core().set();
        set.quiesce();
        const std::uint64_t before = sectors_.load() * sector_bytes;
        if (bytes > before) media_.zero(before, bytes - before);  // a smaller size may have left data there
        sectors_.store(bytes / sector_bytes, std::memory_order_release);
        set.unquiesce();
        block::update_disk(device, device.core().disk_limits(), bytes / sector_bytes, read_only_);
        return {};
    }

  private:
    const Shape shape_;
    memory::Buffer media_;  ///< the address space that the disk can grow to
    std::atomic<std::uint64_t> sectors_;
    std::mutex resizing_;
    const bool read_only_;
};

/// As much address space as the disk may grow to, or, where the system has no more, as it needs.
Result<memory::Buffer> allocate_media(std::uint64_t bytes) {
    constexpr std::uint64_t most = std::uint64_t{1} << 44;
    if (bytes < most / growth) {
        if (auto media = memory::Buffer::allocate(bytes * growth)) return media;
    }
    return memory::Buffer::allocate(bytes);
}

}  // namespace

Result<std::shared_ptr<Device>> open(const Options& options) {
    if (auto checked = block::check_disk_options("ram", options.disk, options.bytes); !checked) {
        return std::unexpected(checked.error());
    }
    auto media = allocate_media(options.bytes);
    if (!media) return std::unexpected(media.error().in("ram"));
    media->prefer_large_pages();
    if (options.populate) {
        if (auto taken = media->populate(options.bytes); !taken) return std::unexpected(taken.error().in("ram"));
    }
    auto driver = std::make_shared<RamDriver>(options, std::move(*media));

    block::Disk disk;
    disk.limits = block::limits_for(options.disk);
    disk.limits.max_sectors = max_copy_sectors;
    disk.limits.max_discard_sectors = disk.limits.max_write_zeroes_sectors = max_zero_sectors;
    disk.limits.discard_granularity = memory::Buffer::page_bytes;
    disk.sectors = options.bytes / sector_bytes;
    disk.read_only = options.disk.read_only;
    disk.identity.name = options.name;
    disk.identity.driver = "ram";
    disk.identity.model = "mqblk RAM disk";
    disk.direct = driver.get();
    disk.driver_data = driver.get();
    return block::QueueSet::create(std::move(driver))->add_disk(std::move(disk));
}

Result<> resize(Device& device, std::uint64_t bytes) {
    return static_cast<RamDriver*>(block::disk_of(device.core()).driver_data)->resize(device, bytes);
}

}  // namespace mqblk::driver::ram
