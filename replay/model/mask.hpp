// SPDX-License-Identifier: GPL-2.0-or-later
// Sets of CPUs as words of 64 bits, and the wrap iteration of policies.md section 0 over intersections without copying them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>

#include "replay/model/ids.hpp"

namespace rewake {

inline constexpr int kMaskWords = kMaxCpus / 64;

/// Fixed-capacity CPU set. Operations touch all words; hot loops take `words` (Topology::words) to touch only those in use.
struct CpuMask {
    std::array<uint64_t, kMaskWords> w{};

    void set(Cpu c) { w[c.v >> 6] |= uint64_t{1} << (c.v & 63); }
    void clear(Cpu c) { w[c.v >> 6] &= ~(uint64_t{1} << (c.v & 63)); }
    void assign(Cpu c, bool on) { on ? set(c) : clear(c); }
    bool test(Cpu c) const { return (w[c.v >> 6] >> (c.v & 63)) & 1; }
    bool any(int words = kMaskWords) const {
        for (int i = 0; i < words; ++i)
            if (w[i]) return true;
        return false;
    }
    int count(int words = kMaskWords) const {
        int n = 0;
        for (int i = 0; i < words; ++i) n += std::popcount(w[i]);
        return n;
    }
    bool operator==(const CpuMask&) const = default;
    CpuMask operator&(const CpuMask& o) const {
        CpuMask r;
        for (int i = 0; i < kMaskWords; ++i) r.w[i] = w[i] & o.w[i];
        return r;
    }
};

/// First CPU of the set given word by word by `word(i)`, in wrap order from `start` (which may be one past the last CPU).
/// Cost: one word operation per 64 CPUs. Nothing when the set is empty.
template <class Word>
std::optional<Cpu> first_in_wrap(int words, unsigned start, Word word) {
    const unsigned sw = start >> 6;
    const uint64_t high = ~uint64_t{0} << (start & 63);
    const bool inside = sw < static_cast<unsigned>(words);
    if (inside) {
        if (uint64_t x = word(sw) & high) return Cpu(static_cast<uint16_t>(sw * 64 + std::countr_zero(x)));
        for (unsigned i = sw + 1; i < static_cast<unsigned>(words); ++i)
            if (uint64_t x = word(i)) return Cpu(static_cast<uint16_t>(i * 64 + std::countr_zero(x)));
    }
    const unsigned end = inside ? sw : static_cast<unsigned>(words);
    for (unsigned i = 0; i < end; ++i)
        if (uint64_t x = word(i)) return Cpu(static_cast<uint16_t>(i * 64 + std::countr_zero(x)));
    if (inside)
        if (uint64_t x = word(sw) & ~high) return Cpu(static_cast<uint16_t>(sw * 64 + std::countr_zero(x)));
    return std::nullopt;
}

/// Calls `f(Cpu)` for each CPU of the set in ascending order; `f` returns true to stop. Returns whether it stopped.
template <class Word, class F>
bool for_each_cpu(int words, Word word, F f) {
    for (int i = 0; i < words; ++i)
        for (uint64_t x = word(i); x; x &= x - 1)
            if (f(Cpu(static_cast<uint16_t>(i * 64 + std::countr_zero(x))))) return true;
    return false;
}

/// Number of CPUs of the set met in wrap order from `start` up to and including `stop` (which need not be a member).
template <class Word>
int count_in_wrap(int words, unsigned start, Cpu stop, Word word) {
    auto below = [&](unsigned end) {  // members < end
        int n = 0;
        for (int i = 0; i < words && static_cast<unsigned>(i) * 64 < end; ++i) {
            uint64_t x = word(i);
            if (end - i * 64 < 64) x &= (uint64_t{1} << (end - i * 64)) - 1;
            n += std::popcount(x);
        }
        return n;
    };
    const unsigned last = stop.v + 1u;
    if (stop.v >= start) return below(last) - below(start);
    return below(static_cast<unsigned>(words) * 64) - below(start) + below(last);
}

}  // namespace rewake
