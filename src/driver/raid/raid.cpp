// SPDX-License-Identifier: Apache-2.0
//
// An array as a device: its limits, its queues, and what may be asked of it besides I/O.
#include "driver/raid/raid.h"

#include "block/device_core.h"
#include "block/disk_options.h"
#include "block/queue.h"
#include "driver/raid/assemble.h"
#include "driver/raid/keeper.h"
#include "driver/raid/raid_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <thread>

namespace mqblk::driver::raid {

namespace {

std::uint64_t most_request_bytes(const Geometry& g) {
    return std::max<std::uint64_t>(1, Geometry::most_stripe / g.stripe_bytes()) * g.stripe_bytes();
}

class RaidDriver final : public block::Driver {
  public:
    RaidDriver(const Options& options, std::shared_ptr<Array> array, std::unique_ptr<Keeper> keeper, Home home,
               std::vector<std::string> names)
        : array_(std::move(array)), keeper_(std::move(keeper)), home_(std::move(home)), names_(std::move(names)) {
        block::DiskOptions disk;
        disk.queues = options.queues;
        disk.depth = options.depth;
        shape_ = block::shape_for(
            disk, RequestRoom::of(array_->geometry(), most_request_bytes(array_->geometry())).payload_bytes());
    }
    ~RaidDriver() override {
        // In steps, so that what was posted to the home before is not waited for from within another posted task.
        bool stopped = false;
        while (!stopped) {
            std::thread::id home;
            home_.run([&] {
                home = std::this_thread::get_id();
                stopped = keeper_->stop();
            });
            if (stopped) break;
            if (home == std::this_thread::get_id()) {
                home_.reactor->run_once(Reactor::Sleep::yes, home_.reactor->now() + std::chrono::milliseconds(10));
            } else {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        home_.run([this] {
            keeper_.reset();
            array_.reset();
        });
    }

    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned, block::Queue& queue, Reactor& reactor) override {
        auto opened = RaidQueue::open(array_, queue, reactor);
        if (!opened) return std::unexpected(opened.error());
        return std::move(*opened);
    }

    [[nodiscard]] Array& array() noexcept { return *array_; }
    [[nodiscard]] Keeper& keeper() noexcept { return *keeper_; }
    [[nodiscard]] const Home& where() const noexcept { return home_; }
    [[nodiscard]] std::string name_of(unsigned member) const {
        const std::lock_guard lock(mutex_);
        return names_[member];
    }
    void rename(unsigned member, std::string name) {
        const std::lock_guard lock(mutex_);
        names_[member] = std::move(name);
    }

  private:
    Shape shape_;
    std::shared_ptr<Array> array_;
    std::unique_ptr<Keeper> keeper_;
    const Home home_;
    mutable std::mutex mutex_;
    std::vector<std::string> names_;
};

QueueLimits limits_of(const Array& array) {
    const Geometry& g = array.geometry();
    QueueLimits limits;
    bool zeroes = true, discards = true;
    for (const auto& device : array.config().devices) {
        if (device == nullptr) continue;
        const QueueLimits below = device->limits();
        limits.logical_block_size = std::max(limits.logical_block_size, below.logical_block_size);
        limits.physical_block_size = std::max(limits.physical_block_size, below.physical_block_size);
        limits.dma_alignment |= below.dma_alignment;
        limits.write_cache |= below.write_cache;
        limits.rotational |= below.rotational;
        limits.discard_granularity = std::max(limits.discard_granularity, below.discard_granularity);
        zeroes &= below.max_write_zeroes_sectors != 0;
        discards &= below.max_discard_sectors != 0;
    }
    limits.io_min = g.chunk;
    limits.io_opt = g.stripe_bytes();
    limits.max_sectors = static_cast<std::uint32_t>(most_request_bytes(g) / sector_bytes);
    limits.chunk_sectors = limits.max_sectors;  // what is cut, is cut between stripes
    limits.max_segments = RequestRoom::max_segments;
    // On RAID-6 both write zeroes, which any member takes: a discard that zeroes or not would leave P and Q behind.
    if (g.parity != 0) limits.discard_granularity = limits.logical_block_size;
    if (g.parity != 0 || zeroes) limits.max_write_zeroes_sectors = limits.max_sectors;
    if (g.parity != 0 || discards) limits.max_discard_sectors = limits.max_sectors;
    return limits;
}

Result<> check_count(const Options& options) {
    const std::size_t count = options.members.size();
    const std::size_t least = options.level == 6 ? 5 : 2, most = options.level == 6 ? max_members : max_data;
    if (count >= least && count <= most) return {};
    return fail(
        Errc::invalid_argument,
        fmt::format(
            "{}: {} members are named; {}; write member=missing for one that is not there", options.name, count,
            options.level == 6 ? "RAID-6 has 5 to 34, 3 to 32 of data and two for P and Q" : "RAID-0 has 2 to 32"));
}

RaidDriver* driver_of(Device& device) {
    const block::Disk& disk = block::disk_of(device.core());
    return disk.identity.driver == "raid" ? static_cast<RaidDriver*>(disk.driver_data) : nullptr;
}

std::unexpected<Error> no_array() {
    return fail(Errc::invalid_argument, "the device is no RAID array; give a raid6:// or raid0:// URI");
}

}  // namespace

Task<Result<std::shared_ptr<Device>>> open(Options options, Home home) {
    if (auto ok = check_count(options); !ok) co_return std::unexpected(ok.error());
    auto assembled = co_await assemble(options, *home.reactor);
    if (!assembled) co_return std::unexpected(assembled.error());
    auto array = std::make_shared<Array>(assembled->superblock, *home.reactor);
    if (array->zeroes() == nullptr) co_return fail(Errc::no_space, options.name + ": no memory for a chunk of zeroes");
    array->journal.start_at(assembled->journal_next);
    auto keeper = std::make_unique<Keeper>(array, std::move(assembled->io), assembled->superblock,
                                           assembled->intent_sequence, options.name);
    auto started = co_await keeper->start(std::move(assembled->config));
    if (!started) co_return std::unexpected(started.error());

    block::Disk disk;
    disk.limits = limits_of(*array);
    disk.sectors = array->geometry().bytes() / sector_bytes;
    disk.identity.name = options.name;
    disk.identity.driver = "raid";
    disk.identity.model = fmt::format("mqblk RAID-{}", array->level());
    disk.identity.uuid = to_text(array->uuid());
    for (const auto& member : options.members)
        disk.reads_nothing |= member.device != nullptr && block::reads_nothing(*member.device);
    const Geometry& g = array->geometry();
    disk.details = {{"level", fmt::format("{}", array->level())},
                    {"members", fmt::format("{}", g.members())},
                    {"data_members", fmt::format("{}", g.data)},
                    {"chunk_bytes", fmt::format("{}", g.chunk)},
                    {"stripes", fmt::format("{}", g.stripes)},
                    {"missing_at_start",
                     fmt::format("{}", g.members() - static_cast<unsigned>(std::popcount(array->config().in_sync)))}};
    auto driver = std::make_shared<RaidDriver>(options, std::move(array), std::move(keeper), std::move(home),
                                               std::move(assembled->names));
    disk.driver_data = driver.get();
    if (auto ok = disk.limits.validate(); !ok) co_return std::unexpected(ok.error().in(options.name));
    co_return block::QueueSet::create(std::move(driver))->add_disk(std::move(disk));
}

Result<Report> report(Device& device) {
    RaidDriver* const driver = driver_of(device);
    if (driver == nullptr) return no_array();
    Array& array = driver->array();
    const Config& config = array.config();
    const Geometry& g = array.geometry();
    Report result;
    result.uuid = to_text(array.uuid());
    result.level = array.level();
    result.data = g.data;
    result.chunk = g.chunk;
    result.events = config.events;
    result.journal = config.journal;
    result.state = config.dead                             ? "dead"
                   : config.in_sync == array.all_members() ? "optimal"
                   : config.rebuilding != 0                ? "rebuilding"
                                                           : "degraded";
    for (unsigned i = 0; i < g.members(); ++i) {
        const bool in_sync = (config.in_sync & bit(i)) != 0, rebuilding = (config.rebuilding & bit(i)) != 0;
        result.members.push_back({driver->name_of(i), in_sync ? "in sync" : rebuilding ? "rebuilding" : "missing"});
    }
    const auto copy = [](const Progress& from, Report::Running& to) {
        to = {from.running.load(), from.done.load(), from.all.load(), from.repaired.load(), from.failed.load()};
    };
    copy(driver->keeper().rebuild_progress, result.rebuild);
    copy(driver->keeper().scrub_progress, result.scrub);
    const auto counters = array.counters();
    result.full_stripe_writes = counters[Counters::full_stripe_writes];
    result.read_modify_writes = counters[Counters::read_modify_writes];
    result.reconstruct_writes = counters[Counters::reconstruct_writes];
    result.reconstructed_reads = counters[Counters::reconstructed_reads];
    result.repaired_chunks = counters[Counters::repaired_chunks];
    result.journaled_writes = counters[Counters::journaled_writes];
    return result;
}

Result<> replace(Device& device, unsigned member, MemberOption replacement, bool force) {
    RaidDriver* const driver = driver_of(device);
    if (driver == nullptr) return no_array();
    const Geometry& g = driver->array().geometry();
    if (driver->array().level() == 0)
        return fail(Errc::not_supported, "RAID-0 cannot rebuild a member; copy the array to another one");
    if (member >= g.members())
        return fail(Errc::invalid_argument,
                    fmt::format("member {}: the array has members 0 to {}", member, g.members() - 1));
    if (replacement.device->sectors() * sector_bytes < g.member_bytes)
        return fail(Errc::no_space,
                    fmt::format("{} has {} bytes, but the array uses {} of each member; use a larger one",
                                replacement.name, replacement.device->sectors() * sector_bytes, g.member_bytes));
    QueueLimits limits = device.core().disk_limits();
    const QueueLimits below = replacement.device->limits();
    if (below.logical_block_size > limits.logical_block_size)
        return fail(Errc::invalid_argument,
                    fmt::format("{} has blocks of {} bytes, but the array has {}; use one with the array's block",
                                replacement.name, below.logical_block_size, limits.logical_block_size));
    if (below.dma_alignment > limits.dma_alignment || (below.write_cache && !limits.write_cache)) {
        limits.dma_alignment |= below.dma_alignment;
        limits.write_cache |= below.write_cache;
        block::update_disk(device, limits, device.sectors(), device.read_only());
    }
    // It must not cost more than the array can do without.
    const Mask others = driver->array().config().in_sync & ~bit(member);
    if (std::popcount(others) < static_cast<int>(g.data))
        return fail(Errc::io, fmt::format("member {} cannot be replaced: two others are missing already; rebuild those "
                                          "first",
                                          member));
    Result<> done;
    driver->where().run([&] {
        MemberIo probe(*driver->where().reactor);
        if (auto opened = probe.open(0, replacement.device); !opened) {
            done = std::unexpected(opened.error());
            return;
        }
        Result<Found> found{};
        bool ended = false;
        spawn(find_superblock(probe, 0, replacement.name), [&](Result<Found> result) {
            found = std::move(result);
            ended = true;
        });
        Reactor& home = *driver->where().reactor;
        while (!ended) home.run_once(Reactor::Sleep::yes, home.now() + std::chrono::milliseconds(10));
        if (!found) {
            done = std::unexpected(found.error());
        } else if (!force && (found->superblock || found->damaged)) {
            done = fail(Errc::already_exists,
                        fmt::format("{} holds an array already; use --force to overwrite it", replacement.name));
        } else {
            driver->rename(member, replacement.name);
            driver->keeper().replace(member, replacement.device);
        }
    });
    return done;
}

Result<> scrub(Device& device) {
    RaidDriver* const driver = driver_of(device);
    if (driver == nullptr) return no_array();
    if (driver->array().level() == 0) return fail(Errc::not_supported, "RAID-0 has nothing to check its data against");
    if (driver->array().config().in_sync != driver->array().all_members())
        return fail(Errc::io, "members are missing, so wrong data cannot be told from right; rebuild them first");
    driver->where().run([&] { driver->keeper().scrub(); });
    return {};
}

}  // namespace mqblk::driver::raid
