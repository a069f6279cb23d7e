// SPDX-License-Identifier: Apache-2.0
//
// Any bytes from a vfio-user client. The first byte chooses the way: as a stream through a socket, cut anywhere and
// with descriptors at any place, or as messages whose lengths are right and posted writes, so that the fuzzer gets
// deeper. Afterwards the client is gone: nothing of it is mapped, no descriptor is left, and the device is as after
// power-on.
#include "pci/vfio_user_session.h"
#include "base/log.h"
#include "memory/buffer.h"
#include "support/pci_copy_device.h"
#include "unit/manual_reactor.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

namespace {

using namespace mqblk;
using namespace mqblk::test;
namespace vu = wire::vfio_user;
using Outcome = pci::VfioUserSession::Outcome;

class Nowhere final : public pci::InterruptSink, public pci::DmaMessenger {
  public:
    bool deliver(pci::InterruptType type, unsigned vector) noexcept override {
        return session != nullptr && session->deliver(type, vector);
    }
    void gone_changed(bool) noexcept override {}
    bool dma_read(std::uint64_t address, std::span<std::byte> to) noexcept override {
        std::ranges::fill(to, static_cast<std::byte>(address));
        return address % 3 != 0;
    }
    bool dma_write(std::uint64_t address, std::span<const std::byte>) noexcept override { return address % 3 != 1; }
    pci::VfioUserSession* session = nullptr;
};

struct World {
    World() {
        set_log_level(LogLevel::off);
        if (!core.start(memory::Backing::shared)) std::abort();
        if (::ftruncate(unsealed.get(), 1 << 16) != 0 || ::pipe(pipe_ends) != 0) std::abort();
    }
    ManualClock clock;
    SeededRandom random{1};
    ManualReactor reactor{clock, random};
    pci::HostMemory memory;
    Nowhere nowhere;
    pci::FunctionCore core{reactor, memory, nowhere, std::make_unique<CopyDevice>()};
    memory::Buffer sealed = memory::Buffer::allocate(1 << 20, memory::Backing::shared).value();
    pci::OwnedFd unsealed{::memfd_create("fuzz", 0)};
    pci::OwnedFd event{::eventfd(0, EFD_NONBLOCK)};
    int pipe_ends[2] = {-1, -1};

    /// A copy of one of the descriptors that a client may have.
    [[nodiscard]] int descriptor(unsigned which) const {
        const int all[] = {sealed.fd(), event.get(), unsealed.get(), pipe_ends[1], event.get(), sealed.fd(), 1, 0};
        return all[which % 8];
    }
};

std::size_t open_descriptors() {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
}

/// False when the session is over.
bool carry_out(World& world, pci::VfioUserSession& session, pci::Message message) {
    pci::Reply reply;
    const vu::Header request = message.header;
    Outcome outcome = session.handle(std::move(message), reply);
    for (int i = 0; i < 100 && outcome == Outcome::pending; ++i) {
        world.reactor.run_once(Reactor::Sleep::no);
        outcome = session.resume(reply);
    }
    if (outcome == Outcome::pending) std::abort();  // nobody holds anything here
    if (outcome == Outcome::replied) {
        const bool fits = reply.header.message_size == sizeof reply.header + reply.payload.size() &&
                          reply.header.message_id == request.message_id && reply.header.command == request.command;
        const bool error = (reply.header.flags & vu::flag_error) != 0;
        if (!fits || error != (reply.header.error != 0) || (error && !reply.payload.empty())) std::abort();
    }
    world.reactor.run_once(Reactor::Sleep::no);
    return outcome != Outcome::breach;
}

/// The client's view of the page of posted writes, if it has one.
class Page {
  public:
    explicit Page(pci::VfioUserSession& session) : session_(session) {
        if (!session.posts()) return;
        page_ = static_cast<vu::PostedWrites*>(
            ::mmap(nullptr, sizeof *page_, PROT_READ | PROT_WRITE, MAP_SHARED, session.posted().fd(), 0));
        if (page_ == MAP_FAILED) std::abort();
    }
    ~Page() {
        if (page_ != nullptr) ::munmap(page_, sizeof *page_);
    }

    /// `data` at any place of the page, or as an entry whose turn it is; then the server looks.
    void write(bool in_turn, std::size_t place, std::span<const std::byte> data) {
        if (page_ == nullptr) return;
        auto* to = reinterpret_cast<std::byte*>(page_);
        std::size_t room = sizeof *page_;
        vu::PostedWrite& entry = page_->entry[next_ % vu::posted_entries];
        if (in_turn) {
            to = reinterpret_cast<std::byte*>(&entry.offset);
            room = sizeof entry - offsetof(vu::PostedWrite, offset);
        } else {
            to += place % room;
            room -= place % room;
        }
        std::memcpy(to, data.data(), std::min(room, data.size()));
        if (in_turn) entry.turn = next_ + 1;
        unsigned taken = 0;
        while (session_.carry_out_posted()) {
            if (++taken > vu::posted_entries) std::abort();  // more than there can be
        }
        next_ += taken;
        session_.posted().release();
        if (!session_.posted().fall_asleep()) std::abort();  // nobody writes meanwhile
        session_.posted().wake_up();
    }

