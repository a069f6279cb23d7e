// SPDX-License-Identifier: Apache-2.0
//
// Sense data in fixed and in descriptor format. What is read came from a peer: nothing past its length is looked at.
#include "wire/scsi.h"

#include <algorithm>
#include <cstring>

namespace mqblk::wire::scsi {
namespace {

constexpr std::size_t descriptor_header_bytes = 8;
enum DescriptorType : std::uint8_t { information_descriptor = 0, command_descriptor = 1, key_specific_descriptor = 2 };

constexpr std::uint8_t field_in_cdb = 0x40, field_bit_valid = 0x08;

bool has_key_specific(const Sense& sense) noexcept {
    return sense.field || sense.progress;
}

void put_key_specific(const Sense& sense, std::uint8_t* to) noexcept {
    std::uint16_t value = 0;
    to[0] = sense_key_specific_valid;
    if (sense.field) {
        value = sense.field->byte;
        if (sense.field->in_cdb) to[0] |= field_in_cdb;
        if (sense.field->bit) to[0] |= static_cast<std::uint8_t>(field_bit_valid | (*sense.field->bit & 7));
    } else {
        value = sense.progress.value_or(0);
    }
    to[1] = static_cast<std::uint8_t>(value >> 8);
    to[2] = static_cast<std::uint8_t>(value);
}

void get_key_specific(const std::uint8_t* from, Sense& sense) noexcept {
    if ((from[0] & sense_key_specific_valid) == 0) return;
    const auto value = static_cast<std::uint16_t>(from[1] << 8 | from[2]);
    if (sense.key == SenseKey::illegal_request) {
        sense.field = Sense::FieldPointer{.byte = value, .in_cdb = (from[0] & field_in_cdb) != 0, .bit = {}};
        if ((from[0] & field_bit_valid) != 0) sense.field->bit = from[0] & 7;
    } else if (sense.key == SenseKey::not_ready || sense.key == SenseKey::no_sense) {
        sense.progress = value;
    }
}

/// Appends a descriptor of ten bytes after its header: two of flags and an integer of 64 bits.
void put_long_descriptor(std::uint8_t type, std::uint8_t flags, std::uint64_t value, std::uint8_t* to) noexcept {
    to[0] = type;
    to[1] = 10;
    to[2] = flags;
    const be64 wire(value);
    std::memcpy(to + 4, &wire, sizeof wire);
}

Sense parse_fixed(std::span<const std::uint8_t> bytes) noexcept {
    FixedSense fixed;
    // What the peer says it has, and what there is of it.
    std::size_t length = bytes.size();
    if (length > offsetof(FixedSense, additional_bytes))
        length = std::min<std::size_t>(length, std::size_t{bytes[offsetof(FixedSense, additional_bytes)]} + 8);
    std::memcpy(&fixed, bytes.data(), std::min(length, sizeof fixed));
    Sense sense;
    sense.key = static_cast<SenseKey>(fixed.key & 0xf);
    sense.code = fixed.code;
    sense.deferred = (fixed.response_code & 0x7f) == sense_fixed_deferred;
    if ((fixed.response_code & sense_information_valid) != 0) sense.information = fixed.information.value();
    sense.command_specific = fixed.command_specific;
    get_key_specific(fixed.key_specific, sense);
    return sense;
}

Sense parse_descriptors(std::span<const std::uint8_t> bytes) noexcept {
    Sense sense;
    sense.deferred = bytes[0] == sense_descriptor_deferred;
    if (bytes.size() > 1) sense.key = static_cast<SenseKey>(bytes[1] & 0xf);
    if (bytes.size() > 3) sense.code = static_cast<std::uint16_t>(bytes[2] << 8 | bytes[3]);
    if (bytes.size() < descriptor_header_bytes) return sense;
    std::span<const std::uint8_t> left = bytes.subspan(descriptor_header_bytes);
    left = left.first(std::min<std::size_t>(left.size(), bytes[7]));
    while (left.size() >= 2) {
        const std::size_t length = std::size_t{left[1]} + 2;
        if (length > left.size()) break;
        if ((left[0] == information_descriptor || left[0] == command_descriptor) && length == 12) {
            be64 value;
            std::memcpy(&value, left.data() + 4, sizeof value);
            if (left[0] == command_descriptor) {
                sense.command_specific = value;
            } else if ((left[2] & sense_information_valid) != 0) {
                sense.information = value.value();
            }
        } else if (left[0] == key_specific_descriptor && length == 8) {
            get_key_specific(left.data() + 4, sense);
        }
        left = left.subspan(length);
    }
    return sense;
}

}  // namespace

FixedSense build_fixed_sense(const Sense& sense) noexcept {
    FixedSense fixed;
    fixed.response_code = sense.deferred ? sense_fixed_deferred : sense_fixed;
    if (sense.information && *sense.information <= UINT32_MAX) {
        fixed.response_code |= sense_information_valid;
        fixed.information = static_cast<std::uint32_t>(*sense.information);
    }
    fixed.key = static_cast<std::uint8_t>(sense.key);
    fixed.additional_bytes = sizeof fixed - 8;
    if (sense.command_specific <= UINT32_MAX)
        fixed.command_specific = static_cast<std::uint32_t>(sense.command_specific);
    fixed.code = sense.code;
    if (has_key_specific(sense)) put_key_specific(sense, fixed.key_specific);
    return fixed;
}

std::size_t build_descriptor_sense(const Sense& sense, std::span<std::uint8_t, descriptor_sense_bytes> to) noexcept {
    std::ranges::fill(to, std::uint8_t{0});
    std::size_t used = descriptor_header_bytes;
    to[0] = sense.deferred ? sense_descriptor_deferred : sense_descriptor;
    to[1] = static_cast<std::uint8_t>(sense.key);
    to[2] = sense.additional_code();
    to[3] = sense.qualifier();
    if (sense.information) {
        put_long_descriptor(information_descriptor, sense_information_valid, *sense.information, &to[used]);
        used += 12;
    }
    if (sense.command_specific != 0) {
        put_long_descriptor(command_descriptor, 0, sense.command_specific, &to[used]);
        used += 12;
    }
    if (has_key_specific(sense)) {
        to[used] = key_specific_descriptor;
        to[used + 1] = 6;
        put_key_specific(sense, &to[used + 4]);
        used += 8;
    }
    to[7] = static_cast<std::uint8_t>(used - descriptor_header_bytes);
    return used;
}

std::optional<Sense> parse_sense(std::span<const std::uint8_t> bytes) noexcept {
    if (bytes.empty()) return std::nullopt;
    switch (bytes[0] & 0x7f) {
        case sense_fixed:
        case sense_fixed_deferred:
            return parse_fixed(bytes);
        case sense_descriptor:
        case sense_descriptor_deferred:
            return parse_descriptors(bytes);
        default:
            return std::nullopt;
    }
}

}  // namespace mqblk::wire::scsi
