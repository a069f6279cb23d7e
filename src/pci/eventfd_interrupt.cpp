// SPDX-License-Identifier: Apache-2.0
#include "pci/eventfd_interrupt.h"

#include "pci/eventfd_signal.h"
#include "reactor/reactor.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

namespace mqblk::pci {

namespace {

class EventfdInterrupt final : public Interrupt {
  public:
    EventfdInterrupt(int fd, std::function<void()> raised, std::function<void()> unmask)
        : fd_(fd), raised_(std::move(raised)), unmask_(std::move(unmask)) {}

    [[nodiscard]] bool watch(Reactor& reactor) {
        watch_ = reactor.watch(fd_, [this] { ready(); });
        return watch_ != nullptr;
    }
    void arm() override {
        watch_->arm(false);
        if (unmask_) unmask_();
    }
    void disarm() noexcept override { watch_->disarm(); }

  private:
    void ready() {
        if (take_eventfd(fd_) == 0) {  // somebody else's wake-up, or taken by the device itself
            watch_->arm(false);
            return;
        }
        const auto raised = raised_;  // it may destroy this
        raised();
    }

    const int fd_;
    const std::function<void()> raised_, unmask_;
    std::unique_ptr<Watch> watch_;
};

}  // namespace

Result<OwnedFd> make_eventfd() {
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return std::unexpected(Error::from_errno(errno, "create an eventfd for an interrupt"));
    return OwnedFd(fd);
}

Result<std::unique_ptr<Interrupt>> make_eventfd_interrupt(int fd, Reactor& reactor, std::function<void()> raised,
                                                          std::function<void()> unmask) {
    auto made = std::make_unique<EventfdInterrupt>(fd, std::move(raised), std::move(unmask));
    if (!made->watch(reactor)) return fail(Errc::not_supported, "interrupts by eventfd need a real reactor");
    return made;
}

Result<> EventfdVectors::change(InterruptType type, unsigned vectors, const Send& send) {
    std::vector<OwnedFd> fds;
    for (unsigned i = 0; type != InterruptType::none && i < vectors; ++i) {
        auto fd = make_eventfd();
        if (!fd) return std::unexpected(fd.error());
        fds.push_back(std::move(*fd));
    }
    if (type_ != InterruptType::none) {
        if (auto off = send(type_, {}); !off) return off;
        type_ = InterruptType::none;
        fds_.clear();
    }
    if (type == InterruptType::none) return {};
    if (auto on = send(type, fds); !on) return on;
    type_ = type;
    fds_ = std::move(fds);
    return {};
}

Result<std::unique_ptr<Interrupt>> EventfdVectors::interrupt(const std::string& function, unsigned vector,
                                                             Reactor& reactor, std::function<void()> raised,
                                                             std::function<void()> unmask_pin) const {
    if (vector >= fds_.size()) {
        return fail(Errc::invalid_argument, fmt::format("{}: interrupt vector {} is not enabled", function, vector));
    }
    if (type_ != InterruptType::intx) unmask_pin = nullptr;
    return make_eventfd_interrupt(fds_[vector].get(), reactor, std::move(raised), std::move(unmask_pin));
}

}  // namespace mqblk::pci
