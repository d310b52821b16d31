// SPDX-License-Identifier: GPL-2.0-or-later
// Task names: escaping of hostile bytes and the dictionary of distinct names.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectors/decode/hash.hpp"

namespace rewake::decode {

/// The bytes of a name as text: printable UTF-8 stays, every other byte becomes \xNN. So does the backslash, hence each
/// name has one spelling and the bytes can be got back. Controls, format characters (bidirectional overrides, zero
/// width) and separators other than the space count as not printable.
std::string escape(std::string_view raw);

/// TASK_COMM_LEN bytes of a name, zero after its end: equal names are equal arrays.
using CommBytes = std::array<char, 16>;

/// The first 16 of `n` bytes up to a NUL.
[[nodiscard]] inline CommBytes comm_bytes(const uint8_t* p, uint32_t n) {
    CommBytes out{};
    const size_t most = n < out.size() ? n : out.size();
    std::memcpy(out.data(), p, most);
    const void* nul = std::memchr(out.data(), 0, most);
    if (nul != nullptr) {
        const auto len = static_cast<size_t>(static_cast<const char*>(nul) - out.data());
        std::memset(out.data() + len, 0, out.size() - len);
    }
    return out;
}

class CommDictionary {
  public:
    /// Dense number of the name, in order of first sight.
    uint32_t id(const CommBytes& bytes);
    /// Escaped names by number.
    [[nodiscard]] std::vector<std::string> names() const;

  private:
    struct Hash {
        size_t operator()(const CommBytes& b) const {
            uint64_t a = 0, c = 0;
            std::memcpy(&a, b.data(), 8);
            std::memcpy(&c, b.data() + 8, 8);
            return keyed_hash(a, c);
        }
    };
    std::unordered_map<CommBytes, uint32_t, Hash> ids_;
    std::vector<CommBytes> bytes_;
};

}  // namespace rewake::decode
