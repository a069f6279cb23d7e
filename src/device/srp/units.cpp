// SPDX-License-Identifier: Apache-2.0
#include "device/srp/units.h"

#include "block/queue.h"
#include "wire/srp.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::device::srp {

namespace {

std::vector<std::uint64_t> luns_of(const std::vector<UnitTable::Entry>& entries) {
    std::vector<std::uint64_t> luns;
    for (const auto& entry : entries) luns.push_back(wire::srp::encode_lun(entry.lun));
    return luns;
}

}  // namespace

Result<std::shared_ptr<const UnitTable>> UnitTable::create(std::vector<UnitConfig> configs,
                                                           std::uint32_t max_transfer_bytes) {
    std::ranges::sort(configs, {}, &UnitConfig::lun);
    std::vector<Entry> entries;
    for (auto& config : configs) {
        if (config.lun > wire::srp::max_lun) {
            return fail(Errc::invalid_argument,
                        fmt::format("LUN {} is too large; the largest is {}", config.lun, wire::srp::max_lun));
        }
        if (!entries.empty() && entries.back().lun == config.lun)
            return fail(Errc::invalid_argument,
                        fmt::format("LUN {} is given twice; give each disk its own", config.lun));
        scsi::UnitOptions options;
        options.max_transfer_bytes = max_transfer_bytes;
        options.reservations = true;
        options.place = fmt::format(" lun {}", config.lun);
        options.reservation_file = std::move(config.reservation_file);
        auto* const direct = block::direct_access(*config.device);
        auto unit = scsi::LogicalUnit::create(std::move(config.device), std::move(options));
        if (!unit) return std::unexpected(unit.error().in(fmt::format("LUN {}", config.lun)));
        entries.push_back({config.lun, std::move(*unit), direct});
    }
    return std::make_shared<const UnitTable>(std::move(entries));
}

UnitTable::UnitTable(std::vector<Entry> entries) : entries_(std::move(entries)), inventory_(luns_of(entries_)) {}

std::optional<unsigned> UnitTable::find(std::uint64_t bytes) const noexcept {
    const auto lun = wire::srp::decode_lun(bytes);
    if (!lun) return {};
    const auto found = std::ranges::lower_bound(entries_, *lun, {}, &Entry::lun);
    if (found == entries_.end() || found->lun != *lun) return {};
    return static_cast<unsigned>(found - entries_.begin());
}

}  // namespace mqblk::device::srp
