// SPDX-License-Identifier: Apache-2.0
//
// The physical limit of NVMe/TCP on this machine: two processes, each pinned to a processor of its own, that exchange
// bytes of the sizes that a workload would put on the wire, over loopback TCP, with no protocol at all. Requests one
// way, responses the other; whatever is there is received at once and answered by one send; nobody sleeps. Every TCP
// figure is reported beside the one from here.
#include "base/steady_clock.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

using mqblk::SteadyClock;
using mqblk::Time;

// Sizes of the PDUs (NVMe/TCP Transport Specification 1.0, section 3.6): command capsule with its header, data header,
// response capsule.
constexpr std::size_t command_bytes = 72, data_header_bytes = 24, response_bytes = 24;
constexpr std::size_t buffer_bytes = 512 * 1024;

struct Workload {
    std::size_t block_bytes = 4096;
    unsigned depth = 1;  ///< in all, spread over the connections
    unsigned connections = 1;
    bool write = false;
    bool response_capsule = false;  ///< reads end with a response capsule, not with the SUCCESS flag
    double seconds = 3;
    bool json = false;

    [[nodiscard]] std::size_t to_target() const { return command_bytes + (write ? block_bytes : 0); }
    [[nodiscard]] std::size_t to_initiator() const {
        return write ? response_bytes : data_header_bytes + block_bytes + (response_capsule ? response_bytes : 0);
    }
};

[[noreturn]] void give_up(std::string_view what) {
    fmt::print(stderr, "raw_tcp: {}: {}\n", what, std::strerror(errno));
    std::exit(1);
}

/// One end of one connection. All content is the same, so a count of bytes is all there is to know.
struct Stream {
    int fd = -1;
    std::size_t owed = 0;      ///< bytes to send
    std::size_t received = 0;  ///< bytes of a message that has not come in whole

    /// Returns how many messages of `message_bytes` have been completed; ends the process with the stream.
    std::size_t receive(std::vector<char>& buffer, std::size_t message_bytes) {
        const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return 0;
        if (got <= 0) std::_Exit(got == 0 || errno == ECONNRESET ? 0 : 1);
        received += static_cast<std::size_t>(got);
        const std::size_t messages = received / message_bytes;
        received %= message_bytes;
        return messages;
    }
    void send(const std::vector<char>& buffer) {
        while (owed > 0) {
            const ssize_t sent = ::send(fd, buffer.data(), std::min(owed, buffer.size()), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0 && errno == EAGAIN) return;
            if (sent < 0) std::_Exit(0);
            owed -= static_cast<std::size_t>(sent);
        }
    }
};

void pin_to(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) {
        fmt::print(stderr, "raw_tcp: not pinned to processor {}: {}\n", processor, std::strerror(errno));
    }
}

[[noreturn]] void run_target(std::vector<Stream> streams, const Workload& workload) {
    std::vector<char> in(buffer_bytes), out(buffer_bytes);
    for (;;) {
        for (Stream& stream : streams) {
            stream.owed += stream.receive(in, workload.to_target()) * workload.to_initiator();
            stream.send(out);
        }
    }
}

struct Outcome {
    std::uint64_t done = 0;
    double seconds = 0;
};

Outcome run_initiator(std::vector<Stream> streams, const Workload& workload) {
    std::vector<char> in(buffer_bytes), out(buffer_bytes);
    for (unsigned i = 0; i < workload.depth; ++i) streams[i % streams.size()].owed += workload.to_target();

    const auto warm_up = std::chrono::duration<double>(std::min(0.3, workload.seconds / 4));
    Time start = SteadyClock::read() + std::chrono::duration_cast<mqblk::Duration>(warm_up);
    const Time end =
        start + std::chrono::duration_cast<mqblk::Duration>(std::chrono::duration<double>(workload.seconds));
    std::uint64_t done = 0;
    bool warm = false;
    for (unsigned pass = 0;; ++pass) {
        for (Stream& stream : streams) {
            const std::size_t completed = stream.receive(in, workload.to_initiator());
            done += completed;
            stream.owed += completed * workload.to_target();
            stream.send(out);
        }
        if (pass % 64 != 0) continue;
        const Time now = SteadyClock::read();
        if (!warm && now >= start) {
            warm = true;
            start = now;
            done = 0;
        }
        if (now >= end) return {done, std::chrono::duration<double>(now - start).count()};
    }
}

/// Without the pauses of a congestion control that paces (BBR): they are no limit of the machine. Once established, a
/// connection keeps them, so this comes before; what is accepted inherits it.
int open_unpaced_socket() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    return fd;
}

int open_listener(sockaddr_in& address) {
    const int listener = open_unpaced_socket();
    address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
        ::listen(listener, 1024) != 0 || ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
        give_up("listen on 127.0.0.1");
    }
    return listener;
}

