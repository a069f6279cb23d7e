// SPDX-License-Identifier: Apache-2.0
#include "block/device_core.h"

#include "block/channel_core.h"
#include "block/queue.h"

#include <algorithm>

namespace mqblk::block {

DeviceCore::DeviceCore(std::shared_ptr<QueueSet> set, Disk disk)
    : set_(std::move(set)),
      disk_(std::move(disk)),
      sectors_(disk_.sectors),
      read_only_(disk_.read_only),
      limits_(disk_.limits) {
    const Driver::Shape& shape = set_->shape();
    settings_.nr_requests = shape.depth - shape.reserved;
    settings_.timeout = shape.timeout;
    set_->device_added();
}

DeviceCore::~DeviceCore() {
    if (!removed()) set_->device_gone();
}

DeviceCore::View DeviceCore::view() const {
    const std::scoped_lock lock(mutex_);
    View view{.version = version(),
              .limits = limits_,
              .sectors = sectors(),
              .read_only = read_only(),
              .removed = removed(),
              .settings = settings_};
    view.limits.max_sectors = std::min(view.limits.max_sectors, settings_.max_sectors);
    if (settings_.write_through) view.limits.write_cache = false;
    return view;
}

QueueLimits DeviceCore::disk_limits() const {
    const std::scoped_lock lock(mutex_);
    return limits_;
}

void DeviceCore::update(const QueueLimits& limits, std::uint64_t sectors, bool read_only) {
    {
        const std::scoped_lock lock(mutex_);
        limits_ = limits;
        sectors_.store(sectors);
        read_only_.store(read_only);
        version_.fetch_add(1);
    }
    set_->announce();
    notify();
}

void DeviceCore::remove() {
    {
        const std::scoped_lock lock(mutex_);
        if (removed_.exchange(true)) return;
        version_.fetch_add(1);
    }
    set_->device_gone();
    set_->announce();
    notify();
}

Settings DeviceCore::settings() const {
    const std::scoped_lock lock(mutex_);
    return settings_;
}

void DeviceCore::change(const Settings& settings) {
    {
        const std::scoped_lock lock(mutex_);
        settings_ = settings;
        version_.fetch_add(1);
    }
    set_->announce();
}

void DeviceCore::on_change(const void* owner, std::function<void()> listener) {
    const std::scoped_lock lock(listeners_mutex_);
    if (listener) {
        listeners_[owner] = std::move(listener);
    } else {
        listeners_.erase(owner);
    }
}

void DeviceCore::notify() {
    const std::scoped_lock lock(listeners_mutex_);
    const auto listeners = listeners_;  // one may take itself out
    for (const auto& [owner, listener] : listeners)
        if (listeners_.contains(owner)) listener();
}

void DeviceCore::add(ChannelCore& channel) {
    const std::scoped_lock lock(mutex_);
    channels_.push_back(&channel);
}

void DeviceCore::take_out(ChannelCore& channel) noexcept {
    const std::scoped_lock lock(mutex_);
    std::erase(channels_, &channel);
    if (channel.counters().unused()) return;  // totals take memory: none for a disk that was only opened
    if (closed_ == nullptr) closed_ = std::make_unique<Statistics>();
    channel.counters().add_to(*closed_);
}

Statistics DeviceCore::statistics() const {
    const std::scoped_lock lock(mutex_);
    Statistics total = closed_ != nullptr ? *closed_ : Statistics{};
    for (const ChannelCore* const channel : channels_) {
        channel->counters().add_to(total);
        total.in_flight += channel->outstanding();
    }
    return total;
}

Statistics statistics(Device& device) {
    return device.core().statistics();
}

void update_disk(Device& device, const QueueLimits& limits, std::uint64_t sectors, bool read_only) {
    device.core().update(limits, sectors, read_only);
}

bool reads_nothing(Device& device) noexcept {
    return device.core().disk().reads_nothing;
}

DirectAccess* direct_access(Device& device) noexcept {
    return device.core().disk().direct;
}

const Disk& disk_of(DeviceCore& device) noexcept {
    return device.disk();
}

}  // namespace mqblk::block
