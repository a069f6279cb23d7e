// SPDX-License-Identifier: Apache-2.0
//
// BackingFile: the opened file or block device, locked and sized, and what was learnt about it. Constant once open, but
// for the abilities that only an attempt can tell.
#pragma once

#include "driver/file/file.h"
#include "memory/buffer.h"

#include <mqblk/error.h>
#include <mqblk/limits.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace mqblk::driver::file {

class BackingFile {
  public:
    [[nodiscard]] static Result<std::unique_ptr<BackingFile>> open(const Options&);
    ~BackingFile();
    BackingFile(const BackingFile&) = delete;
    BackingFile& operator=(const BackingFile&) = delete;

    [[nodiscard]] int fd() const noexcept { return fd_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_acquire); }
    /// What bytes() says from now on, and the length of the file.
    void promise(std::uint64_t bytes) noexcept { bytes_.store(bytes, std::memory_order_release); }
    [[nodiscard]] Result<> set_length(std::uint64_t bytes);
    [[nodiscard]] bool is_block_device() const noexcept { return block_device_; }
    [[nodiscard]] bool direct() const noexcept { return direct_; }
    /// With direct(): what addresses, and lengths and offsets of each piece, must be multiples of. Else 1.
    [[nodiscard]] std::uint32_t memory_alignment() const noexcept { return memory_alignment_; }
    [[nodiscard]] std::uint32_t length_alignment() const noexcept { return length_alignment_; }
    /// A file system that makes the submitting thread wait for its server: operations go to threads of the kernel's.
    [[nodiscard]] bool blocks_submitter() const noexcept { return blocks_submitter_; }
    [[nodiscard]] const std::string& io_description() const noexcept { return io_description_; }

    /// Memory that is zero, to write from. Nobody writes to it.
    [[nodiscard]] const memory::Buffer& zeroes() const noexcept { return zeroes_; }

    /// Block sizes, granularity, write cache and kind of medium; the rest is the queue's business.
    void describe(QueueLimits&) const;

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    // Any thread. Cleared once when the system says that it lacks the operation.
    std::atomic<bool> discards = false;      ///< a block device: what BLKDISCARD does, which promises no zeroes
    std::atomic<bool> punches_holes = true;  ///< reads as zero; on a block device what BLKZEROOUT does
    std::atomic<bool> zeroes_ranges = true;  ///< the same, but the space stays allocated

  private:
    explicit BackingFile(std::string path) : path_(std::move(path)) {}
    [[nodiscard]] std::unexpected<Error> refuse(Errc, std::string_view why) const;
    [[nodiscard]] std::unexpected<Error> failed(std::string_view attempted) const;  // with errno
    Result<> open_descriptor(const Options&);
    Result<> lock(bool read_only);
    Result<> settle_size(const Options&);
    Result<> grow(const Options&, std::uint64_t present);
    void probe_direct(const Options&);
    void probe_abilities(bool read_only);

    std::string path_;
    int fd_ = -1;
    bool created_ = false;  // by us, and to be removed if opening fails
    bool block_device_ = false;
    bool direct_ = false;
    bool blocks_submitter_ = false;
    std::atomic<std::uint64_t> bytes_ = 0;
    std::uint32_t memory_alignment_ = 1;
    std::uint32_t length_alignment_ = 1;
    std::uint32_t preferred_bytes_ = 4096;
    std::string io_description_;
    memory::Buffer zeroes_;
};

}  // namespace mqblk::driver::file
