// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/divergence.hpp"

#include <bit>
#include <utility>

namespace rewake {

Divergence::Divergence(size_t policies, int n_cpus) : per_(policies), active_words_((policies + 63) / 64) {
    for (PerPolicy& pp : per_) pp.cells.resize(static_cast<size_t>(n_cpus));
}

uint32_t Divergence::take_slot(TaskId p) {
    if (p.v >= slots_.size()) slots_.resize(p.v + 1 + p.v / 2, kNone);
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(picks_.size() / per_.size()));
        picks_.resize(picks_.size() + per_.size());
        active_.resize(active_.size() + active_words_);
    }
    slots_[p.v] = free_.back();
    free_.pop_back();
    return slots_[p.v];
}

void Divergence::forget_slow(TaskId p) {
    const uint32_t slot = std::exchange(slots_[p.v], kNone);
    for (size_t word = 0; word < active_words_; ++word) {
        for (uint64_t bits = std::exchange(active_[slot * active_words_ + word], 0); bits; bits &= bits - 1) {
            const size_t k = word * 64 + static_cast<size_t>(std::countr_zero(bits));
            const Pick x = picks_[slot * per_.size() + k];
            PerPolicy& pp = per_[k];
            --pp.cells[x.pick].added;
            pp.leave(Cpu(x.pick));
            pp.leave(Cpu(x.recorded));
        }
    }
    free_.push_back(slot);
}

}  // namespace rewake
