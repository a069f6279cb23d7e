// SPDX-License-Identifier: Apache-2.0
//
// A thread sleeps on the socket to notice the server's end at once and, where memory was offered that the server has to
// ask for, to answer it while nobody else reads. It does nothing else.
#include "pci/vfio_user_link.h"

#include "pci/eventfd_interrupt.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mqblk::pci {

namespace vu = wire::vfio_user;

namespace {

/// Commands of the server that the listener serves before it lets go of the link. A server waits for its answers, so
/// that so many at once are no honest one's: then those who wait for the link come first.
constexpr unsigned commands_at_once = 64;
constexpr timespec let_others{0, 1'000'000};

}  // namespace

VfioUserLink::VfioUserLink(OwnedFd socket, std::string name, Duration answer_timeout, std::function<void()> lost)
    : name_(std::move(name)), answer_timeout_(answer_timeout), on_lost_(std::move(lost)), socket_(std::move(socket)) {}

VfioUserLink::~VfioUserLink() {
    stopping_.store(true);
    if (wake_) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    }
    if (listener_.joinable()) listener_.join();
}

/// Under the mutex.
std::unexpected<Error> VfioUserLink::lose(std::string why) {
    if (!lost_.exchange(true, std::memory_order_acq_rel)) {
        why_lost_ = std::move(why);
        ::shutdown(socket_.fd(), SHUT_RDWR);  // the listener wakes and tells
    }
    return fail(Errc::closed, fmt::format("{}: {}", name_, why_lost_));
}

void VfioUserLink::tell_lost() {
    if (!told_.exchange(true) && on_lost_) on_lost_();
}

Result<> VfioUserLink::negotiate(bool want_posted_writes) {
    VfioUserVersion mine;
    mine.max_fds = 16;
    if (want_posted_writes) mine.posted_writes = vu::posted_writes_version;
    const auto payload = encode_version(mine);
    auto answer = ask(vu::Command::version, payload, sizeof(vu::Version));
    if (!answer) return std::unexpected(answer.error());
    const auto theirs = decode_version(answer->payload);
    if (!theirs) return fail(Errc::protocol, fmt::format("{}: {}", name_, theirs.error().message()));
    if (theirs->major != vu::version_major || theirs->minor > vu::version_minor) {
        return fail(Errc::not_supported,
                    fmt::format("{}: it speaks version {}.{} of the protocol, not {}.{}", name_, theirs->major,
                                theirs->minor, vu::version_major, vu::version_minor));
    }
    auto wake = make_eventfd();
    if (!wake) return std::unexpected(wake.error());
    PostedWriter posted;
    if (want_posted_writes && theirs->posted_writes == vu::posted_writes_version && answer->fds.size() == 1) {
        auto mapped = PostedWriter::map(answer->fds.front());
        if (!mapped) return std::unexpected(mapped.error().in(name_));
        posted = std::move(*mapped);
    }
    {
        const std::lock_guard lock(mutex_);
        server_ = *theirs;
        agreed_ = true;
        posted_ = std::move(posted);
        wake_ = std::move(*wake);
    }
    listener_ = std::thread([this] { listen(); });
    return {};
}

Result<> VfioUserLink::transmit(const vu::Header& header, std::span<const std::byte> payload, std::span<const int> fds,
                                std::int64_t deadline) {
    State state = socket_.sending() ? socket_.flush() : State::whole;
    const auto finish = [&] {
        while (state == State::waiting && socket_.wait(true, deadline)) state = socket_.flush();
        return state == State::whole;
    };
    if (finish()) {
        state = socket_.send(header, payload, fds);
        if (finish()) return {};
    }
    return lose(state == State::waiting ? "its server takes no messages" : "its server is gone");
}

Result<> VfioUserLink::exchange(vu::Command command, std::uint32_t flags, std::span<const std::byte> payload,
                                std::span<const int> fds, Message& answer) {
    if (lost()) return lose({});
    const vu::Header header{.message_id = next_id_++,
                            .command = static_cast<std::uint16_t>(command),
                            .message_size = static_cast<std::uint32_t>(sizeof header + payload.size()),
                            .flags = flags,
                            .error = 0};
    const std::int64_t deadline = MessageSocket::now_ns() + answer_timeout_.count();
    if (auto sent = transmit(header, payload, fds, deadline); !sent) return sent;
    if ((header.flags & vu::flag_no_reply) != 0) return {};
    const auto late = [this] {
        return lose(fmt::format("its server did not answer within {} s{}",
                                std::chrono::duration_cast<std::chrono::seconds>(answer_timeout_).count(),
                                agreed_ ? "" : "; another client may be using it, and it serves one at a time"));
    };
    for (;;) {
        switch (socket_.receive(answer)) {
            case State::whole:
                break;
            case State::waiting:
                if (socket_.wait(false, deadline)) continue;
                return late();
            case State::closed:
                return lose("its server is gone");
            case State::breach:
                return lose("its server sent what is no message");
        }
        if (!answer.is_reply()) {
            // Its own commands are no answer, however many it sends.
            if (MessageSocket::now_ns() >= deadline) return late();
            serve(answer, deadline);
            if (lost()) return lose({});
        } else if (answer.header.message_id != header.message_id || answer.header.command != header.command) {
            return lose("its server answered what was not asked");
        } else {
            return {};
        }
    }
}

