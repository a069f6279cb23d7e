// SPDX-License-Identifier: Apache-2.0
#include "driver/srp/mapper.h"

#include <algorithm>

namespace mqblk::driver::srp {

using fabric::rdma::PageList;
using wire::srp::Descriptor;

namespace {

/// Larger sizes are tried first.
constexpr std::uint32_t most_pages_of(const fabric::rdma::Limits& limits) noexcept {
    return std::min(limits.max_pages, MapRules::most_pages);
}

/// Registrations that one command needs when its pieces meet at page boundaries.
constexpr unsigned regions_per_command(std::uint64_t max_bytes, std::uint32_t page_bytes,
                                       std::uint32_t pages) noexcept {
    const std::uint64_t bytes = std::uint64_t{page_bytes} * pages;
    return static_cast<unsigned>((max_bytes + bytes - 1) / bytes + 1);
}

}  // namespace

unsigned Mapper::work_requests(const fabric::rdma::Limits& limits, const MapperShape& shape) noexcept {
    const std::uint32_t pages = most_pages_of(limits);
    if (pages < least_pages || !limits.fast_registration) return 0;
    return 2 * regions_per_command(shape.max_bytes, limits.page_bytes, pages);
}

Result<std::unique_ptr<Mapper>> Mapper::create(std::shared_ptr<fabric::rdma::Domain> domain, const MapperShape& shape) {
    std::unique_ptr<Mapper> result(new Mapper(std::move(domain), shape));
    if (auto ok = result->prepare_memory(shape); !ok) return std::unexpected(ok.error());
    result->prepare_registrations(shape);
    return result;
}

Result<> Mapper::prepare_memory(const MapperShape& shape) {
    const std::size_t tables = std::size_t{shape.slots} * table_entries_;
    const std::size_t parameters_at = tables * sizeof(Descriptor);
    const std::size_t zeroes_at = parameters_at + shape.slots * parameter_bytes;
    auto memory = memory::Buffer::allocate(zeroes_at + zero_bytes);
    if (!memory) return std::unexpected(memory.error());
    auto registrations = memory::Buffer::allocate(tables * sizeof(Registration));
    if (!registrations) return std::unexpected(registrations.error());
    memory_ = std::move(*memory);
    registrations_ = std::move(*registrations);
    parameters_ = memory_.data() + parameters_at;
    zeroes_ = memory_.data() + zeroes_at;
    memory_key_ = domain_->register_range(memory_.data(), memory_.size(), fabric::rdma::access_remote_read);
    if (memory_key_ == 0) return fail(Errc::no_space, "the RDMA device registers no memory for descriptor tables");
    return {};
}

void Mapper::prepare_registrations(const MapperShape& shape) {
    const fabric::rdma::Limits& limits = domain_->limits();
    rules_.page_bytes = limits.page_bytes;
    rules_.first_byte_offset = limits.first_byte_offset;
    rules_.single_as_range = limits.cheap_ranges;
    const Style first = shape.prefer_fast ? Style::fast : Style::pool;
    const Style second = shape.prefer_fast ? Style::pool : Style::fast;
    for (const Style style : {first, second}) {
        for (std::uint32_t pages = most_pages_of(limits); pages >= least_pages; pages /= 2) {
            const unsigned count = shape.slots * regions_per_command(shape.max_bytes, limits.page_bytes, pages);
            bool made = false;
            if (style == Style::fast) {
                made = limits.fast_registration && make_regions(count, pages);
            } else if (auto pool = domain_->make_pool(count, pages)) {
                pool_ = std::move(*pool);
                made = true;
            }
            if (!made) continue;
            style_ = style;
            rules_.max_pages = pages;
            return;
        }
    }
}

bool Mapper::make_regions(unsigned count, std::uint32_t pages) {
    regions_.reserve(count);
    for (unsigned i = 0; i < count; ++i) {
        auto region = domain_->allocate_region(pages);
        if (!region) {
            for (auto& made : regions_) domain_->free_region(made);
            regions_.clear();
            return false;
        }
        regions_.push_back(*region);
    }
    free_regions_.resize(count);
    for (unsigned i = 0; i < count; ++i) free_regions_[i] = i;
    return true;
}

Mapper::~Mapper() {
    pool_.reset();
    for (auto& region : regions_) domain_->free_region(region);
    if (memory_key_ != 0) domain_->unregister(memory_key_);
}

void Mapper::Collector::put(std::uint64_t address, std::uint64_t length, const Registration& registration) noexcept {
    descriptors[count] = {.address = address, .key = registration.key, .bytes = static_cast<std::uint32_t>(length)};
    registrations[count] = registration;
    ++count;
    bytes += length;
}

bool Mapper::Collector::add_region(const PageRun& run) noexcept {
    if (count == owner.table_entries_) return false;
    PageList list{.pages = run.pages,
                  .page_bytes = owner.rules_.page_bytes,
                  .first_byte_offset = run.first_byte_offset,
                  .bytes = run.bytes};
    if (owner.style_ == Style::pool) {
        const std::uint32_t key = owner.pool_->map(list, access);
        if (key == 0) return false;
        put(0, run.bytes, {.key = key, .region = no_region, .pooled = true});
        return true;
    }
    if (owner.free_regions_.empty()) return false;
    const std::uint32_t index = owner.free_regions_.back();
    fabric::rdma::Region& region = owner.regions_[index];
    list.address = run.pages[0] + run.first_byte_offset;
    if (!queue_pair.post_register(0, region, list, access)) return false;
    owner.free_regions_.pop_back();
    put(list.address, run.bytes, {.key = region.key, .region = index, .pooled = false});
    return true;
}

bool Mapper::Collector::add_range(std::byte* data, std::size_t length) noexcept {
    if (count == owner.table_entries_) return false;
    const std::uint32_t key = owner.domain_->register_range(data, length, access);
    if (key == 0) return false;
    put(reinterpret_cast<std::uintptr_t>(data), length, {.key = key, .region = no_region, .pooled = false});
    return true;
}

void Mapper::unmap(fabric::rdma::QueuePair& queue_pair, unsigned slot) noexcept {
    const Registration* const list = registrations(slot);
    for (std::uint32_t i = 0; i < counts_[slot]; ++i) {
        const Registration& registration = list[i];
        if (registration.region != no_region) {
            static_cast<void>(queue_pair.post_invalidate(0, registration.key));
            free_regions_.push_back(registration.region);
        } else if (registration.pooled) {
            pool_->unmap(registration.key);
        } else {
            domain_->unregister(registration.key);
        }
    }
    counts_[slot] = 0;
}

void Mapper::unmap_all(fabric::rdma::QueuePair& queue_pair) noexcept {
    for (unsigned slot = 0; slot < counts_.size(); ++slot) unmap(queue_pair, slot);
}

}  // namespace mqblk::driver::srp
