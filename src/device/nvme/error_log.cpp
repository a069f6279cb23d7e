// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/error_log.h"

#include "device/nvme/page_window.h"

namespace mqblk::device::nvme {

void ErrorLog::record(std::uint16_t queue_id, const wire::nvme::Command& command, std::uint16_t status) noexcept {
    const std::lock_guard lock(mutex_);
    wire::nvme::ErrorLogEntry entry;
    entry.count = count_ + 1;
    entry.sq_id = queue_id;
    entry.command_id = command.command_id;
    entry.status = static_cast<std::uint16_t>(status << 1);
    entry.parameter_location = 0xffff;  // not a particular field
    if (queue_id != 0 && command.opcode != wire::nvme::admin_opcode::fabrics) {
        entry.namespace_id = command.namespace_id;
        entry.lba = wire::nvme::first_block(command);
    }
    entries_[count_ % entries_.size()] = entry;
    ++count_;
}

void ErrorLog::write(PageWindow& page) const noexcept {
    const std::lock_guard lock(mutex_);
    for (std::size_t age = 1; age <= entries_.size(); ++age) {
        if (age > count_) {
            page.append(wire::nvme::ErrorLogEntry{});
        } else {
            page.append(entries_[(count_ - age) % entries_.size()]);
        }
    }
}

std::uint64_t ErrorLog::count() const noexcept {
    const std::lock_guard lock(mutex_);
    return count_;
}

}  // namespace mqblk::device::nvme
