// SPDX-License-Identifier: Apache-2.0
//
// IoDriver: a controller as the block layer sees it. It holds the controller, so that an open disk keeps it connected,
// and gives each thread an I/O queue.
#pragma once

#include "driver/nvme/host.h"
#include "driver/nvme/io_queue.h"

#include <memory>
#include <utility>

namespace mqblk::driver::nvme {

class IoDriver final : public block::Driver {
  public:
    IoDriver(std::shared_ptr<Controller> controller, std::shared_ptr<Association> association, unsigned queues,
             unsigned depth, Duration timeout)
        : controller_(std::move(controller)), association_(std::move(association)) {
        shape_.max_queues = queues;
        shape_.depth = depth;
        shape_.payload_bytes = sizeof(Capsule);
        shape_.timeout = timeout;
    }

    const Shape& shape() const noexcept override { return shape_; }

    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned index, block::Queue& queue,
                                                             Reactor& reactor) override {
        return std::make_unique<IoQueue>(association_, index, shape_.depth, queue, reactor);
    }

  private:
    const std::shared_ptr<Controller> controller_;
    const std::shared_ptr<Association> association_;
    Shape shape_;
};

}  // namespace mqblk::driver::nvme
