// SPDX-License-Identifier: Apache-2.0
//
// The function behind the link: its regions, mapped areas, DMA mappings and eventfds. After a reconnect all of them are
// what they were, at the same addresses.
#include "pci/vfio_user_client.h"

#include "pci/client_memory.h"
#include "pci/eventfd_interrupt.h"
#include "pci/run_aside.h"
#include "pci/vfio_user_link.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

namespace mqblk::pci {

namespace {

namespace vu = wire::vfio_user;

template <class T>
std::span<const std::byte> bytes_of(const T& value) noexcept {
    return std::as_bytes(std::span(&value, 1));
}

template <class T>
T front_of(const Message& message) noexcept {
    T value;
    std::memcpy(&value, message.payload.data(), sizeof value);
    return value;
}

std::uint64_t read_region(VfioUserLink& link, std::uint32_t region, std::uint64_t offset, unsigned bytes) noexcept {
    const vu::RegionAccess request{offset, region, bytes};
    const auto answer = link.ask(vu::Command::region_read, bytes_of(request), sizeof request);
    if (!answer || answer->payload.size() != sizeof request + bytes) return all_ones(bytes);
    std::uint64_t value = 0;
    std::memcpy(&value, answer->payload.data() + sizeof request, bytes);
    return value;
}

/// Configuration space before the function is there.
class LinkConfig final : public ConfigAccess {
  public:
    explicit LinkConfig(VfioUserLink& link) noexcept : link_(link) {}
    std::uint32_t config_read(unsigned offset, unsigned bytes) noexcept override {
        return static_cast<std::uint32_t>(read_region(link_, vu::config_region, offset, bytes));
    }
    void config_write(unsigned, unsigned, std::uint32_t) noexcept override {}

  private:
    VfioUserLink& link_;
};

/// A part of a BAR that is mapped. Its place stays taken, whatever lies there.
struct MappedArea {
    std::uint64_t offset, bytes;
    std::byte* memory;
};

struct BarState {
    std::uint64_t bytes = 0;
    std::vector<MappedArea> areas;
};

class VfioUserFunction final : public Function, public BarAccess {
  public:
    VfioUserFunction(std::string path, VfioUserClientOptions options);
    ~VfioUserFunction() override;

    Result<> open(Duration bound);
    void go_live();

    std::uint32_t config_read(unsigned offset, unsigned bytes) noexcept override;
    void config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept override;
    Result<Bar> bar(unsigned index) override;
    Result<Bar> bar_at(unsigned index, std::uint64_t offset) override;
    InterruptCounts interrupt_counts() const noexcept override { return counts_; }
    Result<> enable_interrupts(InterruptType type, unsigned vectors) override;
    Result<std::unique_ptr<Interrupt>> interrupt(unsigned vector, Reactor& reactor,
                                                 std::function<void()> raised) override;
    Task<Result<>> reset(Reactor& reactor) override;
    bool lost() const noexcept override { return lost_.load(std::memory_order_acquire); }
    void on_lost(std::function<void()> lost) override;
    Result<> reconnect(Duration bound) override;

    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override;
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override;

  private:
    class Backend;

    /// The link may be replaced by reconnect() while others use it.
    std::shared_ptr<VfioUserLink> link() const {
        const std::lock_guard lock(link_mutex_);
        return link_;
    }
    Result<> query(VfioUserLink& link);
    Result<> query_bar(VfioUserLink& link, unsigned index);
    Result<> map_areas(unsigned index, const Message& info, const vu::RegionInfo& region);
    Result<> query_interrupts(VfioUserLink& link);
    Result<> send_interrupts(VfioUserLink& link, std::uint32_t index, std::span<const OwnedFd> fds);
    void link_lost();
    void cover_areas() noexcept;
    void region_write(std::uint32_t region, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept;

    const std::string path_;
    const VfioUserClientOptions options_;
    mutable std::mutex link_mutex_;
    std::shared_ptr<VfioUserLink> link_;
    std::atomic<bool> lost_{true};
    std::mutex lost_mutex_;
    std::function<void()> on_lost_;
    bool opened_ = false;
    FunctionId id_;
    std::array<BarState, bar_count> bars_;
    std::uint64_t config_bytes_ = 0;
    InterruptCounts counts_;
    InterruptType type_ = InterruptType::none;
    std::vector<OwnedFd> eventfds_;
};

/// Memory goes to the server as a file; what lies in none is offered to be asked for.
class VfioUserFunction::Backend final : public DmaBackend {
  public:
    explicit Backend(VfioUserFunction& function) : function_(function) {}

