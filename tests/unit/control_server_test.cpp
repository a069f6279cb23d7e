// SPDX-License-Identifier: Apache-2.0
//
// The control socket with several clients at once, some of them slow.
#include "cli/control_server.h"

#include "cli/control_socket.h"
#include "unit/file_support.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::cli {
namespace {

constexpr std::size_t answer_bytes = 300'000;  // more than a socket holds

class ControlServerTest : public testing::Test {
  protected:
    ControlServerTest() {
        auto listening = ControlServer::listen(path_, 1 << 20, [this](std::string_view line) {
            ++handled_;
            return std::string(line.starts_with("long") ? answer_bytes : 0, 'x') + std::string(line);
        });
        EXPECT_TRUE(listening) << (listening ? "" : listening.error().message());
        server_ = std::move(*listening);
    }
    ~ControlServerTest() override {
        for (const int fd : clients_) ::close(fd);
    }
    int connect() {
        const auto fd = connect_control(path_, 30);
        EXPECT_TRUE(fd) << (fd ? "" : fd.error().message());
        clients_.push_back(*fd);
        turn();
        return *fd;
    }
    /// Serves what there is to serve now.
    void turn() {
        for (int i = 0; i < 100; ++i) {
            std::vector<pollfd> entries;
            server_->collect(entries);
            if (::poll(entries.data(), entries.size(), 0) == 0) return;
            server_->serve(entries.data(), entries.size());
        }
    }
    static void send(int fd, const std::string& text) { EXPECT_TRUE(send_all(fd, text)); }
    /// A line of the answer, or "" at the end of the connection.
    std::string receive(int fd) {
        std::string line;
        while (line.empty() || line.back() != '\n') {
            turn();
            pollfd entry{fd, POLLIN, 0};
            if (::poll(&entry, 1, 10'000) != 1) return "nothing came";
            char part[65536];
            const auto there = ::recv(fd, part, sizeof part, MSG_PEEK);
            if (there <= 0) return {};
            const auto* end = static_cast<const char*>(std::memchr(part, '\n', static_cast<std::size_t>(there)));
            const std::size_t take = end != nullptr ? static_cast<std::size_t>(end - part) + 1 : sizeof part;
            const auto got = ::recv(fd, part, std::min<std::size_t>(take, static_cast<std::size_t>(there)), 0);
            line.append(part, static_cast<std::size_t>(got));
        }
        line.pop_back();
        return line;
    }

    test::ScratchDirectory directory_;
    std::string path_ = directory_.file("control");
    std::unique_ptr<ControlServer> server_;
    std::vector<int> clients_;
    unsigned handled_ = 0;
};

TEST_F(ControlServerTest, AClientThatDoesNotReadHoldsUpNoOther) {
    const int slow = connect(), other = connect();
    for (int i = 0; i < 20; ++i) send(slow, "long " + std::to_string(i) + "\n");
    turn();
    EXPECT_EQ(handled_, 1u) << "nothing more is done for it before it has read";
    for (int i = 0; i < 10; ++i) {
        send(other, "short\n");
        EXPECT_EQ(receive(other), "short");
    }
    for (int i = 0; i < 20; ++i) {
        const std::string tail = "long " + std::to_string(i), line = receive(slow);
        ASSERT_EQ(line.size(), answer_bytes + tail.size());
        EXPECT_TRUE(line.ends_with(tail));
    }
    EXPECT_EQ(handled_, 30u);
}

TEST_F(ControlServerTest, LinesComeInPiecesAndSeveralAtOnce) {
    const int fd = connect();
    for (const char* part : {"o", "n", "e\ntw", "o\n\nfour\nfi"}) {
        send(fd, part);
        turn();
    }
    for (const char* line : {"one", "two", "", "four"}) EXPECT_EQ(receive(fd), line);
    send(fd, "ve\n");
    EXPECT_EQ(receive(fd), "five");
    EXPECT_EQ(handled_, 5u);
}

TEST_F(ControlServerTest, TheOneSilentForLongestMakesPlace) {
    std::vector<int> all;
    for (std::size_t i = 0; i < ControlServer::max_clients; ++i) all.push_back(connect());
    send(all[0], "here\n");
    EXPECT_EQ(receive(all[0]), "here");
    const int late = connect();
    send(late, "late\n");
    EXPECT_EQ(receive(late), "late");
    EXPECT_EQ(receive(all[1]), "") << "closed";
    send(all[0], "still\n");
    EXPECT_EQ(receive(all[0]), "still");
}

TEST_F(ControlServerTest, ALineWithoutEndIsCutOff) {
    const int fd = connect();
    const std::string piece(65536, 'a');
    for (int i = 0; i < 17; ++i) {
        static_cast<void>(send_all(fd, piece));
        turn();
    }
    EXPECT_EQ(receive(fd), "");
    EXPECT_EQ(handled_, 0u);
}

}  // namespace
}  // namespace mqblk::cli
