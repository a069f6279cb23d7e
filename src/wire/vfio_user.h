// SPDX-License-Identifier: Apache-2.0
//
// The vfio-user protocol, version 0.1, as published with libvfio-user and QEMU (docs/interop/vfio-user.rst): a PCI
// device behind a UNIX socket. Every message is a Header and a payload; file descriptors travel beside it (SCM_RIGHTS).
// Integers are in the host's own byte order, since both ends are on one machine. Structures shared with Linux's VFIO
// have the layout and the values of its ABI. At the end: an extension of this project's, which others never see.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mqblk::wire::vfio_user {

inline constexpr std::uint16_t version_major = 0, version_minor = 1;

enum class Command : std::uint16_t {
    version = 1,
    dma_map = 2,
    dma_unmap = 3,
    device_get_info = 4,
    device_get_region_info = 5,
    device_get_region_io_fds = 6,
    device_get_irq_info = 7,
    device_set_irqs = 8,
    region_read = 9,
    region_write = 10,
    dma_read = 11,   ///< server to client
    dma_write = 12,  ///< server to client
    device_reset = 13,
    region_write_multi = 15,
    device_feature = 16,
    mig_data_read = 17,
    mig_data_write = 18,
};

struct Header {
    std::uint16_t message_id;
    std::uint16_t command;
    std::uint32_t message_size;  ///< header included
    std::uint32_t flags;
    std::uint32_t error;  ///< errno, in a reply with flag_error
};
static_assert(sizeof(Header) == 16);

inline constexpr std::uint32_t flag_type_mask = 0xf, flag_command = 0, flag_reply = 1;
inline constexpr std::uint32_t flag_no_reply = 0x10, flag_error = 0x20;

/// Followed by JSON text, terminated by NUL; optional.
struct Version {
    std::uint16_t major, minor;
};
static_assert(sizeof(Version) == 4);

// Capabilities in the JSON text of a version message, and what holds without them.
inline constexpr std::uint32_t default_max_fds = 1;
inline constexpr std::uint32_t default_max_transfer_bytes = 1u << 20;
inline constexpr std::uint32_t default_max_dma_maps = 65535;

struct DmaMap {
    std::uint32_t argument_size;
    std::uint32_t flags;
    std::uint64_t offset;  ///< into the file that came along, if one did
    std::uint64_t address;
    std::uint64_t size;
};
static_assert(sizeof(DmaMap) == 32);
inline constexpr std::uint32_t dma_readable = 1, dma_writable = 2, dma_flags = 0xf;  // 4, 8: how the client made it

struct DmaUnmap {
    std::uint32_t argument_size;
    std::uint32_t flags;
    std::uint64_t address;
    std::uint64_t size;
};
static_assert(sizeof(DmaUnmap) == 24);
inline constexpr std::uint32_t unmap_dirty_bitmap = 1, unmap_all = 2;

struct DeviceInfo {
    std::uint32_t argument_size;
    std::uint32_t flags;
    std::uint32_t regions;
    std::uint32_t irqs;
};
static_assert(sizeof(DeviceInfo) == 16);
inline constexpr std::uint32_t device_reset = 1, device_pci = 2;

/// Regions of a PCI device by index; 0 to 5 are its BARs.
inline constexpr std::uint32_t rom_region = 6, config_region = 7, vga_region = 8, pci_regions = 9;
/// Interrupts of a PCI device by index.
inline constexpr std::uint32_t intx_irq = 0, msi_irq = 1, msix_irq = 2, error_irq = 3, request_irq = 4, pci_irqs = 5;

struct RegionInfo {
    std::uint32_t argument_size;
    std::uint32_t flags;
    std::uint32_t index;
    std::uint32_t capability_offset;  ///< from the start of this structure
    std::uint64_t size;
    std::uint64_t offset;  ///< for mmap
};
static_assert(sizeof(RegionInfo) == 32);
inline constexpr std::uint32_t region_read = 1, region_write = 2, region_mmap = 4, region_capabilities = 8;