  private:
    pci::VfioUserSession& session_;
    vu::PostedWrites* page_ = nullptr;
    std::uint64_t next_ = 0;  ///< that the server looks for
};

void as_messages(World& world, pci::VfioUserSession& session, bool posts, std::span<const std::uint8_t> bytes) {
    constexpr unsigned to_page = 30;  // no command has this number
    pci::Message version;
    version.header = {.message_id = 0, .command = 1, .message_size = 20, .flags = 0, .error = 0};
    version.payload = pci::encode_version({.posted_writes = posts ? vu::posted_writes_version : 0});
    if (!carry_out(world, session, std::move(version))) return;
    Page page(session);
    while (bytes.size() >= 4) {
        if ((bytes[0] & 31u) == to_page) {
            const auto place = static_cast<std::size_t>(bytes[2]) << 8 | bytes[3];
            const std::size_t length = std::min<std::size_t>(bytes[1], bytes.size() - 4);
            page.write((bytes[0] & 0x80u) != 0, place, std::as_bytes(bytes.subspan(4, length)));
            bytes = bytes.subspan(4 + length);
            world.reactor.run_once(Reactor::Sleep::no);
            continue;
        }
        pci::Message message;
        const std::size_t length = std::min<std::size_t>(bytes[1], bytes.size() - 4);
        message.header = {.message_id = 7,
                          .command = static_cast<std::uint16_t>(bytes[0] & 31),
                          .message_size = static_cast<std::uint32_t>(sizeof message.header + length),
                          .flags = (bytes[0] & 0x80u) != 0 ? vu::flag_no_reply : 0,
                          .error = 0};
        for (unsigned i = 0; i < (bytes[2] & 15u); ++i) message.fds.emplace_back(::dup(world.descriptor(bytes[3] + i)));
        const auto data = std::as_bytes(bytes.subspan(4, length));
        message.payload.assign(data.begin(), data.end());
        bytes = bytes.subspan(4 + length);
        if (!carry_out(world, session, std::move(message))) return;
    }
}

void as_stream(World& world, pci::VfioUserSession& session, std::span<const std::uint8_t> bytes) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
    const pci::OwnedFd client(ends[0]);
    pci::MessageSocket server{pci::OwnedFd(ends[1])};
    while (bytes.size() > 1) {
        const std::size_t length = std::min<std::size_t>(1 + (bytes[0] & 63u), bytes.size() - 1);
        iovec place{const_cast<std::uint8_t*>(bytes.data()) + 1, length};
        msghdr header{};
        header.msg_iov = &place;
        header.msg_iovlen = 1;
        alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))] = {};
        if ((bytes[0] & 64) != 0) {
            header.msg_control = control;
            header.msg_controllen = sizeof control;
            cmsghdr* const part = CMSG_FIRSTHDR(&header);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(sizeof(int));
            const int fd = world.descriptor(bytes[0]);
            std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
        }
        if (::sendmsg(client.get(), &header, MSG_NOSIGNAL) < 0) return;
        bytes = bytes.subspan(1 + length);
        for (;;) {
            pci::Message message;
            const auto state = server.receive(message);
            if (state == pci::MessageSocket::State::waiting) break;
            if (state != pci::MessageSocket::State::whole || !carry_out(world, session, std::move(message))) return;
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size < 2) return 0;
    static World& world = *new World;
    static std::size_t descriptors = 0;
    {
        pci::VfioUserSession session(world.core, world.memory, world.nowhere,
                                     {.map_areas = (bytes[0] & 2) != 0, .posted_writes = true});
        world.nowhere.session = &session;
        const std::span rest(bytes + 1, size - 1);
        (bytes[0] & 1) != 0 ? as_stream(world, session, rest) : as_messages(world, session, (bytes[0] & 4) != 0, rest);
        world.core.set_gone(false);
        session.end();
        if (!session.ended() || world.memory.regions() != 0 || session.memory().regions() != 0) std::abort();
        world.nowhere.session = nullptr;
    }
    if (world.core.interrupt_type() != pci::InterruptType::none || world.core.areas_mapped()) std::abort();
    // The process opens some once and keeps them, each when it is first needed; what a run leaves behind adds up.
    constexpr unsigned between_looks = 256;
    constexpr std::size_t kept = 8;
    static unsigned runs = 0;
    if (++runs % between_looks == 0) {
        const std::size_t now = open_descriptors();
        if (descriptors == 0) descriptors = now;
        if (now > descriptors + kept) std::abort();
    }
    return 0;
}
