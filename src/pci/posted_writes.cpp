// SPDX-License-Identifier: Apache-2.0
#include "pci/posted_writes.h"

#include "pci/client_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>

namespace mqblk::pci {

namespace {

using wire::vfio_user::posted_entries;
using wire::vfio_user::PostedWrite;
using wire::vfio_user::PostedWrites;

/// One load or store: the other process may be at the same place.
template <class T>
std::atomic_ref<T> shared(T& place) noexcept {
    return std::atomic_ref<T>(place);
}

}  // namespace

PostedWriter::~PostedWriter() {
    if (page_ != nullptr) ::munmap(page_, sizeof *page_);
}

Result<PostedWriter> PostedWriter::map(const OwnedFd& file) {
    if (!safe_to_map(file.get(), sizeof(PostedWrites))) {
        return fail(Errc::protocol, "the server's file for posted writes is not what it should be");
    }
    void* const mapped = ::mmap(nullptr, sizeof(PostedWrites), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) return std::unexpected(Error::from_errno(errno, "map the page of posted writes"));
    PostedWriter writer;
    writer.page_ = static_cast<PostedWrites*>(mapped);
    return writer;
}

PostedWriter::Push PostedWriter::push(std::uint32_t region, std::uint64_t offset, unsigned bytes,
                                      std::uint64_t value) noexcept {
    if (page_ == nullptr) return Push::full;
    if (next_ - taken_ >= posted_entries) {
        taken_ = shared(page_->taken).load(std::memory_order_acquire);
        if (next_ - taken_ >= posted_entries) return Push::full;
    }
    PostedWrite& entry = page_->entry[next_ % posted_entries];
    shared(entry.offset).store(offset, std::memory_order_relaxed);
    shared(entry.value).store(value, std::memory_order_relaxed);
    shared(entry.region).store(region, std::memory_order_relaxed);
    shared(entry.bytes).store(bytes, std::memory_order_relaxed);
    shared(entry.turn).store(++next_, std::memory_order_seq_cst);
    auto asleep = shared(page_->asleep);
    if (asleep.load(std::memory_order_seq_cst) == 0) return Push::queued;
    return asleep.exchange(0, std::memory_order_seq_cst) != 0 ? Push::queued_wake : Push::queued;
}

bool PostedReader::open() {
    auto memory = memory::Buffer::allocate(sizeof(PostedWrites), memory::Backing::shared);
    if (memory) memory_ = std::move(*memory);
    return memory.has_value();
}

bool PostedReader::take(PostedWrite& write) noexcept {
    PostedWrite& entry = page().entry[next_ % posted_entries];
    if (shared(entry.turn).load(std::memory_order_acquire) != next_ + 1) return false;
    ++next_;
    write = {.turn = next_,
             .offset = shared(entry.offset).load(std::memory_order_relaxed),
             .value = shared(entry.value).load(std::memory_order_relaxed),
             .region = shared(entry.region).load(std::memory_order_relaxed),
             .bytes = shared(entry.bytes).load(std::memory_order_relaxed)};
    return true;
}

void PostedReader::release() noexcept {
    shared(page().taken).store(next_, std::memory_order_release);
}

bool PostedReader::fall_asleep() noexcept {
    asleep_ = true;
    shared(page().asleep).store(1, std::memory_order_seq_cst);
    return shared(page().entry[next_ % posted_entries].turn).load(std::memory_order_seq_cst) != next_ + 1;
}

void PostedReader::wake_up() noexcept {
    if (!asleep_) return;
    asleep_ = false;
    shared(page().asleep).store(0, std::memory_order_relaxed);
}

}  // namespace mqblk::pci
