// SPDX-License-Identifier: GPL-2.0-or-later
// One CPU's records, in order, out of its ring-buffer pages. Record header (include/linux/ring_buffer.h): 5 bits
// type_len, 27 bits time delta; type_len 1..28: payload of 4 * type_len bytes, 0: length in the next word, 29 padding,
// 30 time extend, 31 absolute time. Nothing is copied: a record points into the page and is valid until next().
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "collectors/decode/bytes.hpp"
#include "collectors/decode/ring/layout.hpp"
#include "collectors/decode/tracedat/pages.hpp"

namespace rewake::decode {

/// `Big`: the pages are big-endian. `Pages`: PageSource, or anything with its next() and cpu().
template <bool Big, class Pages = PageSource>
class Stream {
  public:
    using Loss = decode::Loss;
    static constexpr bool kBig = Big;

    Stream(Pages pages, PageLayout layout, uint32_t type_offset, uint32_t least, Problems& problems)
        : pages_(std::move(pages)), layout_(layout), type_offset_(type_offset), least_(least), problems_(&problems) {}

    /// Moves to the next record. False: the data are at their end. A loss after the last event comes as a record of its
    /// own without data (record() is null).
    bool next() {
        loss_ = Loss::none;
        while (true) {
            while (pos_ < end_) {
                if (step()) [[likely]] {
                    return true;
                }
            }
            if (!load_page()) {
                if (pending_ == Loss::none) {
                    return false;
                }
                loss_ = pending_;
                pending_ = Loss::none;
                rec_ = nullptr;
                len_ = 0;
                ts_ = std::max(ts_, std::min(clock_, kLatest));
                return true;
            }
        }
    }

    [[nodiscard]] uint64_t ts() const { return ts_; }  ///< at most INT64_MAX - 1
    [[nodiscard]] const uint8_t* record() const { return rec_; }  ///< common fields first
    [[nodiscard]] uint32_t length() const { return len_; }  ///< bytes of the record, at least `least`
    [[nodiscard]] uint16_t type() const { return load<uint16_t, Big>(rec_ + type_offset_); }
    [[nodiscard]] uint16_t cpu() const { return static_cast<uint16_t>(pages_.cpu()); }
    [[nodiscard]] Loss loss() const { return loss_; }
    [[nodiscard]] uint64_t lost() const { return lost_; }  ///< number of lost events when loss() is counted
    [[nodiscard]] uint64_t offset() const { return page_.offset; }  ///< of the page, in the file

  private:
    static constexpr uint64_t kLatest = std::numeric_limits<int64_t>::max() - 1;
    static constexpr uint32_t kMissed = 1U << 31, kMissedStored = 1U << 30, kCommitMask = (1U << 27) - 1;
    static constexpr uint64_t kAbsoluteBits = 59;
    static constexpr size_t kLine = 64;
    static constexpr uint64_t kAbsoluteTop = ~((uint64_t{1} << kAbsoluteBits) - 1);

    /// One record header at pos_. True: it is an event.
    bool step() {
        if (end_ - pos_ < 4) {
            return damaged("record header cut off by the end of its page");
        }
        const uint32_t head = load<uint32_t, Big>(pos_);
        const uint32_t type_len = Big ? head >> 27 : head & 31;
        const uint64_t delta = Big ? head & ((1U << 27) - 1) : head >> 5;
        uint32_t n = type_len * 4;
        const uint8_t* at = pos_ + 4;
        if (type_len - 1U >= 28U) [[unlikely]] {
            if (type_len == 29 && delta == 0) {  // the rest of the page is empty
                pos_ = end_;
                return false;
            }
            if (end_ - at < 4) {
                return damaged("record header cut off by the end of its page");
            }
            const uint32_t word = load<uint32_t, Big>(at);
            if (type_len == 30) {
                clock_ += (uint64_t{word} << 27) + delta;
                pos_ = at + 4;
                return false;
            }
            if (type_len == 31) {
                set_absolute((uint64_t{word} << 27) + delta);
                pos_ = at + 4;
                return false;
            }
            if (type_len == 29) {  // discarded event: its time counts, its payload does not
                clock_ += delta;
                if (word > static_cast<uint64_t>(end_ - at)) {
                    return damaged("padding runs over the end of its page");
                }
                pos_ = at + std::max(word, 4U);
                return false;
            }
            if (word < 4 || word > static_cast<uint64_t>(end_ - at)) {
                return damaged("record runs over the end of its page");
            }
            n = (word - 4 + 3) & ~3U;
            at += 4;
        }
        if (n > static_cast<uint64_t>(end_ - at)) {
            return damaged("record runs over the end of its page");
        }
        clock_ += delta;
        ts_ = std::min(clock_, kLatest);
        pos_ = at + n;
        __builtin_prefetch(pos_ +
                           kLine);  // many streams: by the time it is this one's turn again, it has left the cache
        if (n < least_) {
            problems_->add("record too short for its common fields", place(pages_.cpu(), page_.offset));
            return false;
        }
        rec_ = at;
        len_ = n;
        if (pending_ != Loss::none) [[unlikely]] {
            loss_ = pending_;
            pending_ = Loss::none;
        }
        return true;
    }

