// SPDX-License-Identifier: GPL-2.0-or-later
// Sets of CPUs as words of 64 bits, and the wrap iteration of policies.md section 0 over intersections without copying
// them.
//
// A set is given word by word by a callable `word(i)`, so that `span & allowed & idle` needs no temporary. Every
// function costs at most a few operations per word in use; `words` is Topology::words.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "replay/model/ids.hpp"

namespace rewake {

inline constexpr int kMaskWords = kMaxCpus / 64;

/// Bits of a word without the popcnt instruction, which baseline x86-64 lacks (std::popcount is a library call there).
constexpr int bit_count(uint64_t x) {
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return static_cast<int>((x * 0x0101010101010101u) >> 56);
}

/// Fixed-capacity CPU set. Operations touch all words; hot loops take `words` (Topology::words) to touch only those in
/// use.
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
        for (int i = 0; i < words; ++i) n += bit_count(w[i]);
        return n;
    }
    bool operator==(const CpuMask&) const = default;
    CpuMask operator&(const CpuMask& o) const {
        CpuMask r;
        for (int i = 0; i < kMaskWords; ++i) r.w[i] = w[i] & o.w[i];
        return r;
    }
};

constexpr Cpu cpu_at(unsigned word, uint64_t bits) {  ///< lowest CPU of `bits`, which must not be 0
    return Cpu(static_cast<uint16_t>(word * 64 + static_cast<unsigned>(std::countr_zero(bits))));
}

/// Words of the masks that a walk reads: all up to `to`, or those of a span, outside of which the set has no CPU.
struct Words {
    int from = 0, to = kMaskWords;
    constexpr Words(int n) : to(n) {}  // NOLINT: a number of words is meant as one
    constexpr Words(int first, int end) : from(first), to(end) {}
    constexpr unsigned begin() const { return static_cast<unsigned>(from); }
    constexpr unsigned end() const { return static_cast<unsigned>(to); }
    constexpr bool has(unsigned word) const { return word >= begin() && word < end(); }
};

/// The words that hold `m`; none of an empty set.
inline Words words_of(const CpuMask& m) {
    int from = 0, to = kMaskWords;
    while (to > 0 && !m.w[to - 1]) --to;
    while (from < to && !m.w[from]) ++from;
    return {from, to};
}

/// A set that lies in some words, of which CPUs are taken out. The other words are not touched.
class LocalMask {
  public:
    template <class Word>
    LocalMask(Words words, Word word) : words_(words) {
        for (unsigned i = words.begin(); i < words.end(); ++i) w_[i] = word(i);
    }
    uint64_t word(unsigned i) const { return w_[i]; }
    bool test(Cpu c) const { return words_.has(c.v >> 6) && ((w_[c.v >> 6] >> (c.v & 63)) & 1); }
    void clear(Cpu c) {
        if (words_.has(c.v >> 6)) w_[c.v >> 6] &= ~(uint64_t{1} << (c.v & 63));
    }
    void clear(const CpuMask& m) {
        for (unsigned i = words_.begin(); i < words_.end(); ++i) w_[i] &= ~m.w[i];
    }

  private:
    Words words_;
    uint64_t w_[kMaskWords];
};

/// First CPU of the set in wrap order from `start` (which may be one past the last CPU). Nothing when the set is empty.
template <class Word>
std::optional<Cpu> first_in_wrap(Words words, unsigned start, Word word) {
    const unsigned sw = start >> 6;
    const uint64_t high = ~uint64_t{0} << (start & 63);
    const bool inside = words.has(sw);
    if (inside) {
        if (uint64_t x = word(sw) & high) return cpu_at(sw, x);
        for (unsigned i = sw + 1; i < words.end(); ++i)
            if (uint64_t x = word(i)) return cpu_at(i, x);
    }
    const unsigned end = inside ? sw : words.end();
    for (unsigned i = words.begin(); i < end; ++i)
        if (uint64_t x = word(i)) return cpu_at(i, x);
    if (inside)
        if (uint64_t x = word(sw) & ~high) return cpu_at(sw, x);
    return std::nullopt;
}