    Result<> map(std::uint64_t address, std::span<std::byte> memory, int fd, std::uint64_t offset) override {
        const auto link = function_.link();
        const vu::DmaMap request{sizeof request, vu::dma_readable | vu::dma_writable, fd < 0 ? 0 : offset, address,
                                 memory.size()};
        if (fd < 0) link->offer(address, memory);
        const std::span<const int> fds(&fd, fd < 0 ? 0 : 1);
        const auto answer = link->ask(vu::Command::dma_map, bytes_of(request), 0, fds);
        if (answer) return {};
        if (fd < 0) link->withdraw(address);
        return std::unexpected(answer.error().in(fmt::format("map {} bytes for DMA", memory.size())));
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) noexcept override {
        const auto link = function_.link();
        const vu::DmaUnmap request{sizeof request, 0, address, bytes};
        static_cast<void>(link->ask(vu::Command::dma_unmap, bytes_of(request), 0));
        link->withdraw(address);
    }

  private:
    VfioUserFunction& function_;
};

VfioUserFunction::VfioUserFunction(std::string path, VfioUserClientOptions options)
    : Function("vfio-user socket " + path, std::make_unique<DmaSpace>(std::make_unique<Backend>(*this),
                                                                      DmaSpace::Options{.needs_shared_memory = true})),
      path_(std::move(path)),
      options_(options) {}

VfioUserFunction::~VfioUserFunction() {
    if (!lost()) set_bus_master(false);
    on_lost({});
    {
        const std::lock_guard lock(link_mutex_);
        link_.reset();
    }
    for (const BarState& bar : bars_) {
        for (const MappedArea& area : bar.areas) ::munmap(area.memory, area.bytes);
    }
}

Result<> VfioUserFunction::open(Duration bound) {
    auto socket = connect_unix(path_, bound);
    if (!socket) return std::unexpected(socket.error());
    const auto link =
        std::make_shared<VfioUserLink>(std::move(*socket), name(), options_.answer_timeout, [this] { link_lost(); });
    if (auto agreed = link->negotiate(); !agreed) return agreed;
    if (auto known = query(*link); !known) return known;
    LinkConfig config(*link);
    const FunctionId found = read_id(config);
    if (opened_ && (found.vendor != id_.vendor || found.device != id_.device)) {
        return fail(Errc::protocol,
                    fmt::format("{}: another device is there now: {:04x}:{:04x}", name(), found.vendor, found.device));
    }
    id_ = found;
    opened_ = true;
    const std::lock_guard lock(link_mutex_);
    link_ = link;
    return {};
}

/// All is set up: accesses go through from now on.
void VfioUserFunction::go_live() {
    {
        const std::lock_guard lock(lost_mutex_);
        lost_.store(false, std::memory_order_release);
    }
    if (link()->lost()) link_lost();  // meanwhile, when nobody was told
}

Result<> VfioUserFunction::query(VfioUserLink& link) {
    const vu::DeviceInfo request{.argument_size = sizeof request, .flags = 0, .regions = 0, .irqs = 0};
    const auto answer = link.ask(vu::Command::device_get_info, bytes_of(request), sizeof request);
    if (!answer) return std::unexpected(answer.error());
    const auto info = front_of<vu::DeviceInfo>(*answer);
    if ((info.flags & vu::device_pci) == 0 || info.regions <= vu::config_region || info.irqs <= vu::msix_irq) {
        return fail(Errc::not_supported, fmt::format("{}: what is served there is no PCI device", name()));
    }
    for (unsigned i = 0; i < bar_count; ++i) {
        if (auto known = query_bar(link, i); !known) return known;
    }
    const vu::RegionInfo config{.argument_size = sizeof config,
                                .flags = 0,
                                .index = vu::config_region,
                                .capability_offset = 0,
                                .size = 0,
                                .offset = 0};
    const auto region = link.ask(vu::Command::device_get_region_info, bytes_of(config), sizeof config);
    if (!region) return std::unexpected(region.error());
    config_bytes_ = std::min<std::uint64_t>(front_of<vu::RegionInfo>(*region).size, extended_config_bytes);
    if (config_bytes_ < config_bytes) {
        return fail(Errc::protocol, fmt::format("{}: its configuration space has {} bytes", name(), config_bytes_));
    }
    return query_interrupts(link);
}

Result<> VfioUserFunction::query_bar(VfioUserLink& link, unsigned index) {
    vu::RegionInfo request{
        .argument_size = 4096, .flags = 0, .index = index, .capability_offset = 0, .size = 0, .offset = 0};
    auto answer = link.ask(vu::Command::device_get_region_info, bytes_of(request), sizeof request);
    if (!answer) return std::unexpected(answer.error());
    const auto region = front_of<vu::RegionInfo>(*answer);
    BarState& bar = bars_[index];
    if (opened_ && region.size != bar.bytes) {
        return fail(Errc::protocol,
                    fmt::format("{}: BAR {} has {} bytes now, not {}", name(), index, region.size, bar.bytes));
    }
    bar.bytes = region.size;
    if (!options_.map_areas || (region.flags & vu::region_mmap) == 0 || answer->fds.size() != 1) return {};
    return map_areas(index, *answer, region);
}

Result<> VfioUserFunction::map_areas(unsigned index, const Message& info, const vu::RegionInfo& region) {
    std::vector<vu::SparseArea> list{{0, region.size}};
    if ((region.flags & vu::region_capabilities) != 0) {
        const auto payload = std::span(info.payload);
        const std::size_t head = sizeof(vu::CapabilityHeader) + sizeof(vu::SparseMmap);
        vu::CapabilityHeader capability{};
        vu::SparseMmap sparse{};
        if (region.capability_offset > payload.size() || payload.size() - region.capability_offset < head) return {};
        const auto from = payload.subspan(region.capability_offset);
        std::memcpy(&capability, from.data(), sizeof capability);
        std::memcpy(&sparse, from.data() + sizeof capability, sizeof sparse);
        if (capability.id != vu::sparse_mmap_capability ||
            sparse.areas > (from.size() - head) / sizeof(vu::SparseArea)) {
            return {};
        }
        list.resize(sparse.areas);
        if (!list.empty()) std::memcpy(list.data(), from.data() + head, list.size() * sizeof(vu::SparseArea));
    }
    BarState& bar = bars_[index];
    const int fd = info.fds.front().get();
    for (const vu::SparseArea& area : list) {
        const bool fits = area.size != 0 && (area.offset | area.size) % 4096 == 0 && area.offset <= region.size &&
                          area.size <= region.size - area.offset && region.offset <= INT64_MAX - region.size;
        // A file that could shrink would end this process at the next access: that part goes by messages.
        if (!fits || !safe_to_map(fd, region.offset + area.offset + area.size)) continue;
        const auto known = std::ranges::find_if(
            bar.areas, [&](const MappedArea& a) { return a.offset == area.offset && a.bytes == area.size; });
        if (opened_ && known == bar.areas.end()) continue;  // Bars that drivers have know nothing of it
        void* const place = known == bar.areas.end() ? nullptr : known->memory;
        void* const mapped =
            ::mmap(place, area.size, PROT_READ | PROT_WRITE, MAP_SHARED | (place != nullptr ? MAP_FIXED : 0), fd,
                   static_cast<off_t>(region.offset + area.offset));
        if (mapped == MAP_FAILED) {
            return std::unexpected(Error::from_errno(errno, fmt::format("map BAR {} of {}", index, name())));
        }
        if (place == nullptr) bar.areas.push_back({area.offset, area.size, static_cast<std::byte*>(mapped)});
    }
    return {};
}

Result<> VfioUserFunction::query_interrupts(VfioUserLink& link) {
    unsigned* const counts[] = {&counts_.intx, &counts_.msi, &counts_.msix};
    constexpr unsigned most[] = {1, 32, 2048};
    for (std::uint32_t i = 0; i <= vu::msix_irq; ++i) {
        const vu::IrqInfo request{.argument_size = sizeof request, .flags = 0, .index = i, .count = 0};
        const auto answer = link.ask(vu::Command::device_get_irq_info, bytes_of(request), sizeof request);
        if (!answer) return std::unexpected(answer.error());
        const auto info = front_of<vu::IrqInfo>(*answer);
        *counts[i] = (info.flags & vu::irq_eventfd) != 0 ? std::min(info.count, most[i]) : 0;
    }
    return {};
}

void VfioUserFunction::region_write(std::uint32_t region, std::uint64_t offset, unsigned bytes,
                                    std::uint64_t value) noexcept {
    if (lost()) return;
    struct {
        vu::RegionAccess access;
        std::uint64_t value;
    } const request{{offset, region, bytes}, value};
    link()->post(vu::Command::region_write, bytes_of(request).first(sizeof request.access + bytes));
}

std::uint64_t VfioUserFunction::bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept {
    if (offset >= bars_[bar].bytes || offset % bytes != 0 || lost()) return all_ones(bytes);
    for (const MappedArea& area : bars_[bar].areas) {
        if (offset - area.offset < area.bytes) {
            std::uint64_t value = 0;
            std::memcpy(&value, area.memory + (offset - area.offset), bytes);
            return value;
        }
    }
    return read_region(*link(), bar, offset, bytes);
}

void VfioUserFunction::bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    if (offset >= bars_[bar].bytes || offset % bytes != 0) return;
    region_write(bar, offset, bytes, value);
}

std::uint32_t VfioUserFunction::config_read(unsigned offset, unsigned bytes) noexcept {
    if (offset + bytes > config_bytes_ || lost()) return static_cast<std::uint32_t>(all_ones(bytes));
    return static_cast<std::uint32_t>(read_region(*link(), vu::config_region, offset, bytes));
}

void VfioUserFunction::config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept {
    if (offset + bytes <= config_bytes_) region_write(vu::config_region, offset, bytes, value);
}

Result<Bar> VfioUserFunction::bar(unsigned index) {
    const bool has_area = index < bar_count && !bars_[index].areas.empty();
    return bar_at(index, has_area ? bars_[index].areas.front().offset : 0);
}

Result<Bar> VfioUserFunction::bar_at(unsigned index, std::uint64_t offset) {
    if (index >= bar_count || bars_[index].bytes == 0) {
        return fail(Errc::not_found, fmt::format("{} has no BAR {}", name(), index));
    }
    for (const MappedArea& area : bars_[index].areas) {
        if (offset - area.offset < area.bytes) {
            return Bar(*this, index, bars_[index].bytes, area.memory, area.offset, area.bytes);
        }
    }
    return Bar(*this, index, bars_[index].bytes);
}

/// In as many messages as the server's limit on descriptors asks for.
Result<> VfioUserFunction::send_interrupts(VfioUserLink& link, std::uint32_t index, std::span<const OwnedFd> fds) {
    const std::size_t step = std::clamp<std::size_t>(link.server().max_fds, 1, MessageSocket::max_fds);
    for (std::size_t start = 0; start < fds.size(); start += step) {
        std::vector<int> part;
        for (std::size_t i = start; i < std::min(fds.size(), start + step); ++i) part.push_back(fds[i].get());
        const vu::IrqSet request{sizeof request, vu::irq_set_eventfd | vu::irq_set_trigger, index,
                                 static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(part.size())};
        if (auto done = link.ask(vu::Command::device_set_irqs, bytes_of(request), 0, part); !done) {
            return std::unexpected(done.error());
        }
    }
    return {};
}

Result<> VfioUserFunction::enable_interrupts(InterruptType type, unsigned vectors) {
    if (auto possible = check_vectors(type, vectors); !possible) return possible;
    std::vector<OwnedFd> fds;
    for (unsigned i = 0; type != InterruptType::none && i < vectors; ++i) {
        auto fd = make_eventfd();
        if (!fd) return std::unexpected(fd.error());
        fds.push_back(std::move(*fd));
    }
    const auto way = link();
    if (type_ != InterruptType::none) {
        const vu::IrqSet off{sizeof off, vu::irq_set_none | vu::irq_set_trigger, static_cast<std::uint32_t>(type_) - 1,
                             0, 0};
        if (auto done = way->ask(vu::Command::device_set_irqs, bytes_of(off), 0); !done) {
            return std::unexpected(done.error());
        }
        type_ = InterruptType::none;
        eventfds_.clear();
    }
    if (type == InterruptType::none) return {};
    if (auto done = send_interrupts(*way, static_cast<std::uint32_t>(type) - 1, fds); !done) return done;
    type_ = type;
    eventfds_ = std::move(fds);
    return {};
}

Result<std::unique_ptr<Interrupt>> VfioUserFunction::interrupt(unsigned vector, Reactor& reactor,
                                                               std::function<void()> raised) {
    if (vector >= eventfds_.size()) {
        return fail(Errc::invalid_argument, fmt::format("{}: interrupt vector {} is not enabled", name(), vector));
    }
    std::function<void()> unmask;
    if (type_ == InterruptType::intx) {
        unmask = [this] {
            const vu::IrqSet request{sizeof request, vu::irq_set_none | vu::irq_set_unmask, vu::intx_irq, 0, 1};
            link()->post(vu::Command::device_set_irqs, bytes_of(request));
        };
    }
    return make_eventfd_interrupt(eventfds_[vector].get(), reactor, std::move(raised), std::move(unmask));
}

Task<Result<>> VfioUserFunction::reset(Reactor& reactor) {
    co_return co_await run_aside(reactor, [this]() -> Result<> {
        const auto answer = link()->ask(vu::Command::device_reset, {}, 0);
        if (!answer) return std::unexpected(answer.error().in("reset"));
        return {};
    });
}

void VfioUserFunction::on_lost(std::function<void()> lost) {
    const std::lock_guard lock(lost_mutex_);
    on_lost_ = std::move(lost);
}

void VfioUserFunction::link_lost() {
    const std::lock_guard lock(lost_mutex_);
    if (lost()) return;
    cover_areas();
    lost_.store(true, std::memory_order_release);
    if (on_lost_) on_lost_();
}

/// From now on the areas read as ones, and what is written there goes nowhere.
void VfioUserFunction::cover_areas() noexcept {
    for (const BarState& bar : bars_) {
        for (const MappedArea& area : bar.areas) {
            void* const ones = ::mmap(nullptr, area.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (ones == MAP_FAILED) continue;
            std::memset(ones, 0xff, area.bytes);
            if (::mremap(ones, area.bytes, area.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, area.memory) == MAP_FAILED) {
                ::munmap(ones, area.bytes);
            }
        }
    }
}

Result<> VfioUserFunction::reconnect(Duration bound) {
    if (!lost()) return {};
    const std::int64_t deadline = MessageSocket::now_ns() + bound.count();
    Result<> opened = open(bound);
    while (!opened && MessageSocket::now_ns() < deadline) {
        const timespec pause{0, 20'000'000};
        ::nanosleep(&pause, nullptr);
        opened = open(Duration(std::max<std::int64_t>(deadline - MessageSocket::now_ns(), 0)));
    }
    if (!opened) return opened;
    const auto way = link();
    if (auto done = way->ask(vu::Command::device_reset, {}, 0); !done) {
        return std::unexpected(done.error().in("reconnect"));
    }
    if (auto done = dma().restore(); !done) return done;
    if (type_ != InterruptType::none) {
        if (auto done = send_interrupts(*way, static_cast<std::uint32_t>(type_) - 1, eventfds_); !done) return done;
    }
    go_live();
    return {};
}

}  // namespace

Result<std::unique_ptr<Function>> open_vfio_user(std::string socket_path, VfioUserClientOptions options) {
    auto function = std::make_unique<VfioUserFunction>(std::move(socket_path), options);
    if (auto opened = function->open(options.connect_timeout); !opened) return std::unexpected(opened.error());
    function->go_live();
    return function;
}

}  // namespace mqblk::pci
