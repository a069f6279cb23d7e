// SPDX-License-Identifier: Apache-2.0
//
// Mapper: makes the memory of commands usable for the target, one command for each slot: descriptors into the slot's
// table, registrations as the device has them, and all of it taken back when the command has ended. The tables, and a
// little memory for parameters of each slot, are registered for the target to read. One thread.
#pragma once

#include "driver/srp/element_mapper.h"
#include "fabric/rdma/queue_pair.h"
#include "memory/buffer.h"
#include "wire/srp.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mqblk::driver::srp {

enum class Style : std::uint8_t { ranges, pool, fast };

struct MapperShape {
    unsigned slots = 1;
    std::uint32_t table_entries = 1;  ///< descriptors of one command
    std::uint64_t max_bytes = 0;      ///< of one command
    bool prefer_fast = true;          ///< fast registration before a pool, where the device has both
};

/// A command's data, for the target.
struct Mapped {
    bool ok = false;  ///< false: registrations are short now; nothing is left mapped
    std::uint32_t count = 0;
    std::uint64_t bytes = 0;
};

class Mapper {
  public:
    static constexpr std::size_t parameter_bytes = 64;
    static constexpr std::size_t zero_bytes = 4096;
    static constexpr std::uint32_t least_pages = 128;  ///< of a registration; smaller ones are not worth it

    /// The error says what the device did not give.
    [[nodiscard]] static Result<std::unique_ptr<Mapper>> create(std::shared_ptr<fabric::rdma::Domain>,
                                                                const MapperShape&);
    ~Mapper();
    Mapper(const Mapper&) = delete;
    Mapper& operator=(const Mapper&) = delete;

    /// Maps what `each(add)` adds by add(std::byte*, std::size_t), in order: at most table_entries pieces.
    /// `to_initiator`: the target writes. The slot is not mapped.
    template <class Each>
    [[nodiscard]] Mapped map(fabric::rdma::QueuePair& queue_pair, unsigned slot, bool to_initiator, Each&& each) {
        Collector to(*this, queue_pair, slot, to_initiator);
        ElementMapper<Collector> elements(rules_, to);
        each([&](std::byte* data, std::size_t bytes) { elements.add(data, bytes); });
        const bool ok = elements.finish();
        if (elements.fell_back()) ++fallbacks_;
        counts_[slot] = to.count;
        if (!ok) {
            unmap(queue_pair, slot);
            return {};
        }
        return {.ok = true, .count = to.count, .bytes = to.bytes};
    }
    /// No effect on a slot that is not mapped.
    void unmap(fabric::rdma::QueuePair& queue_pair, unsigned slot) noexcept;
    /// The queue pair is gone, and its registrations with it: what is mapped is taken back.
    void unmap_all(fabric::rdma::QueuePair& queue_pair) noexcept;

    [[nodiscard]] const wire::srp::Descriptor* table(unsigned slot) const noexcept {
        return reinterpret_cast<const wire::srp::Descriptor*>(memory_.data()) + std::size_t{slot} * table_entries_;
    }
    /// The whole table, for an indirect command.
    [[nodiscard]] wire::srp::Descriptor describe_table(unsigned slot, std::uint32_t count) const noexcept {
        return describe(reinterpret_cast<const std::byte*>(table(slot)), count * sizeof(wire::srp::Descriptor));
    }
    [[nodiscard]] std::byte* parameters(unsigned slot) noexcept {
        return parameters_ + std::size_t{slot} * parameter_bytes;
    }
    [[nodiscard]] wire::srp::Descriptor describe_parameters(unsigned slot, std::size_t bytes) noexcept {
        return describe(parameters(slot), bytes);
    }
    [[nodiscard]] wire::srp::Descriptor describe_zeroes(std::size_t bytes) const noexcept {
        return describe(zeroes_, bytes);
    }

    [[nodiscard]] const MapRules& rules() const noexcept { return rules_; }
    [[nodiscard]] Style style() const noexcept { return style_; }
    [[nodiscard]] std::uint64_t fallbacks() const noexcept { return fallbacks_; }
    /// Work requests that a command may need besides its own.
    [[nodiscard]] static unsigned work_requests(const fabric::rdma::Limits&, const MapperShape&) noexcept;

  private:
    static constexpr std::uint32_t no_region = ~0u;
    struct Registration {
        std::uint32_t key;
        std::uint32_t region;  ///< index of regions_, or no_region: a range, or of the pool
        bool pooled;
    };
    struct Collector {
        Collector(Mapper& mapper, fabric::rdma::QueuePair& qp, unsigned slot, bool to_initiator) noexcept
            : owner(mapper),
              queue_pair(qp),
              descriptors(const_cast<wire::srp::Descriptor*>(mapper.table(slot))),
              registrations(mapper.registrations(slot)),
              access(to_initiator ? fabric::rdma::access_local_write | fabric::rdma::access_remote_write
                                  : fabric::rdma::access_remote_read) {}
        [[nodiscard]] bool add_region(const PageRun& run) noexcept;
        [[nodiscard]] bool add_range(std::byte* data, std::size_t length) noexcept;
        void put(std::uint64_t address, std::uint64_t length, const Registration& registration) noexcept;

        Mapper& owner;
        fabric::rdma::QueuePair& queue_pair;
        wire::srp::Descriptor* const descriptors;
        Registration* const registrations;
        const std::uint8_t access;
        std::uint32_t count = 0;
        std::uint64_t bytes = 0;
    };

    Mapper(std::shared_ptr<fabric::rdma::Domain> domain, const MapperShape& shape)
        : domain_(std::move(domain)), table_entries_(shape.table_entries), counts_(shape.slots) {}
    [[nodiscard]] Result<> prepare_memory(const MapperShape&);
    void prepare_registrations(const MapperShape&);
    [[nodiscard]] bool make_regions(unsigned count, std::uint32_t pages);
    [[nodiscard]] Registration* registrations(unsigned slot) noexcept {
        return reinterpret_cast<Registration*>(registrations_.data()) + std::size_t{slot} * table_entries_;
    }
    [[nodiscard]] wire::srp::Descriptor describe(const std::byte* data, std::size_t bytes) const noexcept {
        return {.address = reinterpret_cast<std::uintptr_t>(data),
                .key = memory_key_,
                .bytes = static_cast<std::uint32_t>(bytes)};
    }

    const std::shared_ptr<fabric::rdma::Domain> domain_;
    const std::uint32_t table_entries_;
    memory::Buffer memory_, registrations_;  ///< tables, parameters, zeroes; what each descriptor was registered with
    std::byte* parameters_ = nullptr;
    std::byte* zeroes_ = nullptr;
    std::uint32_t memory_key_ = 0;
    std::vector<std::uint32_t> counts_;  ///< of descriptors, by slot
    MapRules rules_;
    Style style_ = Style::ranges;
    std::vector<fabric::rdma::Region> regions_;
    std::vector<std::uint32_t> free_regions_;
    std::unique_ptr<fabric::rdma::RegionPool> pool_;
    std::uint64_t fallbacks_ = 0;
};

}  // namespace mqblk::driver::srp
