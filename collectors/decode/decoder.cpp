// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/decoder.hpp"

#include <algorithm>
#include <limits>

namespace rewake::decode {
namespace {

// Damaged times and counts can be anything: the largest number stands for what leaves the range.

/// a - b where a > b.
int64_t since(int64_t a, int64_t b) {
    int64_t d = 0;
    return __builtin_sub_overflow(a, b, &d) ? std::numeric_limits<int64_t>::max() : d;
}
/// a + b of two that are not negative.
int64_t sum(int64_t a, int64_t b) {
    int64_t d = 0;
    return __builtin_add_overflow(a, b, &d) ? std::numeric_limits<int64_t>::max() : d;
}

}  // namespace

Decoder::Decoder(const Source& source, size_t most)
    : source_(source),
      tasks_(source.n_cpus),
      losses_(source.n_cpus),
      most_(std::max<size_t>(most, 2)),
      counts_(source.formats.size()) {}

std::unique_ptr<Batch> Decoder::next() {
    if (!more_) {
        return nullptr;
    }
    auto batch = std::make_unique<Batch>(pool_, like_);
    const int64_t begin = next_id_;
    more_ = fill(*batch, begin + static_cast<int64_t>(most_) - 1);  // a record makes two rows at most
    like_ = batch->rows();
    return next_id_ > begin ? std::move(batch) : nullptr;
}

void Decoder::impossible(uint32_t cpu, uint64_t offset) {
    source_.problems.add("record with an impossible tid, CPU or priority, skipped", place(cpu, offset));
}

void Decoder::loss_row(uint16_t cpu, bool counted, uint64_t lost, int64_t ns, Batch& b) {
    const size_t i = head(b, b.loss, ns, cpu);
    CpuLoss& l = losses_[cpu];
    ++l.gaps;
    const int64_t before = l.last_ns == Tasks::kNever ? first_ns : l.last_ns;
    l.blind_ns = sum(l.blind_ns, ns > before ? since(ns, before) : 0);
    if (counted) {
        b.loss.lost.set(i, static_cast<int64_t>(lost));
        l.lost = sum(l.lost, static_cast<int64_t>(lost));
    } else {
        b.loss.lost.set_null(i);
    }
}

std::map<std::string, uint64_t> Decoder::counts(bool skipped_only) const {
    std::map<std::string, uint64_t> out;
    for (size_t i = 0; i + 1 < counts_.size(); ++i) {
        if (counts_[i] > 0 && (!skipped_only || source_.formats.plan(static_cast<uint32_t>(i)).kind == Kind::none)) {
            out[escape(source_.formats.names()[i])] += counts_[i];
        }
    }
    for (const auto& [name, n] : others_) {
        out[escape(name)] += n;
    }
    for (const auto& [type, n] : unknown_) {
        out["unknown:" + std::to_string(type)] = n;
    }
    return out;
}

}  // namespace rewake::decode
