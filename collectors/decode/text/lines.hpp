// SPDX-License-Identifier: GPL-2.0-or-later
// A file line by line, in bounded memory.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collectors/decode/file.hpp"

namespace rewake::decode {

class Lines {
  public:
    static constexpr size_t kLongest = 1 << 16;  ///< bytes of a line; what is longer is cut

    explicit Lines(const File& file) : file_(file), buffer_(kBlock + kLongest) {}

    /// The next line without its end; valid until the next call. False at the end of the file.
    bool next(std::string_view& line);
    [[nodiscard]] uint64_t number() const { return number_; }  ///< of the line, from 1
    [[nodiscard]] bool cut() const { return cut_; }            ///< the line was longer than kLongest

  private:
    static constexpr size_t kBlock = 1 << 20;

    bool fill();

    const File& file_;
    std::vector<char> buffer_;
    size_t at_ = 0, end_ = 0;  // unread bytes of the buffer
    uint64_t offset_ = 0, number_ = 0;
    bool cut_ = false;
};

}  // namespace rewake::decode
