// SPDX-License-Identifier: Apache-2.0
//
// Get and Set Features. NVMe 1.4, section 5.21 and figure 271. Nothing is saved over a reset; Get answers current,
// default and supported capabilities (ONCS save/select).
#include "device/nvme/commands.h"
#include "device/nvme/page_window.h"
#include "device/nvme/queue_core.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_logs.h"

#include <algorithm>
#include <chrono>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
namespace feature = wire::nvme::feature_id;
using wire::nvme::Command;

namespace {

enum FeatureSelect : std::uint8_t { select_current = 0, select_capabilities = 3 };

std::uint16_t get_timestamp(Controller& controller, TargetCommand& command) {
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(command.queue->reactor().now() -
                                                                             controller.timestamp_set);
    constexpr std::uint64_t mask = (1ull << 48) - 1;
    std::uint64_t value = (controller.timestamp_base_ms + static_cast<std::uint64_t>(since.count())) & mask;
    if (controller.timestamp_by_host) value |= 1ull << 49;  // origin: a Set Features command
    const le64 wire_value = value;
    copy_in(command.data, 0, &wire_value, sizeof wire_value);
    return status::success;
}

std::uint16_t set_timestamp(Controller& controller, TargetCommand& command) {
    le64 value;
    if (!copy_out(command.data, 0, &value, sizeof value)) return status::sgl_invalid_data_length;
    controller.timestamp_base_ms = value & ((1ull << 48) - 1);
    controller.timestamp_set = command.queue->reactor().now();
    controller.timestamp_by_host = true;
    return status::success;
}

std::uint16_t set_number_of_queues(Controller& controller, TargetCommand& command) {
    const std::uint32_t submission = command.command.cdw11 & 0xffff, completion = command.command.cdw11 >> 16;
    if (submission == 0xffff || completion == 0xffff) return status::permanent(status::invalid_field);
    if (controller.io_queues() > 0) return status::permanent(status::command_sequence_error);
    const std::uint32_t wanted = std::min(submission, completion) + 1;
    controller.granted_io_queues = std::min<std::uint32_t>(wanted, controller.target.limits.max_io_queues);
    command.completion.result = wire::nvme::queue_counts(controller.granted_io_queues, controller.granted_io_queues);
    return status::success;
}

bool on_discovery(std::uint8_t id) noexcept {
    return id == feature::async_event_config || id == feature::keep_alive_timer || id == feature::host_id;
}

bool is_known(std::uint8_t id) noexcept {
    switch (id) {
        case feature::arbitration:
        case feature::power_management:
        case feature::temperature_threshold:
        case feature::error_recovery:
        case feature::volatile_write_cache:
        case feature::number_of_queues:
        case feature::write_atomicity:
        case feature::async_event_config:
        case feature::timestamp:
        case feature::keep_alive_timer:
        case feature::host_behavior:
        case feature::command_set_profile:
        case feature::host_id:
            return true;
        default:
            return false;
    }
}

bool is_changeable(std::uint8_t id) noexcept {
    return id == feature::volatile_write_cache || id == feature::number_of_queues ||
           id == feature::async_event_config || id == feature::timestamp || id == feature::keep_alive_timer ||
           id == feature::host_behavior;
}

/// DW0 of a feature whose value is a word.
std::uint32_t word_of(Controller& controller, std::uint8_t id, bool defaults) noexcept {
    const std::uint32_t most_queues = controller.target.limits.max_io_queues;
    switch (id) {
        case feature::volatile_write_cache:
            return defaults || controller.write_cache.load(std::memory_order_relaxed) ? 1 : 0;
        case feature::number_of_queues: {
            const std::uint32_t queues = defaults ? most_queues : controller.granted_io_queues;
            return wire::nvme::queue_counts(queues, queues);
        }
        case feature::async_event_config:
            return defaults ? controller.events.supported() : controller.events.enabled();
        case feature::keep_alive_timer:
            return defaults ? 0 : controller.keep_alive_ms();
        default:
            return 0;
    }
}

}  // namespace

bool has_feature(const Controller& controller, std::uint8_t id) noexcept {
    return is_known(id) && (!controller.subsystem->discovery || on_discovery(id));
}

std::uint32_t feature_data_bytes(const Command& sqe) noexcept {
    const bool get = sqe.opcode == wire::nvme::admin_opcode::get_features;
    if (get && wire::nvme::feature_select_of(sqe) == select_capabilities) return 0;
    switch (wire::nvme::feature_of(sqe)) {
        case feature::timestamp:
            return wire::nvme::timestamp_bytes;
        case feature::host_behavior:
            return wire::nvme::host_behavior_bytes;
        case feature::host_id:
            return (sqe.cdw11 & 1) != 0 ? wire::nvme::host_id_bytes : 8;
        default:
            return 0;
    }
}

std::uint16_t get_features(Controller& controller, TargetCommand& command) {
    const Command& sqe = command.command;
    const std::uint8_t id = wire::nvme::feature_of(sqe), select = wire::nvme::feature_select_of(sqe);
    if (select > select_capabilities) return status::permanent(status::invalid_field);
    if (select == select_capabilities) {
        command.completion.result = is_changeable(id) ? 4u : 0u;
        return status::success;
    }
    const bool defaults = select != select_current;
    switch (id) {
        case feature::timestamp:
            return get_timestamp(controller, command);
        case feature::host_behavior: {
            const std::array<std::uint8_t, wire::nvme::host_behavior_bytes> none{};
            const auto& value = defaults ? none : controller.host_behavior;
            copy_in(command.data, 0, value.data(), value.size());
            return status::success;
        }
        case feature::host_id:
            // On fabrics the identifier has 128 bits, and the host must say that it knows.
            if ((sqe.cdw11 & 1) == 0) return status::permanent(status::invalid_field);
            copy_in(command.data, 0, controller.host_id.data(), controller.host_id.size());
            return status::success;
        default:
            command.completion.result = word_of(controller, id, defaults);
            return status::success;
    }
}

std::uint16_t set_features(Controller& controller, TargetCommand& command) {
    const Command& sqe = command.command;
    const std::uint8_t id = wire::nvme::feature_of(sqe);
    const std::uint32_t value = sqe.cdw11;
    if ((sqe.cdw10 & wire::nvme::feature_save) != 0) return status::permanent(status::feature_not_saveable);
    switch (id) {
        case feature::volatile_write_cache:
            controller.write_cache.store((value & 1) != 0, std::memory_order_relaxed);
            return status::success;
        case feature::number_of_queues:
            return set_number_of_queues(controller, command);
        case feature::async_event_config:
            if ((value & ~controller.events.configurable()) != 0) return status::permanent(status::invalid_field);
            controller.events.enable(value);
            return status::success;
        case feature::timestamp:
            return set_timestamp(controller, command);
        case feature::keep_alive_timer:
            controller.set_keep_alive(value);
            return status::success;
        case feature::host_behavior:
            if (!copy_out(command.data, 0, controller.host_behavior.data(), controller.host_behavior.size())) {
                return status::sgl_invalid_data_length;
            }
            return status::success;
        case feature::host_id:
            return status::permanent(status::command_sequence_error);  // Connect said it
        case feature::command_set_profile:
            if ((value & 0x1ff) == 0) return status::success;
            return status::permanent(status::invalid_field);
        default:
            return status::permanent(status::feature_not_changeable);
    }
}

}  // namespace mqblk::device::nvme