Result<Message> VfioUserLink::ask(vu::Command command, std::span<const std::byte> payload, std::size_t at_least,
                                  std::span<const int> fds) {
    Message answer;
    Result<> done;
    {
        const std::lock_guard lock(mutex_);
        done = exchange(command, vu::flag_command, payload, fds, answer);
        if (done && (answer.header.flags & vu::flag_error) != 0) {
            const int error = answer.header.error == 0 ? EIO : static_cast<int>(answer.header.error);
            return std::unexpected(Error::from_errno(
                error, fmt::format("{}: vfio-user command {}", name_, static_cast<unsigned>(command))));
        }
        if (done && answer.payload.size() < at_least) done = lose("its server gave a short answer");
    }
    if (done) return answer;
    tell_lost();
    return std::unexpected(done.error());
}

void VfioUserLink::post(vu::Command command, std::span<const std::byte> payload) noexcept {
    bool good = false;
    {
        const std::lock_guard lock(mutex_);
        Message none;
        good = exchange(command, vu::flag_command | vu::flag_no_reply, payload, {}, none).has_value();
    }
    if (!good) tell_lost();
}

std::span<std::byte> VfioUserLink::find(const vu::DmaAccess& access) const noexcept {
    auto after = offered_.upper_bound(access.address);
    if (after == offered_.begin()) return {};
    const auto& [address, memory] = *--after;
    const std::uint64_t offset = access.address - address;
    if (offset > memory.size() || access.count > memory.size() - offset) return {};
    return memory.subspan(offset, access.count);
}

/// The server asks for memory. It has until `deadline` to take the answer.
void VfioUserLink::serve(const Message& message, std::int64_t deadline) {
    const auto command = static_cast<vu::Command>(message.header.command);
    const bool read = command == vu::Command::dma_read;
    vu::DmaAccess access{};
    if ((!read && command != vu::Command::dma_write) || message.payload.size() < sizeof access) {
        static_cast<void>(lose("its server sent a command that is none of a server's"));
        return;
    }
    std::memcpy(&access, message.payload.data(), sizeof access);
    const auto data = std::span(message.payload).subspan(sizeof access);
    const auto memory = access.count <= vu::default_max_transfer_bytes ? find(access) : std::span<std::byte>();
    static_cast<void>(memory_stored_.load(std::memory_order_acquire));
    int error = memory.empty() ? EFAULT : 0;
    if (error == 0 && data.size() != (read ? 0 : access.count)) error = EINVAL;
    std::vector<std::byte> payload;
    if (error == 0) {
        payload.resize(sizeof access + (read ? access.count : 0));
        std::memcpy(payload.data(), &access, sizeof access);
        if (read) {
            std::ranges::copy(memory, payload.begin() + sizeof access);
        } else {
            std::ranges::copy(data, memory.begin());
        }
    }
    const vu::Header header{.message_id = message.header.message_id,
                            .command = message.header.command,
                            .message_size = static_cast<std::uint32_t>(sizeof header + payload.size()),
                            .flags = vu::flag_reply | (error != 0 ? vu::flag_error : 0),
                            .error = static_cast<std::uint32_t>(error)};
    static_cast<void>(transmit(header, payload, {}, deadline));
}

void VfioUserLink::offer(std::uint64_t address, std::span<std::byte> memory) {
    {
        const std::lock_guard lock(mutex_);
        offered_[address] = memory;
    }
    const std::uint64_t one = 1;  // the listener has to read from now on
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void VfioUserLink::withdraw(std::uint64_t address) {
    const std::lock_guard lock(mutex_);
    offered_.erase(address);
}

void VfioUserLink::listen() {
    while (!stopping_.load()) {
        bool reads = false;
        {
            const std::lock_guard lock(mutex_);
            reads = !offered_.empty();
        }
        pollfd fds[] = {{socket_.fd(), static_cast<short>(reads ? POLLIN | POLLRDHUP : POLLRDHUP), 0},
                        {wake_.get(), POLLIN, 0}};
        if (::poll(fds, 2, -1) < 0) continue;
        if (fds[1].revents != 0) {
            std::uint64_t count = 0;
            [[maybe_unused]] const auto got = ::read(wake_.get(), &count, sizeof count);
        }
        if (fds[0].revents == 0) continue;
        const bool more = serve_what_came();
        if (!more && (fds[0].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
            const std::lock_guard lock(mutex_);
            static_cast<void>(lose("its server is gone"));
        }
        if (lost()) break;
        if (more) ::nanosleep(&let_others, nullptr);
    }
    if (lost()) tell_lost();
}

/// Returns whether there may be more.
bool VfioUserLink::serve_what_came() {
    const std::lock_guard lock(mutex_);
    const std::int64_t deadline = MessageSocket::now_ns() + answer_timeout_.count();
    for (unsigned i = 0; i < commands_at_once; ++i) {
        if (lost()) return false;
        Message message;
        switch (socket_.receive(message)) {
            case State::whole:
                break;
            case State::waiting:
                return false;
            case State::closed:
                static_cast<void>(lose("its server is gone"));
                return false;
            case State::breach:
                static_cast<void>(lose("its server sent what is no message"));
                return false;
        }
        if (message.is_reply()) {
            static_cast<void>(lose("its server answered what was not asked"));
        } else {
            serve(message, deadline);
        }
    }
    return true;
}

}  // namespace mqblk::pci
