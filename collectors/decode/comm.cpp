// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/comm.hpp"

namespace rewake::decode {
namespace {

/// Length of the well-formed UTF-8 sequence at the start of `s` and its code point; 0: none (RFC 3629).
size_t utf8(std::string_view s, uint32_t& code) {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
    const uint8_t b = byte(0);
    if (b < 0x80) {
        code = b;
        return 1;
    }
    const size_t n = b >= 0xf0 && b < 0xf5 ? 4 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xc2 && b < 0xe0 ? 2 : 0;
    if (n == 0 || s.size() < n) {
        return 0;
    }
    code = b & (0xffU >> (n + 1));
    for (size_t i = 1; i < n; ++i) {
        if ((byte(i) & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (byte(i) & 0x3f);
    }
    const bool overlong = (n == 3 && code < 0x800) || (n == 4 && code < 0x10000);
    return overlong || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

bool printable(uint32_t c) {
    struct Range {
        uint32_t first, last;
    };
    // Controls, no-break and other blanks, format characters, private use, specials, tags, noncharacters.
    static constexpr Range kNot[] = {
        {0x00, 0x1f},        {0x7f, 0xa0},     {0xad, 0xad},     {0x34f, 0x34f},     {0x600, 0x605},
        {0x61c, 0x61c},      {0x6dd, 0x6dd},   {0x70f, 0x70f},   {0x115f, 0x1160},   {0x1680, 0x1680},
        {0x17b4, 0x17b5},    {0x180b, 0x180f}, {0x2000, 0x200f}, {0x2028, 0x202f},   {0x205f, 0x206f},
        {0x3000, 0x3000},    {0x3164, 0x3164}, {0xe000, 0xf8ff}, {0xfdd0, 0xfdef},   {0xfe00, 0xfe0f},
        {0xfeff, 0xfeff},    {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
        {0xf0000, 0x10ffff},
    };
    if (c == '\\' || (c & 0xfffe) == 0xfffe) {
        return false;
    }
    for (const Range& r : kNot) {
        if (c >= r.first && c <= r.last) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::string escape(std::string_view raw) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string out;
    while (!raw.empty()) {
        uint32_t code = 0;
        const size_t n = utf8(raw, code);
        if (n > 0 && printable(code)) {
            out.append(raw.substr(0, n));
            raw.remove_prefix(n);
            continue;
        }
        for (size_t i = 0; i < (n > 0 ? n : 1); ++i) {
            const auto b = static_cast<uint8_t>(raw[i]);
            out += {'\\', 'x', kHex[b >> 4], kHex[b & 15]};
        }
        raw.remove_prefix(n > 0 ? n : 1);
    }
    return out;
}

uint32_t CommDictionary::id(const CommBytes& bytes) {
    const auto [at, fresh] = ids_.try_emplace(bytes, static_cast<uint32_t>(bytes_.size()));
    if (fresh) {
        bytes_.push_back(bytes);
    }
    return at->second;
}

std::vector<std::string> CommDictionary::names() const {
    std::vector<std::string> out;
    out.reserve(bytes_.size());
    for (const CommBytes& b : bytes_) {
        out.push_back(escape({b.data(), ::strnlen(b.data(), b.size())}));
    }
    return out;
}

}  // namespace rewake::decode
