// SPDX-License-Identifier: Apache-2.0
//
// A request of Linux's native asynchronous I/O may name an eventfd that its completion signals (IOCB_FLAG_RESFD): an
// addition inside the kernel that saturates where write(2) would wait. The request itself reads at the end of an empty
// memory file and so is complete within the call. io_uring has nothing like it: it writes as write(2) does, and
// RWF_NOWAIT is refused for writes to eventfds.
#include "pci/eventfd_signal.h"

#include "pci/unix_socket.h"

#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace mqblk::pci {

namespace {

/// One for the process: leaving one costs a wait for all processors, and the kernel has few of them to give.
class CompletionSignals {
  public:
    static CompletionSignals& instance() {
        static CompletionSignals signals;
        return signals;
    }
    [[nodiscard]] int error() const noexcept { return error_; }

    bool signal(int fd) noexcept {
        if (error_ != 0) return false;
        std::byte nowhere{};
        iocb request{};
        request.aio_lio_opcode = IOCB_CMD_PREAD;
        request.aio_fildes = static_cast<std::uint32_t>(empty_.get());
        request.aio_buf = reinterpret_cast<std::uintptr_t>(&nowhere);
        request.aio_nbytes = sizeof nowhere;
        request.aio_flags = IOCB_FLAG_RESFD;
        request.aio_resfd = static_cast<std::uint32_t>(fd);
        iocb* requests[] = {&request};
        // Other threads may use up what the ring of completions has room for, but not as often as this.
        for (int attempts = 0; attempts < 64; ++attempts) {
            if (::syscall(SYS_io_submit, context_, 1l, requests) == 1) return true;
            if (errno != EAGAIN) return false;
            discard_completions();
        }
        return false;
    }

  private:
    static constexpr unsigned depth = 128;

    CompletionSignals() : empty_(::memfd_create("mqblk-signal", MFD_CLOEXEC)) {
        if (!empty_ || ::syscall(SYS_io_setup, depth, &context_) != 0) error_ = errno;
    }
    ~CompletionSignals() {
        if (error_ == 0) ::syscall(SYS_io_destroy, context_);
    }

    void discard_completions() noexcept {
        io_event events[depth];
        timespec none{};
        ::syscall(SYS_io_getevents, context_, 0l, static_cast<long>(depth), events, &none);
    }

    OwnedFd empty_;
    aio_context_t context_ = 0;
    int error_ = 0;
};

}  // namespace

Result<> prepare_eventfd_signals() {
    const int error = CompletionSignals::instance().error();
    if (error == 0) return {};
    return std::unexpected(Error::from_errno(
        error, "set up asynchronous I/O to signal interrupts by eventfd (io_setup; see /proc/sys/fs/aio-max-nr)"));
}

bool signal_eventfd(int fd) noexcept {
    return CompletionSignals::instance().signal(fd);
}

std::uint64_t take_eventfd(int fd) noexcept {
    std::uint64_t count = 0;
    iovec place{&count, sizeof count};
    return ::preadv2(fd, &place, 1, -1, RWF_NOWAIT) == sizeof count ? count : 0;
}

}  // namespace mqblk::pci
