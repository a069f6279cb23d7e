// SPDX-License-Identifier: Apache-2.0
//
// One client at a time: it is accepted when the one before it has left no trace, and the next waits in the socket's
// queue. Nothing here waits for a client but dma_read and dma_write, which have a budget: what it sends meanwhile is
// kept and carried out in order.
#include "pci/vfio_user_server.h"

#include "base/log.h"
#include "base/rcu.h"
#include "pci/eventfd_signal.h"
#include "pci/vfio_user_session.h"
#include "pci/wait_budget.h"
#include "reactor/reactor.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <thread>

namespace mqblk::pci {

namespace {

namespace vu = wire::vfio_user;
using State = MessageSocket::State;
using Outcome = VfioUserSession::Outcome;

/// What a client may send while it owes an answer.
constexpr std::size_t max_kept_messages = 256, max_kept_bytes = 4u << 20, max_kept_fds = 256;
/// Messages carried out in one pass, so that a client that never pauses leaves room for its model's disk.
constexpr unsigned messages_per_pass = 64;
constexpr Duration look_again = std::chrono::microseconds(100);
/// Where the kernel has no descriptor for the next client now.
constexpr Duration accept_again = std::chrono::milliseconds(100);

class Server final : public VfioUserServer, public InterruptSink, public DmaMessenger, Poller {
  public:
    Server(Reactor& reactor, std::string path, std::unique_ptr<Model> model, VfioUserServerOptions options)
        : reactor_(reactor),
          path_(std::move(path)),
          options_(options),
          core_(reactor, memory_, *this, std::move(model)),
          again_([this] { go_on(); }),
          accept_again_([this] { accept(); }),
          greeting_([this] { ungreeted(); }),
          next_pass_([this] { budget_.next_pass(); }) {}
    ~Server() override;

    Result<> start();
    bool connected() const noexcept override { return client_ != nullptr; }
    Model& model() noexcept override { return core_.model(); }
    std::uint64_t clients_served() const noexcept override { return served_; }

  private:
    struct Client {
        Client(OwnedFd fd, FunctionCore& core, HostMemory& memory, DmaMessenger& messenger,
               VfioUserServerOptions options)
            : socket(std::move(fd)), session(core, memory, messenger, options) {}
        MessageSocket socket;
        VfioUserSession session;
        std::unique_ptr<Watch> watch;
        std::deque<Message> kept;
        std::size_t kept_bytes = 0, kept_fds = 0;
        std::uint16_t next_id = 1;
        bool pending = false;  ///< the session's last message is not done
        bool leaving = false;  ///< no more of it; the session is being ended
        bool ending = false;   ///< session.end() was called
    };

    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    bool deliver(InterruptType type, unsigned vector) noexcept override;
    void gone_changed(bool gone) noexcept override;
    bool dma_read(std::uint64_t address, std::span<std::byte> to) noexcept override;
    bool dma_write(std::uint64_t address, std::span<const std::byte> from) noexcept override;
    bool exchange(vu::Command command, std::span<const std::byte> request, std::uint64_t count, Message& answer);
    bool converse(const vu::Header& header, std::span<const std::byte> request, std::int64_t deadline, Message& answer);
    bool await(std::uint16_t id, std::uint16_t command, std::int64_t deadline, Message& answer);

    void accept();
    void ungreeted();
    void go_on();
    void serve();
    bool take(Message& message);
    void carry_out(Message message);
    unsigned carry_out_posted() noexcept;
    void answer(Outcome outcome, const Reply& reply);
    void leave(std::string_view why);
    void end_client();

