// SPDX-License-Identifier: Apache-2.0
//
// A CopyDevice served on a vfio-user socket by a thread of its own, and a client that can say anything to it.
#pragma once

#include "pci/unix_socket.h"
#include "pci/vfio_user_server.h"
#include "support/pci_copy_device.h"
#include "wire/vfio_user.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace mqblk::test {

class ServedDevice {
  public:
    explicit ServedDevice(bool map_areas = true, Duration version_timeout = std::chrono::minutes(10));
    ~ServedDevice();

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    /// Runs `task` on the server's thread and waits for it.
    void run(const std::function<void()>& task);
    void with_model(const std::function<void(CopyDevice&)>& task) {
        run([&] { task(*model_); });
    }
    [[nodiscard]] std::uint64_t clients_served();
    [[nodiscard]] bool connected();
    /// Until no client is left; false if that takes longer than on any healthy machine.
    [[nodiscard]] bool wait_until_free();
    /// Ends the server and starts another one at the same place.
    void restart(bool map_areas = true);

  private:
    void start(bool map_areas);
    void stop();

    const Duration version_timeout_;
    std::string directory_, path_;
    std::unique_ptr<Reactor> reactor_;
    CopyDevice* model_ = nullptr;
    std::unique_ptr<pci::VfioUserServer> server_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

/// Open descriptors of this process, without those that another thread has open only for a moment.
[[nodiscard]] std::size_t open_descriptors();

/// `values` and spans of bytes, one behind the other.
template <class T>
void append(std::vector<std::byte>& to, const T& value) {
    std::span<const std::byte> from;
    if constexpr (std::is_convertible_v<const T&, std::span<const std::byte>>) {
        from = value;
    } else {
        from = std::as_bytes(std::span(&value, 1));
    }
    const std::size_t before = to.size();
    to.resize(before + from.size());
    if (!from.empty()) std::memcpy(to.data() + before, from.data(), from.size());
}
template <class... T>
std::vector<std::byte> bytes_of(const T&... values) {
    std::vector<std::byte> result;
    (append(result, values), ...);
    return result;
}

/// A client without manners.
class RawClient {
  public:
    explicit RawClient(const std::string& path);

    /// Negotiated with the version message that QEMU and libvfio-user know, or one that asks for posted writes too.
    [[nodiscard]] bool negotiate(bool posted_writes = false);

    /// A whole message as bytes.
    [[nodiscard]] static std::vector<std::byte> message(wire::vfio_user::Command command,
                                                        const std::vector<std::byte>& payload, std::uint16_t id,
                                                        std::uint32_t flags = 0);
    [[nodiscard]] bool send(std::span<const std::byte> bytes, std::span<const int> fds = {});
    /// False when the server closed the connection or says nothing for very long.
    [[nodiscard]] bool receive(pci::Message& message);

    /// Sends a command and takes its answer: the errno in it, or -1 without an answer.
    int ask(wire::vfio_user::Command command, const std::vector<std::byte>& payload, std::span<const int> fds = {});
    template <class T>
    int ask(wire::vfio_user::Command command, const T& payload, std::span<const int> fds = {}) {
        return ask(command, bytes_of(payload), fds);
    }
    [[nodiscard]] const pci::Message& answer() const noexcept { return answer_; }
    template <class T>
    [[nodiscard]] T answer_as(std::size_t offset = 0) const {
        T value{};
        if (answer_.payload.size() >= offset + sizeof value) {
            std::memcpy(&value, answer_.payload.data() + offset, sizeof value);
        }
        return value;
    }

    int write_register(std::uint64_t offset, std::uint64_t value, unsigned bytes);
    [[nodiscard]] std::uint64_t read_register(std::uint64_t offset, unsigned bytes);
    int map(std::uint64_t address, std::uint64_t bytes, int fd, std::uint64_t offset = 0, std::uint32_t flags = 3);
    int unmap(std::uint64_t address, std::uint64_t bytes);

    [[nodiscard]] bool closed();  ///< by the server
    [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

  private:
    pci::MessageSocket socket_;
    pci::Message answer_;
    std::uint16_t next_id_ = 1;
};

}  // namespace mqblk::test
