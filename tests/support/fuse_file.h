// SPDX-License-Identifier: Apache-2.0
//
// A file system with one file, served through FUSE, so that the kernel's answers can be held back. The server is a
// process of its own, which ends with the test's: then the kernel ends whatever still waits, and nothing can hang.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::test {

class FuseFile {
  public:
    /// mounted() is false where the user may not. The file is "disk" in `directory`.
    FuseFile(const std::string& directory, std::uint64_t bytes) : bytes_(bytes) {
        fd_ = ::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
        void* const at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (fd_ < 0 || at == MAP_FAILED) return;
        shared_ = new (at) Shared;
        const std::string options = "fd=" + std::to_string(fd_) + ",rootmode=40000,user_id=0,group_id=0";
        mounted_ = ::mount("mqblk-test", directory.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
        server_ = mounted_ ? ::fork() : -1;
        if (server_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve();
            ::_exit(0);
        }
        ::close(fd_);
    }
    ~FuseFile() {
        if (server_ <= 0) return;
        ::kill(server_, SIGKILL);
        ::waitpid(server_, nullptr, 0);
    }
    FuseFile(const FuseFile&) = delete;
    FuseFile& operator=(const FuseFile&) = delete;
    [[nodiscard]] bool mounted() const { return mounted_; }

    enum class Hold : std::uint8_t {
        nothing,
        all,                ///< reads and syncs are not answered, whatever the kernel asks for
        until_interrupted,  ///< nor until the kernel wants to be rid of one
    };
    void hold(Hold how) { shared_->hold = how; }
    [[nodiscard]] unsigned held() const { return shared_->held; }
    /// Answers what was held, and everything from now on.
    void let_go() {
        shared_->hold = Hold::nothing;
        shared_->let_go = true;
    }

  private:
    struct Held {
        std::uint64_t unique;
        std::uint32_t bytes;
    };
    struct Shared {
        std::atomic<Hold> hold{Hold::nothing};
        std::atomic<bool> let_go{false};
        std::atomic<unsigned> held{0};
    };
    static constexpr std::uint64_t node = 2;

    void reply(std::uint64_t unique, int error, const void* data = nullptr, std::size_t bytes = 0) const {
        fuse_out_header header{};
        header.len = static_cast<std::uint32_t>(sizeof header + bytes);
        header.error = -error;
        header.unique = unique;
        std::vector<std::byte> whole(header.len);
        std::memcpy(whole.data(), &header, sizeof header);
        if (bytes > 0) std::memcpy(whole.data() + sizeof header, data, bytes);
        static_cast<void>(::write(fd_, whole.data(), whole.size()));
    }
    void answer_zeroes(const Held& held) const {
        const std::vector<std::byte> zeroes(held.bytes);
        reply(held.unique, 0, zeroes.data(), zeroes.size());
    }
    [[nodiscard]] fuse_attr attributes(std::uint64_t of) const {
        fuse_attr attr{};
        attr.ino = of;
        attr.mode = of == node ? S_IFREG | 0600 : S_IFDIR | 0700;
        attr.nlink = 1;
        attr.size = of == node ? bytes_ : 0;
        attr.blksize = 4096;
        return attr;
    }
    void hold_or_answer(const Held& request) {
        if (shared_->hold == Hold::nothing) return answer_zeroes(request);
        held_.push_back(request);
    }
    void interrupt(std::uint64_t unique) {
        if (shared_->hold != Hold::until_interrupted) return;
        if (std::erase_if(held_, [unique](const Held& each) { return each.unique == unique; }) > 0)
            reply(unique, EINTR);
    }

    void serve() {
        std::vector<std::byte> buffer(1 << 20);
        for (;;) {
            pollfd ready{fd_, POLLIN, 0};
            ::poll(&ready, 1, 5);
            const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
            if (got >= static_cast<ssize_t>(sizeof(fuse_in_header))) {
                fuse_in_header in{};
                std::memcpy(&in, buffer.data(), sizeof in);
                handle(in, buffer.data() + sizeof in);
            } else if (got < 0 && errno == ENODEV) {
                return;  // unmounted
            }
            if (shared_->let_go.exchange(false)) {
                for (const Held& each : std::exchange(held_, {})) answer_zeroes(each);
            }
            shared_->held = static_cast<unsigned>(held_.size());
        }
    }
    void handle(const fuse_in_header& in, const std::byte* body) {
        switch (in.opcode) {
            case FUSE_INIT: {
                fuse_init_out out{};
                out.major = FUSE_KERNEL_VERSION;
                out.minor = FUSE_KERNEL_MINOR_VERSION;
                out.max_write = 65536;
                return reply(in.unique, 0, &out, sizeof out);
            }
            case FUSE_LOOKUP: {
                if (std::strcmp(reinterpret_cast<const char*>(body), "disk") != 0) return reply(in.unique, ENOENT);
                fuse_entry_out out{};
                out.nodeid = node;
                out.attr = attributes(node);
                out.entry_valid = out.attr_valid = 1000;
                return reply(in.unique, 0, &out, sizeof out);
            }
            case FUSE_GETATTR: {
                fuse_attr_out out{};
                out.attr = attributes(in.nodeid);
                out.attr_valid = 1000;
                return reply(in.unique, 0, &out, sizeof out);
            }
            case FUSE_OPEN:
            case FUSE_OPENDIR: {
                const fuse_open_out out{};
                return reply(in.unique, 0, &out, sizeof out);
            }
            case FUSE_READ: {
                fuse_read_in read{};
                std::memcpy(&read, body, sizeof read);
                const std::uint64_t left = read.offset < bytes_ ? bytes_ - read.offset : 0;
                return hold_or_answer(
                    {in.unique, static_cast<std::uint32_t>(std::min<std::uint64_t>(read.size, left))});
            }
            case FUSE_FSYNC:
                return hold_or_answer({in.unique, 0});
            case FUSE_INTERRUPT: {
                fuse_interrupt_in which{};
                std::memcpy(&which, body, sizeof which);
                return interrupt(which.unique);
            }
            case FUSE_FLUSH:
            case FUSE_RELEASE:
            case FUSE_RELEASEDIR:
                return reply(in.unique, 0);
            case FUSE_FORGET:
            case FUSE_BATCH_FORGET:
                return;
            default:
                return reply(in.unique, ENOSYS);
        }
    }

    const std::uint64_t bytes_;
    int fd_ = -1;
    bool mounted_ = false;
    pid_t server_ = -1;
    Shared* shared_ = nullptr;
    std::vector<Held> held_;  // the server's
};

}  // namespace mqblk::test