    Reactor& reactor_;
    const std::string path_;
    const VfioUserServerOptions options_;
    HostMemory memory_;
    std::atomic<Client*> delivering_to_{nullptr};  ///< for other threads' interrupts; under RCU
    std::unique_ptr<Client> client_;
    FunctionCore core_;
    OwnedFd listener_;
    std::unique_ptr<Watch> accepting_;
    Timer again_, accept_again_;
    Timer greeting_;     ///< armed until the client has said its version
    WaitBudget budget_;  ///< for a client that hands over its memory
    Timer next_pass_;    ///< armed once something was spent of it
    std::uint64_t served_ = 0;
    std::thread::id thread_;
    bool serving_ = false;  ///< go_on() is on the stack: the model, called from there, may call back
    dev_t device_ = 0;
    ino_t inode_ = 0;  ///< of the socket file that is ours to remove
};

Result<> Server::start() {
    if (auto prepared = prepare_eventfd_signals(); !prepared) return prepared;
    auto listener = listen_unix(path_);
    if (!listener) return std::unexpected(listener.error());
    listener_ = std::move(*listener);
    struct stat status{};
    if (::lstat(path_.c_str(), &status) == 0) {
        device_ = status.st_dev;
        inode_ = status.st_ino;
    }
    if (auto started = core_.start(memory::Backing::shared); !started) return started;
    accepting_ = reactor_.watch(listener_.get(), [this] { accept(); });
    if (accepting_ == nullptr) return fail(Errc::not_supported, "vfio-user sockets need a real reactor");
    accepting_->arm(false);
    return {};
}

Server::~Server() {
    for (Timer* const timer : {&again_, &accept_again_, &greeting_, &next_pass_}) timer->cancel();
    accepting_.reset();
    reactor_.remove(*this);
    if (client_ != nullptr) {
        client_->watch.reset();
        if (!client_->ending) client_->session.end();
        delivering_to_.store(nullptr);
        rcu::synchronize();
    }
    struct stat status{};
    if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
        ::unlink(path_.c_str());
    }
}

void Server::accept() {
    thread_ = std::this_thread::get_id();
    if (client_ != nullptr) return;
    OwnedFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int problem = fd ? 0 : errno;
    if (problem == EMFILE || problem == ENFILE || problem == ENOBUFS || problem == ENOMEM) {
        // The client still waits in the queue, so the socket stays readable.
        const Error error = Error::from_errno(problem, fmt::format("accept a vfio-user client of {}", path_));
        log_limited("vfio-user: accept", error.message());
        accept_again_.arm(reactor_, reactor_.now() + accept_again);
        return;
    }
    if (!fd || core_.gone()) {
        accepting_->arm(false);
        return;
    }
    ++served_;
    const int raw = fd.get();
    client_ = std::make_unique<Client>(std::move(fd), core_, memory_, *this, options_);
    delivering_to_.store(client_.get(), std::memory_order_release);
    client_->watch = reactor_.watch(raw, [this] { go_on(); });
    client_->watch->arm(false);
    budget_ = {};
    greeting_.arm(reactor_, reactor_.now() + options_.version_timeout);
}

/// Whoever says nothing must not keep all others out.
void Server::ungreeted() {
    if (client_ == nullptr || client_->leaving || client_->session.negotiated()) return;
    leave("it did not say its version in time");
}

/// The socket can be read or written, or it is time to look again.
void Server::go_on() {
    if (client_ == nullptr || serving_) return;
    thread_ = std::this_thread::get_id();
    serving_ = true;
    if (!client_->leaving) serve();
    serving_ = false;
    if (client_->leaving) end_client();
}

void Server::serve() {
    Client& client = *client_;
    if (client.socket.sending() && client.socket.flush() == State::closed) return leave("");
    for (unsigned i = 0; i < messages_per_pass && !client.leaving; ++i) {
        if (client.pending) {
            Reply reply;
            answer(client.session.resume(reply), reply);
        }
        if (client.pending) {
            again_.arm(reactor_, reactor_.now() + look_again);
            return;
        }
        if (client.leaving) return;
        if (client.socket.sending()) {
            client.watch->arm(true);
            return;
        }
        Message message;
        if (!take(message)) return;
        carry_out(std::move(message));
    }
    if (!client.leaving) again_.arm(reactor_, reactor_.now());
}

/// The next message: one that was kept, or from the socket. False: none now; the watch is armed, or the client leaves.
bool Server::take(Message& message) {
    Client& client = *client_;
    if (!client.kept.empty()) {
        message = std::move(client.kept.front());
        client.kept.pop_front();
        client.kept_bytes -= message.payload.size();
        client.kept_fds -= message.fds.size();
        return true;
    }
    switch (client.socket.receive(message)) {
        case State::whole:
            return true;
        case State::waiting:
            client.watch->arm(false);
            break;
        case State::closed:
            leave("");
            break;
        case State::breach:
            leave("a message of impossible length or with too many descriptors");
            break;
    }
    return false;
}

void Server::carry_out(Message message) {
    carry_out_posted();
    if (client_->leaving) return;
    Reply reply;
    const Outcome outcome = client_->session.handle(std::move(message), reply);
    answer(outcome, reply);
}

/// What its client posted, as much as it could before now: not without end.
unsigned Server::carry_out_posted() noexcept {
    Client& client = *client_;
    if (!client.session.posts()) return 0;
    client.session.posted().wake_up();
    unsigned done = 0;
    while (done < vu::posted_entries && !client.leaving && client.session.carry_out_posted()) ++done;
    if (done != 0) client.session.posted().release();
    return done;
}

unsigned Server::poll() noexcept {
    if (serving_ || client_->leaving || client_->pending) return 0;
    serving_ = true;
    const unsigned done = carry_out_posted();
    serving_ = false;
    if (client_->leaving) end_client();
    return done;
}

bool Server::prepare_sleep() noexcept {
    if (client_->leaving || client_->pending) return true;  // a timer is armed
    return client_->session.posted().fall_asleep();
}

void Server::answer(Outcome outcome, const Reply& reply) {
    Client& client = *client_;
    client.pending = outcome == Outcome::pending;
    if (client.session.posts()) reactor_.add(*this);
    const bool worth_sending =
        outcome == Outcome::replied || (outcome == Outcome::breach && reply.header.message_size != 0);
    if (worth_sending && !client.leaving &&
        client.socket.send(reply.header, reply.payload, reply.fds) == State::closed) {
        leave("");
    }
    if (outcome == Outcome::breach) leave(client.session.breach());
}

void Server::leave(std::string_view why) {
    if (!why.empty()) log_limited("vfio-user: breach", fmt::format("vfio-user client of {}: {}", path_, why));
    client_->leaving = true;
    if (!serving_) again_.arm(reactor_, reactor_.now());
}

/// Everything of the client ends; what its disk still has in hand delays the last of it.
void Server::end_client() {
    if (!client_->ending) {
        client_->ending = true;
        reactor_.remove(*this);
        client_->watch.reset();
        ::shutdown(client_->socket.fd(), SHUT_RDWR);
        client_->session.end();
    }
    if (!client_->session.ended()) {
        again_.arm(reactor_, reactor_.now() + look_again);
        return;
    }
    delivering_to_.store(nullptr, std::memory_order_release);
    rcu::synchronize();
    client_.reset();
    accepting_->arm(false);
}

bool Server::deliver(InterruptType type, unsigned vector) noexcept {
    const rcu::ReadLock lock;
    Client* const client = delivering_to_.load(std::memory_order_acquire);
    return client != nullptr && client->session.deliver(type, vector);
}

void Server::gone_changed(bool gone) noexcept {
    if (!gone || client_ == nullptr) return;
    client_->leaving = true;
    ::shutdown(client_->socket.fd(), SHUT_RDWR);
    again_.arm(reactor_, reactor_.now());
}

bool Server::dma_read(std::uint64_t address, std::span<std::byte> to) noexcept {
    while (!to.empty()) {
        if (client_ == nullptr || client_->leaving) return false;
        const std::uint64_t count = std::min<std::uint64_t>(to.size(), client_->session.client().max_transfer_bytes);
        const vu::DmaAccess request{address, count};
        Message answer;
        if (!exchange(vu::Command::dma_read, std::as_bytes(std::span(&request, 1)), count, answer)) return false;
        if (answer.payload.size() != sizeof request + count) return false;
        std::ranges::copy(std::span(answer.payload).subspan(sizeof request), to.begin());
        to = to.subspan(count);
        address += count;
    }
    return true;
}

bool Server::dma_write(std::uint64_t address, std::span<const std::byte> from) noexcept {
    while (!from.empty()) {
        if (client_ == nullptr || client_->leaving) return false;
        const std::uint64_t count = std::min<std::uint64_t>(
            {from.size(), client_->session.client().max_transfer_bytes, vu::default_max_transfer_bytes});
        const vu::DmaAccess request{address, count};
        const auto head = std::as_bytes(std::span(&request, 1));
        std::vector<std::byte> payload(head.begin(), head.end());
        payload.insert(payload.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
        Message answer;
        if (!exchange(vu::Command::dma_write, payload, count, answer)) return false;
        from = from.subspan(count);
        address += count;
    }
    return true;
}

/// A command to the client and its answer, which is waited for.
bool Server::exchange(vu::Command command, std::span<const std::byte> request, std::uint64_t count, Message& answer) {
    if (std::this_thread::get_id() != thread_) return false;
    Client& client = *client_;
    const vu::Header header{.message_id = client.next_id++,
                            .command = static_cast<std::uint16_t>(command),
                            .message_size = static_cast<std::uint32_t>(sizeof header + request.size()),
                            .flags = vu::flag_command,
                            .error = 0};
    const std::int64_t now = MessageSocket::now_ns(), left = budget_.left_ns(now);
    if (!next_pass_.armed()) next_pass_.arm(reactor_, reactor_.now());
    if (left == 0) {
        leave("it takes too long to hand over its memory");
        return false;
    }
    const bool answered = converse(header, request, now + left, answer);
    budget_.spent(MessageSocket::now_ns());
    if (!answered || (answer.header.flags & vu::flag_error) != 0) return false;
    vu::DmaAccess echoed{};
    // The count in the reply to a write has 4 bytes in the published table, and 8 in practice: it is not looked at.
    if (answer.payload.size() < sizeof echoed.address + 4) return false;
    return command == vu::Command::dma_write || answer.payload.size() == sizeof echoed + count;
}

/// Sends it and waits for what answers it, until `deadline`.
bool Server::converse(const vu::Header& header, std::span<const std::byte> request, std::int64_t deadline,
                      Message& answer) {
    Client& client = *client_;
    State state = client.socket.send(header, request);
    while (state == State::waiting && client.socket.wait(true, deadline)) state = client.socket.flush();
    if (state != State::whole) {
        leave(state == State::closed ? "" : "it takes no messages");
        return false;
    }
    return await(header.message_id, header.command, deadline, answer);
}

bool Server::await(std::uint16_t id, std::uint16_t command, std::int64_t deadline, Message& answer) {
    Client& client = *client_;
    for (;;) {
        Message message;
        switch (client.socket.receive(message)) {
            case State::whole:
                break;
            case State::waiting:
                if (client.socket.wait(false, deadline)) continue;
                leave("it did not answer a request for its memory in time");
                return false;
            case State::closed:
                leave("");
                return false;
            case State::breach:
                leave("a message of impossible length or with too many descriptors");
                return false;
        }
        if (message.is_reply()) {
            if (message.header.message_id == id && message.header.command == command) {
                answer = std::move(message);
                return true;
            }
            leave("an answer to what was not asked");
            return false;
        }
        client.kept_bytes += message.payload.size();
        client.kept_fds += message.fds.size();
        client.kept.push_back(std::move(message));
        if (!serving_) again_.arm(reactor_, reactor_.now());
        if (client.kept.size() > max_kept_messages || client.kept_bytes > max_kept_bytes ||
            client.kept_fds > max_kept_fds) {
            leave("too many messages before it answered a request for its memory");
            return false;
        }
    }
}

}  // namespace

Result<std::unique_ptr<VfioUserServer>> VfioUserServer::listen(Reactor& reactor, std::string socket_path,
                                                               std::unique_ptr<Model> model,
                                                               VfioUserServerOptions options) {
    auto server = std::make_unique<Server>(reactor, std::move(socket_path), std::move(model), options);
    if (auto started = server->start(); !started) return std::unexpected(started.error());
    return server;
}

}  // namespace mqblk::pci
