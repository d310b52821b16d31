// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/divergence.hpp"

#include <utility>

namespace rewake {

Divergence::Divergence(size_t policies, int n_cpus) : per_(policies) {
    for (PerPolicy& pp : per_) {
        pp.added.assign(static_cast<size_t>(n_cpus), 0);
        pp.removed.assign(static_cast<size_t>(n_cpus), 0);
    }
}

void Divergence::touch(PerPolicy& pp, Cpu c, int was) {
    const bool now = pp.added[c.v] + pp.removed[c.v] != 0;
    if (now == (was != 0)) return;
    pp.dirty.assign(c, now);
    pp.changed += now ? 1 : -1;
}

void Divergence::diverge(size_t k, TaskId p, Cpu pick, Cpu recorded) {
    if (p.v >= slots_.size()) slots_.resize(p.v + 1 + p.v / 2, kNone);
    uint32_t& slot = slots_[p.v];
    if (slot == kNone) {
        if (free_.empty()) {
            free_.push_back(static_cast<uint32_t>(picks_.size() / per_.size()));
            picks_.resize(picks_.size() + per_.size());
        }
        slot = free_.back();
        free_.pop_back();
    }
    picks_[slot * per_.size() + k] = {pick.v, recorded.v, true};
    PerPolicy& pp = per_[k];
    const int was_pick = pp.added[pick.v] + pp.removed[pick.v];
    ++pp.added[pick.v];
    touch(pp, pick, was_pick);
    const int was_rec = pp.added[recorded.v] + pp.removed[recorded.v];
    ++pp.removed[recorded.v];
    touch(pp, recorded, was_rec);
}

void Divergence::forget_slow(TaskId p) {
    const uint32_t slot = std::exchange(slots_[p.v], kNone);
    for (size_t k = 0; k < per_.size(); ++k) {
        Pick& x = picks_[slot * per_.size() + k];
        if (!x.active) continue;
        x.active = false;
        PerPolicy& pp = per_[k];
        const Cpu pick(x.pick), recorded(x.recorded);
        const int was_pick = pp.added[pick.v] + pp.removed[pick.v];
        --pp.added[pick.v];
        touch(pp, pick, was_pick);
        const int was_rec = pp.added[recorded.v] + pp.removed[recorded.v];
        --pp.removed[recorded.v];
        touch(pp, recorded, was_rec);
    }
    free_.push_back(slot);
}

}  // namespace rewake
