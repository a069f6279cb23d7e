// SPDX-License-Identifier: Apache-2.0
//
// TcpQueue: one NVMe/TCP connection of the target, which is one queue. PDUs come in from the stream, commands go to the
// TargetQueue, data and responses go back. Polled while there is something to do, else watched. It ends when its
// connection, its host's manners or its controller do; then it waits for the backends to let go of its commands and
// leaves. NVM Express TCP Transport Specification 1.0, sections 3.3 to 3.5.
#pragma once

#include "device/nvme/target_queue.h"
#include "device/nvme/tcp_worker.h"
#include "fabric/nvme_tcp_stream.h"
#include "reactor/reactor.h"
#include "wire/nvme_tcp.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::device::nvme {

class TcpQueue final : public Poller, private fabric::NvmeTcpHandler, private TargetQueue::Events {
  public:
    TcpQueue(TcpWorker&, std::unique_ptr<fabric::Connection>);
    ~TcpQueue();  ///< retired: see TcpWorker::retire()

    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;

    /// Ends it. What the backends have is answered first, if they and the host take no longer than drain_limit.
    void shutdown() noexcept;

    std::size_t place = 0;  ///< the worker's: where it stands among the queues

  private:
    using Violation = wire::nvme_tcp::Violation;

    /// Data that the host was asked for and has not yet sent in full.
    struct Transfer {
        TcpCommand* command = nullptr;  ///< null: free
        std::uint32_t next_free = 0;
        std::uint32_t offset = 0, bytes = 0, received = 0;
        std::uint64_t number = 0;      ///< of all that this queue asked for
        std::uint16_t generation = 0;  ///< in the TTAG's high bits: a finished transfer's tag is no longer valid
    };
    static constexpr unsigned transfer_bits = 12;  ///< of the TTAG
    static constexpr std::uint32_t max_transfers = 1u << transfer_bits;
    static constexpr unsigned most_r2ts = 4;                           ///< outstanding for one command
    static constexpr std::uint32_t r2t_bytes = 256 * 1024;             ///< by one R2T where the host allows several
    static constexpr std::uint32_t c2h_data_bytes = 512 * 1024;        ///< in one C2HData PDU
    static constexpr unsigned quiet_passes = 256;                      ///< without anything to do before it is watched
    static constexpr unsigned blocked_passes = 64;                     ///< a full socket is tried before it is watched
    static constexpr Duration stall_limit = std::chrono::seconds(30);  ///< for a host that owes data or does not read
    static constexpr std::uint64_t stall_rate = 1u << 20;              ///< and so long for that many bytes besides: 1 s
    static constexpr unsigned pdu_stalls = 2;                          ///< times that long for a PDU that was begun
    static constexpr Duration unread_look = std::chrono::seconds(1);   ///< at a host that cannot be read from now
    static constexpr Duration linger = std::chrono::seconds(5);        ///< for the host to close after a TermReq
    static constexpr Duration drain_limit = std::chrono::seconds(5);   ///< for what is in the backends at shutdown
    static constexpr Duration farewell = std::chrono::seconds(1);      ///< for the host to close then

    // tcp_queue.cpp: its life.
    void end(const char* why) noexcept;
    void activate() noexcept;
    void send() noexcept;
    void rest() noexcept;
    void timer_expired() noexcept;
    void guard_progress() noexcept;
    void look_at_unread() noexcept;
    [[nodiscard]] const char* stalled() noexcept;
    void settle() noexcept;
    void abandon_unbegun() noexcept;
    void give_up_begun() noexcept;
    [[nodiscard]] bool busy() const noexcept { return commands_ > parked_; }
    /// What the host was waited for so far, and what it has done.
    struct Owed {
        std::uint64_t asked = 0;          ///< R2Ts
        std::uint64_t answers = 0;        ///< queued
        std::uint64_t answers_taken = 0;  ///< of those: sent
        std::uint64_t pdus = 0;           ///< that came whole
        std::uint64_t bytes = 0;          ///< to come or go now
        bool pdu = false;                 ///< one has come in part
    };
    [[nodiscard]] bool anything_owed() const noexcept;
    [[nodiscard]] bool owes_transfer_before(std::uint64_t number) const noexcept;
    [[nodiscard]] static std::uint32_t answer_bytes(const TcpCommand&) noexcept;
    [[nodiscard]] std::string name() const;
    void on_violation(const Violation&) noexcept override;
    void on_closed(int error_number) noexcept override;
    void close(std::uint16_t why_status) noexcept override;
    bool abort(std::uint16_t command_id) noexcept override;

