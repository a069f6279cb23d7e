// SPDX-License-Identifier: Apache-2.0
//
// LoopQueuePair: a queue pair whose target is in this process. The capsule is passed by pointer and its data stays
// where it is; there is no protocol to break, and so nothing to check but that the target is still there.
#pragma once

#include "driver/nvme/queue_pair.h"
#include "fabric/loop.h"

#include <memory>

namespace mqblk::driver::nvme {

class LoopQueuePair final : public QueuePair {
  public:
    LoopQueuePair(std::unique_ptr<fabric::LoopQueue>, QueuePairEvents&);
    ~LoopQueuePair() override;

    void submit(Capsule&) noexcept override;
    void commit() noexcept override {}
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    Parting part() noexcept override;

  private:
    static void done(fabric::LoopCommand&, const wire::nvme::Completion&) noexcept;

    QueuePairEvents* events_;  ///< null while closing: what the target still answers is not passed on
    unsigned completions_ = 0;
    std::unique_ptr<fabric::LoopQueue> queue_;
};

}  // namespace mqblk::driver::nvme
