// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/text/lines.hpp"

#include <cstring>

namespace rewake::decode {

bool Lines::fill() {
    if (at_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
        end_ -= at_;
        at_ = 0;
    }
    const size_t n = file_.read_at(offset_, reinterpret_cast<uint8_t*>(buffer_.data()) + end_, buffer_.size() - end_);
    offset_ += n;
    end_ += n;
    return n > 0;
}

bool Lines::next(std::string_view& line) {
    cut_ = false;
    size_t searched = 0;
    while (true) {
        const char* from = buffer_.data() + at_;
        const void* found = std::memchr(from + searched, '\n', end_ - at_ - searched);
        if (found != nullptr) {
            const auto n = static_cast<size_t>(static_cast<const char*>(found) - from);
            at_ += n + 1;
            line = {from, n};
            break;
        }
        searched = end_ - at_;
        if (searched >= kLongest) {
            // The head is kept at the front of the buffer, the rest goes.
            std::memmove(buffer_.data(), from, kLongest);
            cut_ = true;
            while (true) {
                const size_t n = file_.read_at(offset_, reinterpret_cast<uint8_t*>(buffer_.data()) + kLongest,
                                               buffer_.size() - kLongest);
                const void* stop = n > 0 ? std::memchr(buffer_.data() + kLongest, '\n', n) : nullptr;
                if (n == 0 || stop != nullptr) {
                    const size_t used =
                        stop == nullptr
                            ? n
                            : static_cast<size_t>(static_cast<const char*>(stop) - buffer_.data()) - kLongest + 1;
                    offset_ += n;
                    at_ = kLongest + used;
                    end_ = kLongest + n;
                    line = {buffer_.data(), kLongest};
                    ++number_;
                    return true;
                }
                offset_ += n;
            }
        }
        if (!fill()) {
            if (at_ == end_) {
                return false;
            }
            line = {buffer_.data() + at_, end_ - at_};
            at_ = end_;
            break;
        }
    }
    if (line.size() > kLongest) {
        line = line.substr(0, kLongest);
        cut_ = true;
    }
    ++number_;
    return true;
}

}  // namespace rewake::decode
