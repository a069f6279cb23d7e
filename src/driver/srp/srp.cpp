// SPDX-License-Identifier: Apache-2.0
#include "driver/srp/srp.h"

#include "block/driver.h"
#include "block/queue.h"
#include "driver/srp/io_queue.h"
#include "driver/srp/scan.h"
#include "driver/srp/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

namespace mqblk::driver::srp {

namespace {

class SrpDriver final : public block::Driver {
  public:
    explicit SrpDriver(std::shared_ptr<Session> session) : session_(std::move(session)) {
        shape_.max_queues = session_->channels;
        shape_.depth = session_->depth();
        shape_.reserved = Session::reserved_tags;
        shape_.payload_bytes = sizeof(Context);
        shape_.timeout = session_->options.timeout;
    }
    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned index, block::Queue& queue,
                                                             Reactor& reactor) override {
        return std::make_unique<IoQueue>(session_, index, queue, reactor);
    }

  private:
    const std::shared_ptr<Session> session_;
    Shape shape_;
};

block::Disk describe(Unit& unit, const Session& session) {
    const Options& options = session.options;
    block::Disk disk;
    QueueLimits& limits = disk.limits;
    const auto sectors_of = [&](std::uint32_t blocks) {
        return static_cast<std::uint32_t>(
            std::min<std::uint64_t>(std::uint64_t{blocks} << unit.block_shift, QueueLimits::unlimited >> 1));
    };
    limits.logical_block_size = unit.block_bytes;
    limits.physical_block_size = unit.physical_bytes;
    limits.io_min = unit.physical_bytes;
    limits.max_sectors = options.max_sect;
    if (unit.max_transfer_blocks != 0)
        limits.max_sectors = std::min(limits.max_sectors, sectors_of(unit.max_transfer_blocks));
    limits.max_segments = std::max(options.indirect_sg_entries, options.cmd_sg_entries);
    // Without external tables pieces have to share registrations, so they meet at page boundaries.
    if (!options.allow_ext_sg) limits.virt_boundary_mask = 4095;
    limits.max_discard_sectors = sectors_of(unit.max_unmap_blocks);
    limits.discard_granularity = unit.max_unmap_blocks == 0 ? 0 : unit.unmap_granularity_blocks * unit.block_bytes;
    limits.max_write_zeroes_sectors = sectors_of(unit.max_write_same_blocks);
    limits.write_cache = unit.write_cache;
    limits.fua = unit.write_cache && unit.fua;
    limits.rotational = unit.rotational;
    disk.sectors = unit.blocks << unit.block_shift;
    disk.read_only = unit.read_only;
    disk.identity.name = fmt::format("{}/lun/{}", options.name, unit.lun);
    disk.identity.driver = "srp";
    disk.identity.model = unit.vendor.empty() ? unit.product : fmt::format("{} {}", unit.vendor, unit.product);
    disk.identity.serial = unit.serial;
    disk.identity.firmware = unit.revision;
    disk.unit = unit.lun;
    disk.driver_data = &unit;
    disk.details.emplace_back("target", session.address.to_string());
    disk.details.emplace_back("channels", fmt::format("{}", session.channels));
    return disk;
}

}  // namespace

Task<Result<std::shared_ptr<Initiator>>> Initiator::connect(Reactor& reactor, fabric::rdma::Network& network,
                                                            fabric::Address address, Options options,
                                                            std::shared_ptr<void> holds) {
    if (auto ok = check_options(options); !ok) co_return std::unexpected(ok.error());
    auto session = std::make_shared<Session>();
    session->holds = std::move(holds);
    session->options = std::move(options);
    session->network = &network;
    session->address = std::move(address);
    unsigned channels = session->options.ch_count;
    if (channels == 0) channels = std::max(1u, std::thread::hardware_concurrency());
    if (auto ok = co_await scan(*session, reactor, channels); !ok) co_return std::unexpected(ok.error());
    co_return std::make_shared<Initiator>(std::move(session));
}

Initiator::Initiator(std::shared_ptr<Session> session)
    : session_(std::move(session)), set_(block::QueueSet::create(std::make_shared<SrpDriver>(session_))) {}

Initiator::~Initiator() = default;

std::vector<unsigned> Initiator::luns() const {
    std::vector<unsigned> result;
    for (const auto& unit : session_->units) result.push_back(unit->lun);
    return result;
}

Result<std::shared_ptr<Device>> Initiator::device(unsigned lun) {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, weak] : devices_)
        if (auto device = weak.lock(); device != nullptr && number == lun) return device;
    const auto found = std::ranges::find_if(session_->units, [&](const auto& unit) { return unit->lun == lun; });
    if (found == session_->units.end())
        return fail(Errc::not_found,
                    fmt::format("{}: has no disk at LUN {}; there {}", session_->address.to_string(), lun,
                                session_->units.empty() ? "are none" : fmt::format("are {}", fmt::join(luns(), ", "))));
    auto device = set_->add_disk(describe(**found, *session_));
    std::erase_if(devices_, [](const auto& each) { return each.second.expired(); });
    devices_.emplace_back(lun, device);
    return device;
}

Initiator::Counters Initiator::counters() const {
    const auto& from = session_->counters;
    return {.commands = from.commands,
            .external = from.external,
            .pieces = from.pieces,
            .aborts = from.aborts,
            .reconnects = from.reconnects,
            .requeued = from.requeued,
            .fallbacks = from.fallbacks};
}

unsigned Initiator::channels() const noexcept {
    return session_->channels;
}

}  // namespace mqblk::driver::srp
