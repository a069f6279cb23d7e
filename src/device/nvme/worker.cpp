// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/worker.h"

#include "device/nvme/commands.h"
#include "device/nvme/subsystem.h"
#include "reactor/reactor.h"
#include "wire/nvme.h"

#include <cassert>
#include <new>
#include <utility>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;

Worker::Worker(Reactor& reactor) : reactor_(reactor), checks_(reactor) {}

Worker::~Worker() {
    assert(checks_.in_use() == 0);
    channels_.insert(channels_.end(), closing_.begin(), closing_.end());
    for (NamespaceChannel* channel : channels_) {
        if (channel == nullptr) continue;
        assert(channel->holders == 0 && channel->busy == 0);
        if (channel->channel) channel->ns->detach(*channel);
        delete channel;
    }
}

NamespaceChannel* Worker::find(const Subsystem& subsystem, std::uint32_t nsid, std::uint16_t& why) noexcept {
    std::shared_ptr<Namespace> unopened;
    {
        const rcu::ReadLock reading;
        Namespace* ns = subsystem.namespaces().load(nsid);
        if (ns == nullptr) [[unlikely]] {
            why = status::permanent(status::invalid_namespace);
            return nullptr;
        }
        if (ns->slot < channels_.size()) [[likely]] {
            if (NamespaceChannel* channel = channels_[ns->slot]) [[likely]]
                return channel;
        }
        unopened = ns->shared_from_this();  // the subsystem holds it at least until readers are gone
    }
    return open(std::move(unopened), why);
}

NamespaceChannel* Worker::open(std::shared_ptr<Namespace> ns, std::uint16_t& why) noexcept {
    why = status::namespace_not_ready;
    const auto device = ns->device();
    if (!device) return nullptr;
    auto channel = device->channel(reactor_);
    if (!channel) return nullptr;
    if (channels_.size() <= ns->slot) channels_.resize(ns->slot + 1, nullptr);
    auto* opened = new NamespaceChannel;
    opened->ns = ns.get();
    opened->channel = std::move(*channel);
    opened->worker = this;
    opened->keep = std::move(ns);
    opened->hold_writes = opened->keep->attach(*opened) ? 1 : 0;
    channels_[opened->ns->slot] = opened;
    return opened;
}

void Worker::start(NamespaceChannel& channel, bool changes_media) noexcept {
    ++channel.busy;
    if (changes_media) ++channel.writes;
}

void Worker::finish(NamespaceChannel& channel, bool changes_media) noexcept {
    assert(channel.busy > 0);
    --channel.busy;
    if (changes_media && --channel.writes == 0 && channel.drained) [[unlikely]]
        channel.drained.reset();
    if (channel.closing && channel.busy == 0 && !channel.close_posted) [[unlikely]] {
        // Not here: this may be a completion that the channel itself is delivering.
        channel.close_posted = true;
        reactor_.post([self = weak_from_this(), &channel] {
            if (const auto worker = self.lock()) worker->close_if_idle(channel);
        });
    }
}

void Worker::submit(TargetCommand& command) noexcept {
    NamespaceChannel& channel = *command.channel;
    if (!channel.active) {
        channel.active = true;
        active_.push_back(&channel);
    }
    channel.channel->submit(command.bio);
}

void Worker::release(NamespaceChannel& channel) noexcept {
    assert(channel.holders > 0);
    --channel.holders;
    if (channel.closing && channel.holders == 0 && !channel.channel) [[unlikely]]
        forget(channel);
}

unsigned Worker::poll() noexcept {
    unsigned completed = 0;
    // A completion may open channels and start bios: the list may grow meanwhile, and poll() be called from within.
    for (std::size_t i = 0; i < active_.size();) {
        NamespaceChannel* const channel = active_[i];
        if (channel->busy > 0) completed += channel->channel->poll();
        if (i < active_.size() && active_[i] == channel && channel->busy == 0) {
            channel->active = false;
            active_[i] = active_.back();
            active_.pop_back();
        } else {
            ++i;
        }
    }
    return completed;
}

bool Worker::wait() noexcept {
    for (NamespaceChannel* channel : active_) {
        if (channel->channel && channel->channel->outstanding() > 0) {
            channel->channel->wait();
            return true;
        }
    }
    return false;
}

void Worker::drop_given_up() noexcept {
    for (NamespaceChannel* channel : active_) {
        if (channel->channel) channel->channel->drop_cancelled();
    }
}

void Worker::close(std::uint32_t slot, std::shared_ptr<void> closed) noexcept {
    if (slot >= channels_.size() || channels_[slot] == nullptr) return;
    NamespaceChannel& channel = *std::exchange(channels_[slot], nullptr);
    closing_.push_back(&channel);
    channel.closing = true;
    channel.closed = std::move(closed);
    close_if_idle(channel);
}

void Worker::close_if_idle(NamespaceChannel& channel) noexcept {
    channel.close_posted = false;
    if (channel.busy > 0) return;
    if (channel.active) std::erase(active_, &channel);
    channel.active = false;
    channel.ns->detach(channel);
    channel.channel.reset();
    channel.drained.reset();
    channel.closed.reset();
    if (channel.holders == 0) return forget(channel);
    // Those that a fused pair held back find it closed and end; the last holder to go forgets the channel.
    channel.held_last = nullptr;
    for (TargetCommand* held = std::exchange(channel.held_first, nullptr); held != nullptr;) {
        TargetCommand& command = *std::exchange(held, held->next);
        execute_io(*command.queue, command);
    }
}

void Worker::forget(NamespaceChannel& channel) noexcept {
    std::erase(closing_, &channel);
    delete &channel;
}

}  // namespace mqblk::device::nvme
