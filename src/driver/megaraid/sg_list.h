// SPDX-License-Identifier: Apache-2.0
//
// A request's data as a list of what the controller reads or writes: straight from the bio's memory where it can reach
// that, else the data are copied through memory that it can. And the list's form in the Fusion generation: up to eight
// elements in the frame, else seven and the command's chain frame.
#pragma once

#include "block/request.h"
#include "driver/megaraid/command_memory.h"
#include "pci/dma_transfer.h"
#include "wire/megaraid.h"

#include <cstddef>
#include <cstdint>

namespace mqblk::driver::megaraid {

/// Writes elements one after the other to where they belong.
class SgWriter {
  public:
    /// For a list of `count` elements, 1 to what wire::megaraid::max_sges() says of the chain frame.
    SgWriter(CommandMemory& memory, std::uint16_t smid, unsigned count, wire::megaraid::Generation generation) noexcept;
    void add(std::uint64_t address, std::uint32_t bytes) noexcept;
    /// Of RaidContext and of the frame, as they are to be.
    [[nodiscard]] std::uint8_t chain_offset(bool fast) const noexcept;

  private:
    wire::megaraid::IeeeSge* next_;
    wire::megaraid::IeeeSge* chain_element_ = nullptr;
    wire::megaraid::IeeeSge* chain_ = nullptr;
    unsigned left_;
    const bool marks_end_;
};

/// Of a request that carries data: what it needs between gather() and let_go().
struct Gathered {
    unsigned count = 0;           ///< elements
    std::byte* bounce = nullptr;  ///< copied through this
};

/// Whether all of the data can be named where they are; else memory to copy through is taken from `pool` (null: there
/// is none), and what is to be written is copied. False: there is too little memory now.
[[nodiscard]] bool gather(const block::Request& request, const pci::DmaSpace& space, pci::BouncePool* pool,
                          Gathered& gathered) noexcept;
/// All of the data, where it is one piece of the first bio; else {nullptr, 0}.
[[nodiscard]] Segment whole_piece(const block::Request& request, std::uint64_t bytes) noexcept;

/// Each element of the list, in order: fn(std::uint64_t address, std::uint32_t bytes).
template <class Fn>
void for_each_element(const block::Request& request, const Gathered& gathered, const pci::DmaSpace& space,
                      const pci::BouncePool* pool, Fn&& fn) {
    const std::uint64_t bytes = request.data_bytes();
    if (gathered.bounce != nullptr) [[unlikely]] {
        fn(pool->address(gathered.bounce), static_cast<std::uint32_t>(bytes));
    } else if (const Segment piece = whole_piece(request, bytes); piece.data != nullptr) [[likely]] {
        fn(*space.address(piece.data, piece.bytes), static_cast<std::uint32_t>(bytes));
    } else {
        request.for_each_segment([&](const std::byte* data, std::size_t count) noexcept {
            fn(*space.address(data, count), static_cast<std::uint32_t>(count));
        });
    }
}

/// Writes the list into the frame of `smid`; returns the chain offset.
[[nodiscard]] std::uint8_t write_list(const block::Request& request, const Gathered& gathered, CommandMemory& memory,
                                      const pci::BouncePool* pool, std::uint16_t smid,
                                      wire::megaraid::Generation generation, bool fast) noexcept;
/// The controller is done with it. `filled`: a read went well, and what was copied goes to the caller's memory.
void let_go(const block::Request& request, pci::BouncePool* pool, Gathered& gathered, bool filled) noexcept;

}  // namespace mqblk::driver::megaraid
