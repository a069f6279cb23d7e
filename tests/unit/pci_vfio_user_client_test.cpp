// SPDX-License-Identifier: Apache-2.0
//
// The vfio-user client: servers that go, come back, fall silent or send garbage, and memory that lies in no file.
#include "base/random.h"
#include "pci/vfio_user_client.h"
#include "unit/pci_vfio_user_support.h"
#include "unit/reactor_support.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>

namespace mqblk::test {
namespace {

namespace cd = copy_device;
using pci::InterruptType;

/// Passes a client's connection on to the device and may spoil what comes back.
class Proxy {
  public:
    /// Called for what the server sent, at its place in the stream; false: cut the connection after what it left.
    using Spoil = std::function<bool(std::size_t place, std::vector<std::byte>& bytes)>;

    Proxy(std::string device, std::string path, Spoil spoil)
        : device_(std::move(device)), spoil_(std::move(spoil)), listener_(std::move(pci::listen_unix(path).value())) {
        thread_ = std::thread([this] { run(); });
    }
    ~Proxy() {
        stop_.store(true);
        thread_.join();
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return place_.load(); }

  private:
    void run() {
        while (!stop_.load()) {
            pollfd one{listener_.get(), POLLIN, 0};
            if (::poll(&one, 1, 1) <= 0) continue;
            const pci::OwnedFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (client) serve(client.get());
        }
    }
    void serve(int client) {
        const auto server = pci::connect_unix(device_, std::chrono::seconds(60)).value();
        place_.store(0);
        bool cut = false;
        while (!stop_.load() && !cut) {
            pollfd both[] = {{client, POLLIN, 0}, {server.get(), POLLIN, 0}};
            if (::poll(both, 2, 1) <= 0) continue;
            if (both[0].revents != 0 && !pass(client, server.get(), false, cut)) return;
            if (both[1].revents != 0 && !pass(server.get(), client, true, cut)) return;
        }
    }
    bool pass(int from, int to, bool spoiled, bool& cut) {
        std::vector<std::byte> data(4096);
        iovec place{data.data(), data.size()};
        alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int) * 16)] = {};
        msghdr header{};
        header.msg_iov = &place;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        const auto got = ::recvmsg(from, &header, MSG_CMSG_CLOEXEC);
        if (got <= 0) return false;
        std::vector<pci::OwnedFd> fds;
        if (const cmsghdr* const part = CMSG_FIRSTHDR(&header)) {
            for (std::size_t i = 0; i < (part->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
                int fd = -1;
                std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
                fds.emplace_back(fd);
            }
        }
        data.resize(static_cast<std::size_t>(got));
        if (spoiled) {
            const std::size_t at = place_.fetch_add(data.size());
            cut = !spoil_(at, data);
        }
        if (data.empty()) return true;
        place = {data.data(), data.size()};
        header.msg_flags = 0;
        return ::sendmsg(to, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(data.size());
    }

    const std::string device_;
    const Spoil spoil_;
    const pci::OwnedFd listener_;
    std::atomic<std::size_t> place_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

class VfioUserClient : public VfioUserServer {
  protected:
    static std::unique_ptr<pci::Function> open(const std::string& path) {
        auto function = pci::open_vfio_user(path, {.answer_timeout = std::chrono::seconds(60)});
        if (!function) throw std::runtime_error(function.error().message());
        return std::move(*function);
    }
    struct Rings {
        pci::DmaMemory ring, done;
        std::uint32_t tail = 0;
        [[nodiscard]] std::uint32_t completed() const {
            return std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(done.data())).load();
        }
    };
    static Result<Rings> set_up(pci::Function& function) {
        Rings rings;
        auto ring = function.dma().allocate(4096);
        if (!ring) return std::unexpected(ring.error());
        auto done = function.dma().allocate(4096);
        if (!done) return std::unexpected(done.error());
        rings.ring = std::move(*ring);
        rings.done = std::move(*done);
        start(function, rings);
        return rings;
    }
    static void start(pci::Function& function, const Rings& rings) {
        function.set_bus_master(true);
        auto bar = function.bar(2);
        if (!bar) return;
        bar->write64(cd::ring_address, rings.ring.address());
        bar->write32(cd::ring_entries, 16);
        bar->write64(cd::done_address, rings.done.address());
    }
    static void copy(pci::Function& function, Rings& rings, std::uint64_t from, std::uint64_t to, std::uint32_t bytes) {
        describe(rings.ring.data() + sizeof(cd::Descriptor) * (rings.tail++ % 16), from, to, bytes);
        if (auto bar = function.bar(2)) bar->write32(cd::doorbell, rings.tail);
    }
    bool run_until(const std::function<bool()>& done) {
        const Time limit = reactor_->now() + std::chrono::seconds(60);
        while (!done()) {
            if (reactor_->now() >= limit) return false;
            reactor_->run_once(Reactor::Sleep::yes, reactor_->now() + std::chrono::milliseconds(1));
        }
        return true;
    }
    /// All that a driver does, whatever comes of it.
    void whole_session(const std::string& path, Duration answer_timeout) {
        auto opened =
            pci::open_vfio_user(path, {.connect_timeout = std::chrono::seconds(60), .answer_timeout = answer_timeout});
        if (!opened) {
            EXPECT_FALSE(opened.error().message().empty());
            return;
        }
        pci::Function& function = **opened;
        auto bar = function.bar(2);
        if (bar) static_cast<void>(bar->read32(cd::magic));
        static_cast<void>(pci::find_capability(function, pci::cap::msix));
        static_cast<void>(function.enable_interrupts(InterruptType::msix, 2));
        auto rings = set_up(function);
        if (rings && bar) {
            copy(function, *rings, rings->ring.address(), rings->ring.address() + 2048, 512);
            static_cast<void>(bar->read32(cd::failures));
        }
    }

    std::unique_ptr<Reactor> reactor_ = uring_reactor();
};

TEST_F(VfioUserClient, SaysWhyItCannotConnect) {
    const auto absent = pci::open_vfio_user(served.path() + "-absent");
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().code(), Errc::not_found);
    EXPECT_NE(absent.error().message().find("start its server first"), std::string::npos) << absent.error().message();
    EXPECT_NE(absent.error().message().find(served.path()), std::string::npos);
    EXPECT_EQ(pci::open_vfio_user("").error().code(), Errc::invalid_argument);
    EXPECT_EQ(pci::open_vfio_user(std::string(500, 'x')).error().code(), Errc::invalid_argument);
    const std::string left = served.path() + "-left";
    {
        const auto listener = pci::listen_unix(left).value();
    }
    EXPECT_EQ(pci::open_vfio_user(left).error().code(), Errc::unreachable);
    for (const char* const no_socket : {"/dev/null", "/"}) {
        const auto wrong = pci::open_vfio_user(no_socket);
        ASSERT_FALSE(wrong);
        EXPECT_EQ(wrong.error().code(), Errc::invalid_argument);
        EXPECT_NE(wrong.error().message().find("it is no socket"), std::string::npos) << wrong.error().message();
    }
    const auto listener = pci::listen_unix(left).value();  // takes connections, and answers nobody
    const auto silent = pci::open_vfio_user(left, {.answer_timeout = std::chrono::milliseconds(50)});
    ASSERT_FALSE(silent);
    EXPECT_NE(silent.error().message().find("another client may be using it"), std::string::npos)
        << silent.error().message();
    const auto nowhere = pci::listen_unix(served.path() + "-none/below");
    ASSERT_FALSE(nowhere);
    EXPECT_NE(nowhere.error().message().find("no directory " + served.path() + "-none;"), std::string::npos)
        << nowhere.error().message();
}

