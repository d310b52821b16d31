// SPDX-License-Identifier: GPL-2.0-or-later
// Reading a line from the left: literals, numbers, words and names. Nothing throws and nothing reads past the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "collectors/decode/comm.hpp"

namespace rewake::decode {

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Scan {
  public:
    explicit Scan(std::string_view s) : p_(s.data()), e_(s.data() + s.size()) {}

    [[nodiscard]] bool end() const { return p_ == e_; }
    [[nodiscard]] char peek() const { return p_ < e_ ? *p_ : '\0'; }
    [[nodiscard]] std::string_view rest() const { return {p_, static_cast<size_t>(e_ - p_)}; }
    void skip(size_t n) { p_ += n; }

    void blanks() {
        while (p_ < e_ && (*p_ == ' ' || *p_ == '\t')) {
            ++p_;
        }
    }
    [[nodiscard]] bool at(std::string_view s) const {
        return static_cast<size_t>(e_ - p_) >= s.size() && std::memcmp(p_, s.data(), s.size()) == 0;
    }
    bool lit(std::string_view s) {
        const bool yes = at(s);
        p_ += yes ? s.size() : 0;
        return yes;
    }
    /// A decimal number of at most 18 digits.
    bool number(int64_t& v) {
        const char* q = p_;
        const bool minus = q < e_ && *q == '-';
        q += minus;
        const char* first = q;
        int64_t n = 0;
        while (q < e_ && is_digit(*q) && q - first < 18) {
            n = n * 10 + (*q++ - '0');
        }
        if (q == first || (q < e_ && is_digit(*q))) {
            return false;
        }
        p_ = q;
        v = minus ? -n : n;
        return true;
    }
    /// Up to the next blank.
    std::string_view word() {
        const char* q = p_;
        while (q < e_ && *q != ' ' && *q != '\t') {
            ++q;
        }
        const std::string_view w(p_, static_cast<size_t>(q - p_));
        p_ = q;
        return w;
    }
    /// A task's name, which may hold anything: the shortest run of at most 16 bytes after which `then` reads the rest
    /// as it must be. `then` gets a Scan behind the name; false leaves this one where it is.
    /// Also "ARRAY[71, 65, ...]", its bytes as trace-cmd -R prints all names after one that is not ASCII.
    template <class Then>
    bool name(char first_after, CommBytes& comm, Then&& then) {
        if (at("ARRAY[")) [[unlikely]] {
            Scan bytes(std::string_view(p_ + 6, static_cast<size_t>(e_ - p_ - 6)));
            CommBytes read{};
            if (bytes.array(read) && bytes.peek() == first_after && then(bytes)) {
                comm = read;
                *this = bytes;
                return true;
            }
        }
        const size_t most = static_cast<size_t>(e_ - p_);
        for (size_t n = 0; n <= comm.size() && n < most; ++n) {
            if (p_[n] != first_after) {
                continue;
            }
            Scan after(std::string_view(p_ + n, most - n));
            if (then(after)) {
                comm = CommBytes{};
                std::memcpy(comm.data(), p_, n);
                *this = after;
                return true;
            }
        }
        return false;
    }

  private:
    static constexpr int nibble(char c) { return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
    /// "71, 65]"; bytes beyond the length of a name are passed over.
    bool array(CommBytes& comm) {
        for (size_t n = 0; e_ - p_ > 2; ++n) {
            const int high = nibble(p_[0]), low = nibble(p_[1]);
            if (high < 0 || low < 0) {
                return false;
            }
            if (n < comm.size()) {
                comm[n] = static_cast<char>(high * 16 + low);
            }
            p_ += 2;
            if (lit("]")) {
                return true;
            }
            if (!lit(", ")) {
                return false;
            }
        }
        return false;
    }

    const char* p_;
    const char* e_;
};

}  // namespace rewake::decode