struct CapabilityHeader {
    std::uint16_t id, version;
    std::uint32_t next;  ///< from the start of the RegionInfo; 0: the last
};
static_assert(sizeof(CapabilityHeader) == 8);
inline constexpr std::uint16_t sparse_mmap_capability = 1;

/// Follows its CapabilityHeader; followed by its areas.
struct SparseMmap {
    std::uint32_t areas;
    std::uint32_t reserved;
};
struct SparseArea {
    std::uint64_t offset, size;
};
static_assert(sizeof(SparseMmap) == 8 && sizeof(SparseArea) == 16);

struct IrqInfo {
    std::uint32_t argument_size;
    std::uint32_t flags;
    std::uint32_t index;
    std::uint32_t count;
};
static_assert(sizeof(IrqInfo) == 16);
inline constexpr std::uint32_t irq_eventfd = 1, irq_maskable = 2, irq_automasked = 4, irq_no_resize = 8;

/// With irq_set_bool followed by a byte for each vector.
struct IrqSet {
    std::uint32_t argument_size;
    std::uint32_t flags;
    std::uint32_t index;
    std::uint32_t start;
    std::uint32_t count;
};
static_assert(sizeof(IrqSet) == 20);
inline constexpr std::uint32_t irq_set_none = 1, irq_set_bool = 2, irq_set_eventfd = 4, irq_set_data = 7;
inline constexpr std::uint32_t irq_set_mask = 8, irq_set_unmask = 16, irq_set_trigger = 32, irq_set_action = 56;

/// Followed by the data, in a write's command and a read's reply.
struct RegionAccess {
    std::uint64_t offset;
    std::uint32_t region;
    std::uint32_t count;
};
static_assert(sizeof(RegionAccess) == 16);

/// The payload of region_write_multi is a 64-bit count and as many of these.
struct SmallWrite {
    std::uint64_t offset;
    std::uint32_t region;
    std::uint32_t count;  ///< 8 at most
    std::uint8_t data[8];
};
static_assert(sizeof(SmallWrite) == 24);

/// Followed by the data, in a write's command and a read's reply. The reply to a write may be 4 bytes shorter.
struct DmaAccess {
    std::uint64_t address;
    std::uint64_t count;
};
static_assert(sizeof(DmaAccess) == 16);

// Posted writes: registers of which every write counts, without a message for each. A client that names the capability
// "mqblk_posted_writes": 1 in its version message is answered with the same and a memory file beside the message,
// sealed against shrinking: PostedWrites. There it queues writes to BARs, which are carried out in order, and before
// any message that is sent after them: an access by message is ordered like one on the bus. With it, what a client
// sends by message it waits for. Numbers of writes begin at 0 and only grow.
//   client  fills entry[n % posted_entries], then stores n + 1 as its `turn`; not before `taken` > n - posted_entries.
//           Then it looks at `asleep`: whoever finds 1 and puts 0 there sends a message (region_write_multi of
//           nothing).
//   server  carries entry[n % posted_entries] out when its `turn` is n + 1, then stores n + 1 as `taken`. Before it
//           sleeps it stores 1 in `asleep` and looks at the next entry once more.
// The last two lines are Dekker's algorithm: store and look are sequentially consistent on both sides.
inline constexpr std::uint32_t posted_writes_version = 1;
inline constexpr unsigned posted_entries = 256;

struct PostedWrite {
    std::uint64_t turn;  ///< 0: never used
    std::uint64_t offset;
    std::uint64_t value;
    std::uint32_t region;
    std::uint32_t bytes;  ///< 1, 2, 4 or 8
};
static_assert(sizeof(PostedWrite) == 32);

struct PostedWrites {
    alignas(64) std::uint32_t asleep;
    alignas(64) std::uint64_t taken;
    alignas(64) PostedWrite entry[posted_entries];
};
static_assert(sizeof(PostedWrites) == 128 + 32 * posted_entries);

}  // namespace mqblk::wire::vfio_user
