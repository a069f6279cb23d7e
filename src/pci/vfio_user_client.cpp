// SPDX-License-Identifier: Apache-2.0
//
// The function behind the link: its regions, mapped areas, DMA mappings and eventfds. After a reconnect all of them are
// what they were, at the same addresses.
#include "pci/vfio_user_client.h"

#include "base/log.h"
#include "pci/eventfd_interrupt.h"
#include "pci/run_aside.h"
#include "pci/vfio_user_link.h"
#include "pci/vfio_user_regions.h"

#include <fmt/format.h>
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

std::uint64_t read_region(VfioUserLink& link, std::uint32_t region, std::uint64_t offset, unsigned bytes) noexcept {
    const vu::RegionAccess request{offset, region, bytes};
    const auto answer = link.ask(vu::Command::region_read, payload_of(request), sizeof request);
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
    Result<> query_interrupts(VfioUserLink& link);
    Result<> send_interrupts(VfioUserLink& link, std::uint32_t index, std::span<const OwnedFd> fds);
    void link_lost();
    void region_write(std::uint32_t region, std::uint64_t offset, unsigned bytes, std::uint64_t value,
                      bool wait) noexcept;

    const std::string path_;
    const VfioUserClientOptions options_;
    mutable std::mutex link_mutex_;
    std::shared_ptr<VfioUserLink> link_;
    std::mutex posted_mutex_;
    PostedWriter posted_;
    std::shared_ptr<VfioUserLink> posting_link_;  ///< that it belongs to
    std::atomic<bool> posts_{false};  ///< then messages must not overtake: each write by message waits for its answer
    std::atomic<bool> lost_{true};
    std::mutex lost_mutex_;
    std::function<void()> on_lost_;
    bool opened_ = false;
    FunctionId id_;
    VfioUserRegions regions_;
    InterruptCounts counts_;
    EventfdVectors vectors_;
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
        const auto answer = link->ask(vu::Command::dma_map, payload_of(request), 0, fds);
        if (answer) return {};
        if (fd < 0) link->withdraw(address);
        return std::unexpected(answer.error().in(fmt::format("map {} bytes for DMA", memory.size())));
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) noexcept override {
        const auto link = function_.link();
        const vu::DmaUnmap request{sizeof request, 0, address, bytes};
        static_cast<void>(link->ask(vu::Command::dma_unmap, payload_of(request), 0));
        link->withdraw(address);
    }

  private:
    VfioUserFunction& function_;
};

VfioUserFunction::VfioUserFunction(std::string path, VfioUserClientOptions options)
    : Function("vfio-user socket " + path, std::make_unique<DmaSpace>(std::make_unique<Backend>(*this),
                                                                      DmaSpace::Options{.needs_shared_memory = true})),
      path_(std::move(path)),
      options_(options),
      regions_(options.map_areas) {}

VfioUserFunction::~VfioUserFunction() {
    if (!lost()) set_bus_master(false);
    on_lost({});
    posting_link_.reset();
    {
        const std::lock_guard lock(link_mutex_);
        link_.reset();
    }
}

