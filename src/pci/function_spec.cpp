// SPDX-License-Identifier: Apache-2.0
//
// What a FunctionSpec may say. Its author is a colleague, not a peer, so the checks are for mistakes, in their order.
#include "pci/model.h"

#include <fmt/format.h>

#include <bit>

namespace mqblk::pci {

namespace {

struct Range {
    std::uint64_t from, to;
    [[nodiscard]] bool overlaps(const Range& other) const noexcept { return from < other.to && other.from < to; }
};

Result<> check_bars(const FunctionSpec& spec) {
    for (unsigned i = 0; i < bar_count; ++i) {
        const auto& bar = spec.bars[i];
        if (bar.bytes == 0) continue;
        if (!std::has_single_bit(bar.bytes) || bar.bytes < 16 || (!bar.wide && bar.bytes > (1ull << 31))) {
            return fail(Errc::invalid_argument,
                        fmt::format("BAR {} of {} bytes: must be a power of two of 16 or more", i, bar.bytes));
        }
        if (bar.wide && (i + 1 == bar_count || spec.bars[i + 1].bytes != 0)) {
            return fail(Errc::invalid_argument, fmt::format("BAR {} is 64 bits wide: leave BAR {} out", i, i + 1));
        }
    }
    return {};
}

Result<> check_msix(const FunctionSpec& spec) {
    if (spec.msi_vectors != 0 && (!std::has_single_bit(spec.msi_vectors) || spec.msi_vectors > 32)) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} MSI vectors: must be a power of two up to 32", spec.msi_vectors));
    }
    if (spec.msix_vectors == 0) return {};
    const std::uint64_t room = spec.msix_bar < bar_count ? spec.bars[spec.msix_bar].bytes : 0;
    const Range table{spec.msix_table, spec.msix_table + 16ull * spec.msix_vectors};
    const Range pending{spec.msix_pba, spec.msix_pba + (spec.msix_vectors + 63) / 64 * 8};
    if (spec.msix_vectors > 2048 || spec.msix_table % 8 != 0 || spec.msix_pba % 8 != 0 || table.to > room ||
        pending.to > room || table.overlaps(pending)) {
        return fail(
            Errc::invalid_argument,
            fmt::format("{} MSI-X vectors with table at {:#x} and pending bits at {:#x} do not fit BAR {} of {} "
                        "bytes",
                        spec.msix_vectors, spec.msix_table, spec.msix_pba, spec.msix_bar, room));
    }
    return {};
}

Result<> check_areas(const FunctionSpec& spec) {
    for (const auto& area : spec.areas) {
        const std::uint64_t room = area.bar < bar_count ? spec.bars[area.bar].bytes : 0;
        const Range range{area.offset, area.offset + area.bytes};
        bool clash = area.bar == spec.msix_bar && spec.msix_vectors != 0 &&
                     (range.overlaps({spec.msix_table, spec.msix_table + 16ull * spec.msix_vectors}) ||
                      range.overlaps({spec.msix_pba, spec.msix_pba + 8}));
        for (const auto& other : spec.areas) {
            if (&other != &area && other.bar == area.bar) {
                clash |= range.overlaps({other.offset, other.offset + other.bytes});
            }
        }
        if (area.bytes == 0 || area.offset % 4096 != 0 || area.bytes % 4096 != 0 || range.to > room || clash) {
            return fail(Errc::invalid_argument,
                        fmt::format("area of {} bytes at {:#x} of BAR {}: must be whole pages of their own, within the "
                                    "BAR",
                                    area.bytes, area.offset, area.bar));
        }
    }
    return {};
}

}  // namespace

Result<> FunctionSpec::validate() const {
    if (auto good = check_bars(*this); !good) return good;
    if (auto good = check_msix(*this); !good) return good;
    return check_areas(*this);
}

}  // namespace mqblk::pci
