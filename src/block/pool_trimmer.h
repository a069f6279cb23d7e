// SPDX-License-Identifier: Apache-2.0
//
// PoolTrimmer: gives a buffer pool's free memory back once nothing was asked of it for one to two seconds. An idle pool
// costs no wake-ups. Pool and reactor outlive it; one thread.
#pragma once

#include "memory/buffer_pool.h"
#include "reactor/reactor.h"

namespace mqblk::block {

class PoolTrimmer {
  public:
    PoolTrimmer(Reactor& reactor, memory::BufferPool& pool)
        : reactor_(reactor), pool_(pool), timer_([this] {
              if (!pool_.trim_if_quiet()) arm();
          }) {
        pool_.on_use([](void* self) noexcept { static_cast<PoolTrimmer*>(self)->arm(); }, this);
    }
    ~PoolTrimmer() { pool_.on_use(nullptr, nullptr); }
    PoolTrimmer(const PoolTrimmer&) = delete;
    PoolTrimmer& operator=(const PoolTrimmer&) = delete;

  private:
    void arm() { timer_.arm(reactor_, reactor_.now() + std::chrono::seconds(1)); }

    Reactor& reactor_;
    memory::BufferPool& pool_;
    Timer timer_;
};

}  // namespace mqblk::block
