// SPDX-License-Identifier: GPL-2.0-or-later
// One chain of a perf.data file, record by record: the second pass. Looks like ring/stream.hpp to the merge and to the
// decoder.
#pragma once

#include "collectors/decode/perfdata/chains.hpp"
#include "collectors/decode/perfdata/header.hpp"
#include "collectors/decode/perfdata/records.hpp"
#include "collectors/decode/perfdata/window.hpp"

namespace rewake::decode::perf {

/// What all streams of a file read from.
struct Sources {
    const File* file;
    const File* unpacked;  ///< null: nothing is compressed
    const Attrs* attrs;
    uint32_t n_cpus;
    Problems* problems;
};

template <bool Big>
class Stream {
  public:
    static constexpr bool kBig = Big;

    Stream(const Sources& sources, Chains::Chain chain, size_t block)
        : s_(sources), chain_(std::move(chain)), window_(*sources.file, block) {}

    /// See ring/stream.hpp. Records other than samples have no record() either, but a kind().
    bool next() {
        while (true) {
            if (pos_ == end_ && !next_segment()) {
                return false;
            }
            const uint8_t* p = window_.until(pos_, kHead, end_);
            const uint32_t size = p != nullptr ? load<uint16_t, Big>(p + 6) : 0;
            p = size >= kHead && size <= end_ - pos_ ? window_.until(pos_, size, end_) : nullptr;
            if (p == nullptr) {  // it was whole in the first pass
                s_.problems->add("the file became shorter while it was read", "offset " + std::to_string(pos_));
                pos_ = end_;
                continue;
            }
            at_ = pos_;
            pos_ += size;
            if (take(p, size)) {
                return true;
            }
        }
    }

    [[nodiscard]] uint64_t ts() const { return ts_; }
    /// Records of the same time: by CPU, then as in the file.
    [[nodiscard]] uint64_t tie() const { return uint64_t{cpu_} << 48 | (at_ & ((1ULL << 48) - 1)); }
    [[nodiscard]] const uint8_t* record() const { return raw_; }
    [[nodiscard]] uint32_t length() const { return length_; }
    [[nodiscard]] uint16_t type() const { return load<uint16_t, Big>(raw_); }
    [[nodiscard]] uint16_t cpu() const { return static_cast<uint16_t>(cpu_); }
    [[nodiscard]] Loss loss() const { return loss_; }
    [[nodiscard]] uint64_t lost() const { return lost_; }
    [[nodiscard]] uint64_t offset() const { return at_; }
    [[nodiscard]] RecordType kind() const { return kind_; }
    [[nodiscard]] const uint8_t* body() const { return body_; }  ///< of a record that is no sample, header included
    [[nodiscard]] uint32_t body_size() const { return body_size_; }

  private:
    static constexpr uint64_t kLatest = INT64_MAX - 1;
    static constexpr uint32_t kLeast = 8;  // common fields

    bool next_segment() {
        if (segment_ == chain_.size()) {
            return false;
        }
        const Segment& s = chain_[segment_++];
        pos_ = s.begin;
        end_ = s.end;
        gap_ |= s.gap;
        window_.look_at(s.unpacked ? *s_.unpacked : *s_.file);
        return true;
    }

    bool take(const uint8_t* p, uint32_t size) {
        const uint32_t type = load<uint32_t, Big>(p);
        if (type == kSample) [[likely]] {
            Sample s;
            if (parse_sample<Big>(*s_.attrs, p, size, s) != Parsed::ok) {
                return false;  // counted in the first pass
            }
            if (s.cpu >= s_.n_cpus || s.raw_size < kLeast) [[unlikely]] {
                s_.problems->add("sample of a CPU that the machine does not have, or without data, skipped",
                                 "offset " + std::to_string(at_));
                return false;
            }
            kind_ = kSample;
            raw_ = s.raw;
            length_ = s.raw_size;
            cpu_ = s.cpu;
            ts_ = std::min(s.time, kLatest);
            loss_ = gap_ ? Loss::unknown : Loss::none;
            gap_ = false;
            return true;
        }
        if (type != kLost && type != kComm && type != kFork && type != kExit) {
            return false;
        }
        const When when = when_of<Big>(*s_.attrs, p, size);
        if (!when.known || when.time == 0 || when.cpu >= s_.n_cpus || size < kHead + 16) {
            return false;
        }
        kind_ = static_cast<RecordType>(type);
        raw_ = nullptr;
        length_ = 0;
        body_ = p;
        body_size_ = size;
        cpu_ = when.cpu;
        ts_ = std::min(when.time, kLatest);
        loss_ = type == kLost ? Loss::counted : Loss::none;
        lost_ = type == kLost ? std::min(load<uint64_t, Big>(p + kHead + 8), kLatest) : 0;
        return true;
    }

    Sources s_;
    Chains::Chain chain_;
    Window window_;
    size_t segment_ = 0;
    uint64_t pos_ = 0, end_ = 0, at_ = 0;
    const uint8_t* raw_ = nullptr;
    const uint8_t* body_ = nullptr;
    uint32_t length_ = 0, body_size_ = 0, cpu_ = 0;
    uint64_t ts_ = 0, lost_ = 0;
    Loss loss_ = Loss::none;
    RecordType kind_ = kSample;
    bool gap_ = false;
};

}  // namespace rewake::decode::perf