/// Calls `f(Cpu)` for each CPU of the set in ascending order; `f` returns true to stop. Returns whether it stopped.
template <class Word, class F>
bool for_each_cpu(Words words, Word word, F f) {
    for (int i = words.from; i < words.to; ++i)
        for (uint64_t x = word(i); x; x &= x - 1)
            if (f(cpu_at(static_cast<unsigned>(i), x))) return true;
    return false;
}

/// Calls `f(first, n)` for each run of CPUs of the set with n numbers in a row, ascending; a run ends with its word.
template <class Word, class F>
void for_each_run(Words words, Word word, F f) {
    for (int i = words.from; i < words.to; ++i)
        for (uint64_t x = word(i); x;) {
            const int skip = std::countr_zero(x), n = std::countr_one(x >> skip);
            f(static_cast<size_t>(i * 64 + skip), static_cast<size_t>(n));
            if (skip + n == 64) break;
            x &= ~uint64_t{0} << (skip + n);
        }
}

/// Calls `f(Cpu)` for each CPU of the set in wrap order from `start`; `f` returns true to stop. Returns whether it
/// stopped. A word is read when the walk enters it, so `f` must not change the set.
template <class Word, class F>
bool for_each_in_wrap(Words words, unsigned start, Word word, F f) {
    const bool inside = words.has(start >> 6);
    const unsigned n = words.end() - words.begin(), sw = inside ? start >> 6 : words.begin();
    const uint64_t high = inside ? ~uint64_t{0} << (start & 63) : ~uint64_t{0};
    for (unsigned k = 0; k <= n && n > 0; ++k) {
        const unsigned i = sw + k < words.end() ? sw + k : sw + k - n;
        uint64_t x = word(i);
        if (k == 0) x &= high;
        if (k == n) x &= ~high;
        for (; x; x &= x - 1)
            if (f(cpu_at(i, x))) return true;
    }
    return false;
}

/// Sum of `f(bits)` over the words of CPUs lo..hi of the set, both included.
template <class Word, class F>
int sum_in_range(unsigned lo, unsigned hi, Word word, F f) {
    int n = 0;
    for (unsigned i = lo >> 6; i <= hi >> 6; ++i) {
        uint64_t x = word(i);
        if (i == lo >> 6) x &= ~uint64_t{0} << (lo & 63);
        if (i == hi >> 6) x &= ~uint64_t{0} >> (63 - (hi & 63));
        if (x) n += f(x);
    }
    return n;
}

/// Number of CPUs of the set.
template <class Word>
int count_all(Words words, Word word) {
    int n = 0;
    for (unsigned i = words.begin(); i < words.end(); ++i)
        if (const uint64_t x = word(i)) n += bit_count(x);
    return n;
}

/// Sum of `f(bits)` over the words of the set met in wrap order from `start` up to and including `stop`, which lies in the
/// words.
template <class Word, class F>
int sum_in_wrap(Words words, unsigned start, Cpu stop, Word word, F f) {
    const unsigned low = words.begin() * 64, end = words.end() * 64;
    if (stop.v >= start) return sum_in_range(start > low ? start : low, stop.v, word, f);
    return (start < end ? sum_in_range(start > low ? start : low, end - 1, word, f) : 0) +
           sum_in_range(low, stop.v, word, f);
}

/// Number of CPUs of the set met in wrap order from `start` up to and including `stop` (which need not be a member).
template <class Word>
int count_in_wrap(Words words, unsigned start, Cpu stop, Word word) {
    return sum_in_wrap(words, start, stop, word, [](uint64_t x) { return bit_count(x); });
}

/// Whether the set has a CPU met in wrap order from `start` up to and including `stop`.
template <class Word>
bool any_in_wrap(Words words, unsigned start, Cpu stop, Word word) {
    return sum_in_wrap(words, start, stop, word, [](uint64_t) { return 1; }) != 0;
}

}  // namespace rewake
