// SPDX-License-Identifier: Apache-2.0
//
// The bitmap is the truth: a set bit is a tag in someone's hands. While nobody is in line, get and put are one atomic
// instruction each. Once a user waits, every put and every get of the others goes through the line: a free tag is kept
// ("granted") for the first in line that may have it, so that none is overtaken. No wake-up is lost: a put clears its
// bit and then looks at `scarce_`; a waiter raises `scarce_` and then looks at the bits; both orders are sequential.
#include "block/tag_set.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <mutex>

namespace mqblk::block {

struct TagSet::Shared {
    std::mutex mutex;
    User* all = nullptr;
    User* line = nullptr;  // waiting, first come first
    User** line_end = &line;
    unsigned granted = 0;  // tags kept for users that were woken

    /// Users that hold or want tags; the others' shares grow by those of the idle.
    unsigned recount() const noexcept {
        unsigned active = 0;
        for (User* user = all; user != nullptr; user = user->next_user_) {
            const bool counts = user->held_.load() != 0 || user->waiting_ || user->granted_.load() != 0;
            user->active_.store(counts);
            active += counts ? 1 : 0;
        }
        return active;
    }

    void unlink(User& user) noexcept {
        for (User** at = &line; *at != nullptr; at = &(*at)->next_) {
            if (*at != &user) continue;
            *at = user.next_;
            if (user.next_ == nullptr) line_end = at;
            user.next_ = nullptr;
            user.waiting_ = false;
            return;
        }
    }

