// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/sg_list.h"

#include <cstring>
#include <optional>
#include <utility>

namespace mqblk::driver::megaraid {

using block::Request;
using namespace wire::megaraid;

SgWriter::SgWriter(CommandMemory& memory, std::uint16_t smid, unsigned count, Generation generation) noexcept
    : next_(memory.frame(smid).sgl), left_(count), marks_end_(generation == Generation::invader) {
    if (count <= sges_in_frame) return;
    const unsigned chained = count - (sges_in_frame - 1);
    chain_element_ = next_ + sges_in_frame - 1;
    chain_ = reinterpret_cast<IeeeSge*>(memory.chain(smid));
    const std::uint8_t space = generation == Generation::invader ? std::uint8_t{0} : std::uint8_t{sge_address_space};
    *chain_element_ = {.address = memory.chain_address(smid),
                       .bytes = static_cast<std::uint32_t>(chained * sizeof(IeeeSge)),
                       .flags = static_cast<std::uint8_t>(sge_chain | space)};
}

void SgWriter::add(std::uint64_t address, std::uint32_t bytes) noexcept {
    if (next_ == chain_element_) next_ = chain_;
    *next_++ = {.address = address,
                .bytes = bytes,
                .flags = --left_ == 0 && marks_end_ ? std::uint8_t{sge_end_of_list} : std::uint8_t{0}};
}

std::uint8_t SgWriter::chain_offset(bool fast) const noexcept {
    if (chain_element_ == nullptr) return 0;
    return fast && marks_end_ ? std::uint8_t{0} : chain_offset_io;
}

Segment whole_piece(const Request& request, std::uint64_t bytes) noexcept {
    const Segments& all = request.data.bio->data;
    if (request.segments != 1 || request.data.segment >= all.size()) return {nullptr, 0};
    const Segment& first = all[request.data.segment];
    if (first.bytes - request.data.offset < bytes) return {nullptr, 0};
    return {first.data + request.data.offset, static_cast<std::size_t>(bytes)};
}

namespace {

bool reachable(const Request& request, const pci::DmaSpace& space) noexcept {
    bool reached = true;
    request.for_each_segment([&](const std::byte* data, std::size_t bytes) noexcept {
        reached = reached && space.address(data, bytes).has_value();
    });
    return reached;
}

}  // namespace

bool gather(const Request& request, const pci::DmaSpace& space, pci::BouncePool* pool, Gathered& gathered) noexcept {
    gathered.bounce = nullptr;
    gathered.count = request.segments;
    if (pool == nullptr || reachable(request, space)) [[likely]]
        return true;
    gathered.bounce = pool->get(request.data_bytes());
    gathered.count = 1;
    if (gathered.bounce == nullptr) return false;
    if (request.op == Op::write) {
        std::byte* to = gathered.bounce;
        request.for_each_segment([&](const std::byte* data, std::size_t count) noexcept {
            std::memcpy(to, data, count);
            to += count;
        });
    }
    return true;
}

std::uint8_t write_list(const Request& request, const Gathered& gathered, CommandMemory& memory,
                        const pci::BouncePool* pool, std::uint16_t smid, Generation generation, bool fast) noexcept {
    SgWriter writer(memory, smid, gathered.count, generation);
    for_each_element(request, gathered, memory.space(), pool,
                     [&](std::uint64_t address, std::uint32_t bytes) noexcept { writer.add(address, bytes); });
    return writer.chain_offset(fast);
}

void let_go(const Request& request, pci::BouncePool* pool, Gathered& gathered, bool filled) noexcept {
    std::byte* const bounce = std::exchange(gathered.bounce, nullptr);
    if (bounce == nullptr) [[likely]]
        return;
    if (filled && request.op == Op::read) {
        const std::byte* from = bounce;
        request.for_each_segment([&](std::byte* data, std::size_t count) noexcept {
            std::memcpy(data, from, count);
            from += count;
        });
    }
    pool->put(bounce, request.data_bytes());
}

}  // namespace mqblk::driver::megaraid
