// SPDX-License-Identifier: Apache-2.0
//
// TcpQueuePair: a queue pair over one NVMe/TCP connection. Writes that fit travel in their capsule, larger ones are
// sent as the target asks (R2T); what it sends for a read goes straight into the request's memory. Everything the
// target says is held against the command it names: in order, within its data, once. NVMe/TCP Transport
// Specification 1.0, sections 3.3 and 3.5.
#pragma once

#include "driver/nvme/queue_pair.h"
#include "fabric/nvme_tcp_stream.h"
#include "wire/nvme_tcp.h"

#include <cstdint>
#include <memory>

namespace mqblk::driver::nvme {

class TcpQueuePair final : public QueuePair, private fabric::NvmeTcpHandler {
  public:
    struct Terms {
        bool header_digest = false, data_digest = false;  ///< asked for, and insisted on
        std::uint32_t in_capsule_bytes = 0;
    };
    static constexpr unsigned max_r2t = 4;  ///< outstanding per command

    TcpQueuePair(std::unique_ptr<fabric::Connection>, QueuePairEvents&, Terms);
    ~TcpQueuePair() override;

    /// Sends ICReq. From then on poll() until initialized() or lost().
    void initialize() noexcept;
    [[nodiscard]] bool initialized() const noexcept { return initialized_; }

    void submit(Capsule&) noexcept override;
    void commit() noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    Parting part() noexcept override;

  private:
    fabric::Placement on_pdu(const fabric::NvmeTcpPdu&) noexcept override;
    void on_data(const fabric::NvmeTcpPdu&, std::byte* in_place, bool digest_ok) noexcept override;
    void on_violation(const wire::nvme_tcp::Violation&) noexcept override;
    void on_closed(int error_number) noexcept override;

    fabric::Placement on_ic_resp(const wire::nvme_tcp::IcResp&) noexcept;
    fabric::Placement on_capsule_resp(const wire::nvme_tcp::CapsuleResp&) noexcept;
    fabric::Placement on_c2h_data(const fabric::NvmeTcpPdu&) noexcept;
    fabric::Placement on_r2t(const wire::nvme_tcp::R2T&) noexcept;
    fabric::Placement on_term_req(const wire::nvme_tcp::TermReq&) noexcept;
    void send_data(Capsule&, const wire::nvme_tcp::R2T&) noexcept;
    void complete(Capsule&, const wire::nvme::Completion&) noexcept;

    QueuePairEvents& events_;
    const Terms terms_;
    fabric::NvmeTcpBuffers buffers_;
    fabric::NvmeTcpStream stream_;
    std::uint32_t max_h2c_bytes_ = wire::nvme_tcp::min_h2c_data_bytes;
    unsigned completions_ = 0;
    bool initialized_ = false;
    bool ended_by_peer_ = false;
    Capsule* receiving_ = nullptr;  ///< between on_pdu and on_data
};

}  // namespace mqblk::driver::nvme
