// SPDX-License-Identifier: Apache-2.0
//
// crc32_iscsi works on the bare register: the inversion before and after is ours. It takes lengths as int.
#include "base/crc32c.h"

#include <isa-l.h>

#include <algorithm>

namespace mqblk {

void Crc32c::update(const void* bytes, std::size_t count) noexcept {
    constexpr std::size_t most = std::size_t{1} << 30;
    auto* from = static_cast<unsigned char*>(const_cast<void*>(bytes));  // the library's prototype lacks const
    while (count > 0) {
        const std::size_t piece = std::min(count, most);
        state_ = crc32_iscsi(from, static_cast<int>(piece), state_);
        from += piece;
        count -= piece;
    }
}

}  // namespace mqblk
