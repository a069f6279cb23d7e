// SPDX-License-Identifier: Apache-2.0
//
// Bar: registers of a PCI function. An access is one inlined load or store where this process has the registers mapped,
// else one virtual call (into the model in the same process, or into whatever carries the access elsewhere).
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace mqblk::pci {

template <class T>
concept RegisterInteger = std::same_as<T, std::uint8_t> || std::same_as<T, std::uint16_t> ||
                          std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t>;

/// What a register of that many bytes reads as where there is none.
[[nodiscard]] constexpr std::uint64_t all_ones(unsigned bytes) noexcept {
    return ~std::uint64_t{0} >> (64 - 8 * bytes);
}

/// Carries the accesses that are not to mapped memory. Offsets are within the BAR, `bytes` is 1, 2, 4 or 8.
class BarAccess {
  public:
    [[nodiscard]] virtual std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept = 0;
    virtual void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept = 0;

  protected:
    ~BarAccess() = default;
};

/// A value to copy; valid as long as its Function. Any thread, several at once: the accesses of one thread arrive in
/// its order. Values are in host order; registers are little endian. Offsets are multiples of the access's size. Reads
/// beyond the BAR, and of a function that is lost, give all ones; such writes do nothing.
///
/// Order against DMA memory: what was stored before a write() is seen by whoever sees the write, and what was
/// stored before the device let a read() return a value is seen after it.
class Bar {
  public:
    /// [mapped_from, mapped_from + mapped_bytes) of the BAR lies at `mapped`: whole pages.
    Bar(BarAccess& access, unsigned index, std::uint64_t bytes, std::byte* mapped = nullptr,
        std::uint64_t mapped_from = 0, std::uint64_t mapped_bytes = 0) noexcept
        : access_(&access),
          index_(index),
          bytes_(bytes),
          mapped_(mapped),
          mapped_from_(mapped_from),
          mapped_bytes_(mapped_bytes) {}

    template <RegisterInteger T>
    [[nodiscard]] T read(std::uint64_t offset) const noexcept {
        if (const std::uint64_t place = offset - mapped_from_; place < mapped_bytes_) {
            return in_host_order(
                __atomic_load_n(reinterpret_cast<const volatile T*>(mapped_ + place), __ATOMIC_ACQUIRE));
        }
        return static_cast<T>(access_->bar_read(index_, offset, sizeof(T)));
    }

    template <RegisterInteger T>
    void write(std::uint64_t offset, T value) const noexcept {
        if (const std::uint64_t place = offset - mapped_from_; place < mapped_bytes_) {
            order_before_device();
            __atomic_store_n(reinterpret_cast<volatile T*>(mapped_ + place), in_host_order(value), __ATOMIC_RELEASE);
            return;
        }
        access_->bar_write(index_, offset, sizeof(T), value);
    }

    [[nodiscard]] std::uint8_t read8(std::uint64_t offset) const noexcept { return read<std::uint8_t>(offset); }
    [[nodiscard]] std::uint16_t read16(std::uint64_t offset) const noexcept { return read<std::uint16_t>(offset); }
    [[nodiscard]] std::uint32_t read32(std::uint64_t offset) const noexcept { return read<std::uint32_t>(offset); }
    [[nodiscard]] std::uint64_t read64(std::uint64_t offset) const noexcept { return read<std::uint64_t>(offset); }
    void write8(std::uint64_t offset, std::uint8_t value) const noexcept { write(offset, value); }
    void write16(std::uint64_t offset, std::uint16_t value) const noexcept { write(offset, value); }
    void write32(std::uint64_t offset, std::uint32_t value) const noexcept { write(offset, value); }
    void write64(std::uint64_t offset, std::uint64_t value) const noexcept { write(offset, value); }

    [[nodiscard]] std::uint64_t size() const noexcept { return bytes_; }
    /// Whether an access there is a plain load or store.
    [[nodiscard]] bool mapped(std::uint64_t offset) const noexcept { return offset - mapped_from_ < mapped_bytes_; }

  private:
    /// Stores to DMA memory become visible to a device, not only to processors, before the register write that follows.
    static void order_before_device() noexcept {
#if defined(__aarch64__)
        asm volatile("dmb oshst" ::: "memory");
#endif
    }
    template <RegisterInteger T>
    static constexpr T in_host_order(T value) noexcept {
        if constexpr (std::endian::native == std::endian::little) {
            return value;
        } else {
            return std::byteswap(value);
        }
    }

    BarAccess* access_;
    unsigned index_;
    std::uint64_t bytes_;
    std::byte* mapped_;
    std::uint64_t mapped_from_;
    std::uint64_t mapped_bytes_;
};

}  // namespace mqblk::pci
