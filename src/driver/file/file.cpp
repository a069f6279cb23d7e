// SPDX-License-Identifier: Apache-2.0
//
// The file disk's control path: what it says of itself, and its queues.
#include "driver/file/file.h"

#include "block/device_core.h"
#include "block/queue.h"
#include "driver/file/backing_file.h"
#include "driver/file/file_queue.h"

#include <fmt/format.h>

#include <mutex>

namespace mqblk::driver::file {

namespace {

class FileDriver final : public block::Driver {
  public:
    FileDriver(const block::DiskOptions& options, std::unique_ptr<BackingFile> file)
        : shape_(block::shape_for(options, sizeof(FileQueue::Payload))), file_(std::move(file)) {}

    const Shape& shape() const noexcept override { return shape_; }

    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue& queue, Reactor& reactor) override {
        return FileQueue::open(*file_, queue, reactor, shape_.depth);
    }

    Result<> resize(Device& device, std::uint64_t bytes) {
        const std::lock_guard lock(resizing_);
        const std::uint64_t before = file_->bytes();
        const auto tell = [&] {
            block::update_disk(device, device.core().disk_limits(), bytes / sector_bytes, device.read_only());
        };
        // The file is never shorter than the disk says, or reads would meet its end; and what is on its way when the
        // file is cut must not make it longer again.
        if (bytes >= before) {
            if (auto grown = file_->set_length(bytes); !grown) return grown;
            file_->promise(bytes);
            tell();
            return {};
        }
        block::QueueSet& set = device.core().set();
        if (auto frozen = set.freeze(drain_limit); !frozen) return frozen;
        file_->promise(bytes);
        auto cut = file_->set_length(bytes);
        if (!cut) file_->promise(before);
        set.unfreeze();
        if (cut) tell();
        return cut;
    }

  private:
    static constexpr Duration drain_limit = std::chrono::seconds(30);

    const Shape shape_;
    const std::unique_ptr<BackingFile> file_;
    std::mutex resizing_;
};

QueueLimits file_limits(const Options& options, const BackingFile& file) {
    QueueLimits limits = block::limits_for(options.disk);
    file.describe(limits);
    limits.max_sectors = FileQueue::max_request_bytes / sector_bytes;
    limits.max_segments = FileQueue::max_segments;
    limits.max_write_zeroes_sectors = FileQueue::max_zeroes_bytes / sector_bytes;
    if (file.punches_holes || file.discards) limits.max_discard_sectors = FileQueue::max_discard_bytes / sector_bytes;
    return limits;
}

std::string last_part(const std::string& path) {
    return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

Result<std::shared_ptr<Device>> open(const Options& options) {
    if (options.disk.depth > Options::max_depth) {
        return fail(Errc::invalid_argument, fmt::format("file {}: depth={}: must be from 1 to {}", options.path,
                                                        options.disk.depth, Options::max_depth));
    }
    auto opened = BackingFile::open(options);
    if (!opened) return std::unexpected(opened.error());
    const BackingFile& file = **opened;

    block::Disk disk;
    disk.limits = file_limits(options, file);
    disk.sectors = file.bytes() / sector_bytes;
    disk.read_only = options.disk.read_only;
    disk.identity.name = options.name.empty() ? last_part(options.path) : options.name;
    disk.identity.driver = "file";
    disk.identity.model = file.is_block_device() ? "mqblk block device" : "mqblk file disk";
    disk.details = {{"path", options.path}, {"io", file.io_description()}};
    if (file.direct()) {
        disk.details.emplace_back("direct memory alignment", fmt::format("{}", file.memory_alignment()));
        disk.details.emplace_back("direct length alignment", fmt::format("{}", file.length_alignment()));
    }
    auto driver = std::make_shared<FileDriver>(options.disk, std::move(*opened));
    disk.driver_data = driver.get();
    return block::QueueSet::create(std::move(driver))->add_disk(std::move(disk));
}

Result<> resize(Device& device, std::uint64_t bytes) {
    return static_cast<FileDriver*>(block::disk_of(device.core()).driver_data)->resize(device, bytes);
}

}  // namespace mqblk::driver::file
