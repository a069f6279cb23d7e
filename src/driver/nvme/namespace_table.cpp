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

std::vector<std::uint32_t> NamespaceTable::list() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::uint32_t> result;
    result.reserve(entries_.size());
    for (const auto& [nsid, entry] : entries_) result.push_back(nsid);
    return result;
}

bool NamespaceTable::contains(std::uint32_t nsid) const {
    const std::scoped_lock lock(mutex_);
    return entries_.contains(nsid);
}

Result<std::shared_ptr<Device>> NamespaceTable::open(std::uint32_t nsid, const std::string& controller,
                                                     const ControllerFacts& facts,
                                                     const std::function<std::shared_ptr<block::QueueSet>()>& queues) {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(nsid);
    if (found == entries_.end()) {
        std::vector<std::uint32_t> there;
        for (const auto& [id, entry] : entries_) there.push_back(id);
        return fail(Errc::not_found, there.empty() ? fmt::format("{} has no namespaces", controller)
                                                   : fmt::format("{} has no namespace {}; it has {}", controller, nsid,
                                                                 fmt::join(there, ", ")));
    }
    Entry& entry = found->second;
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
        Entry& entry = entries_[facts.nsid];
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

void NamespaceTable::keep_only(const std::set<std::uint32_t>& active) {
    std::vector<std::shared_ptr<Device>> gone;
    {
        const std::scoped_lock lock(mutex_);
        for (auto at = entries_.begin(); at != entries_.end();) {
            if (active.contains(at->first)) {
                ++at;
                continue;
            }
            if (auto disk = at->second.disk.lock()) gone.push_back(std::move(disk));
            retire(at->second);
            at = entries_.erase(at);
        }
    }
    for (const auto& disk : gone) disk->remove();
}

void NamespaceTable::remove(std::uint32_t nsid) {
    std::shared_ptr<Device> gone;
    {
        const std::scoped_lock lock(mutex_);
        const auto found = entries_.find(nsid);
        if (found == entries_.end()) return;
        gone = found->second.disk.lock();
        retire(found->second);
        entries_.erase(found);
    }
    if (gone) gone->remove();
}

}  // namespace mqblk::driver::nvme
