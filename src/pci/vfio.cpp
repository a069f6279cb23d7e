// SPDX-License-Identifier: Apache-2.0
//
// Loss is noticed where it shows: configuration space that reads as ones, or an access that Linux refuses.
#include "pci/vfio.h"

#include "pci/eventfd_interrupt.h"
#include "pci/run_aside.h"
#include "pci/vfio_device.h"

#include <fmt/format.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

namespace mqblk::pci {

namespace {

/// The IOMMU's table.
class VfioBackend final : public DmaBackend {
  public:
    VfioBackend(int container, std::string name) : container_(container), name_(std::move(name)) {}

    Result<> map(std::uint64_t address, std::span<std::byte> memory, int, std::uint64_t) override {
        vfio_iommu_type1_dma_map request{};
        request.argsz = sizeof request;
        request.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
        request.vaddr = reinterpret_cast<std::uintptr_t>(memory.data());
        request.iova = address;
        request.size = memory.size();
        if (::ioctl(container_, VFIO_IOMMU_MAP_DMA, &request) == 0) return {};
        const int problem = errno;
        const std::string what = fmt::format("map {} bytes for DMA of {}", memory.size(), name_);
        if (problem == ENOMEM || problem == EPERM) {
            return fail(Errc::no_space,
                        fmt::format("{}: more than this user may lock in memory: raise `ulimit -l`", what));
        }
        return std::unexpected(Error::from_errno(problem, what));
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) noexcept override {
        vfio_iommu_type1_dma_unmap request{};
        request.argsz = sizeof request;
        request.iova = address;
        request.size = bytes;
        ::ioctl(container_, VFIO_IOMMU_UNMAP_DMA, &request);
    }

  private:
    const int container_;
    const std::string name_;
};

struct Area {
    std::uint64_t offset, bytes;
    std::byte* memory;
};
struct Region {
    std::uint64_t bytes = 0, offset = 0;  ///< offset in the device's descriptor
    std::vector<Area> areas;
};

class VfioFunction final : public Function, public BarAccess {
  public:
    VfioFunction(std::string address, VfioDevice device)
        : Function(address, std::make_unique<DmaSpace>(std::make_unique<VfioBackend>(device.container.get(), address),
                                                       device.addresses)),
          device_(std::move(device)) {}
    ~VfioFunction() override {
        set_bus_master(false);
        for (const Region& bar : bars_) {
            for (const Area& area : bar.areas) ::munmap(area.memory, area.bytes);
        }
    }

    Result<> open();

    std::uint32_t config_read(unsigned offset, unsigned bytes) noexcept override;
    void config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept override;
    Result<Bar> bar(unsigned index) override {
        const bool has = index < bar_count && !bars_[index].areas.empty();
        return bar_at(index, has ? bars_[index].areas.front().offset : 0);
    }
    Result<Bar> bar_at(unsigned index, std::uint64_t offset) override;
    InterruptCounts interrupt_counts() const noexcept override { return counts_; }
    Result<> enable_interrupts(InterruptType type, unsigned vectors) override;
    Result<std::unique_ptr<Interrupt>> interrupt(unsigned vector, Reactor& reactor,
                                                 std::function<void()> raised) override;
    Task<Result<>> reset(Reactor& reactor) override;
    bool lost() const noexcept override { return lost_.load(std::memory_order_acquire); }
    void on_lost(std::function<void()> lost) override {
        const std::lock_guard lock(mutex_);
        on_lost_ = std::move(lost);
    }
    Result<> reconnect(Duration) override {
        if (!lost()) return {};
        return fail(Errc::not_supported, fmt::format("{} was pulled out: open it again when it is back", name()));
    }

    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override;
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override;

  private:
    Result<Region> query(unsigned index);
    void map_areas(Region& region, std::span<const std::byte> info) const;
    Result<> set_irqs(std::uint32_t flags, InterruptType type, std::uint32_t count, std::span<const OwnedFd> fds);
    void note_lost() noexcept;

