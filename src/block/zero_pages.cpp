// SPDX-License-Identifier: Apache-2.0
#include "block/zero_pages.h"

#include <sys/mman.h>

namespace mqblk::block {

ZeroPages::ZeroPages(std::size_t bytes) noexcept : bytes_(bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) data_ = static_cast<std::byte*>(at);
}

ZeroPages::~ZeroPages() {
    if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace mqblk::block
