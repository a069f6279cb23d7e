// SPDX-License-Identifier: Apache-2.0
//
// DataCursor: a place in a command's data that only moves forward. Data of a command arrives and leaves in order, so
// nothing here ever searches.
#pragma once

#include <mqblk/bio.h>

#include <cstddef>

namespace mqblk::driver::nvme {

class DataCursor {
  public:
    DataCursor() = default;
    /// The list and its memory outlive the cursor's use.
    explicit DataCursor(Segments list) noexcept : rest_(list) {}

    /// From here on: the first piece begins `offset()` bytes in.
    [[nodiscard]] Segments rest() const noexcept { return rest_; }
    [[nodiscard]] std::size_t offset() const noexcept { return offset_; }

    /// Moves over `bytes`, which the list has.
    void advance(std::size_t bytes) noexcept {
        offset_ += bytes;
        while (!rest_.empty() && offset_ >= rest_.front().bytes) {
            offset_ -= rest_.front().bytes;
            rest_ = rest_.subspan(1);
        }
    }

  private:
    Segments rest_;
    std::size_t offset_ = 0;
};

}  // namespace mqblk::driver::nvme