    VfioDevice device_;
    std::array<Region, bar_count> bars_;
    Region config_;
    InterruptCounts counts_;
    bool can_reset_ = false;
    EventfdVectors vectors_;
    std::atomic<bool> lost_{false};
    std::mutex mutex_;
    std::function<void()> on_lost_;
};

Result<> VfioFunction::open() {
    vfio_device_info info{};
    info.argsz = sizeof info;
    if (::ioctl(device_.device.get(), VFIO_DEVICE_GET_INFO, &info) != 0 || (info.flags & VFIO_DEVICE_FLAGS_PCI) == 0 ||
        info.num_regions <= VFIO_PCI_CONFIG_REGION_INDEX || info.num_irqs <= VFIO_PCI_MSIX_IRQ_INDEX) {
        return fail(Errc::not_supported, fmt::format("{}: VFIO does not show it as a PCI card", name()));
    }
    can_reset_ = (info.flags & VFIO_DEVICE_FLAGS_RESET) != 0;
    auto config = query(VFIO_PCI_CONFIG_REGION_INDEX);
    if (!config) return std::unexpected(config.error());
    config_ = std::move(*config);
    for (unsigned i = 0; i < bar_count; ++i) {
        auto region = query(VFIO_PCI_BAR0_REGION_INDEX + i);
        if (!region) return std::unexpected(region.error());
        bars_[i] = std::move(*region);
    }
    unsigned* const counts[] = {&counts_.intx, &counts_.msi, &counts_.msix};
    for (std::uint32_t i = VFIO_PCI_INTX_IRQ_INDEX; i <= VFIO_PCI_MSIX_IRQ_INDEX; ++i) {
        vfio_irq_info irq{};
        irq.argsz = sizeof irq;
        irq.index = i;
        if (::ioctl(device_.device.get(), VFIO_DEVICE_GET_IRQ_INFO, &irq) == 0 &&
            (irq.flags & VFIO_IRQ_INFO_EVENTFD) != 0) {
            *counts[i] = irq.count;
        }
    }
    const std::uint32_t command = config_read(reg::command, 2);
    config_write(reg::command, 2, (command | command::memory_space) & ~std::uint32_t{command::bus_master});
    if (lost()) return fail(Errc::io, fmt::format("{}: its configuration space reads as ones", name()));
    return {};
}

Result<Region> VfioFunction::query(unsigned index) {
    std::vector<std::byte> space(4096);
    auto* const info = reinterpret_cast<vfio_region_info*>(space.data());
    info->argsz = static_cast<std::uint32_t>(space.size());
    info->index = index;
    if (::ioctl(device_.device.get(), VFIO_DEVICE_GET_REGION_INFO, info) != 0) {
        return std::unexpected(Error::from_errno(errno, fmt::format("{}: ask for region {}", name(), index)));
    }
    Region region{info->size, info->offset, {}};
    if (index < bar_count && (info->flags & VFIO_REGION_INFO_FLAG_MMAP) != 0) map_areas(region, space);
    return region;
}

/// All of the region, or the parts that its sparse capability names. What cannot be mapped goes by system call.
void VfioFunction::map_areas(Region& region, std::span<const std::byte> space) const {
    vfio_region_info info{};
    std::memcpy(&info, space.data(), sizeof info);
    std::vector<vfio_region_sparse_mmap_area> list{{0, region.bytes}};
    if ((info.flags & VFIO_REGION_INFO_FLAG_CAPS) != 0) {
        for (std::uint32_t at = info.cap_offset; at != 0 && at + sizeof(vfio_info_cap_header) <= space.size();) {
            vfio_info_cap_header header{};
            std::memcpy(&header, space.data() + at, sizeof header);
            vfio_region_info_cap_sparse_mmap sparse{};
            if (header.id == VFIO_REGION_INFO_CAP_SPARSE_MMAP && at + sizeof sparse <= space.size()) {
                std::memcpy(&sparse, space.data() + at, sizeof sparse);
                if (sparse.nr_areas > (space.size() - at - sizeof sparse) / sizeof list[0]) return;
                list.resize(sparse.nr_areas);
                if (!list.empty()) {
                    std::memcpy(list.data(), space.data() + at + sizeof sparse, list.size() * sizeof list[0]);
                }
            }
            at = header.next;
        }
    }
    for (const auto& area : list) {
        if (area.size == 0) continue;
        void* const mapped = ::mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, device_.device.get(),
                                    static_cast<off_t>(region.offset + area.offset));
        if (mapped != MAP_FAILED) region.areas.push_back({area.offset, area.size, static_cast<std::byte*>(mapped)});
    }
}

std::uint32_t VfioFunction::config_read(unsigned offset, unsigned bytes) noexcept {
    std::uint32_t value = 0;
    if (lost() || offset + bytes > config_.bytes) return static_cast<std::uint32_t>(all_ones(bytes));
    const auto got = ::pread(device_.device.get(), &value, bytes, static_cast<off_t>(config_.offset + offset));
    if (got != static_cast<ssize_t>(bytes) || (offset == reg::vendor_id && (value & 0xffff) == 0xffff)) {
        note_lost();
        return static_cast<std::uint32_t>(all_ones(bytes));
    }
    return value;
}

void VfioFunction::config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept {
    if (lost() || offset + bytes > config_.bytes) return;
    [[maybe_unused]] const auto put =
        ::pwrite(device_.device.get(), &value, bytes, static_cast<off_t>(config_.offset + offset));
}

Result<Bar> VfioFunction::bar_at(unsigned index, std::uint64_t offset) {
    if (index >= bar_count || bars_[index].bytes == 0) {
        return fail(Errc::not_found, fmt::format("{} has no BAR {}", name(), index));
    }
    for (const Area& area : bars_[index].areas) {
        if (offset - area.offset < area.bytes) {
            return Bar(*this, index, bars_[index].bytes, area.memory, area.offset, area.bytes);
        }
    }
    return Bar(*this, index, bars_[index].bytes);
}

std::uint64_t VfioFunction::bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept {
    const Region& region = bars_[bar];
    if (offset >= region.bytes || offset % bytes != 0 || lost()) return all_ones(bytes);
    for (const Area& area : region.areas) {
        if (offset - area.offset >= area.bytes) continue;
        const Bar mapped(*this, bar, region.bytes, area.memory, area.offset, area.bytes);
        switch (bytes) {
            case 1:
                return mapped.read8(offset);
            case 2:
                return mapped.read16(offset);
            case 4:
                return mapped.read32(offset);
            default:
                return mapped.read64(offset);
        }
    }
    std::uint64_t value = 0;
    const auto got = ::pread(device_.device.get(), &value, bytes, static_cast<off_t>(region.offset + offset));
    return got == static_cast<ssize_t>(bytes) ? value : all_ones(bytes);
}

void VfioFunction::bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    const Region& region = bars_[bar];
    if (offset >= region.bytes || offset % bytes != 0 || lost()) return;
    for (const Area& area : region.areas) {
        if (offset - area.offset >= area.bytes) continue;
        const Bar mapped(*this, bar, region.bytes, area.memory, area.offset, area.bytes);
        switch (bytes) {
            case 1:
                return mapped.write8(offset, static_cast<std::uint8_t>(value));
            case 2:
                return mapped.write16(offset, static_cast<std::uint16_t>(value));
            case 4:
                return mapped.write32(offset, static_cast<std::uint32_t>(value));
            default:
                return mapped.write64(offset, value);
        }
    }
    [[maybe_unused]] const auto put =
        ::pwrite(device_.device.get(), &value, bytes, static_cast<off_t>(region.offset + offset));
}

