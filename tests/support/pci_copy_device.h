// SPDX-License-Identifier: Apache-2.0
//
// A small PCI device for tests of the PCI layer: it copies memory. A ring of descriptors in host memory, a doorbell for
// its tail (a register, and one that may be mapped), a completion count that it writes back, an interrupt for each
// completion, registers of every width that keep what is written.
#pragma once

#include "base/endian.h"
#include "pci/model.h"
#include "reactor/reactor.h"

#include <array>
#include <cstring>
#include <vector>

namespace mqblk::test {

namespace copy_device {

enum : std::uint64_t {
    scratch = 0x00,  ///< 64 bytes that keep what is written
    magic = 0x40,    ///< reads as magic_value
    ring_address = 0x48,
    ring_entries = 0x50,  ///< power of two; 0: off
    done_address = 0x58,  ///< where the 32-bit count of completions goes
    doorbell = 0x60,      ///< tail, as a count that never goes back
    cause = 0x68,         ///< bit 0: completed; write 1 to clear. The level of INTx
    failures = 0x6c,      ///< descriptors that named memory that is not there
    raise = 0x70,         ///< raises the vector written
    order = 0x74,         ///< reads as the last of the values 1, 2, 3, … that were written in this order
    vanish = 0x78,
    resets = 0x7c,  ///< how often it was reset
    area = 0x1000,  ///< mappable: the same doorbell
    table = 0x2000,
    pending = 0x2800,
};
inline constexpr std::uint32_t magic_value = 0x5ca1ab1e;
inline constexpr unsigned vectors = 9;
inline constexpr std::uint32_t most_entries = 1024, most_bytes = 1u << 20;  ///< so that each doorbell's work has an end

struct Descriptor {
    le64 from, to;
    le32 bytes, vector;
};

}  // namespace copy_device

class CopyDevice final : public pci::Model, Poller {
  public:
    CopyDevice() {
        spec_.id = {0x1b39, 0x7e57, 0x1b39, 0x0002, 0x018000, 3};
        spec_.bars[0] = {256, false, false};
        spec_.bars[2] = {0x4000, true, false};
        spec_.msi_vectors = 4;
        spec_.msix_vectors = copy_device::vectors;
        spec_.msix_bar = 2;
        spec_.msix_table = copy_device::table;
        spec_.msix_pba = copy_device::pending;
        spec_.areas = {{2, copy_device::area, 0x1000}};
    }
    ~CopyDevice() override {
        if (host_ != nullptr) host_->reactor().remove(*this);
    }

    const pci::FunctionSpec& spec() const noexcept override { return spec_; }
    pci::FunctionSpec& change_spec() noexcept { return spec_; }
    Result<> attach(pci::Host& host) override {
        host_ = &host;
        host.reactor().add(*this);
        return {};
    }

    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        using namespace copy_device;
        if (bar != 2) return 0;
        if (offset < magic) {
            std::uint64_t value = 0;
            std::memcpy(&value, scratch_.data() + offset, bytes);
            return value;
        }
        switch (offset) {
            case magic:
                return magic_value;
            case cause:
                return cause_;
            case order:
                return order_;
            case failures:
                return failures_;
            case resets:
                return resets_;
            default:
                return 0;
        }
    }

    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override {
        using namespace copy_device;
        if (bar != 2) return;
        if (offset < magic) {
            std::memcpy(scratch_.data() + offset, &value, bytes);
            return;
        }
        switch (offset) {
            case ring_address:
                ring_ = value;
                break;
            case ring_entries:
                entries_ = static_cast<std::uint32_t>(value);
                break;
            case done_address:
                done_at_ = value;
                break;
            case area:
                seen_ = static_cast<std::uint32_t>(value);
                [[fallthrough]];
            case doorbell:
                run(static_cast<std::uint32_t>(value));
                break;
            case cause:
                cause_ &= ~static_cast<std::uint32_t>(value);
                host_->set_intx(cause_ != 0);
                break;
            case copy_device::raise:
                host_->raise(static_cast<unsigned>(value));
                break;
            case order:
                if (value == order_ + 1) ++order_;
                break;
            case vanish:
                host_->set_gone(true);
                break;
            default:
                break;
        }
    }

    void reset() noexcept override {
        scratch_.fill(std::byte{0});
        ring_ = done_at_ = 0;
        entries_ = head_ = cause_ = failures_ = seen_ = order_ = 0;
        ++resets_;
    }
    bool quiet() const noexcept override { return busy_passes == 0; }
    void memory_changed() noexcept override { ++memory_changes; }
    void interrupts_changed() noexcept override { ++interrupt_changes; }

    pci::Host& host() noexcept { return *host_; }
    unsigned memory_changes = 0, interrupt_changes = 0;
    unsigned busy_passes = 0;  ///< how long it is not quiet

  private:
    unsigned poll() noexcept override {
        if (busy_passes != 0) --busy_passes;
        if (!host_->areas_mapped()) return 0;
        std::uint32_t tail = 0;
        std::memcpy(&tail, host_->area(0), sizeof tail);
        if (tail == seen_) return 0;
        seen_ = tail;
        run(tail);
        return 1;
    }
    bool prepare_sleep() noexcept override { return !host_->areas_mapped(); }

    void run(std::uint32_t tail) noexcept {
        using namespace copy_device;
        if (tail - head_ > entries_ || entries_ > most_entries) {
            ++failures_;
            return;
        }
        while (head_ != tail) {
            Descriptor command;
            if (!host_->memory().load(ring_ + sizeof command * (head_ & (entries_ - 1)), command)) {
                ++failures_;
                return;
            }
            ++head_;
            copy(command);
            if (!host_->memory().publish(done_at_, head_)) ++failures_;
            cause_ |= 1;
            host_->set_intx(true);
            host_->raise(command.vector);
        }
    }
    void copy(const copy_device::Descriptor& command) noexcept {
        std::uint64_t from = command.from, to = command.to;
        std::uint32_t left = command.bytes;
        if (left > copy_device::most_bytes) {
            ++failures_;
            return;
        }
        std::array<std::byte, 512> piece;
        while (left != 0) {
            const auto now = std::span(piece).first(std::min<std::size_t>(left, piece.size()));
            if (!host_->memory().read(from, now) || !host_->memory().write(to, now)) {
                ++failures_;
                return;
            }
            from += now.size();
            to += now.size();
            left -= static_cast<std::uint32_t>(now.size());
        }
    }

    pci::FunctionSpec spec_;
    pci::Host* host_ = nullptr;
    std::array<std::byte, 64> scratch_{};
    std::uint64_t ring_ = 0, done_at_ = 0;
    std::uint32_t entries_ = 0, head_ = 0, cause_ = 0, failures_ = 0, resets_ = 0;
    std::uint32_t order_ = 0;
    std::uint32_t seen_ = 0;  ///< in the area
};

}  // namespace mqblk::test
