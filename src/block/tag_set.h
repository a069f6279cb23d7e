// SPDX-License-Identifier: Apache-2.0
//
// TagSet: which of N command indexes are free. One atomic word holds up to 64 tags and has a cache line of its own;
// threads start at hints of their own, so that they meet in a word only when tags are scarce. No lock on get and put.
// Reserved tags come first (0 … reserved-1) and are never given to ordinary I/O: internal commands cannot starve.
// Shared between hardware queues (a host-wide tag space) each active user gets a fair share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace mqblk::block {

class TagSet {
  public:
    static constexpr std::uint32_t none = ~0u;
    static constexpr unsigned max_tags = 65536;

    /// `tags` in 1 … 65,536 counts the reserved ones; reserved < tags.
    explicit TagSet(unsigned tags, unsigned reserved = 0);
    ~TagSet();
    TagSet(const TagSet&) = delete;
    TagSet& operator=(const TagSet&) = delete;

    [[nodiscard]] unsigned size() const noexcept { return tags_; }
    [[nodiscard]] unsigned reserved() const noexcept { return reserved_; }
    [[nodiscard]] unsigned in_use() const noexcept;  ///< exact only while nobody gets or puts

    /// One user of the set: a hardware queue. Owns the hint and, in a shared set, the share.
    /// One thread at a time; TagSet::put may come from any.
    class User {
      public:
        explicit User(TagSet&) noexcept;
        ~User();  ///< all its tags must be back

        [[nodiscard]] std::uint32_t get() noexcept;           ///< none: exhausted, or the fair share is used up
        [[nodiscard]] std::uint32_t get_reserved() noexcept;  ///< none: all reserved tags are in use
        void put(std::uint32_t tag) noexcept;                 ///< exactly once per get

        /// Asks to be woken: `wake` runs on the thread that frees tags, once, when it is worth trying again. Waiters
        /// are woken in order and in batches. Returns false if a tag came free meanwhile: try again instead.
        bool wait(void (*wake)(void*) noexcept, void* context) noexcept;
        void cancel_wait() noexcept;

      private:
        friend class TagSet;
        TagSet& set_;
        std::uint32_t hint_ = 0;
        std::atomic<std::uint32_t> held_{0};
        void (*wake_)(void*) noexcept = nullptr;
        void* context_ = nullptr;
        User* next_ = nullptr;
        bool waiting_ = false;
        bool active_ = false;
    };

  private:
    struct Shared;
    const unsigned tags_;
    const unsigned reserved_;
    std::unique_ptr<Shared> shared_;
};

}  // namespace mqblk::block
