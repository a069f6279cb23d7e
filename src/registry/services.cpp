// SPDX-License-Identifier: Apache-2.0
#include "registry/services.h"

#include "fabric/tcp.h"
#include "registry/queue_options.h"
#include "registry/schemes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace mqblk::registry {

namespace {

std::string loop_nqn(unsigned number) {
    return fmt::format("nqn.2026-01.io.mqblk:loop-{}", number);
}

}  // namespace

Services::Services(Context::Options options) : options_(std::move(options)) {}

Services::~Services() {
    const auto settle = [&] {
        std::unique_lock lock(mutex_);
        disconnected_.wait(lock, [&] { return disconnecting_ == 0; });
    };
    settle();
    // A target's disk may be a namespace of one that was made before it: that one is disconnected first, in order.
    for (; target_ && loop_count_ > 0; --loop_count_) {
        [[maybe_unused]] const auto removed = target_->remove_subsystem(loop_nqn(loop_count_));
        settle();
    }
    loop_.reset();
    if (control_) control_->run([&] { host_.reset(); });
    target_.reset();
    network_.reset();
    control_.reset();
}

Result<std::shared_ptr<Device>> Services::open(const Uri& uri) {
    const auto scheme = find_scheme(uri.scheme);
    if (!scheme) return std::unexpected(scheme.error());
    Uri rest = uri;
    const auto queue = take_queue_options(rest);
    if (!queue) return std::unexpected(queue.error());
    auto device = (*scheme)->open(*this, rest, **scheme);
    if (!device) return device;
    if (const auto set = set_queue_options(**device, uri.scheme, *queue); !set) return std::unexpected(set.error());
    return device;
}

void Services::note_created(std::string path) {
    const std::lock_guard lock(mutex_);
    created_.push_back(std::move(path));
}

std::size_t Services::created_count() const {
    const std::lock_guard lock(mutex_);
    return created_.size();
}

void Services::remove_created(std::size_t from) {
    const std::lock_guard lock(mutex_);
    for (; created_.size() > from; created_.pop_back()) ::unlink(created_.back().c_str());
}

Result<ReactorThread*> Services::control() {
    const std::lock_guard lock(mutex_);
    if (!control_) {
        auto started = ReactorThread::start(clock_, {"mqblk-control", -1, options_.poll});
        if (!started) return std::unexpected(started.error());
        control_ = std::move(*started);
    }
    return control_.get();
}

Result<fabric::Network*> Services::network() {
    const std::lock_guard lock(mutex_);
    if (!network_) network_ = fabric::make_tcp_network();
    return network_.get();
}

Result<Services::HostParts> Services::host() {
    const std::lock_guard lock(mutex_);
    const auto thread = control();
    if (!thread) return std::unexpected(thread.error());
    if (!host_) {
        const auto net = network();
        if (!net) return std::unexpected(net.error());
        (*thread)->run([&] { host_ = std::make_unique<driver::nvme::Host>((*thread)->reactor(), **net); });
    }
    return HostParts{*thread, host_.get()};
}

Result<Services::LoopParts> Services::loop() {
    const std::lock_guard lock(mutex_);
    if (!target_) {
        auto target = std::make_unique<device::nvme::Target>(device::nvme::Target::Options{});
        const auto port = target->add_port({0, "loop", "in-process", ""});
        if (!port) return std::unexpected(port.error());
        loop_ = target->loop(*port);
        target_ = std::move(target);
    }
    return LoopParts{target_.get(), loop_};
}

std::string Services::new_loop_nqn() {
    const std::lock_guard lock(mutex_);
    return loop_nqn(++loop_count_);
}

Result<std::shared_ptr<driver::nvme::Controller>> Services::connect(
    const std::function<ConnectTask(driver::nvme::Host&)>& start) {
    const auto parts = host();
    if (!parts) return std::unexpected(parts.error());
    {
        const std::lock_guard lock(mutex_);
        ++connecting_;
    }
    auto controller = parts->control->wait_for([&] { return start(*parts->host); });
    if (!controller) {
        const std::lock_guard lock(mutex_);
        --connecting_;
    }
    return controller;
}

std::shared_ptr<Device> Services::bind(std::shared_ptr<Device> device,
                                       std::shared_ptr<driver::nvme::Controller> controller) {
    const std::lock_guard lock(mutex_);
    --connecting_;
    auto* const plain = device.get();
    bound_.push_back({plain, std::move(controller)});
    return {plain, [this, kept = std::move(device)](Device* gone) mutable {
                kept.reset();
                unbind(gone);
            }};
}

void Services::unbind(const Device* device) {
    std::shared_ptr<driver::nvme::Controller> controller;
    {
        const std::lock_guard lock(mutex_);
        const auto found =
            std::find_if(bound_.begin(), bound_.end(), [&](const Bound& entry) { return entry.device == device; });
        if (found == bound_.end()) return;
        controller = std::move(found->controller);
        bound_.erase(found);
        ++connecting_;  // as release() counts
    }
    release(std::move(controller));
}

void Services::release(std::shared_ptr<driver::nvme::Controller> controller) {
    const std::lock_guard lock(mutex_);
    --connecting_;
    const bool used =
        std::any_of(bound_.begin(), bound_.end(), [&](const Bound& entry) { return entry.controller == controller; });
    // Whoever is connecting just now may have been given the same one: then it goes when the last holder does.
    if (used || connecting_ > 0) return;
    ++disconnecting_;
    controller->shutdown([this] {
        const std::lock_guard inner(mutex_);
        --disconnecting_;
        disconnected_.notify_all();
    });
}

std::shared_ptr<driver::nvme::Controller> Services::controller_of(const Device& device) {
    const std::lock_guard lock(mutex_);
    for (const auto& entry : bound_) {
        if (entry.device == &device) return entry.controller;
    }
    return nullptr;
}

}  // namespace mqblk::registry
