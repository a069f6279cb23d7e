// SPDX-License-Identifier: Apache-2.0
//
// Domain: a protection domain of one RDMA device: what memory the device and, through a key, a peer may use. Keys stop
// to be valid when their registration is given back, and are not soon used again. Everything of a domain, and what was
// made with it, belongs to one thread. InfiniBand Architecture Specification, volume 1, 10.6.
#pragma once

#include "fabric/rdma/work.h"

#include <mqblk/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace mqblk::fabric::rdma {

/// Of a device.
struct Limits {
    std::uint32_t max_pieces = 16;                 ///< local pieces of one work request
    std::uint32_t max_work_requests = 16384;       ///< of one queue
    std::uint32_t page_bytes = 4096;               ///< the smallest page, a power of two
    std::uint32_t max_pages = 512;                 ///< of one page list; 0: no page lists
    std::uint32_t max_regions = 1u << 16;          ///< of page lists
    std::uint64_t max_message_bytes = 1ull << 31;  ///< of one work request
    bool fast_registration = true;                 ///< QueuePair::post_register
    bool pools = true;                             ///< Domain::make_pool
    bool first_byte_offset = true;                 ///< a page list may begin within its first page
    bool cheap_ranges = true;                      ///< register_range() takes no system call: fit for each command
};

/// What a page list is registered with, again and again, each time under another key. Freed with free_region().
struct Region {
    std::uint32_t key = 0;  ///< the last one, valid or not; 0: no region
    std::uint32_t max_pages = 0;
};

/// Regions that are mapped at once, without a work request ("fast memory regions").
class RegionPool {
  public:
    virtual ~RegionPool() = default;  ///< nothing is mapped
    /// The key; 0: no region is free, or the device refuses.
    [[nodiscard]] virtual std::uint32_t map(const PageList&, std::uint8_t access) noexcept = 0;
    /// The key is invalid from now on.
    virtual void unmap(std::uint32_t key) noexcept = 0;
    [[nodiscard]] virtual std::uint32_t max_pages() const noexcept = 0;
};

/// Where completions arrive.
class CompletionQueue {
  public:
    virtual ~CompletionQueue() = default;  ///< its queue pairs are gone
    /// The oldest completions, as many as there are and have room. Returns how many.
    [[nodiscard]] virtual unsigned poll(std::span<WorkCompletion> to) noexcept = 0;
    /// Before a sleep: the reactor is woken by what arrives from now on. False: there is something already.
    [[nodiscard]] virtual bool arm() noexcept = 0;
};

class Domain {
  public:
    virtual ~Domain() = default;  ///< all that was made with it is gone

    [[nodiscard]] virtual const Limits& limits() const noexcept = 0;

    /// Memory as it lies; its addresses are those of the memory. Returns the key, for local pieces and for the peer; 0:
    /// the device refuses, or has no more keys. `bytes` is not 0.
    [[nodiscard]] virtual std::uint32_t register_range(std::byte* data, std::size_t bytes,
                                                       std::uint8_t access) noexcept = 0;
    /// No work request that uses the key is outstanding.
    virtual void unregister(std::uint32_t key) noexcept = 0;

    /// For QueuePair::post_register. The error says what the device has not.
    [[nodiscard]] virtual Result<Region> allocate_region(std::uint32_t max_pages) = 0;
    virtual void free_region(Region&) noexcept = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<RegionPool>> make_pool(unsigned regions, std::uint32_t max_pages) = 0;

    /// For `entries` completions at once: the sum of what its queue pairs may have outstanding.
    [[nodiscard]] virtual Result<std::unique_ptr<CompletionQueue>> make_completion_queue(unsigned entries) = 0;
};

}  // namespace mqblk::fabric::rdma
