// SPDX-License-Identifier: Apache-2.0
//
// A descriptor that is no eventfd is refused. A signal never waits, also where the client has filled the counter (see
// pci/eventfd_signal.h).
#include "pci/client_interrupts.h"

#include "base/rcu.h"
#include "pci/eventfd_signal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace mqblk::pci {

namespace {

namespace vu = wire::vfio_user;

bool is_eventfd(int fd) {
    char target[64];
    const auto length = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target);
    return length > 0 && std::string_view(target, static_cast<std::size_t>(length)) == "anon_inode:[eventfd]";
}

constexpr bool one_bit(std::uint32_t flags) noexcept {
    return flags != 0 && (flags & (flags - 1)) == 0;
}

constexpr InterruptType types[] = {InterruptType::intx, InterruptType::msi, InterruptType::msix};

}  // namespace

ClientInterrupts::ClientInterrupts(const InterruptCounts& counts)
    : slots_{Slots(counts.intx), Slots(counts.msi), Slots(counts.msix), Slots(), Slots()} {
    for (auto& slots : slots_) {
        for (auto& slot : slots) slot.store(-1, std::memory_order_relaxed);
    }
}

ClientInterrupts::~ClientInterrupts() {
    for (auto& slots : slots_) assign(slots, 0, slots.size(), {});
}

vu::IrqInfo ClientInterrupts::info(std::uint32_t index) const noexcept {
    const std::uint32_t pin = index == vu::intx_irq ? vu::irq_maskable | vu::irq_automasked : 0;
    return {sizeof(vu::IrqInfo), vu::irq_eventfd | pin, index, static_cast<std::uint32_t>(slots_[index].size())};
}

bool ClientInterrupts::deliver(InterruptType type, unsigned vector) noexcept {
    const rcu::ReadLock lock;
    const Slots& slots = slots_[static_cast<std::size_t>(type) - 1];
    const int fd = vector < slots.size() ? slots[vector].load(std::memory_order_acquire) : -1;
    if (fd < 0) return false;
    return signal_eventfd(fd);
}

void ClientInterrupts::assign(Slots& slots, std::size_t first, std::size_t count, std::vector<OwnedFd> fds) {
    std::vector<OwnedFd> old;
    for (std::size_t i = 0; i < count; ++i) {
        const int next = i < fds.size() ? fds[i].release() : -1;
        if (const int before = slots[first + i].exchange(next, std::memory_order_acq_rel); before >= 0) {
            old.emplace_back(before);
        }
    }
    if (!old.empty()) rcu::synchronize();
}

void ClientInterrupts::apply(FunctionCore& core, std::uint32_t index, std::size_t first, std::size_t count) {
    InterruptType type = InterruptType::none;
    std::size_t vectors = 0;
    for (std::size_t i = std::size(types); i-- > 0 && type == InterruptType::none;) {
        for (std::size_t v = slots_[i].size(); v > 0 && vectors == 0; --v) {
            if (slots_[i][v - 1].load(std::memory_order_relaxed) >= 0) vectors = v;
        }
        if (vectors != 0) type = types[i];
    }
    const bool changed = type != type_ || vectors != core.interrupt_vectors();
    type_ = type;
    if (changed) {
        core.enable(type, static_cast<unsigned>(vectors));
        core.model().interrupts_changed();
    } else if (index == static_cast<std::uint32_t>(type) - 1) {
        if (type == InterruptType::intx) core.unmask_intx();
        for (std::size_t i = 0; i < count; ++i) core.redeliver(static_cast<unsigned>(first + i));
    }
}

void ClientInterrupts::clear(FunctionCore& core) {
    for (auto& slots : slots_) assign(slots, 0, slots.size(), {});
    apply(core, 0, 0, 0);
}

int ClientInterrupts::set_trigger(FunctionCore& core, const vu::IrqSet& request, std::vector<OwnedFd> fds) {
    Slots& slots = slots_[request.index];
    const bool none = (request.flags & vu::irq_set_none) != 0;
    if (none && request.count == 0) {
        assign(slots, 0, slots.size(), {});
        apply(core, request.index, 0, slots.size());
        return 0;
    }
    if ((request.flags & vu::irq_set_eventfd) == 0) return 0;  // the vectors are signalled by the caller
    if (!fds.empty() && fds.size() != request.count) return EINVAL;
    for (const OwnedFd& fd : fds) {
        if (!is_eventfd(fd.get())) return EINVAL;
    }
    assign(slots, request.start, request.count, std::move(fds));
    apply(core, request.index, request.start, request.count);
    return 0;
}

int ClientInterrupts::set(FunctionCore& core, const vu::IrqSet& request, std::span<const std::byte> flags,
                          std::vector<OwnedFd> fds) {
    const std::uint32_t data = request.flags & vu::irq_set_data, action = request.flags & vu::irq_set_action;
    if (request.index >= vu::pci_irqs || (request.flags & ~(vu::irq_set_data | vu::irq_set_action)) != 0 ||
        !one_bit(data) || !one_bit(action)) {
        return EINVAL;
    }
    const std::uint64_t vectors = slots_[request.index].size();
    if (request.start > vectors || request.count > vectors - request.start) return EINVAL;
    if (request.count == 0 && !(data == vu::irq_set_none && action == vu::irq_set_trigger && request.start == 0)) {
        return EINVAL;
    }
    if (flags.size() != (data == vu::irq_set_bool ? request.count : 0)) return EINVAL;
    if (data != vu::irq_set_eventfd && !fds.empty()) return EINVAL;
    if (action != vu::irq_set_trigger) {
        // Only the pin can be masked here; MSI and MSI-X are masked by whoever owns the eventfds.
        if (request.index != vu::intx_irq || data == vu::irq_set_eventfd) return EINVAL;
        if (data == vu::irq_set_bool && flags[0] == std::byte{0}) return 0;
        action == vu::irq_set_mask ? core.mask_intx() : core.unmask_intx();
        return 0;
    }
    if (const int error = set_trigger(core, request, std::move(fds)); error != 0) return error;
    if (data == vu::irq_set_eventfd || request.index > vu::msix_irq) return 0;
    for (std::uint32_t i = 0; i < request.count; ++i) {
        if (data == vu::irq_set_bool && flags[i] == std::byte{0}) continue;
        static_cast<void>(deliver(types[request.index], request.start + i));
    }
    return 0;
}

}  // namespace mqblk::pci
