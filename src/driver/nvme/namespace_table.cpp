// SPDX-License-Identifier: Apache-2.0
//
// Disks are told outside of the lock: they run callbacks of their users.
#include "driver/nvme/namespace_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mqblk::driver::nvme {

namespace {

block::Disk disk_of_namespace(const NamespaceFacts& facts, const ControllerFacts& controller, NamespaceIo& io) {
    block::Disk disk;
    disk.limits = facts.limits;
    disk.sectors = facts.sectors;
    disk.read_only = facts.read_only;
    disk.identity.name = fmt::format("n{}", facts.nsid);
    disk.identity.driver = "nvme";
    disk.identity.model = controller.model;
    disk.identity.serial = controller.serial;
    disk.identity.firmware = controller.firmware;
    disk.identity.uuid = facts.ids.uuid;
    disk.identity.nguid = facts.ids.nguid;
    disk.identity.eui64 = facts.ids.eui64;
    disk.unit = facts.nsid;
    disk.driver_data = &io;
    return disk;
}

}  // namespace

NamespaceTable::~NamespaceTable() {
    for (const std::uint32_t nsid : list()) static_cast<void>(take_out(nsid));
}

std::vector<std::uint32_t> NamespaceTable::list() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::uint32_t> result;
    result.reserve(entries_.size());
    entries_.for_each(0, [&](std::uint32_t nsid, const Entry&) {
        result.push_back(nsid);
        return true;
    });
    return result;
}

NamespaceMap NamespaceTable::facts() const {
    const std::scoped_lock lock(mutex_);
    NamespaceMap result;
    entries_.for_each(0, [&](std::uint32_t nsid, const Entry& entry) {
        result.emplace(nsid, entry.facts);
        return true;
    });
    return result;
}

bool NamespaceTable::contains(std::uint32_t nsid) const {
    const std::scoped_lock lock(mutex_);
    return entries_.load(nsid) != nullptr;
}

Result<std::shared_ptr<Device>> NamespaceTable::open(std::uint32_t nsid, const std::string& controller,
                                                     const ControllerFacts& facts,
                                                     const std::function<std::shared_ptr<block::QueueSet>()>& queues) {
    std::unique_lock lock(mutex_);
    Entry* const found = entries_.load(nsid);
    if (found == nullptr) {
        lock.unlock();
        const auto there = list();
        return fail(Errc::not_found, there.empty() ? fmt::format("{} has no namespaces", controller)
                                                   : fmt::format("{} has no namespace {}; it has {}", controller, nsid,
                                                                 fmt::join(there, ", ")));
    }
    Entry& entry = *found;
    if (auto disk = entry.disk.lock()) return disk;
    if (entry.io == nullptr) {
        entry.io = std::make_unique<NamespaceIo>(nsid, static_cast<std::uint8_t>(entry.facts.block_shift - 9));
    }
    auto disk = queues()->add_disk(disk_of_namespace(entry.facts, facts, *entry.io));
    entry.disk = disk;
    return disk;
}

void NamespaceTable::retire(Entry& entry) noexcept {
    if (entry.io != nullptr) retired_.push_back(std::move(entry.io));
}

void NamespaceTable::update(const NamespaceFacts& facts) {
    std::shared_ptr<Device> replaced, changed;
    {
        const std::scoped_lock lock(mutex_);
        Entry* found = entries_.load(facts.nsid);
        if (found == nullptr) {
            auto made = std::make_unique<Entry>();
            found = made.get();
            if (entries_.insert(facts.nsid, *found)) static_cast<void>(made.release());
        }
        Entry& entry = *found;
        if (entry.facts.nsid != 0 && !entry.facts.same_disk(facts)) {
            replaced = entry.disk.lock();
            retire(entry);
            entry.disk.reset();
        } else {
            changed = entry.disk.lock();
        }
        entry.facts = facts;
    }
    if (replaced) replaced->remove();
    if (changed) block::update_disk(*changed, facts.limits, facts.sectors, facts.read_only);
}

/// Its disk, if one is open.
std::shared_ptr<Device> NamespaceTable::take_out(std::uint32_t nsid) {
    const std::scoped_lock lock(mutex_);
    const std::unique_ptr<Entry> entry(entries_.erase(nsid));
    if (entry == nullptr) return nullptr;
    retire(*entry);
    return entry->disk.lock();
}

void NamespaceTable::keep_only(const std::set<std::uint32_t>& active) {
    for (const std::uint32_t nsid : list()) {
        if (!active.contains(nsid)) remove(nsid);
    }
}

void NamespaceTable::remove(std::uint32_t nsid) {
    if (const auto gone = take_out(nsid)) gone->remove();
}

}  // namespace mqblk::driver::nvme