Result<> VfioUserFunction::open(Duration bound) {
    auto socket = connect_unix(path_, bound);
    if (!socket) return std::unexpected(socket.error());
    const auto link =
        std::make_shared<VfioUserLink>(std::move(*socket), name(), options_.answer_timeout, [this] { link_lost(); });
    if (auto agreed = link->negotiate(options_.posted_writes); !agreed) return agreed;
    if (auto known = regions_.query(*link, name()); !known) return known;
    if (auto known = query_interrupts(*link); !known) return known;
    LinkConfig config(*link);
    const FunctionId found = read_id(config);
    if (opened_ && (found.vendor != id_.vendor || found.device != id_.device)) {
        return fail(Errc::protocol,
                    fmt::format("{}: another device is there now: {:04x}:{:04x}", name(), found.vendor, found.device));
    }
    id_ = found;
    opened_ = true;
    {
        const std::lock_guard lock(posted_mutex_);
        posted_ = link->take_posted_writer();
        posting_link_ = posted_.mapped() ? link : nullptr;
        posts_.store(posted_.mapped());
    }
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

Result<> VfioUserFunction::query_interrupts(VfioUserLink& link) {
    unsigned* const counts[] = {&counts_.intx, &counts_.msi, &counts_.msix};
    constexpr unsigned most[] = {1, 32, 2048};
    for (std::uint32_t i = 0; i <= vu::msix_irq; ++i) {
        const vu::IrqInfo request{.argument_size = sizeof request, .flags = 0, .index = i, .count = 0};
        const auto answer = link.ask(vu::Command::device_get_irq_info, payload_of(request), sizeof request);
        if (!answer) return std::unexpected(answer.error());
        const auto info = front_of<vu::IrqInfo>(*answer);
        *counts[i] = (info.flags & vu::irq_eventfd) != 0 ? std::min(info.count, most[i]) : 0;
    }
    return {};
}

void VfioUserFunction::region_write(std::uint32_t region, std::uint64_t offset, unsigned bytes, std::uint64_t value,
                                    bool wait) noexcept {
    if (lost()) return;
    struct {
        vu::RegionAccess access;
        std::uint64_t value;
    } const request{{offset, region, bytes}, value};
    const auto payload = payload_of(request).first(sizeof request.access + bytes);
    if (wait) {
        static_cast<void>(link()->ask(vu::Command::region_write, payload, 0));
    } else {
        link()->post(vu::Command::region_write, payload);
    }
}

std::uint64_t VfioUserFunction::bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept {
    if (offset >= regions_.bars()[bar].bytes || offset % bytes != 0 || lost()) return all_ones(bytes);
    for (const MappedArea& area : regions_.bars()[bar].areas) {
        if (offset - area.offset < area.bytes) {
            std::uint64_t value = 0;
            std::memcpy(&value, area.memory + (offset - area.offset), bytes);
            return value;
        }
    }
    return read_region(*link(), bar, offset, bytes);
}

void VfioUserFunction::bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept {
    if (offset >= regions_.bars()[bar].bytes || offset % bytes != 0) return;
    if (!posts_.load(std::memory_order_relaxed)) return region_write(bar, offset, bytes, value, false);
    if (lost()) return;
    PostedWriter::Push pushed{};
    {
        const std::lock_guard lock(posted_mutex_);
        if (posting_link_ != nullptr) posting_link_->memory_stored();
        pushed = posted_.push(bar, offset, bytes, value);
    }
    if (pushed == PostedWriter::Push::queued) [[likely]]
        return;
    if (pushed == PostedWriter::Push::full) return region_write(bar, offset, bytes, value, true);
    const std::uint64_t none = 0;  // small writes: only to wake the server
    link()->post(vu::Command::region_write_multi, payload_of(none));
}

std::uint32_t VfioUserFunction::config_read(unsigned offset, unsigned bytes) noexcept {
    if (offset + bytes > regions_.config_bytes() || lost()) return static_cast<std::uint32_t>(all_ones(bytes));
    return static_cast<std::uint32_t>(read_region(*link(), vu::config_region, offset, bytes));
}

void VfioUserFunction::config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept {
    if (offset + bytes <= regions_.config_bytes()) region_write(vu::config_region, offset, bytes, value, posts_.load());
}

Result<Bar> VfioUserFunction::bar(unsigned index) {
    const bool has_area = index < bar_count && !regions_.bars()[index].areas.empty();
    return bar_at(index, has_area ? regions_.bars()[index].areas.front().offset : 0);
}

Result<Bar> VfioUserFunction::bar_at(unsigned index, std::uint64_t offset) {
    if (index >= bar_count || regions_.bars()[index].bytes == 0) {
        return fail(Errc::not_found, fmt::format("{} has no BAR {}", name(), index));
    }
    for (const MappedArea& area : regions_.bars()[index].areas) {
        if (offset - area.offset < area.bytes) {
            return Bar(*this, index, regions_.bars()[index].bytes, area.memory, area.offset, area.bytes);
        }
    }
    return Bar(*this, index, regions_.bars()[index].bytes);
}

/// In as many messages as the server's limit on descriptors asks for.
Result<> VfioUserFunction::send_interrupts(VfioUserLink& link, std::uint32_t index, std::span<const OwnedFd> fds) {
    const std::size_t step = std::clamp<std::size_t>(link.server().max_fds, 1, MessageSocket::max_fds);
    for (std::size_t start = 0; start < fds.size(); start += step) {
        std::vector<int> part;
        for (std::size_t i = start; i < std::min(fds.size(), start + step); ++i) part.push_back(fds[i].get());
        const vu::IrqSet request{sizeof request, vu::irq_set_eventfd | vu::irq_set_trigger, index,
                                 static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(part.size())};
        if (auto done = link.ask(vu::Command::device_set_irqs, payload_of(request), 0, part); !done) {
            return std::unexpected(done.error());
        }
    }
    return {};
}

Result<> VfioUserFunction::enable_interrupts(InterruptType type, unsigned vectors) {
    if (auto possible = check_vectors(type, vectors); !possible) return possible;
    return vectors_.change(type, vectors,
                           [this, way = link()](InterruptType which, std::span<const OwnedFd> fds) -> Result<> {
                               const std::uint32_t index = static_cast<std::uint32_t>(which) - 1;
                               if (!fds.empty()) return send_interrupts(*way, index, fds);
                               const vu::IrqSet off{sizeof off, vu::irq_set_none | vu::irq_set_trigger, index, 0, 0};
                               if (auto done = way->ask(vu::Command::device_set_irqs, payload_of(off), 0); !done) {
                                   return std::unexpected(done.error());
                               }
                               return {};
                           });
}

Result<std::unique_ptr<Interrupt>> VfioUserFunction::interrupt(unsigned vector, Reactor& reactor,
                                                               std::function<void()> raised) {
    return vectors_.interrupt(name(), vector, reactor, std::move(raised), [this] {
        const vu::IrqSet request{sizeof request, vu::irq_set_none | vu::irq_set_unmask, vu::intx_irq, 0, 1};
        link()->post(vu::Command::device_set_irqs, payload_of(request));
    });
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
    regions_.cover();
    lost_.store(true, std::memory_order_release);
    log_warning(link()->why_lost());
    if (on_lost_) on_lost_();
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
    if (vectors_.type() != InterruptType::none) {
        const std::uint32_t index = static_cast<std::uint32_t>(vectors_.type()) - 1;
        if (auto done = send_interrupts(*way, index, vectors_.fds()); !done) return done;
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
