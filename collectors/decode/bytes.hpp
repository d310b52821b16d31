// SPDX-License-Identifier: GPL-2.0-or-later
// Unaligned loads in the byte order of the traced machine. All inline; the caller has checked the bounds.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace rewake::decode {

/// Reads a T at `p`; `Big`: the bytes are big-endian.
template <class T, bool Big>
[[nodiscard]] inline T load(const uint8_t* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (Big == (std::endian::native == std::endian::little) && sizeof(T) > 1) {
        if constexpr (sizeof(T) == 2) {
            v = static_cast<T>(__builtin_bswap16(static_cast<uint16_t>(v)));
        } else if constexpr (sizeof(T) == 4) {
            v = static_cast<T>(__builtin_bswap32(static_cast<uint32_t>(v)));
        } else {
            v = static_cast<T>(__builtin_bswap64(static_cast<uint64_t>(v)));
        }
    }
    return v;
}

}  // namespace rewake::decode
