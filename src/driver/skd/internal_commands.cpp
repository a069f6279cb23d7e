// SPDX-License-Identifier: Apache-2.0
#include "driver/skd/internal_commands.h"

#include "driver/skd/sense.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include <cstring>
#include <limits>

namespace mqblk::driver::skd {

using namespace wire::skd;
using wire::scsi::Cdb;
using wire::scsi::SenseKey;

namespace {

constexpr std::size_t descriptor_offset = sizeof(FitMessage);
constexpr std::size_t data_offset = 1024;
constexpr std::size_t memory_bytes = 4096;
static_assert(descriptor_offset % sg_alignment == 0 && descriptor_offset + sizeof(SgDescriptor) <= data_offset &&
              data_offset + InternalCommands::pattern_bytes <= memory_bytes);

// Of INQUIRY, page 80h: four bytes, then the characters.
constexpr std::uint16_t inquiry_bytes = 16;
constexpr std::size_t serial_offset = 4, serial_characters = 12;

}  // namespace

Result<> InternalCommands::prepare(pci::DmaSpace& space) {
    auto memory = space.allocate(memory_bytes);
    if (!memory) return std::unexpected(memory.error());
    memory_ = std::move(*memory);
    return {};
}

std::byte* InternalCommands::data() const noexcept {
    return memory_.data() + data_offset;
}

std::uint64_t InternalCommands::message() const noexcept {
    return encode(Doorbell{.address = memory_.address(), .bytes = FitMessage::bytes(1)});
}

void InternalCommands::write(Step step) noexcept {
    step_ = step;
    id_ = next_id(id_);
    Cdb cdb{};
    std::uint32_t bytes = 0;
    switch (step) {
        case Step::none:
        case Step::test_unit_ready:
            cdb = wire::scsi::build_test_unit_ready();
            break;
        case Step::write_buffer:
            cdb = wire::scsi::build_write_buffer(bytes = pattern_bytes);
            for (std::size_t i = 0; i < pattern_bytes; ++i) data()[i] = static_cast<std::byte>(i);
            break;
        case Step::read_buffer:
            cdb = wire::scsi::build_read_buffer(bytes = pattern_bytes);
            break;
        case Step::read_capacity:
            cdb = wire::scsi::build_read_capacity_10();
            bytes = sizeof(wire::scsi::Capacity10);
            break;
        case Step::inquiry:
            cdb = wire::scsi::build_inquiry_page(wire::scsi::vpd::unit_serial_number, bytes = inquiry_bytes);
            break;
        case Step::synchronize_cache:
            cdb = wire::scsi::build_synchronize_cache();
            break;
    }
    if (step != Step::write_buffer) std::memset(data(), 0, pattern_bytes);
    FitMessage message;
    message.header.requests = 1;
    message.request[0] = {
        .sg_list_address = memory_.address(descriptor_offset), .tag = id_, .sg_list_bytes = bytes, .cdb = cdb};
    const SgDescriptor descriptor{.control = sg_last, .bytes = bytes, .host_address = memory_.address(data_offset)};
    std::memcpy(memory_.data(), &message, sizeof message);
    std::memcpy(memory_.data() + descriptor_offset, &descriptor, sizeof descriptor);
}

InternalCommands::Next InternalCommands::go_on(Step step) noexcept {
    write(step);
    return Next::send;
}

InternalCommands::Next InternalCommands::completed(const Completion& completion, const ErrorEntry& error) {
    const Verdict verdict = judge(completion.status, error);
    const bool good = verdict == Verdict::good || verdict == Verdict::smart_alert;
    const bool medium_error = completion.status == static_cast<std::uint8_t>(wire::scsi::Status::check_condition) &&
                              static_cast<SenseKey>(error.sense.key & 0x0f) == SenseKey::medium_error;
    const Step ended = step_;
    switch (ended) {
        case Step::test_unit_ready:
            // A disk whose medium is damaged still answers the rest.
            if (good || medium_error) return go_on(Step::write_buffer);
            break;
        case Step::write_buffer:
            if (good) return go_on(Step::read_buffer);
            break;
        case Step::read_buffer:
            if (good) return check_pattern(completion.returned_bytes);
            break;
        case Step::read_capacity:
            if (!medium_error && !(good && completion.returned_bytes == sizeof(wire::scsi::Capacity10))) break;
            take_capacity(good);
            return go_on(Step::inquiry);
        case Step::inquiry:
            if (good) take_serial(completion.returned_bytes);
            step_ = Step::none;
            return Next::ready;
        case Step::synchronize_cache:
            sync_failed_ = !good;
            step_ = Step::none;
            return Next::synced;
        case Step::none:
            break;
    }
    write(Step::test_unit_ready);
    return Next::pause;
}

InternalCommands::Next InternalCommands::check_pattern(std::uint32_t returned) noexcept {
    bool same = returned == pattern_bytes;
    for (std::size_t i = 0; i < pattern_bytes; ++i) same &= data()[i] == static_cast<std::byte>(i);
    if (same) return go_on(Step::read_capacity);
    step_ = Step::none;
    return Next::reset;
}

void InternalCommands::take_capacity(bool known) noexcept {
    wire::scsi::Capacity10 capacity;
    std::memcpy(&capacity, data(), sizeof capacity);
    // In sectors of 512 bytes whatever the card says of its blocks.
    facts_.sectors = known ? std::uint64_t{capacity.last_lba} + 1 : 0;
    facts_.block_bytes = known ? capacity.block_bytes.value() : 0;
}

void InternalCommands::take_serial(std::uint32_t returned) {
    facts_.serial.clear();
    for (std::size_t i = 0; i < serial_characters && serial_offset + i < returned; ++i) {
        const char c = static_cast<char>(data()[serial_offset + i]);
        if (c > ' ' && c < 0x7f) facts_.serial += c;
    }
}

}  // namespace mqblk::driver::skd
