// SPDX-License-Identifier: Apache-2.0
//
// An operand of copy, verify, read or write: a device by URI, a plain file by path, or "-" for standard input or
// output. Opened, sized, and turned into an end of a transfer.
#pragma once

#include "cli/session.h"
#include "cli/transfer/endpoint.h"

#include <mqblk/error.h>

#include <memory>
#include <optional>
#include <string>

namespace mqblk::cli {

class Operand {
  public:
    /// Existing data: a URI, a file or a block device by its path, "-" for standard input.
    [[nodiscard]] static Result<Operand> open_source(Session&, const std::string& text);
    /// A place for data. A plain file is created, or overwritten and cut to length at the end; "-" is standard output.
    [[nodiscard]] static Result<Operand> open_destination(Session&, const std::string& text);

    Operand(Operand&&) noexcept;
    Operand& operator=(Operand&&) = delete;
    ~Operand();

    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] const std::shared_ptr<Device>& device() const noexcept { return device_; }  ///< null for a file
    [[nodiscard]] bool is_stream() const noexcept { return stream_; }
    /// Of a device or file; 0 for a stream.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    /// Refuses a destination that is write-protected.
    [[nodiscard]] Result<> check_writable() const;
    /// Whether both are the same file or disk, as far as that can be known.
    [[nodiscard]] bool same_place(const Operand& other) const noexcept {
        return !place_.empty() && place_ == other.place_;
    }
    /// What lengths must be multiples of: the device's block, 1 for files.
    [[nodiscard]] std::size_t block_bytes() const noexcept;

    /// As a source: `length` where --length was given, else all there is (Pipeline::to_the_end of a stream).
    [[nodiscard]] Result<std::uint64_t> length_to_move(bool given, std::uint64_t length) const;

    [[nodiscard]] Result<std::unique_ptr<Endpoint>> endpoint(Session&, std::uint64_t offset = 0, bool fua = false);
    /// Makes a written file exactly so long. No effect on devices and streams.
    [[nodiscard]] Result<> set_length(std::uint64_t bytes);

  private:
    explicit Operand(std::string name) : name_(std::move(name)) {}
    [[nodiscard]] static Result<Operand> open_device(Session&, const std::string& name, const std::string& uri);
    [[nodiscard]] static Result<Operand> open_path(Session&, const std::string& path, int flags);

    std::string name_;
    std::shared_ptr<Device> device_;
    int fd_ = -1;
    bool owned_ = false;  ///< the descriptor is ours to close
    bool stream_ = false;
    std::uint64_t bytes_ = 0;
    std::string place_;  ///< what it is by another name: a file's device and inode, a disk's UUID; or empty
};

}  // namespace mqblk::cli