    // tcp_queue_receive.cpp: PDUs from the host.
    fabric::Placement on_pdu(const fabric::NvmeTcpPdu&) noexcept override;
    void on_data(const fabric::NvmeTcpPdu&, std::byte* in_place, bool digest_ok) noexcept override;
    fabric::Placement initialize(const wire::nvme_tcp::IcReq&) noexcept;
    fabric::Placement begin(const fabric::NvmeTcpPdu&) noexcept;
    fabric::Placement begin_transfer(const fabric::NvmeTcpPdu&) noexcept;
    void capsule_data(TcpCommand&, std::byte* in_place, bool digest_ok) noexcept;
    void transfer_data(Transfer&, std::uint32_t bytes, bool digest_ok) noexcept;
    void request_data(TcpCommand&) noexcept;
    [[nodiscard]] std::uint32_t take_transfer() noexcept;
    void give_transfer(Transfer&) noexcept;

    // tcp_queue_execute.cpp: commands.
    void want_buffer(TcpCommand&) noexcept;
    static void buffer_ready(memory::BufferRequest&) noexcept;
    void have_memory(TcpCommand&) noexcept;
    void execute(TcpCommand&) noexcept;
    void reject(TcpCommand&, std::uint16_t status) noexcept;
    static void responded(TargetCommand&) noexcept;
    void respond(TcpCommand&) noexcept;
    static void sent(void* command) noexcept;
    void free(TcpCommand&) noexcept;
    void list(TcpCommand&) noexcept;
    void unlist(TcpCommand&) noexcept;
    void note_connected() noexcept;

    TcpWorker& worker_;
    TcpHostShare own_share_;                    // before Connect
    std::shared_ptr<TcpHostShare> host_share_;  // from then on
    fabric::NvmeTcpStream stream_;
    std::optional<TargetQueue> core_;  // since ICReq: whether memory may be lent depends on the digests
    unsigned commands_ = 0;            // slots in use
    unsigned parked_ = 0;              // of those: asynchronous event requests
    unsigned quiet_ = 0;               // passes without anything to do
    unsigned blocked_ = 0;             // passes with a full socket
    bool resting_ = false;
    bool connected_ = false;
    bool ending_ = false;    // no more PDUs are taken; settle() does the rest
    bool settled_ = false;   // the core knows
    bool draining_ = false;  // ending, but the backends' answers still go out
    bool half_closed_ = false;
    bool retired_ = false;
    TcpCommand* current_ = nullptr;  // whose data are arriving
    TcpCommand* unbegun_ = nullptr;  // list of commands waiting for a buffer or for data
    std::uint32_t current_transfer_ = 0;

    std::uint32_t max_r2ts_ = 1;
    std::vector<Transfer> transfers_;
    std::uint32_t free_transfer_ = 0;
    std::uint32_t transfers_used_ = 0;

    Timer timer_;         // handshake; then progress while the host owes something; then lingering
    Timer unread_timer_;  // while there is no memory to read into
    Owed so_far_;
    Owed owed_before_;            // when the timer was armed
    std::uint64_t slow_pdu_ = 0;  // the PDU (by number) that was not complete …
    unsigned slow_times_ = 0;     // … when the timer expired, so often
};

}  // namespace mqblk::device::nvme