/// Both ends of every connection, made before the processes part.
void connect_all(unsigned count, std::vector<Stream>& target, std::vector<Stream>& initiator) {
    sockaddr_in address{};
    const int listener = open_listener(address);
    for (unsigned i = 0; i < count; ++i) {
        const int near = open_unpaced_socket();
        if (near < 0 || ::connect(near, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("connect");
        const int far = ::accept(listener, nullptr, nullptr);
        if (far < 0) give_up("accept");
        const int on = 1;
        for (const int fd : {near, far}) {
            ::fcntl(fd, F_SETFL, O_NONBLOCK);
            ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        }
        initiator.push_back({.fd = near});
        target.push_back({.fd = far});
    }
    ::close(listener);
}

void close_all(const std::vector<Stream>& streams) {
    for (const Stream& stream : streams) ::close(stream.fd);
}

Outcome measure(const Workload& workload) {
    std::vector<Stream> target, initiator;
    connect_all(workload.connections, target, initiator);
    const pid_t child = ::fork();
    if (child < 0) give_up("fork");
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_all(initiator);
        pin_to(0);
        run_target(std::move(target), workload);
    }
    close_all(target);
    if (::sysconf(_SC_NPROCESSORS_ONLN) > 1) pin_to(1);
    const Outcome outcome = run_initiator(initiator, workload);
    close_all(initiator);
    ::waitpid(child, nullptr, 0);
    return outcome;
}

void report(const Workload& workload, const Outcome& outcome) {
    const double iops = static_cast<double>(outcome.done) / outcome.seconds;
    const double bandwidth = iops * static_cast<double>(workload.block_bytes);
    const char* const rw = workload.write ? "write" : "read";
    if (workload.json) {
        fmt::print(R"({{"name":"raw_tcp","rw":"{}","bs":{},"depth":{},"connections":{},"seconds":{:.3f},)"
                   R"("ios":{},"iops":{:.0f},"bw_bytes":{:.0f}}})"
                   "\n",
                   rw, workload.block_bytes, workload.depth, workload.connections, outcome.seconds, outcome.done, iops,
                   bandwidth);
    } else {
        fmt::print("raw {} bs={} depth={} connections={}: {:.0f} IOPS, {:.2f} GB/s\n", rw, workload.block_bytes,
                   workload.depth, workload.connections, iops, bandwidth / 1e9);
    }
}

constexpr const char* usage =
    "usage: bench_raw_tcp [--bs BYTES] [--depth N] [--connections N] [--rw read|write] [--time SECONDS]\n"
    "                     [--response-capsule] [--json]\n"
    "  e.g. bench_raw_tcp --bs 4k --depth 32 --rw read\n";

[[noreturn]] void refuse(std::string_view what) {
    fmt::print(stderr, "raw_tcp: {}\n{}", what, usage);
    std::exit(2);
}

double number(const char* option, const char* text, double least, double most) {
    char* end = nullptr;
    double value = std::strtod(text, &end);
    if (end != text && (*end == 'k' || *end == 'K')) value *= 1024, ++end;
    if (end != text && (*end == 'm' || *end == 'M')) value *= 1024 * 1024, ++end;
    if (end == text || *end != '\0' || !(value >= least && value <= most)) {
        refuse(fmt::format("--{} {}: a number from {} to {} is needed", option, text, least, most));
    }
    return value;
}

Workload parse(int argc, char** argv) {
    static const option options[] = {{"bs", required_argument, nullptr, 'b'},
                                     {"depth", required_argument, nullptr, 'd'},
                                     {"rw", required_argument, nullptr, 'r'},
                                     {"connections", required_argument, nullptr, 'c'},
                                     {"time", required_argument, nullptr, 't'},
                                     {"response-capsule", no_argument, nullptr, 's'},
                                     {"json", no_argument, nullptr, 'j'},
                                     {"help", no_argument, nullptr, 'h'},
                                     {nullptr, 0, nullptr, 0}};
    Workload workload;
    for (int option = 0; (option = ::getopt_long(argc, argv, "", options, nullptr)) != -1;) {
        switch (option) {
            case 'b':
                workload.block_bytes = static_cast<std::size_t>(number("bs", optarg, 1, 16 << 20));
                break;
            case 'd':
                workload.depth = static_cast<unsigned>(number("depth", optarg, 1, 65536));
                break;
            case 'c':
                workload.connections = static_cast<unsigned>(number("connections", optarg, 1, 400));
                break;
            case 't':
                workload.seconds = number("time", optarg, 0.01, 3600);
                break;
            case 'r':
                workload.write = std::string_view(optarg) == "write";
                if (!workload.write && std::string_view(optarg) != "read") refuse("--rw is read or write");
                break;
            case 's':
                workload.response_capsule = true;
                break;
            case 'j':
                workload.json = true;
                break;
            case 'h':
                fmt::print("{}", usage);
                std::exit(0);
            default:
                refuse("unknown option");
        }
    }
    if (optind < argc) refuse(fmt::format("'{}' is not an option", argv[optind]));
    workload.depth = std::max(workload.depth, workload.connections);
    return workload;
}

}  // namespace

int main(int argc, char** argv) {
    const Workload workload = parse(argc, argv);
    report(workload, measure(workload));
}
