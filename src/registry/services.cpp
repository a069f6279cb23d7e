// SPDX-License-Identifier: Apache-2.0
#include "registry/services.h"

#include "base/random.h"
#include "fabric/tcp.h"
#include "registry/schemes.h"

#include <fmt/format.h>

#include <random>

namespace mqblk::registry {

namespace {

std::uint64_t machine_seed() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32) | device();
}

/// What bind() hands out: a device and what must live as long.
struct BoundDevice {
    std::shared_ptr<driver::nvme::Controller> controller;
    std::shared_ptr<Device> device;  // goes first
};

}  // namespace

Services::Services(Context::Options options) : options_(std::move(options)) {}

Services::~Services() {
    loop_.reset();
    if (control_) control_->run([&] { host_.reset(); });
    target_.reset();
    network_.reset();
    control_.reset();
}

Result<std::shared_ptr<Device>> Services::open(const Uri& uri) {
    const auto scheme = find_scheme(uri.scheme);
    if (!scheme) return std::unexpected(scheme.error());
    return (*scheme)->open(*this, uri, **scheme);
}

Result<ReactorThread*> Services::control() {
    const std::lock_guard lock(mutex_);
    if (!control_) {
        auto started = ReactorThread::start(clock_, {"mqblk-control", -1, options_.poll, machine_seed()});
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
    return fmt::format("nqn.2026-01.io.mqblk:loop-{}", ++loop_count_);
}

std::shared_ptr<Device> Services::bind(std::shared_ptr<Device> device,
                                       std::shared_ptr<driver::nvme::Controller> controller) {
    const std::lock_guard lock(mutex_);
    std::erase_if(bound_, [](const Bound& entry) { return entry.controller.expired(); });
    bound_.push_back({device.get(), controller});
    auto holder = std::make_shared<BoundDevice>(BoundDevice{std::move(controller), std::move(device)});
    auto* plain = holder->device.get();
    return {std::move(holder), plain};
}

std::shared_ptr<driver::nvme::Controller> Services::controller_of(const Device& device) {
    const std::lock_guard lock(mutex_);
    for (const auto& entry : bound_) {
        if (entry.device == &device) {
            if (auto controller = entry.controller.lock()) return controller;
        }
    }
    return nullptr;
}

}  // namespace mqblk::registry
