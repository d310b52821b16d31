// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/decoder.hpp"

#include <algorithm>
#include <limits>

namespace rewake::decode {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

/// a + b of two that are not negative, at most kMost.
int64_t sum(int64_t a, int64_t b) {
    int64_t d = 0;
    return __builtin_add_overflow(a, b, &d) ? kMost : d;
}

}  // namespace

void CpuLoss::add(int64_t n, int64_t ns, int64_t first_ns) {
    ++gaps;
    const int64_t before = last_ns == Tasks::kNever ? first_ns : last_ns;
    int64_t blind = 0;
    if (__builtin_sub_overflow(ns, before, &blind)) {
        blind = ns > before ? kMost : 0;
    }
    blind_ns = sum(blind_ns, std::max<int64_t>(blind, 0));
    if (n > 0) {
        add_lost(static_cast<uint64_t>(n));
    }
}

void CpuLoss::add_lost(uint64_t n) { lost = sum(lost, static_cast<int64_t>(std::min<uint64_t>(n, kMost))); }

Decoder::Decoder(const Source& source, size_t most)
    : source_(source),
      tasks_(source.n_cpus),
      losses_(source.n_cpus),
      streams_(source.n_cpus),
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
    if (counted) {
        b.loss.lost.set(i, static_cast<int64_t>(lost));
    } else {
        b.loss.lost.set_null(i);
    }
    losses_[cpu].add(counted ? static_cast<int64_t>(lost) : -1, ns, first_ns);
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
