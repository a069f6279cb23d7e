// SPDX-License-Identifier: Apache-2.0
//
// The memory that a vfio-user client has mapped for its device. How each range is reached depends on what came with it,
// for a file that shrinks after it was mapped would end this process (SIGBUS), and a file system that never answers
// would stop it:
//   a memory file sealed against shrinking   mapped as a whole, reached by pointer where a range says so
//   any other file of tmpfs                  read and written by system call, each of which can fail
//   anything else, or nothing                the client is asked (DMA_READ, DMA_WRITE)
// A range that is unmapped stays as it is until nobody holds it any more.
#pragma once

#include "pci/host_memory.h"
#include "pci/unix_socket.h"
#include "wire/vfio_user.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace mqblk::pci {

/// Asks the client for its memory. Blocks for a bounded time; false if that failed.
class DmaMessenger {
  public:
    virtual bool dma_read(std::uint64_t address, std::span<std::byte> to) noexcept = 0;
    virtual bool dma_write(std::uint64_t address, std::span<const std::byte> from) noexcept = 0;

  protected:
    ~DmaMessenger() = default;
};

/// The reactor's thread.
class ClientMemory {
  public:
    // What of this process one client may take up: a table of its regions, copied at each change, address space, and
    // mappings or descriptors. A monitor has a few hundred regions; with an IOMMU one for each page that is in use.
    static constexpr std::size_t max_regions = 8192;
    static constexpr std::uint64_t max_mapped_bytes = 1ull << 44;
    static constexpr std::size_t max_files = 128;

    /// Both outlive it.
    ClientMemory(HostMemory& memory, DmaMessenger& messenger) noexcept;
    ~ClientMemory();  ///< nothing is mapped and drained() was true
    ClientMemory(const ClientMemory&) = delete;
    ClientMemory& operator=(const ClientMemory&) = delete;

    /// 0 or the errno for the reply.
    [[nodiscard]] int map(const wire::vfio_user::DmaMap& request, OwnedFd file);
    /// A range that was mapped, one that covers several wholly, or one without any: as Linux's VFIO takes it, and as
    /// QEMU with an IOMMU asks for it. Their memory is gone once drained().
    [[nodiscard]] int unmap(std::uint64_t address, std::uint64_t bytes);
    void unmap_all();

    /// Whether nobody uses any more what was unmapped; frees it then.
    [[nodiscard]] bool drained();

    [[nodiscard]] std::size_t regions() const noexcept { return regions_.size(); }
    [[nodiscard]] std::size_t mapped_regions() const noexcept;  ///< of them, those reached by pointer

  private:
    class File;
    class Region;

    [[nodiscard]] int find_file(OwnedFd fd, int protection, std::uint64_t end, std::shared_ptr<File>& file);

    HostMemory& memory_;
    DmaMessenger& messenger_;
    std::map<std::uint64_t, std::unique_ptr<Region>> regions_;  ///< by I/O address
    std::vector<std::unique_ptr<Region>> retired_;
    std::vector<std::weak_ptr<File>> files_;
};

/// Whether a file can be mapped and will never be shorter than `bytes`.
[[nodiscard]] bool safe_to_map(int fd, std::uint64_t bytes) noexcept;

}  // namespace mqblk::pci
