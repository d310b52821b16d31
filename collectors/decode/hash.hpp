// SPDX-License-Identifier: GPL-2.0-or-later
// A hash for keys that come from a trace. Whoever was traced chose them, so its key is another one in every process:
// nobody can make names or ids that all fall into one bucket. Nothing that is written depends on it.
#pragma once

#include <cstdint>
#include <random>

namespace rewake::decode {

/// Both halves of the product.
[[nodiscard]] inline uint64_t fold(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

[[nodiscard]] inline uint64_t keyed_hash(uint64_t a, uint64_t b) {
    struct Key {
        uint64_t v[3];
        Key() {
            std::random_device draw;
            for (uint64_t& x : v) {
                x = (uint64_t{draw()} << 32) | draw() | 1;
            }
        }
    };
    static const Key key;
    return fold(fold(a ^ key.v[0], b ^ key.v[1]), key.v[2]);
}

}  // namespace rewake::decode
