// SPDX-License-Identifier: Apache-2.0
//
// What an RDMA queue pair is given to do and how that ended. Names and meaning are those of the InfiniBand
// Architecture Specification, volume 1: work requests in 10.8, access rights in 10.6, completion status in 11.6.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mqblk::fabric::rdma {

/// How memory may be used under a key; bits. Reading it locally is always allowed.
enum Access : std::uint8_t { access_local_write = 1, access_remote_write = 2, access_remote_read = 4 };

/// Memory of this process under the key of a registration that covers it.
struct LocalPiece {
    std::byte* data = nullptr;
    std::uint32_t bytes = 0;
    std::uint32_t key = 0;
};

/// Where in the peer's memory: an address as its registration has it.
struct RemotePlace {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
};

/// Memory in pages that need not lie side by side, as one range of addresses.
struct PageList {
    std::span<const std::uint64_t> pages{};  ///< addresses, multiples of page_bytes
    std::uint32_t page_bytes = 4096;
    std::uint32_t first_byte_offset = 0;  ///< into the first page; 0 where Limits::first_byte_offset is false
    std::uint64_t bytes = 0;
    std::uint64_t address = 0;  ///< that the range begins at, for the peer
};

enum class WorkOp : std::uint8_t { receive, send, read, write, register_pages, invalidate };

enum class WorkStatus : std::uint8_t {
    success,
    local_length_error,      ///< a message longer than the receive's memory, or more than a queue pair may move
    local_protection_error,  ///< a local key does not cover its piece, or an invalid registration
    flushed,                 ///< the queue pair is in error, or disconnected: it was not carried out
    remote_invalid_request,  ///< the peer's receive was too small
    remote_access_error,     ///< the peer's key does not allow it, or does not cover it
    remote_operation_error,  ///< the peer could not carry it out
    retry_exceeded,          ///< the peer does not answer
    rnr_retry_exceeded,      ///< the peer has posted no receive for too long
    fatal_error,             ///< anything else
};
[[nodiscard]] std::string_view to_string(WorkStatus) noexcept;

struct WorkCompletion {
    std::uint64_t id = 0;  ///< as posted
    WorkOp op = WorkOp::receive;
    WorkStatus status = WorkStatus::success;
    std::uint32_t bytes = 0;  ///< of a message received
};

}  // namespace mqblk::fabric::rdma
