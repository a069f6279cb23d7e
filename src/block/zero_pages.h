// SPDX-License-Identifier: Apache-2.0
//
// ZeroPages: memory that is all zero and costs nothing until it is touched: request arrays and histograms of disks that
// are open but idle take address space only.
#pragma once

#include <cstddef>

namespace mqblk::block {

class ZeroPages {
  public:
    /// At least `bytes`, page aligned; data() is null if the system has none.
    explicit ZeroPages(std::size_t bytes) noexcept;
    ~ZeroPages();
    ZeroPages(const ZeroPages&) = delete;
    ZeroPages& operator=(const ZeroPages&) = delete;

    [[nodiscard]] std::byte* data() const noexcept { return data_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace mqblk::block
