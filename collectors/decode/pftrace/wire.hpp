// SPDX-License-Identifier: GPL-2.0-or-later
// Protobuf wire format: fields of a message in memory. Nothing throws and nothing reads past the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace rewake::decode {

struct WireField {
    uint32_t number = 0;
    uint32_t type = 0;      ///< 0 varint, 1 fixed 64, 2 bytes, 5 fixed 32
    uint64_t value = 0;     ///< of types 0, 1 and 5
    const uint8_t* p = nullptr;  ///< of type 2
    size_t n = 0;

    [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(p), n}; }
    [[nodiscard]] int64_t i32() const { return static_cast<int32_t>(value); }
    [[nodiscard]] int64_t i64() const { return static_cast<int64_t>(value); }
};

class Wire {
  public:
    Wire(const uint8_t* p, size_t n) : p_(p), e_(p + n) {}
    explicit Wire(const WireField& f) : Wire(f.p, f.n) {}

    [[nodiscard]] bool damaged() const { return damaged_; }
    [[nodiscard]] bool end() const { return p_ == e_; }
    [[nodiscard]] const uint8_t* at() const { return p_; }

    bool varint(uint64_t& v) {
        if (p_ < e_ && *p_ < 0x80) [[likely]] {
            v = *p_++;
            return true;
        }
        v = 0;
        for (unsigned shift = 0; shift < 70 && p_ < e_; shift += 7) {
            const uint8_t b = *p_++;
            v |= shift < 64 ? static_cast<uint64_t>(b & 0x7f) << shift : 0;
            if (b < 0x80) {
                return true;
            }
        }
        damaged_ = true;
        p_ = e_;
        return false;
    }

    /// The next field; false at the end, or where the message is damaged.
    bool next(WireField& f) {
        uint64_t tag = 0;
        if (end() || !varint(tag)) {
            return false;
        }
        f.number = static_cast<uint32_t>(tag >> 3);
        f.type = static_cast<uint32_t>(tag & 7);
        const auto left = static_cast<size_t>(e_ - p_);
        if (tag >> 32 != 0 || f.number == 0) {
            return fail();
        }
        switch (f.type) {
            case 0: return varint(f.value);
            case 1:
            case 5: {
                const size_t size = f.type == 1 ? 8 : 4;
                if (left < size) {
                    return fail();
                }
                f.value = 0;
                std::memcpy(&f.value, p_, size);  // little-endian, as the machines that we build for
                p_ += size;
                return true;
            }
            case 2: {
                uint64_t n = 0;
                if (!varint(n) || n > static_cast<size_t>(e_ - p_)) {
                    return fail();
                }
                f.p = p_;
                f.n = static_cast<size_t>(n);
                p_ += n;
                return true;
            }
            default: return fail();
        }
    }

  private:
    bool fail() {
        damaged_ = true;
        p_ = e_;
        return false;
    }

    const uint8_t* p_;
    const uint8_t* e_;
    bool damaged_ = false;
};

}  // namespace rewake::decode