TEST_F(VfioUserClient, MemoryThatLiesInNoFileIsReachedByMessages) {
    const auto function = open(served.path());
    Rings rings = set_up(*function).value();
    const auto memory = memory::Buffer::allocate(mapped_bytes).value();
    const auto mapping = function->dma().map(memory.span()).value();
    for (std::size_t i = 0; i < 5000; ++i) memory.data()[i] = static_cast<std::byte>(i * 3);
    copy(*function, rings, mapping.address(), mapping.address() + 0x8000, 5000);
    ASSERT_TRUE(run_until([&] { return rings.completed() == 1; }));
    EXPECT_EQ(function->bar(2)->read32(cd::failures), 0u);
    EXPECT_EQ(std::memcmp(memory.data(), memory.data() + 0x8000, 5000), 0);
    copy(*function, rings, mapping.address() + mapped_bytes - 16, mapping.address(), 32);
    ASSERT_TRUE(run_until([&] { return rings.completed() == 2; }));
    EXPECT_EQ(function->bar(2)->read32(cd::failures), 1u) << "not past its end";
}

TEST_F(VfioUserClient, AServerThatGoesIsNoticedAtOnceAndGotBack) {
    const auto function = open(served.path());
    std::atomic<unsigned> told{0};
    function->on_lost([&] { ++told; });
    Rings rings = set_up(*function).value();
    ASSERT_TRUE(function->enable_interrupts(InterruptType::msix, 3));
    const pci::Bar bar = function->bar_at(2, cd::area).value();
    ASSERT_TRUE(bar.mapped(cd::area));
    bar.write32(cd::area, 0);
    for (unsigned round = 1; round <= 3; ++round) {
        served.restart();
        ASSERT_TRUE(run_until([&] { return told == round; })) << "without an access";
        EXPECT_TRUE(function->lost());
        EXPECT_EQ(bar.read32(cd::magic), 0xffffffffu);
        EXPECT_EQ(bar.read32(cd::area), 0xffffffffu) << "mapped or not";
        bar.write32(cd::area, 1);
        bar.write32(cd::doorbell, 1);
        EXPECT_FALSE(function->dma().allocate(4096));
        EXPECT_FALSE(function->enable_interrupts(InterruptType::msix, 1));

        const auto back = function->reconnect(std::chrono::seconds(60));
        ASSERT_TRUE(back) << back.error().message();
        EXPECT_FALSE(function->lost());
        EXPECT_EQ(bar.read32(cd::magic), cd::magic_value);
        EXPECT_EQ(bar.read32(cd::area), 0u);
        unsigned raised = 0;
        const auto vector = function->interrupt(0, *reactor_, [&] { ++raised; }).value();
        vector->arm();
        start(*function, rings);
        rings.tail = 0;
        std::memset(rings.ring.data() + 2048, 0, 64);
        describe(rings.ring.data(), rings.ring.address(), rings.ring.address() + 2048, 64);
        bar.write32(cd::area, rings.tail = 1);
        ASSERT_TRUE(run_until([&] { return rings.completed() == 1 && raised == 1; })) << "round " << round;
        EXPECT_EQ(std::memcmp(rings.ring.data(), rings.ring.data() + 2048, 64), 0);
    }
}

