// SPDX-License-Identifier: Apache-2.0
//
// The public Device and Channel: thin faces of DeviceCore and ChannelCore.
#include <mqblk/device.h>

#include "base/steady_clock.h"
#include "block/channel_core.h"
#include "block/device_core.h"
#include "block/lane.h"
#include "block/queue.h"
#include "reactor/uring_reactor.h"

#include <fmt/format.h>

namespace mqblk {

namespace {
/// The event loop of a channel whose thread has none.
struct OwnLoop {
    /// Outlives every loop: what a thread's loop makes for others (Reactor::shareable) goes on with it.
    static const SteadyClock& clock() {
        static const SteadyClock clock;
        return clock;
    }
    SeededRandom random{static_cast<std::uint64_t>(clock().now().time_since_epoch().count())};
    std::unique_ptr<Reactor> reactor;
};

Result<std::unique_ptr<Channel>> open_channel(const std::shared_ptr<block::DeviceCore>& device, Reactor& reactor,
                                              std::shared_ptr<void> own) {
    const std::string& name = device->disk().identity.name;
    if (device->removed()) return fail(Errc::closed, fmt::format("open a channel to {}: the device is removed", name));
    auto lane = device->set().lane(reactor);
    if (!lane) return std::unexpected(lane.error().in(fmt::format("open a channel to {}", name)));
    auto core = std::make_unique<block::ChannelCore>(device, **lane, std::move(own));
    if (!core->usable())
        return fail(Errc::no_space, fmt::format("open a channel to {}: out of memory; close some channels", name));
    return std::make_unique<Channel>(std::move(core));
}
}  // namespace

Channel::Channel(std::unique_ptr<block::ChannelCore> core) noexcept : core_(std::move(core)) {}
Channel::~Channel() = default;
void Channel::submit(Bio& bio) noexcept {
    core_->submit(bio);
}
void Channel::cancel(Bio& bio) noexcept {
    core_->cancel(bio);
}
void Channel::drop_cancelled() noexcept {
    core_->drop_cancelled();
}
void Channel::plug() noexcept {
    core_->plug();
}
void Channel::unplug() noexcept {
    core_->unplug();
}
unsigned Channel::poll() noexcept {
    return core_->poll();
}
unsigned Channel::wait() noexcept {
    return core_->wait();
}
unsigned Channel::outstanding() const noexcept {
    return core_->outstanding();
}

Device::Device(std::shared_ptr<block::DeviceCore> core) noexcept : core_(std::move(core)) {}
Device::~Device() {
    core_->on_change(this, {});
}

Result<std::unique_ptr<Channel>> Device::channel() {
    auto own = std::make_shared<OwnLoop>();
    auto reactor = make_uring_reactor(OwnLoop::clock(), own->random);
    if (!reactor) return std::unexpected(reactor.error());
    own->reactor = std::move(*reactor);
    Reactor& loop = *own->reactor;
    return open_channel(core_, loop, std::move(own));
}

Result<std::unique_ptr<Channel>> Device::channel(Reactor& reactor) {
    return open_channel(core_, reactor, nullptr);
}

std::uint64_t Device::sectors() const noexcept {
    return core_->sectors();
}
QueueLimits Device::limits() const {
    return core_->limits();
}
Identity Device::identity() const {
    return core_->disk().identity;
}
bool Device::read_only() const noexcept {
    return core_->read_only();
}
bool Device::removed() const noexcept {
    return core_->removed();
}

std::vector<std::pair<std::string, std::string>> Device::attributes() const {
    return attributes_of(*core_);
}
Result<> Device::set_attribute(const std::string& name, const std::string& value) {
    return set_attribute_of(*core_, name, value);
}

void Device::on_change(std::function<void()> changed) {
    core_->on_change(this, std::move(changed));
}
void Device::remove() {
    core_->remove();
}

}  // namespace mqblk
