// SPDX-License-Identifier: Apache-2.0
//
// What the card is, its beginning and end, and one pass of it.
#include "device/skd/card.h"

#include "base/units.h"
#include "device/scsi/logical_unit.h"
#include "device/scsi/nexus.h"
#include "wire/skd.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::device::skd {

namespace {

constexpr std::size_t copy_budget_bytes = 16u << 20;

pci::FunctionSpec make_spec() {
    pci::FunctionSpec spec;
    spec.id = {.vendor = wire::skd::pci_vendor_id,
               .device = wire::skd::pci_device_id,
               .subsystem_vendor = wire::skd::pci_vendor_id,
               .subsystem_device = wire::skd::pci_device_id,
               .class_code = 0x018000,
               .revision = 1};
    // Drivers map both and use BAR 1, found by its number: neither may be a 64-bit one.
    spec.bars[0] = {.bytes = 4096};
    spec.bars[wire::skd::register_bar] = {.bytes = 16384};
    spec.intx = true;
    spec.msi_vectors = 1;
    spec.msix_vectors = wire::skd::msix_vectors;
    spec.msix_bar = wire::skd::register_bar;
    spec.msix_table = 0x2000;
    spec.msix_pba = 0x3000;
    spec.express = true;
    spec.link_speed = 2;
    spec.link_width = 4;
    return spec;
}

/// What the card's protocol can say of a disk, and what of the options fits it.
Result<> check_disk(const Device& disk, const Options& options) {
    // Drivers ask for the capacity by READ CAPACITY (10), whose last LBA has 32 bits.
    constexpr std::uint64_t most_sectors = std::uint64_t{1} << 32;
    const std::string& name = disk.identity().name;
    if (disk.sectors() > most_sectors) {
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' as the disk of an S1120: it has {}, and drivers of this card see 2 TiB at most; "
                                "use a smaller one",
                                name, format_size(disk.sectors() * sector_bytes)));
    }
    if (disk.read_only()) {
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' as the disk of an S1120: it is write-protected, which this card cannot tell its "
                                "drivers; use one without ro=1",
                                name));
    }
    for (const Fault& fault : options.faults) {
        if (fault.blocks == 0 || fault.lba < disk.sectors()) continue;
        return fail(Errc::invalid_argument,
                    fmt::format("fault at lba={}: the last block of '{}' is {}", fault.lba, name, disk.sectors() - 1));
    }
    return {};
}

/// As many characters as drivers show.
constexpr std::size_t serial_characters = 12;

std::string pad_serial(std::string serial) {
    if (serial.size() < serial_characters) serial.resize(serial_characters, ' ');
    return serial;
}

}  // namespace

Result<> check_serial(std::string_view serial) {
    if (!std::ranges::all_of(serial, [](char c) { return c >= ' ' && c <= '~'; })) {
        return fail(Errc::invalid_argument,
                    fmt::format("the serial number has characters that are not printable ASCII; give up to {} that are",
                                serial_characters));
    }
    if (serial.size() <= serial_characters) return {};
    return fail(Errc::invalid_argument, fmt::format("the serial number has {} characters, and the card has room for "
                                                    "{}; give one that fits",
                                                    serial.size(), serial_characters));
}

Result<std::unique_ptr<Card>> Card::create(std::shared_ptr<Device> disk, Options options) {
    if (auto fits = check_serial(options.serial); !fits) return std::unexpected(fits.error());
    const std::uint32_t block = disk->limits().logical_block_size;
    if (block != wire::skd::logical_block_bytes) {
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' as the disk of an S1120: its blocks are {} bytes, and drivers of this card know "
                                "only 512; use a disk with block=512",
                                disk->identity().name, block));
    }
    if (auto fits = check_disk(*disk, options); !fits) return std::unexpected(fits.error());
    scsi::UnitOptions unit_options;
    unit_options.vendor = "sTec";
    unit_options.product = "S1120";
    unit_options.serial = options.serial;
    unit_options.max_transfer_bytes = wire::skd::max_transfer_bytes;
    unit_options.attentions = false;  // drivers would fail the command that is told
    if (unit_options.serial.empty()) unit_options.serial = disk->identity().serial;
    if (!unit_options.serial.empty()) unit_options.serial = pad_serial(unit_options.serial);
    auto unit = scsi::LogicalUnit::create(std::move(disk), std::move(unit_options));
    if (!unit) return std::unexpected(unit.error());
    auto card = std::make_unique<Card>(std::move(*unit), std::move(options));
    if (!card->slots_.usable()) return fail(Errc::no_space, "S1120 model: no memory for its commands");
    return card;
}

Card::Card(std::shared_ptr<scsi::LogicalUnit> unit, Options options)
    : unit_(std::move(unit)),
      options_(std::move(options)),
      spec_(make_spec()),
      timing_(options_.profile),
      slots_(*this),
      delay_timer_([] {}),
      alarm_([this] { alarm(); }) {
    for (const Fault& fault : options_.faults) faults_.add(fault);
}

Card::~Card() {
    if (host_ == nullptr) return;
    host_->reactor().remove(*this);
    drop_all();
}

Result<> Card::attach(pci::Host& host) {
    auto pool = memory::BufferPool::create(copy_budget_bytes, wire::skd::max_transfer_bytes);
    if (!pool) return std::unexpected(pool.error());
    auto nexus = scsi::Nexus::open(unit_, host.reactor());
    if (!nexus) return std::unexpected(nexus.error());
    copy_pool_ = std::move(*pool);
    nexus_ = std::move(*nexus);
    host_ = &host;
    interrupts_.attach(host);
    host.reactor().add(*this);
    power_on();
    return {};
}

unsigned Card::poll() noexcept {
    unsigned events = 0;
    if (fifo_count_ > 0) events += take_doorbells();
    if (running_ > 0) events += nexus_->poll();
    if (!delayed_.empty()) events += tell_delayed();
    if (restarting_ || arming_) [[unlikely]]
        events += advance_firmware();
    if (posted_) {
        posted_ = false;
        interrupts_.raise(wire::skd::cause_completion_posted);
    }
    return events;
}

bool Card::prepare_sleep() noexcept {
    if (posted_ || arming_ || can_take()) return false;
    return !(restarting_ && running_ == 0 && host_->reactor().now() >= restart_time_);
}

}  // namespace mqblk::device::skd
