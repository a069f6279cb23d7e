// SPDX-License-Identifier: Apache-2.0
//
// Over ISA-L: pq_gen where memory is aligned, its general erasure code, which takes any address, elsewhere.
#include "driver/raid/parity.h"

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include <bit>
#include <cassert>

namespace mqblk::driver::raid {

namespace {

/// Longest run given to ISA-L at once: its lengths are int.
constexpr std::size_t longest_run = std::size_t{1} << 24;

/// ISA-L's functions do not change what they read from, but do not say so.
unsigned char* plain(const std::byte* data) noexcept {
    return reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data));
}

/// The weights of chunk 0 … data - 1 in Q.
void q_weights(unsigned data, unsigned char* weights) noexcept {
    unsigned char weight = 1;
    for (unsigned i = 0; i < data; ++i) {
        weights[i] = weight;
        weight = gf_mul(weight, 2);
    }
}

}  // namespace

Parity::Parity(unsigned data) : data_(data) {
    assert(data >= 1 && data <= max_data);
    std::array<unsigned char, std::size_t{2} * max_data> weights{};
    for (unsigned i = 0; i < data; ++i) weights[i] = 1;
    q_weights(data, weights.data() + data);
    ec_init_tables(static_cast<int>(data), 2, weights.data(), tables_.data());
}

void Parity::generate(const std::byte* const* chunks, std::byte* p, std::byte* q, std::size_t bytes) const noexcept {
    std::uintptr_t address_bits = bytes | reinterpret_cast<std::uintptr_t>(p) | reinterpret_cast<std::uintptr_t>(q);
    for (unsigned i = 0; i < data_; ++i) address_bits |= reinterpret_cast<std::uintptr_t>(chunks[i]);
    const bool aligned = address_bits % fast_alignment == 0 && data_ >= 2;
    unsigned char* tables = const_cast<unsigned char*>(tables_.data());
    if (p == nullptr) tables += std::size_t{32} * data_;
    for (std::size_t done = 0; done < bytes; done += longest_run) {
        const int run = static_cast<int>(std::min(bytes - done, longest_run));
        std::array<unsigned char*, max_members> all;
        for (unsigned i = 0; i < data_; ++i) all[i] = plain(chunks[i] + done);
        unsigned rows = 0;
        if (p != nullptr) all[data_ + rows++] = plain(p + done);
        if (q != nullptr) all[data_ + rows++] = plain(q + done);
        if (aligned && rows == 2) {
            pq_gen(static_cast<int>(data_ + 2), run, reinterpret_cast<void**>(all.data()));
        } else if (rows != 0) {
            ec_encode_data(run, static_cast<int>(data_), static_cast<int>(rows), tables, all.data(),
                           all.data() + data_);
        }
    }
}

void Parity::update(unsigned index, const std::byte* change, std::byte* p, std::byte* q,
                    std::size_t bytes) const noexcept {
    unsigned char* tables = const_cast<unsigned char*>(tables_.data());
    if (p == nullptr) tables += std::size_t{32} * data_;
    for (std::size_t done = 0; done < bytes; done += longest_run) {
        const int run = static_cast<int>(std::min(bytes - done, longest_run));
        std::array<unsigned char*, 2> to;
        unsigned rows = 0;
        if (p != nullptr) to[rows++] = plain(p + done);
        if (q != nullptr) to[rows++] = plain(q + done);
        if (rows == 0) return;
        ec_encode_data_update(run, static_cast<int>(data_), static_cast<int>(rows), static_cast<int>(index), tables,
                              plain(change + done), to.data());
    }
}

std::optional<Recovery> Recovery::make(unsigned data, Mask available, Mask lost) noexcept {
    Recovery result;
    result.data_ = data;
    result.lost_ = lost;
    result.rows_ = static_cast<unsigned>(std::popcount(lost));
    if (result.rows_ > 2) return std::nullopt;
    available &= first_bits(data + 2) & ~lost;
    std::array<unsigned char, max_data> weights{};
    q_weights(data, weights.data());
    const auto coefficient = [&](unsigned place, unsigned column) -> unsigned char {
        if (place < data) return place == column ? 1 : 0;
        return place == data ? 1 : weights[column];
    };

    std::array<unsigned char, std::size_t{max_data} * max_data> matrix{}, inverse{};
    unsigned row = 0;
    for (unsigned place = 0; place < data + 2 && row < data; ++place) {
        if ((available & bit(place)) == 0) continue;
        for (unsigned column = 0; column < data; ++column)
            matrix[std::size_t{row} * data + column] = coefficient(place, column);
        result.sources_ |= bit(place);
        ++row;
    }
    if (row < data) return std::nullopt;
    if (gf_invert_matrix(matrix.data(), inverse.data(), static_cast<int>(data)) != 0) return std::nullopt;

    std::array<unsigned char, std::size_t{2} * max_data> decode{};
    unsigned out = 0;
    for (unsigned place = 0; place < data + 2; ++place) {
        if ((lost & bit(place)) == 0) continue;
        for (unsigned source = 0; source < data; ++source) {
            unsigned char sum = 0;
            for (unsigned column = 0; column < data; ++column)
                sum ^= gf_mul(coefficient(place, column), inverse[std::size_t{column} * data + source]);
            decode[std::size_t{out} * data + source] = sum;
        }
        ++out;
    }
    if (out != 0) ec_init_tables(static_cast<int>(data), static_cast<int>(out), decode.data(), result.tables_.data());
    return result;
}

void Recovery::apply(std::byte* const* chunks, std::size_t bytes) const noexcept {
    if (rows_ == 0) return;
    for (std::size_t done = 0; done < bytes; done += longest_run) {
        const int run = static_cast<int>(std::min(bytes - done, longest_run));
        std::array<unsigned char*, max_data> from;
        std::array<unsigned char*, 2> to;
        unsigned sources = 0, rows = 0;
        for (unsigned place = 0; place < data_ + 2; ++place) {
            if ((sources_ & bit(place)) != 0) from[sources++] = plain(chunks[place] + done);
            if ((lost_ & bit(place)) != 0) to[rows++] = plain(chunks[place] + done);
        }
        ec_encode_data(run, static_cast<int>(data_), static_cast<int>(rows_),
                       const_cast<unsigned char*>(tables_.data()), from.data(), to.data());
    }
}

Diagnosis diagnose(unsigned data, const std::byte* p_difference, const std::byte* q_difference,
                   std::size_t bytes) noexcept {
    std::array<unsigned char, max_data> weights{};
    q_weights(data, weights.data());
    Mask suspects = first_bits(data + 2);
    bool sound = true;
    for (std::size_t i = 0; i < bytes; ++i) {
        const auto p = static_cast<unsigned char>(p_difference[i]);
        const auto q = static_cast<unsigned char>(q_difference[i]);
        if (p == 0 && q == 0) continue;
        sound = false;
        // A wrong P shows in P alone, a wrong Q in Q alone, and a wrong data chunk in both, by its own weight.
        Mask fitting = 0;
        if (q == 0) fitting = bit(data);
        if (p == 0) fitting = bit(data + 1);
        if (p != 0 && q != 0) {
            for (unsigned place = 0; place < data; ++place)
                if (gf_mul(weights[place], p) == q) fitting = bit(place);
        }
        suspects &= fitting;
    }
    if (sound) return {};
    if (suspects == 0) return {Diagnosis::Kind::beyond_repair};
    return {Diagnosis::Kind::one_wrong, static_cast<unsigned>(std::countr_zero(suspects))};
}

}  // namespace mqblk::driver::raid
