// SPDX-License-Identifier: Apache-2.0
//
// The commands of the target, by file. For each group there is a plan_ function, which checks all that can be checked
// before data moves, and an execute_ function, which carries it out and sees to it that the command ends.
#pragma once

#include "device/nvme/target_queue.h"

#include <mqblk/status.h>

#include <cstdint>

namespace mqblk::device::nvme {

class Controller;
class PageWindow;
class QueueCore;

// fabrics_commands.cpp: Connect, Disconnect, properties.
[[nodiscard]] Plan plan_fabrics(QueueCore&, TargetCommand&) noexcept;
void execute_fabrics(QueueCore&, TargetCommand&) noexcept;
// connect.cpp
void execute_connect(QueueCore&, TargetCommand&) noexcept;

// admin_commands.cpp: dispatch, Abort, Keep Alive, Asynchronous Event Request.
[[nodiscard]] Plan plan_admin(QueueCore&, TargetCommand&) noexcept;
void execute_admin(QueueCore&, TargetCommand&) noexcept;
// Each returns a status. identify.cpp:
[[nodiscard]] std::uint16_t identify(Controller&, const wire::nvme::Command&, Segments data);
// features.cpp: bytes that the command moves, and its execution.
[[nodiscard]] bool has_feature(const Controller&, std::uint8_t id) noexcept;
[[nodiscard]] std::uint32_t feature_data_bytes(const wire::nvme::Command&) noexcept;
[[nodiscard]] std::uint16_t get_features(Controller&, TargetCommand&);
[[nodiscard]] std::uint16_t set_features(Controller&, TargetCommand&);
// log_pages.cpp, discovery_log.cpp
[[nodiscard]] std::uint16_t get_log_page(Controller&, const wire::nvme::Command&, Segments data);
void write_discovery_log(Controller&, PageWindow&);

// io_commands.cpp: dispatch, Read, Write, Flush.
[[nodiscard]] Plan plan_io(QueueCore&, TargetCommand&) noexcept;
void execute_io(QueueCore&, TargetCommand&) noexcept;
/// Read and Write. Used by fused.cpp too, which wants the second half planned like any write.
[[nodiscard]] Plan plan_transfer(QueueCore&, TargetCommand&) noexcept;
void count_transfer(const TargetCommand&) noexcept;
/// The host asked for force unit access, or switched the write cache off. While the command is planned.
[[nodiscard]] bool wants_fua(const TargetCommand&) noexcept;
/// Submits command.bio. When it ends command.step runs if there is one, else the command ends with bio_result().
void start_bio(TargetCommand&, Op, std::uint8_t flags, std::uint64_t block, std::uint64_t blocks, Segments) noexcept;
[[nodiscard]] std::uint16_t bio_result(const TargetCommand&) noexcept;
/// Looks the namespace up and takes the command into its channel's count. Null: `status` says why.
[[nodiscard]] NamespaceChannel* take_channel(QueueCore&, TargetCommand&, std::uint16_t& status) noexcept;
[[nodiscard]] std::uint16_t check_range(const NamespaceChannel&, std::uint64_t first, std::uint64_t blocks) noexcept;
/// How a backend's status is told to a host.
[[nodiscard]] std::uint16_t nvme_status(Status, std::uint8_t opcode) noexcept;

// range_commands.cpp: Write Zeroes, Dataset Management.
[[nodiscard]] Plan plan_write_zeroes(QueueCore&, TargetCommand&) noexcept;
void execute_write_zeroes(TargetCommand&) noexcept;
[[nodiscard]] Plan plan_dataset_management(QueueCore&, TargetCommand&) noexcept;
void execute_dataset_management(TargetCommand&) noexcept;

// check_commands.cpp: Compare, Verify.
[[nodiscard]] Plan plan_check(QueueCore&, TargetCommand&) noexcept;
/// A Compare that is the first half of a fused pair ends in fused_compared() instead.
void execute_check(TargetCommand&) noexcept;

// fused.cpp: Compare and Write as one.
[[nodiscard]] Plan plan_fused(QueueCore&, TargetCommand&) noexcept;
void execute_fused(TargetCommand&) noexcept;
void fused_compared(TargetCommand& first, std::uint16_t status) noexcept;
/// One half is given up before both were executed: the other fails.
void abandon_fused(TargetCommand&) noexcept;
/// Keeps a command back while a fused pair runs on its namespace.
void hold_write(TargetCommand&) noexcept;

}  // namespace mqblk::device::nvme
