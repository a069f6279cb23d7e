// SPDX-License-Identifier: Apache-2.0
//
// What a disk or volume says of itself, by SCSI commands on the reserved tags: INQUIRY and its pages, capacity,
// caching. What it does not say has the value that costs least if it is wrong.
#include "base/log.h"
#include "driver/megaraid/answer.h"
#include "driver/megaraid/controller.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;
namespace scsi = wire::scsi;

namespace {

constexpr unsigned most_tries = 10;
constexpr Duration try_again = std::chrono::milliseconds(20);
constexpr std::uint32_t page_bytes = 252;
constexpr std::uint32_t most_block_bytes = CommandMemory::max_block_bytes;
constexpr unsigned most_serial_bytes = 64;

std::string text_of(std::span<const std::uint8_t> field) {
    std::string text;
    for (const std::uint8_t c : field) text += c > 0x20 && c < 0x7f ? static_cast<char>(c) : ' ';
    const auto first = text.find_first_not_of(' ');
    if (first == std::string::npos) return {};
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

template <class T>
T load(const std::byte* from) noexcept {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

std::string serial_of(const std::byte* page) {
    const auto header = load<scsi::VpdHeader>(page);
    return text_of({reinterpret_cast<const std::uint8_t*>(page) + sizeof header,
                    std::min<std::size_t>(header.bytes, most_serial_bytes)});
}

bool has_page(std::span<const std::uint8_t> pages, std::uint8_t page) noexcept {
    return std::ranges::find(pages, page) != pages.end();
}

void take_capacity(const scsi::Capacity16& capacity, UnitFacts& facts) {
    facts.blocks = capacity.last_lba + 1;
    facts.block_bytes = capacity.block_bytes;
    const unsigned exponent = capacity.exponents & 0xf;
    facts.physical_bytes = exponent <= 8 ? facts.block_bytes << exponent : facts.block_bytes;
}

void take_caching(const std::byte* data, UnitFacts& facts) {
    const auto header = load<scsi::ModeHeader6>(data);
    facts.read_only = (header.device_specific & scsi::mode_write_protected) != 0;
    facts.fua = (header.device_specific & scsi::mode_dpo_fua) != 0;
    const std::size_t at = sizeof header + header.block_descriptor_bytes;
    if (at + sizeof(scsi::CachingPage) > page_bytes) return;
    const auto page = load<scsi::CachingPage>(data + at);
    if ((page.page & 0x3f) == scsi::mode_page::caching) facts.write_cache = (page.flags & scsi::caching_wce) != 0;
}

void take_block_limits(const std::byte* data, bool unmap, bool write_same, UnitFacts& facts) {
    const auto page = load<scsi::BlockLimitsPage>(data);
    const std::uint64_t same = page.max_write_same_blocks;
    if (unmap && page.max_unmap_descriptors != 0) facts.max_unmap_blocks = page.max_unmap_blocks;
    if (write_same) facts.max_write_same_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(same, ~0u));
    facts.unmap_granularity_blocks = std::max<std::uint32_t>(page.optimal_unmap_granularity_blocks, 1);
}

}  // namespace

/// Data are in work_. Again while it says that it is about to be ready, or that something happened to it.
Task<Outcome> Controller::ask_scsi(const Unit& unit, scsi::Cdb cdb, std::uint32_t bytes) {
    Outcome outcome;
    bool direct = true;
    for (unsigned tries = 0; tries < most_tries; ++tries) {
        std::memset(work_.data(), 0, page_bytes);
        outcome = co_await internal_.scsi(unit.route, direct, cdb, {.address = work_.address(), .bytes = bytes},
                                          options_.scsi_bound);
        if (outcome.end == Outcome::End::timed_out && outcome.smid != 0 &&
            port_->has_task(unit.route, TaskType::abort_task)) {
            static_cast<void>(
                co_await internal_.task(unit.route, TaskType::abort_task, outcome.smid, options_.task_bound));
        }
        if (outcome.end != Outcome::End::answered || outcome.ok()) break;
        const std::span<const std::uint8_t> sense(reinterpret_cast<const std::uint8_t*>(memory().sense(outcome.smid)),
                                                  sense_buffer_bytes);
        const Verdict verdict = judge(outcome.status, outcome.scsi_status, sense).verdict;
        if (verdict == Verdict::by_firmware && std::exchange(direct, false)) continue;  // its map is on its way
        if (verdict != Verdict::again) break;
        co_await sleep(try_again);
    }
    co_return outcome;
}

/// Whether what is known of it is of another one: its block size and its serial number never change.
Task<bool> Controller::ask_identity(const Unit& unit) {
    const Outcome capacity =
        co_await ask_scsi(unit, scsi::build_read_capacity_16(sizeof(scsi::Capacity16)), sizeof(scsi::Capacity16));
    if (!capacity.ok()) co_return false;
    UnitFacts facts;
    take_capacity(load<scsi::Capacity16>(work_.data()), facts);
    if (facts.block_bytes != unit.facts.block_bytes) co_return true;
    if (unit.facts.serial.empty()) co_return false;
    const auto page = scsi::build_inquiry_page(scsi::vpd::unit_serial_number, page_bytes);
    if (!(co_await ask_scsi(unit, page, page_bytes)).ok()) co_return false;
    facts.serial = serial_of(work_.data());
    co_return !facts.serial.empty() && facts.serial != unit.facts.serial;
}

Task<Controller::Asked> Controller::ask_unit(Unit& unit) {
    if (unit.known && co_await ask_identity(unit)) co_return Asked::another;
    UnitFacts facts = unit.facts;
    const Outcome capacity =
        co_await ask_scsi(unit, scsi::build_read_capacity_16(sizeof(scsi::Capacity16)), sizeof(scsi::Capacity16));
    if (capacity.ok()) take_capacity(load<scsi::Capacity16>(work_.data()), facts);
    if (unit.known && facts.block_bytes != unit.facts.block_bytes) co_return Asked::another;
    const bool usable = capacity.ok() && std::has_single_bit(facts.block_bytes) && facts.block_bytes >= sector_bytes &&
                        facts.block_bytes <= most_block_bytes && facts.blocks != 0 &&
                        facts.blocks <= (~std::uint64_t{0} >> 1) / facts.block_bytes;
    if (!usable) {
        if (!unit.present)
            log_warning(fmt::format("{}: {}/{} is left out: it does not say its capacity, or one that cannot be",
                                    name(), to_string(unit.kind()), unit.id()));
        co_return Asked::unusable;
    }
    if (!unit.known) {
        if ((co_await ask_scsi(unit, scsi::build_inquiry(sizeof(scsi::InquiryData)), sizeof(scsi::InquiryData))).ok()) {
            const auto inquiry = load<scsi::InquiryData>(work_.data());
            facts.vendor = text_of(inquiry.vendor);
            facts.product = text_of(inquiry.product);
            facts.revision = text_of(inquiry.revision);
        }
        co_await ask_pages(unit, facts);
        if ((co_await ask_scsi(unit, scsi::build_mode_sense_6(scsi::mode_page::caching, page_bytes), page_bytes)).ok())
            take_caching(work_.data(), facts);
    }
    const auto shift = static_cast<unsigned>(std::countr_zero(facts.block_bytes / sector_bytes));
    const bool other_blocks = shift != unit.block_shift;
    if (other_blocks) hold();
    {
        const std::lock_guard lock(mutex_);
        unit.facts = std::move(facts);
        if (other_blocks) unit.block_shift = shift;
    }
    if (other_blocks) release();
    co_return Asked::usable;
}

Task<void> Controller::ask_pages(const Unit& unit, UnitFacts& facts) {
    std::vector<std::uint8_t> pages;
    const auto page = [](std::uint8_t number) { return scsi::build_inquiry_page(number, page_bytes); };
    if ((co_await ask_scsi(unit, page(scsi::vpd::supported_pages), page_bytes)).ok()) {
        const auto header = load<scsi::VpdHeader>(work_.data());
        const auto* const first = reinterpret_cast<const std::uint8_t*>(work_.data()) + sizeof header;
        pages.assign(first, first + std::min<std::size_t>(header.bytes, page_bytes - sizeof header));
    }
    if (has_page(pages, scsi::vpd::unit_serial_number) &&
        (co_await ask_scsi(unit, page(scsi::vpd::unit_serial_number), page_bytes)).ok()) {
        facts.serial = serial_of(work_.data());
    }
    if (has_page(pages, scsi::vpd::block_characteristics) &&
        (co_await ask_scsi(unit, page(scsi::vpd::block_characteristics), page_bytes)).ok()) {
        const std::uint16_t rate = load<scsi::BlockCharacteristicsPage>(work_.data()).rotation_rate;
        facts.rotational = rate > scsi::rotation_none;
    }
    bool unmap = false, write_same = false;
    if (has_page(pages, scsi::vpd::logical_block_provisioning) &&
        (co_await ask_scsi(unit, page(scsi::vpd::logical_block_provisioning), page_bytes)).ok()) {
        const auto provisioning = load<scsi::ProvisioningPage>(work_.data());
        unmap = (provisioning.flags & scsi::provisioning_unmap) != 0;
        write_same = (provisioning.flags & scsi::provisioning_write_same_16) != 0;
    }
    if (has_page(pages, scsi::vpd::block_limits) &&
        (co_await ask_scsi(unit, page(scsi::vpd::block_limits), page_bytes)).ok())
        take_block_limits(work_.data(), unmap, write_same, facts);
}

}  // namespace mqblk::driver::megaraid
