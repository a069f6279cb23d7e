// SPDX-License-Identifier: Apache-2.0
//
// LogicalUnit: a SCSI disk as all its initiators share it: the Device below, what INQUIRY says, and the mode parameters
// that initiators may change. Thread-safe; each initiator has a Nexus to it. SPC-4, SBC-3.
#pragma once

#include "device/scsi/exclusion.h"
#include "device/scsi/initiator.h"
#include "device/scsi/reservation_keeper.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace mqblk::device::scsi {

struct UnitOptions {
    std::string vendor = "MQBLK";                ///< 8 characters
    std::string product = "DISK";                ///< 16
    std::string revision = "0001";               ///< 4
    std::string serial;                          ///< empty: the device's own, or one made from its name and place
    std::string place{};                         ///< of the unit, where devices of one name are to be told apart
    std::uint32_t max_transfer_bytes = 1 << 20;  ///< of one READ or WRITE
    bool attentions = true;          ///< tell initiators of changes (capacity, mode parameters) by unit attention
    bool reservations = false;       ///< PERSISTENT RESERVE IN and OUT
    std::string reservation_file{};  ///< where reservations outlive the process (APTPL); empty: nowhere
};

class LogicalUnit {
  public:
    /// The error names the device and what of it a SCSI disk cannot have, or what is wrong with the reservation file.
    [[nodiscard]] static Result<std::shared_ptr<LogicalUnit>> create(std::shared_ptr<Device>, UnitOptions);
    LogicalUnit(std::shared_ptr<Device>, UnitOptions);  ///< for create()

    [[nodiscard]] Device& device() const noexcept { return *device_; }
    [[nodiscard]] const UnitOptions& options() const noexcept { return options_; }
    [[nodiscard]] const std::string& serial() const noexcept { return options_.serial; }
    /// NAA identifier (locally assigned), the same for the same serial number.
    [[nodiscard]] std::uint64_t naa() const noexcept { return naa_; }

    [[nodiscard]] unsigned block_shift() const noexcept { return block_shift_; }
    [[nodiscard]] std::uint32_t block_bytes() const noexcept { return 1u << block_shift_; }
    [[nodiscard]] std::uint64_t blocks() const noexcept { return device_->sectors() >> (block_shift_ - 9); }
    [[nodiscard]] bool can_unmap() const noexcept { return can_unmap_; }
    [[nodiscard]] bool can_zero() const noexcept { return can_zero_; }
    [[nodiscard]] bool has_write_cache() const noexcept { return has_write_cache_; }
    /// A read leaves memory as it was (block::reads_nothing).
    [[nodiscard]] bool reads_nothing() const noexcept { return reads_nothing_; }
    /// The most blocks of one UNMAP descriptor or WRITE SAME.
    static constexpr std::uint32_t max_range_blocks = 1u << 23;
    static constexpr std::uint32_t max_unmap_descriptors = 256;
    [[nodiscard]] std::uint32_t memory_mask() const noexcept { return memory_mask_; }

    // Mode parameters.
    [[nodiscard]] bool write_cache() const noexcept { return write_cache_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool descriptor_sense() const noexcept { return descriptor_sense_.load(std::memory_order_relaxed); }
    /// Stopped by START STOP UNIT.
    [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
    void set_stopped(bool stopped) noexcept { stopped_.store(stopped, std::memory_order_relaxed); }
    /// Returns whether anything changed.
    bool set_modes(bool write_cache, bool descriptor_sense) noexcept;
    /// Grows with every change of mode parameters.
    [[nodiscard]] std::uint32_t mode_generation() const noexcept {
        return mode_generation_.load(std::memory_order_relaxed);
    }

    /// The initiator port of that name, as all its channels share it: known as long as one of them is there. A new one
    /// is told of the power-on.
    [[nodiscard]] std::shared_ptr<Initiator> initiator(const wire::scsi::TransportId& id);
    /// Leaves a unit attention for every initiator but `except`.
    void attend_others(std::uint16_t code, const Initiator* except);
    /// Carries out a change of reservations, unit attentions of others included. Nothing: it could not be saved.
    [[nodiscard]] std::optional<ReserveOutcome> change_reservations(const wire::scsi::TransportId& from,
                                                                    const ReserveRequest&);
    [[nodiscard]] ReservationKeeper& reservations() noexcept { return reservations_; }
    [[nodiscard]] Exclusion& exclusion() noexcept { return *exclusion_; }
    /// A LUN reset: mode parameters are those of the start again, everybody but `except` is told.
    void reset(const Initiator* except);

  private:
    const std::shared_ptr<Device> device_;
    UnitOptions options_;
    std::uint64_t naa_ = 0;
    unsigned block_shift_ = 9;
    bool can_unmap_ = false, can_zero_ = false, has_write_cache_ = false, reads_nothing_ = false;
    std::uint32_t memory_mask_ = 0;
    std::atomic<bool> write_cache_{false}, descriptor_sense_{false}, stopped_{false};
    std::atomic<std::uint32_t> mode_generation_{0};
    ReservationKeeper reservations_;
    const std::shared_ptr<Exclusion> exclusion_ = std::make_shared<Exclusion>();
    std::mutex mutex_;
    std::map<wire::scsi::TransportId, std::weak_ptr<Initiator>> initiators_;
};

}  // namespace mqblk::device::scsi