Result<> VfioFunction::set_irqs(std::uint32_t flags, InterruptType type, std::uint32_t count,
                                std::span<const OwnedFd> fds) {
    std::vector<std::byte> space(sizeof(vfio_irq_set) + fds.size() * sizeof(std::int32_t));
    vfio_irq_set request{};
    request.argsz = static_cast<std::uint32_t>(space.size());
    request.flags = flags;
    request.index = static_cast<std::uint32_t>(type) - 1;
    request.count = count;
    std::memcpy(space.data(), &request, sizeof request);
    for (std::size_t i = 0; i < fds.size(); ++i) {
        const std::int32_t fd = fds[i].get();
        std::memcpy(space.data() + sizeof request + i * sizeof fd, &fd, sizeof fd);
    }
    if (::ioctl(device_.device.get(), VFIO_DEVICE_SET_IRQS, space.data()) == 0) return {};
    return std::unexpected(Error::from_errno(errno, fmt::format("{}: set up its interrupts", name())));
}

Result<> VfioFunction::enable_interrupts(InterruptType type, unsigned vectors) {
    if (auto possible = check_vectors(type, vectors); !possible) return possible;
    return vectors_.change(type, vectors, [this](InterruptType which, std::span<const OwnedFd> fds) {
        const auto data = fds.empty() ? VFIO_IRQ_SET_DATA_NONE : VFIO_IRQ_SET_DATA_EVENTFD;
        return set_irqs(data | VFIO_IRQ_SET_ACTION_TRIGGER, which, static_cast<std::uint32_t>(fds.size()), fds);
    });
}

Result<std::unique_ptr<Interrupt>> VfioFunction::interrupt(unsigned vector, Reactor& reactor,
                                                           std::function<void()> raised) {
    return vectors_.interrupt(name(), vector, reactor, std::move(raised), [this] {
        static_cast<void>(set_irqs(VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK, InterruptType::intx, 1, {}));
    });
}

Task<Result<>> VfioFunction::reset(Reactor& reactor) {
    co_return co_await run_aside(reactor, [this]() -> Result<> {
        if (!can_reset_) return fail(Errc::not_supported, fmt::format("reset of {}: it has no way to", name()));
        if (::ioctl(device_.device.get(), VFIO_DEVICE_RESET) != 0) {
            return std::unexpected(Error::from_errno(errno, fmt::format("reset of {}", name())));
        }
        // Linux restores what configuration space was; a driver expects bus mastering to be off.
        set_bus_master(false);
        return {};
    });
}

void VfioFunction::note_lost() noexcept {
    if (lost_.exchange(true, std::memory_order_acq_rel)) return;
    const std::lock_guard lock(mutex_);
    if (on_lost_) on_lost_();
}

}  // namespace

Result<std::unique_ptr<Function>> open_vfio(const std::string& address, const std::string& root) {
    auto device = open_vfio_device(address, root);
    if (!device) return std::unexpected(device.error());
    auto function = std::make_unique<VfioFunction>(address, std::move(*device));
    if (auto opened = function->open(); !opened) return std::unexpected(opened.error());
    return function;
}

}  // namespace mqblk::pci
