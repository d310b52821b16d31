// SPDX-License-Identifier: GPL-2.0-or-later
// A view of a file through one re-used buffer, for reading records one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectors/decode/file.hpp"
#include "collectors/decode/perfdata/records.hpp"

namespace rewake::decode::perf {

class Window {
  public:
    /// `block`: bytes read at once.
    explicit Window(const File& file, size_t block = 256 << 10) : file_(&file), block_(block) {}

    /// `n` bytes at `offset`, valid until the next call; null: the file ends before.
    const uint8_t* at(uint64_t offset, size_t n) {
        if (offset >= begin_ && offset - begin_ + n <= filled_) [[likely]] {
            return buffer_.data() + (offset - begin_);
        }
        return refill(offset, n, file_->size());
    }
    /// The same, and nothing at or behind `end` is read.
    const uint8_t* until(uint64_t offset, size_t n, uint64_t end) {
        if (offset >= begin_ && offset - begin_ + n <= filled_) [[likely]] {
            return buffer_.data() + (offset - begin_);
        }
        return refill(offset, n, end);
    }
    void look_at(const File& file) {
        file_ = &file;
        filled_ = 0;
    }

  private:
    const uint8_t* refill(uint64_t offset, size_t n, uint64_t end) {
        const uint64_t there = offset < end ? end - offset : 0;
        const size_t want = static_cast<size_t>(std::min<uint64_t>(std::max(block_, n), there));
        if (n > there) {
            return nullptr;
        }
        if (buffer_.size() < want) {
            buffer_.resize(want);
        }
        begin_ = offset;
        filled_ = file_->read_at(offset, buffer_.data(), want);
        return n <= filled_ ? buffer_.data() : nullptr;
    }

    const File* file_;
    size_t block_;
    std::vector<uint8_t> buffer_;
    uint64_t begin_ = 0;
    size_t filled_ = 0;
};

}  // namespace rewake::decode::perf
