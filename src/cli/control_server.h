// SPDX-License-Identifier: Apache-2.0
//
// The UNIX socket of a running target or model: lines in, lines out. Only its owner can open it (mode 0600). Clients
// are few and bounded, and none waits for another: an answer that its client does not read stays here, and its next
// request is not looked at before; when all places are taken, whoever was silent for longest loses its.
#pragma once

#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pollfd;

namespace mqblk::cli {

/// One thread, which polls.
class ControlServer {
  public:
    static constexpr std::size_t max_clients = 16;
    /// Returns the answer to a line.
    using Handle = std::function<std::string(std::string_view line)>;

    /// A socket file that nobody answers any more is replaced.
    [[nodiscard]] static Result<std::unique_ptr<ControlServer>> listen(const std::string& path,
                                                                       std::size_t max_line_bytes, Handle handle);
    ~ControlServer();  ///< removes the socket file
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

    /// What to poll for, appended to `entries`.
    void collect(std::vector<pollfd>& entries) const;
    /// Serves what poll found: the entries that collect() appended, in its order.
    void serve(const pollfd* entries, std::size_t count);

  private:
    struct Client {
        int fd;
        std::uint64_t last_heard;  // a count, not a time
        std::string input;
        std::string output = {};   // not yet taken by the client
        std::size_t sent = 0;      // of it
        std::size_t searched = 0;  // bytes of the input in which no line ends
    };
    ControlServer(std::string path, int fd, std::size_t max_line_bytes, Handle handle);
    void accept_client();
    void make_place();
    // False when the client is to go.
    bool serve_client(Client& client);
    bool read_from(Client& client);
    bool answer_lines(Client& client);
    static bool send_to(Client& client);

    const std::string path_;
    const int fd_;
    const std::size_t max_line_bytes_;
    const Handle handle_;
    std::vector<Client> clients_;
    std::uint64_t heard_ = 0;
};

class Signals;
/// Until a signal comes, serves `control`, unless that is null. What a client asked for and does not end in
/// Signals::Bounded::patience after the signal takes the process with it.
void wait_for_end(Signals& signals, ControlServer* control);

}  // namespace mqblk::cli
