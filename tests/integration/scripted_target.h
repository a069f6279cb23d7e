// SPDX-License-Identifier: Apache-2.0
//
// A target for tests that is nobody's but theirs: blocking sockets, a thread for each connection, one namespace of
// memory, written from the specification and sharing only the wire structures with the product. A script may answer any
// command in its place, truthfully or not. It notes how each connection ended.
#pragma once

#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_tcp.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace mqblk::test {

class ScriptedTarget {
  public:
    static constexpr const char* nqn = "nqn.2026-01.test:scripted";
    static constexpr std::uint32_t blocks = 2048;  // of 512 bytes

    /// One connection, as its script sees it. Sending to a closed connection does nothing.
    class Wire {
      public:
        explicit Wire(int fd) : fd_(fd) {}
        void send(const void* bytes, std::size_t count);
        /// False: the host closed.
        bool receive(void* bytes, std::size_t count);

        void respond(std::uint16_t command_id, std::uint16_t status = 0, std::uint64_t result = 0);
        void data(std::uint16_t command_id, std::uint32_t offset, std::span<const std::byte> bytes, std::uint8_t flags);
        void ready(std::uint16_t command_id, std::uint16_t tag, std::uint32_t offset, std::uint32_t bytes);
        /// Any PDU: the common header as given, then the rest.
        void raw(wire::nvme_tcp::CommonHeader header, std::span<const std::byte> rest);
        /// Waits for an H2CData and appends its data; commands that come before are kept. False: the host closed.
        bool take_data(std::vector<std::byte>& to);
        /// The next command with its data. False: the host closed.
        bool take_command(wire::nvme::Command& command, std::vector<std::byte>& data);
        /// Waits until the host closes. False: it did not within ten seconds.
        bool await_close();

        unsigned queue_id = 0;

      private:
        struct Pdu {
            std::vector<std::byte> header, data;
        };
        bool take(Pdu&);

        int fd_;
        std::deque<Pdu> kept_;  ///< commands that came while data was waited for
    };

    struct Script {
        /// Answers a command in the target's place; false: the target answers. `data`: what came in the capsule.
        std::function<bool(Wire&, const wire::nvme::Command&, std::span<const std::byte> data)> command = {};
        /// Changes what is said before it is sent.
        std::function<void(wire::nvme_tcp::IcResp&)> ic_resp = {};
        std::function<void(wire::nvme::IdentifyController&)> controller = {};
        std::function<void(wire::nvme::IdentifyNamespace&)> ns = {};
    };

    explicit ScriptedTarget(Script);
    ~ScriptedTarget();

    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] unsigned connections() const { return connections_; }
    /// What its disk holds now.
    [[nodiscard]] std::vector<std::byte> memory();
    void fill_memory(std::byte);

  private:
    void accept();
    void serve(int fd);
    bool initialize(Wire&);
    void execute(Wire&, const wire::nvme::Command&, std::span<const std::byte>);
    void fabrics(Wire&, const wire::nvme::Command&, std::span<const std::byte>);
    void admin(Wire&, const wire::nvme::Command&);
    void io(Wire&, const wire::nvme::Command&, std::span<const std::byte>);

    const Script script_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::atomic<unsigned> connections_{0};
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    std::vector<int> open_;
    std::vector<std::byte> memory_;
    std::uint32_t configuration_ = 0;
    std::vector<std::thread> threads_;
    std::thread acceptor_;
};

}  // namespace mqblk::test
