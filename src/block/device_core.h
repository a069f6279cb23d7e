// SPDX-License-Identifier: Apache-2.0
//
// DeviceCore: one disk: what its driver says of it, what its user has set, who uses it. Channels keep a copy of what
// they need for each I/O; `version` grows with every change and tells them to copy again.
#pragma once

#include "block/deadline_level.h"
#include "block/driver.h"
#include "block/scheduler.h"
#include "block/statistics.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace mqblk::block {

class QueueSet;

/// What of a device its user may change.
struct Settings {
    SchedulerKind scheduler = SchedulerKind::none;
    DeadlineTunables deadline;
    unsigned nr_requests = 0;  ///< requests in flight: of a channel, or of a scheduler, which several may share
    std::uint32_t max_sectors = QueueLimits::unlimited;  ///< below the driver's own limit
    Merges merges = Merges::all;
    Duration timeout{};
    bool write_through = false;  ///< the user says that the device's cache needs no flushes
    bool iostats = true;
};

class DeviceCore {
  public:
    DeviceCore(std::shared_ptr<QueueSet>, Disk);
    ~DeviceCore();

    [[nodiscard]] QueueSet& set() const noexcept { return *set_; }
    [[nodiscard]] const Disk& disk() const noexcept { return disk_; }
    [[nodiscard]] std::uint32_t version() const noexcept { return version_.load(std::memory_order_acquire); }
    [[nodiscard]] bool removed() const noexcept { return removed_.load(std::memory_order_acquire); }
    [[nodiscard]] std::uint64_t sectors() const noexcept { return sectors_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool read_only() const noexcept { return read_only_.load(std::memory_order_relaxed); }

    /// All that a channel copies, as of one moment.
    struct View {
        std::uint32_t version;
        QueueLimits limits;  ///< the driver's with the settings applied
        std::uint64_t sectors;
        bool read_only, removed;
        Settings settings;
    };
    [[nodiscard]] View view() const;
    [[nodiscard]] QueueLimits limits() const { return view().limits; }
    [[nodiscard]] QueueLimits disk_limits() const;  ///< without the settings

    // Control path; any thread.
    void update(const QueueLimits&, std::uint64_t sectors, bool read_only);
    void remove();
    void on_change(const void* owner, std::function<void()>);
    [[nodiscard]] Settings settings() const;
    void change(const Settings&);
    void add(ChannelCore&);
    void take_out(ChannelCore&) noexcept;
    [[nodiscard]] Statistics statistics() const;

  private:
    void notify();

    const std::shared_ptr<QueueSet> set_;
    const Disk disk_;
    std::atomic<std::uint32_t> version_{1};
    std::atomic<bool> removed_{false};
    std::atomic<std::uint64_t> sectors_;
    std::atomic<bool> read_only_;
    mutable std::mutex mutex_;  // limits_, settings_, channels_, closed_
    QueueLimits limits_;
    Settings settings_;
    std::vector<ChannelCore*> channels_;
    std::unique_ptr<Statistics> closed_;    // of channels that are gone; null: none are
    std::recursive_mutex listeners_mutex_;  // held while they run: none runs once it was taken out
    std::map<const void*, std::function<void()>> listeners_;
};

/// /sys/block/X/queue, see attributes.cpp.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> attributes_of(const DeviceCore&);
[[nodiscard]] Result<> set_attribute_of(DeviceCore&, const std::string& name, const std::string& value);

}  // namespace mqblk::block
