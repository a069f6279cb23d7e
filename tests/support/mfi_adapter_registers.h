// SPDX-License-Identifier: Apache-2.0
//
// Registers, states and resets of the scripted MFI controller (mfi_adapter.h, which includes this).
#pragma once

#include "base/log.h"
#include "support/mfi_adapter.h"

#include <iterator>
#include <stdexcept>

namespace mqblk::test {

/// Ends what the disks do.
struct MfiAdapter::Poll final : Poller {
    explicit Poll(MfiAdapter& adapter) : adapter_(adapter) {}
    unsigned poll() noexcept override {
        unsigned done = 0;
        for (auto* targets : {&adapter_.volumes_, &adapter_.disks_})
            for (Target& target : *targets) done += target.nexus->poll();
        return done;
    }
    bool prepare_sleep() noexcept override { return adapter_.running_ == 0; }
    MfiAdapter& adapter_;
};

inline MfiAdapter::MfiAdapter(MfiAdapterOptions options) : options_(std::move(options)), state_(options_.first_state) {
    spec_.id = {.vendor = wire::megaraid::pci_vendor_id, .device = options_.device_id};
    spec_.bars[1] = {.bytes = 0x4000};
    spec_.intx = options_.intx;
    spec_.msi_vectors = options_.msi ? 1 : 0;
    spec_.msix_vectors = options_.msix;
    spec_.msix_bar = 1;
    spec_.msix_table = 0x2000;
    spec_.msix_pba = 0x3800;
}

inline MfiAdapter::~MfiAdapter() {
    *alive_ = false;
    if (host_ == nullptr) return;
    ++epoch_;
    volumes_.clear();
    disks_.clear();
    host_->reactor().remove(*poll_);
}

inline std::vector<MfiAdapter::Target> MfiAdapter::open_all(const std::vector<std::shared_ptr<Device>>& devices) {
    std::vector<Target> targets;
    for (const auto& device : devices) {
        device::scsi::UnitOptions unit;
        unit.vendor = "MFI";
        unit.product = "VOLUME";
        unit.attentions = false;
        Target target{.unit = device::scsi::LogicalUnit::create(device, unit).value(), .nexus = nullptr};
        target.nexus = device::scsi::Nexus::open(target.unit, host_->reactor()).value();
        targets.push_back(std::move(target));
    }
    return targets;
}

inline Result<> MfiAdapter::attach(pci::Host& host) {
    host_ = &host;
    volumes_ = open_all(options_.volumes);
    disks_ = open_all(options_.disks);
    poll_ = std::make_unique<Poll>(*this);
    host.reactor().add(*poll_);
    return {};
}

inline void MfiAdapter::set_volumes(std::vector<std::shared_ptr<Device>> volumes) {
    volumes_ = open_all(volumes);
}

inline bool MfiAdapter::is_skinny() const noexcept {
    return wire::megaraid::generation_of(options_.device_id) == wire::megaraid::Generation::skinny;
}

inline std::uint32_t MfiAdapter::status_bit() const noexcept {
    using namespace wire::megaraid;
    return generation_of(options_.device_id) == Generation::sas1078 ? intr_1078_reply : intr_gen2_reply;
}

inline void MfiAdapter::complain(const char* what) {
    if (complaint_.empty()) complaint_ = what;
}

inline std::uint64_t MfiAdapter::bar_read(unsigned bar, std::uint64_t offset, unsigned) noexcept {
    using namespace wire::megaraid;
    if (bar != 1) return 0;
    const bool skinny = is_skinny();
    switch (offset) {
        case reg::scratch_pad:
            return make_state(state_.load(), (options_.msix != 0 ? unsigned{state_msix_capable} : 0u) |
                                                 options_.sges << 16 | options_.commands);
        case reg::outbound_intr_status:
            return mask_.load() != ~0u ? cause_.load() : 0;
        case reg::outbound_intr_mask:
            return mask_.load();
        case reg::host_diag:
            return skinny ? diag_ : 0;
        case mfi_reg::host_diag:
            return skinny ? 0 : diag_;
        default:
            return 0;
    }
}

inline void MfiAdapter::bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    using namespace wire::megaraid;
    if (bar != 1) return;
    if (bytes != 4) complain("a register was not written as 32 bits");
    const auto word = static_cast<std::uint32_t>(value);
    const bool skinny = is_skinny();
    if (offset == (skinny ? unsigned{reg::inbound_low_queue_port} : unsigned{mfi_reg::inbound_queue_port})) {
        bool first = false;
        {
            const std::lock_guard lock(posted_mutex_);
            first = posted_.empty();
            posted_.push_back(word);
        }
        if (first) {
            host_->reactor().post([this, alive = alive_] {
                if (*alive) take_posted();
            });
        }
        return;
    }
    if (offset == (skinny ? unsigned{reg::doorbell} : unsigned{mfi_reg::inbound_doorbell})) {
        if ((word & doorbell_stop_adapter) != 0) state_ = State::fault;
        if ((word & doorbell_init_ready) != 0 && state_.load() == State::operational && options_.resets) soft_reset();
        return;
    }
    if (offset == (skinny ? unsigned{reg::outbound_intr_status} : unsigned{mfi_reg::outbound_doorbell_clear})) {
        cause_ = 0;
        return update_pin();
    }
    if (offset == reg::outbound_intr_mask) {
        mask_ = word;
        update_pin();
        if (word == ~0u && options_.resets && state_.load() == State::operational) soft_reset();
        return;
    }
    if (generation_of(options_.device_id) == Generation::sas1078) return;
    if (offset == (skinny ? unsigned{reg::write_sequence} : unsigned{mfi_reg::write_sequence})) {
        keys_ = word == mfi_diag_keys[keys_] ? keys_ + 1 : 0;
        diag_ = 0;
        if (keys_ < std::size(mfi_diag_keys)) return;
        keys_ = 0;
        diag_ = host_diag_write_enable;
    } else if (offset == (skinny ? unsigned{reg::host_diag} : unsigned{mfi_reg::host_diag})) {
        if ((diag_ & host_diag_write_enable) != 0 && (word & host_diag_reset_adapter) != 0 && options_.resets)
            soft_reset();
        diag_ = 0;
    }
}

inline void MfiAdapter::soft_reset() {
    ++epoch_;
    ++counters_.resets;
    ring_ = {};
    head_ = 0;
    cause_ = 0;
    dead_ = false;
    event_frame_ = 0;
    lost_.clear();
    {
        const std::lock_guard lock(posted_mutex_);
        posted_.clear();  // as the queue port is with real ones
    }
    state_ = wire::megaraid::State::ready;
    update_pin();
}

inline void MfiAdapter::reset() noexcept {
    soft_reset();
    mask_ = ~0u;
    state_ = options_.first_state;
}

inline void MfiAdapter::update_pin() noexcept {
    if (host_ != nullptr) host_->set_intx(cause_.load() != 0 && mask_.load() != ~0u);
}

/// The producer moves only while interrupts may come.
inline void MfiAdapter::post_context(std::uint32_t context) {
    if (ring_.replies == 0) return;
    const auto& memory = host_->memory();
    if (!memory.publish(ring_.replies + std::uint64_t{head_} * 4, context)) complain("the ring is not mapped");
    if (mask_.load() == ~0u) return;
    head_ = head_ + 1 == options_.commands ? 0 : head_ + 1;
    if (!memory.publish(ring_.producer, head_)) complain("the producer index is not mapped");
    cause_ = status_bit();
    host_->raise(0);
    update_pin();
}

}  // namespace mqblk::test
