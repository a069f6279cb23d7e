// SPDX-License-Identifier: Apache-2.0
//
// A Device is an opened disk; a Channel is one thread's way to it. Nobody who holds them knows which driver is below.
#pragma once

#include <mqblk/bio.h>
#include <mqblk/error.h>
#include <mqblk/limits.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mqblk {

class Reactor;
namespace block {
class ChannelCore;
class DeviceCore;
}  // namespace block

/// Names a disk by what it says of itself. Empty or zero where it says nothing.
struct Identity {
    std::string name;    ///< short, for people: the last part of its URI unless the device knows better
    std::string driver;  ///< "null", "nvme", …
    std::string model, serial, firmware;
    std::string uuid, nguid, eui64;  ///< lower-case text forms
};

/// One thread's access to a Device: the software queue. Create, use and destroy it on one thread.
class Channel {
  public:
    explicit Channel(std::unique_ptr<block::ChannelCore>) noexcept;
    ~Channel();  ///< ends what is still outstanding (status `aborted`) before it returns
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    /// Starts an I/O. Never blocks, never fails by itself, never runs completions: bad bios end with a status.
    /// Outside poll() it is sent at once unless plugged; inside poll() it goes out with the pass's batch.
    void submit(Bio&) noexcept;

    /// Nobody wants the end of a submitted bio any more: what the driver does not have of it is not sent. It still
    /// ends, once, with `aborted` unless it failed otherwise; what became of a part that the driver has is not told.
    /// Those that wait do so at drop_cancelled(), or when it is their turn.
    void cancel(Bio&) noexcept;
    void drop_cancelled() noexcept;

    /// Holds submitted bios back so that neighbours merge and the driver rings once. Nests.
    void plug() noexcept;
    void unplug() noexcept;

    /// One pass: progress, completions. Returns how many bios were completed.
    unsigned poll() noexcept;

    /// Polls for a short while, then sleeps, until at least one bio was completed or none is outstanding.
    unsigned wait() noexcept;

    /// Bios submitted and not yet completed.
    [[nodiscard]] unsigned outstanding() const noexcept;

    [[nodiscard]] block::ChannelCore& core() noexcept { return *core_; }

  private:
    std::unique_ptr<block::ChannelCore> core_;
};

/// Thread-safe throughout. Channels keep their device alive.
class Device {
  public:
    explicit Device(std::shared_ptr<block::DeviceCore>) noexcept;
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    /// A channel with an event loop of its own, for a thread that has none.
    [[nodiscard]] Result<std::unique_ptr<Channel>> channel();
    /// A channel that lives in the calling thread's event loop, which must outlive it.
    [[nodiscard]] Result<std::unique_ptr<Channel>> channel(Reactor&);

    [[nodiscard]] std::uint64_t sectors() const noexcept;  ///< size now
    [[nodiscard]] QueueLimits limits() const;
    [[nodiscard]] Identity identity() const;
    [[nodiscard]] bool read_only() const noexcept;
    [[nodiscard]] bool removed() const noexcept;

    /// Queue attributes by the names that /sys/block/X/queue uses, in its order, and their values as text; with the
    /// scheduler mq-deadline also those of its directory iosched.
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> attributes() const;
    /// Changes a writable attribute (scheduler, nr_requests, max_sectors_kb, nomerges, io_timeout, write_cache,
    /// iostats, and with mq-deadline read_expire, write_expire, prio_aging_expire, writes_starved, fifo_batch,
    /// front_merges); the error names the attribute, the value and what is allowed. rq_affinity is always 2: a
    /// completion runs on the thread that submitted.
    [[nodiscard]] Result<> set_attribute(const std::string& name, const std::string& value);

    /// Called, on any thread, after size or limits changed or the device was removed. Empty function to stop.
    void on_change(std::function<void()>);

    /// No new I/O; what is outstanding ends within the driver's bound. Channels then complete with `removed`.
    void remove();

    [[nodiscard]] block::DeviceCore& core() noexcept { return *core_; }

  private:
    std::shared_ptr<block::DeviceCore> core_;
};

}  // namespace mqblk
