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
    /// One thread at a time; `wake` may run on any other.
    class User {
      public:
        explicit User(TagSet&) noexcept;
        ~User();  ///< all its tags must be back
        User(const User&) = delete;
        User& operator=(const User&) = delete;

        /// none: exhausted, the fair share is used up, or others wait and are served first.
        [[nodiscard]] std::uint32_t get() noexcept;
        [[nodiscard]] std::uint32_t get_reserved() noexcept;  ///< none: all reserved tags are in use
        void put(std::uint32_t tag) noexcept;                 ///< exactly once per get

        /// Asks to be woken: `wake` runs, once, on the thread that frees tags, when some are kept for this user; it
        /// must not call back into the set. Waiters are woken in order and in batches. Returns false if a tag came
        /// free meanwhile and is kept: try again instead.
        bool wait(void (*wake)(void*) noexcept, void* context) noexcept;
        /// Gives up waiting, and what is kept for it, to the others. `wake` does not run after it returns.
        void cancel_wait() noexcept;

      private:
        friend class TagSet;
        TagSet& set_;
        std::uint32_t hint_ = 0;                 // word where the last tag was found, or a lower one since freed
        std::atomic<std::uint32_t> held_{0};     // ordinary tags; written by the user's thread
        std::atomic<std::uint32_t> granted_{0};  // tags kept for it; added to under the set's lock
        std::atomic<bool> active_{false};        // counts in the shares
        void (*wake_)(void*) noexcept = nullptr;
        void* context_ = nullptr;
        User* next_ = nullptr;       // behind it in the line
        User* next_user_ = nullptr;  // all users
        bool waiting_ = false;
    };

  private:
    struct alignas(64) Word {
        std::atomic<std::uint64_t> taken{0};
        std::uint64_t valid = 0;  // bits that are tags
    };
    struct Shared;

    std::uint32_t take(unsigned first_word, unsigned words, unsigned start, std::uint32_t* found) noexcept;
    void release(std::uint32_t tag) noexcept;

    const unsigned tags_;
    const unsigned reserved_;
    unsigned shift_ = 6;           // log2 of the ordinary tags in a word
    unsigned words_ = 0;           // of ordinary tags
    unsigned reserved_words_ = 0;  // they follow in `bits_`
    std::unique_ptr<Word[]> bits_;
    std::atomic<std::uint32_t> scarce_{0};  // waiters, and tags kept for those woken: 0 = nobody is in line
    std::atomic<std::uint32_t> active_{0};  // users that count in the shares
    std::atomic<std::uint32_t> users_{0};
    std::unique_ptr<Shared> shared_;
};

}  // namespace mqblk::block