    /// The word holds 59 bits only; the top ones are those of the time so far, and a smaller result means that they
    /// wrapped.
    void set_absolute(uint64_t low) {
        const uint64_t top = clock_ & kAbsoluteTop;
        uint64_t t = low;
        if (top != 0) {
            t |= top;
            t += t < clock_ ? uint64_t{1} << kAbsoluteBits : 0;
        }
        clock_ = t;
    }

    bool damaged(const char* what) {
        problems_->add(what, place(pages_.cpu(), page_.offset));
        pos_ = end_;
        pending_ = Loss::unknown;  // the rest of the page
        return false;
    }

    bool load_page() {
        page_ = pages_.next();
        if (page_.gap) [[unlikely]] {
            pending_ = Loss::unknown;
        }
        if (page_.n == 0) {
            return false;
        }
        if (page_.n < layout_.data) {
            damaged("page too short for its header");
            return true;
        }
        const uint64_t word = layout_.long_size == 8 ? load<uint64_t, Big>(page_.p + layout_.commit)
                                                     : load<uint32_t, Big>(page_.p + layout_.commit);
        const auto flags = static_cast<uint32_t>(word);
        uint32_t size = flags & kCommitMask;
        const auto room = static_cast<uint32_t>(page_.n - layout_.data);
        if (size > room) {
            problems_->add("page cut off or its size wrong", place(pages_.cpu(), page_.offset));
            size = room;
        }
        clock_ = load<uint64_t, Big>(page_.p + layout_.timestamp);
        if (flags == 0 && clock_ == 0) [[unlikely]] {  // no buffer writes a page without a time or a record
            end_ = page_.p;
            damaged("page of zeros where records were");
            return true;
        }
        pos_ = page_.p + layout_.data;
        end_ = pos_ + size;
        if ((flags & kMissed) != 0) [[unlikely]] {
            note_loss((flags & kMissedStored) != 0, room - size);
        }
        return true;
    }

    /// A stored count follows the data of the page.
    void note_loss(bool stored, uint32_t room) {
        const bool had = pending_ != Loss::none;
        if (!stored || room < layout_.long_size) {
            pending_ = Loss::unknown;
            return;
        }
        const uint64_t n = layout_.long_size == 8 ? load<uint64_t, Big>(end_) : load<uint32_t, Big>(end_);
        if (had && pending_ == Loss::unknown) {
            return;  // two marks before one event, one of them without a number
        }
        lost_ = std::min<uint64_t>(had ? lost_ + std::min(n, kLatest) : n, kLatest);
        pending_ = Loss::counted;
    }

    Pages pages_;
    PageLayout layout_;
    uint32_t type_offset_, least_;
    Problems* problems_;
    typename Pages::Page page_{nullptr, 0, 0, false};
    const uint8_t* pos_ = nullptr;
    const uint8_t* end_ = nullptr;
    const uint8_t* rec_ = nullptr;
    uint32_t len_ = 0;
    Loss loss_ = Loss::none, pending_ = Loss::none;
    uint64_t clock_ = 0, ts_ = 0, lost_ = 0;
};

}  // namespace rewake::decode
