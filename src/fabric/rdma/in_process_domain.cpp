// SPDX-License-Identifier: Apache-2.0
#include "fabric/rdma/in_process_domain.h"

#include "reactor/reactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace mqblk::fabric::rdma {

unsigned InProcessCompletionQueue::poll(std::span<WorkCompletion> to) noexcept {
    const auto taken = static_cast<unsigned>(std::min(to.size(), count_));
    for (unsigned i = 0; i < taken; ++i) {
        to[i] = ring_[head_].completion;
        --*ring_[head_].untaken;
        if (++head_ == ring_.size()) head_ = 0;
    }
    count_ -= taken;
    return taken;
}

bool InProcessCompletionQueue::arm() noexcept {
    armed_ = count_ == 0;
    return armed_;
}

bool InProcessCompletionQueue::reserve(unsigned entries) noexcept {
    if (ring_.size() - reserved_ < entries) return false;
    reserved_ += entries;
    return true;
}

void InProcessCompletionQueue::release(unsigned entries, const unsigned* sends, const unsigned* receives) noexcept {
    reserved_ -= entries;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
        const Entry& entry = ring_[(head_ + i) % ring_.size()];
        if (entry.untaken != sends && entry.untaken != receives) ring_[(head_ + kept++) % ring_.size()] = entry;
    }
    count_ = kept;
}

void InProcessCompletionQueue::push(const WorkCompletion& completion, unsigned& untaken) noexcept {
    assert(count_ < ring_.size());
    std::size_t at = head_ + count_++;
    if (at >= ring_.size()) at -= ring_.size();
    ring_[at] = {completion, &untaken};
    ++untaken;
    if (!armed_) return;
    armed_ = false;
    reactor_.wake();
}

namespace {

class InProcessPool final : public RegionPool {
  public:
    InProcessPool(std::shared_ptr<InProcessDomain> domain, std::vector<std::uint32_t> keys, std::uint32_t max_pages)
        : domain_(std::move(domain)), free_(std::move(keys)), max_pages_(max_pages) {}
    ~InProcessPool() override {
        for (const std::uint32_t key : free_) domain_->keys().remove(key);
    }

    std::uint32_t map(const PageList& list, std::uint8_t access) noexcept override {
        if (free_.empty() || domain_->refuses()) return 0;
        const std::uint32_t key = domain_->keys().map(free_.back(), list, access);
        if (key != 0) free_.pop_back();
        return key;
    }
    void unmap(std::uint32_t key) noexcept override {
        // There is room: it was taken from there.
        if (domain_->keys().invalidate(key)) free_.push_back(key);
    }
    std::uint32_t max_pages() const noexcept override { return max_pages_; }

  private:
    const std::shared_ptr<InProcessDomain> domain_;
    std::vector<std::uint32_t> free_;  ///< last keys of regions that are not mapped
    const std::uint32_t max_pages_;
};

}  // namespace

std::uint32_t InProcessDomain::register_range(std::byte* data, std::size_t bytes, std::uint8_t access) noexcept {
    return refuses() ? 0 : keys_.add_range(data, bytes, access);
}

Result<Region> InProcessDomain::allocate_region(std::uint32_t max_pages) {
    if (!limits_.fast_registration) return fail(Errc::not_supported, "the device has no fast registration");
    const std::uint32_t key = keys_.add_region(max_pages);
    if (key == 0)
        return fail(Errc::no_space, fmt::format("the device has no further region of {} pages; it has {} of up to {}",
                                                max_pages, limits_.max_regions, limits_.max_pages));
    return Region{.key = key, .max_pages = max_pages};
}

void InProcessDomain::free_region(Region& region) noexcept {
    keys_.remove(region.key);
    region = {};
}

Result<std::unique_ptr<RegionPool>> InProcessDomain::make_pool(unsigned regions, std::uint32_t max_pages) {
    if (!limits_.pools) return fail(Errc::not_supported, "the device has no pools of regions");
    std::vector<std::uint32_t> keys;
    keys.reserve(regions);
    for (unsigned i = 0; i < regions; ++i) {
        const std::uint32_t key = keys_.add_region(max_pages);
        if (key != 0) {
            keys.push_back(key);
            continue;
        }
        for (const std::uint32_t made : keys) keys_.remove(made);
        return fail(Errc::no_space, fmt::format("the device has no {} regions of {} pages; it has {} of up to {}",
                                                regions, max_pages, limits_.max_regions, limits_.max_pages));
    }
    return std::make_unique<InProcessPool>(shared_from_this(), std::move(keys), max_pages);
}

Result<std::unique_ptr<CompletionQueue>> InProcessDomain::make_completion_queue(unsigned entries) {
    if (entries == 0) return fail(Errc::invalid_argument, "a completion queue of no entries");
    return std::make_unique<InProcessCompletionQueue>(reactor_, entries);
}

}  // namespace mqblk::fabric::rdma