TEST_F(VfioUserClient, ReconnectingIsBounded) {
    const auto function = open(served.path());
    EXPECT_TRUE(function->reconnect(std::chrono::seconds(1))) << "nothing to do";
    served.with_model([](CopyDevice& model) { model.host().set_gone(true); });
    ASSERT_TRUE(run_until([&] { return function->lost(); }));
    const auto refused = function->reconnect(std::chrono::milliseconds(50));
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find(served.path()), std::string::npos) << refused.error().message();
    served.with_model([](CopyDevice& model) { model.host().set_gone(false); });
    EXPECT_TRUE(function->reconnect(std::chrono::seconds(60)));
}

TEST_F(VfioUserClient, DeathOfTheServerAtEveryByte) {
    const std::string path = served.path() + "-proxy";
    std::atomic<std::size_t> death{~std::size_t{0}};
    const auto cut = [&](std::size_t place, std::vector<std::byte>& bytes) {
        if (place + bytes.size() < death) return true;
        bytes.resize(death - place);
        return false;
    };
    std::size_t total = 0, descriptors = 0;
    {
        const Proxy proxy(served.path(), path, cut);
        whole_session(path, std::chrono::seconds(60));
        total = proxy.bytes();
        ASSERT_GT(total, 500u);
        descriptors = open_descriptors();
        for (std::size_t at = 0; at <= total; at += 3) {
            death = at;
            whole_session(path, std::chrono::seconds(60));
        }
        death = ~std::size_t{0};
        whole_session(path, std::chrono::seconds(60));
        ASSERT_TRUE(served.wait_until_free());
        EXPECT_LE(open_descriptors(), descriptors);
    }
}

TEST_F(VfioUserClient, GarbageFromTheServerIsAnErrorAndNoMore) {
    const std::string path = served.path() + "-proxy";
    std::atomic<std::size_t> where{0};
    std::atomic<unsigned> what{1};
    const Proxy proxy(served.path(), path, [&](std::size_t place, std::vector<std::byte>& bytes) {
        if (where >= place && where < place + bytes.size()) bytes[where - place] ^= static_cast<std::byte>(what.load());
        return true;
    });
    const std::uint64_t seed = 20261;
    SeededRandom random(seed);
    for (unsigned i = 0; i < 200; ++i) {
        where = random.below(1200);
        what = static_cast<unsigned>(1 + random.below(255));
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", byte " << where << " changed by " << what);
        whole_session(path, std::chrono::milliseconds(30));
    }
}

TEST_F(VfioUserClient, SilenceIsLoss) {
    const std::string path = served.path() + "-proxy";
    std::atomic<bool> silent{false};
    const Proxy proxy(served.path(), path, [&](std::size_t, std::vector<std::byte>& bytes) {
        if (silent) bytes.clear();
        return true;
    });
    const auto function = pci::open_vfio_user(path, {.answer_timeout = std::chrono::seconds(2)}).value();
    EXPECT_EQ(function->bar(2)->read32(cd::magic), cd::magic_value);
    silent = true;
    EXPECT_EQ(function->bar(2)->read32(cd::magic), 0xffffffffu);
    EXPECT_TRUE(function->lost());
}

}  // namespace
}  // namespace mqblk::test