    /// Keeps free tags for those in line, in order, and wakes them. Call with the lock. Returns whether `self` got some
    /// (and is not woken, as it is awake).
    bool serve(TagSet& set, const User* self) noexcept;
};

namespace {
constexpr unsigned min_share = 4;

unsigned fair_share(unsigned tags, unsigned active) noexcept {
    if (active < 2) return tags;
    return std::max((tags + active - 1) / active, min_share);
}
}  // namespace

TagSet::TagSet(unsigned tags, unsigned reserved) : tags_(tags), reserved_(reserved) {
    assert(tags >= 1 && tags <= max_tags && reserved < tags);
    const unsigned ordinary = tags - reserved;
    // At least four words where there are enough tags, so that threads can keep apart.
    while (shift_ > 0 && (4u << shift_) > ordinary) --shift_;
    if (ordinary < 4) shift_ = 2;
    words_ = (ordinary + (1u << shift_) - 1) >> shift_;
    reserved_words_ = (reserved + 63) / 64;
    bits_ = std::make_unique<Word[]>(words_ + reserved_words_);
    const auto fill = [](Word& word, unsigned bits) { word.valid = bits == 64 ? ~0ull : (1ull << bits) - 1; };
    for (unsigned i = 0; i < words_; ++i) fill(bits_[i], std::min(1u << shift_, ordinary - (i << shift_)));
    for (unsigned i = 0; i < reserved_words_; ++i) fill(bits_[words_ + i], std::min(64u, reserved - i * 64));
    shared_ = std::make_unique<Shared>();
}

TagSet::~TagSet() {
    assert(users_.load() == 0);
}

unsigned TagSet::in_use() const noexcept {
    unsigned count = 0;
    for (unsigned i = 0; i < words_ + reserved_words_; ++i)
        count += static_cast<unsigned>(std::popcount(bits_[i].taken.load(std::memory_order_relaxed)));
    return count;
}

/// Lowest free bit of the first word with one, from `start` on and around. `found` gets the word.
std::uint32_t TagSet::take(unsigned first_word, unsigned words, unsigned start, std::uint32_t* found) noexcept {
    unsigned index = start;
    for (unsigned tried = 0; tried < words; ++tried) {
        Word& word = bits_[first_word + index];
        std::uint64_t free = word.valid & ~word.taken.load(std::memory_order_relaxed);
        while (free != 0) {
            const std::uint64_t bit = 1ull << std::countr_zero(free);
            if ((word.taken.fetch_or(bit) & bit) == 0) {
                *found = index;
                return static_cast<std::uint32_t>(std::countr_zero(bit));
            }
            free = word.valid & ~word.taken.load(std::memory_order_relaxed);
        }
        if (++index == words) index = 0;
    }
    return none;
}

void TagSet::release(std::uint32_t tag) noexcept {
    assert(tag < tags_);
    const bool ordinary = tag >= reserved_;
    const std::uint32_t at = ordinary ? tag - reserved_ : tag;
    Word& word = ordinary ? bits_[at >> shift_] : bits_[words_ + at / 64];
    const std::uint64_t bit = 1ull << (ordinary ? at & ((1u << shift_) - 1) : at % 64);
    assert((word.taken.load() & bit) != 0 && "a tag is put once");
    word.taken.fetch_and(~bit);
}

TagSet::User::User(TagSet& set) noexcept : set_(set) {
    const std::scoped_lock lock(set.shared_->mutex);
    next_user_ = set.shared_->all;
    set.shared_->all = this;
    // Neighbours start half a set apart, then a quarter, …: each has words of its own while there are some.
    const std::uint32_t ordinal = set.users_.fetch_add(1);
    std::uint32_t reversed = 0;
    for (unsigned i = 0; i < 16; ++i) reversed |= ((ordinal >> i) & 1) << (15 - i);
    hint_ = static_cast<std::uint32_t>((std::uint64_t{reversed} * set.words_) >> 16);
}

TagSet::User::~User() {
    assert(held_.load() == 0);
    cancel_wait();
    const std::scoped_lock lock(set_.shared_->mutex);
    if (active_.load()) set_.active_.fetch_sub(1);
    for (User** at = &set_.shared_->all; *at != nullptr; at = &(*at)->next_user_) {
        if (*at != this) continue;
        *at = next_user_;
        break;
    }
    set_.users_.fetch_sub(1);
}

std::uint32_t TagSet::User::get() noexcept {
    const std::uint32_t held = held_.load(std::memory_order_relaxed);
    const bool granted = granted_.load(std::memory_order_relaxed) != 0;
    if (!granted) {
        if (set_.scarce_.load() != 0) return none;
        if (set_.users_.load(std::memory_order_relaxed) > 1) {
            if (!active_.load(std::memory_order_relaxed)) {
                const std::scoped_lock lock(set_.shared_->mutex);
                if (!active_.exchange(true)) set_.active_.fetch_add(1);
            }
            const unsigned ordinary = set_.tags_ - set_.reserved_;
            if (held >= fair_share(ordinary, set_.active_.load(std::memory_order_relaxed))) return none;
        }
    }
    std::uint32_t word = 0;
    const std::uint32_t bit = set_.take(0, set_.words_, hint_, &word);
    if (bit == none) return none;
    hint_ = word;
    held_.store(held + 1, std::memory_order_relaxed);
    if (granted) {
        const std::scoped_lock lock(set_.shared_->mutex);
        granted_.fetch_sub(1);
        --set_.shared_->granted;
        set_.scarce_.fetch_sub(1);
    }
    return set_.reserved_ + (word << set_.shift_) + bit;
}

std::uint32_t TagSet::User::get_reserved() noexcept {
    std::uint32_t word = 0;
    const std::uint32_t bit = set_.take(set_.words_, set_.reserved_words_, 0, &word);
    return bit == none ? none : word * 64 + bit;
}

void TagSet::User::put(std::uint32_t tag) noexcept {
    if (tag < set_.reserved_) {
        set_.release(tag);
        return;
    }
    const std::uint32_t word = (tag - set_.reserved_) >> set_.shift_;
    if (word < hint_) hint_ = word;
    held_.store(held_.load(std::memory_order_relaxed) - 1);
    set_.release(tag);
    if (set_.scarce_.load() != 0) [[unlikely]] {
        const std::scoped_lock lock(set_.shared_->mutex);
        static_cast<void>(set_.shared_->serve(set_, nullptr));
    }
}

bool TagSet::Shared::serve(TagSet& set, const User* self) noexcept {
    if (line == nullptr) return false;
    const unsigned active = recount();
    set.active_.store(active);
    const unsigned ordinary = set.tags_ - set.reserved_;
    const unsigned share = fair_share(ordinary, active);
    const unsigned batch = std::clamp(ordinary / 8, 1u, 8u);

    unsigned taken = 0;
    for (unsigned i = 0; i < set.words_; ++i) taken += static_cast<unsigned>(std::popcount(set.bits_[i].taken.load()));
    unsigned available = ordinary - std::min(ordinary, taken);
    available -= std::min(available, granted);

    bool served = false;
    User** at = &line;
    while (*at != nullptr && available > 0) {
        User& user = **at;
        const unsigned held = user.held_.load();
        if (held >= share) {
            at = &user.next_;
            continue;
        }
        const unsigned grant = std::min({batch, available, share - held});
        *at = user.next_;
        if (*at == nullptr) line_end = at;
        user.next_ = nullptr;
        user.waiting_ = false;
        available -= grant;
        granted += grant;
        user.granted_.fetch_add(grant);
        set.scarce_.fetch_add(grant);
        set.scarce_.fetch_sub(1);  // one waiter less; after the grants, so that it never looks as if no one was in line
        if (&user == self) {
            served = true;
        } else {
            user.wake_(user.context_);
        }
    }
    return served;
}

bool TagSet::User::wait(void (*wake)(void*) noexcept, void* context) noexcept {
    Shared& shared = *set_.shared_;
    const std::scoped_lock lock(shared.mutex);
    if (waiting_) return true;
    // What was kept for it and could not be used goes back to the line first.
    if (const std::uint32_t unused = granted_.exchange(0); unused != 0) {
        shared.granted -= unused;
        set_.scarce_.fetch_sub(unused);
    }
    wake_ = wake;
    context_ = context;
    waiting_ = true;
    *shared.line_end = this;
    shared.line_end = &next_;
    set_.scarce_.fetch_add(1);
    return !shared.serve(set_, this);
}

void TagSet::User::cancel_wait() noexcept {
    Shared& shared = *set_.shared_;
    const std::scoped_lock lock(shared.mutex);
    if (waiting_) {
        shared.unlink(*this);
        set_.scarce_.fetch_sub(1);
    }
    if (const std::uint32_t unused = granted_.exchange(0); unused != 0) {
        shared.granted -= unused;
        set_.scarce_.fetch_sub(unused);
        static_cast<void>(shared.serve(set_, nullptr));
    }
}

}  // namespace mqblk::block
