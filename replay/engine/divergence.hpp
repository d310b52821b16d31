// SPDX-License-Identifier: GPL-2.0-or-later
// What each policy's own picks would have changed, and the open loop does not show it: a task placed on another CPU than the
// recorded one occupies that CPU, and leaves the recorded one free, until it next goes to sleep. From this come `exposure`
// and `self_collision` (docs/concepts.md).
#pragma once

#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"

namespace rewake {

class Divergence {
  public:
    Divergence(size_t policies, int n_cpus);

    /// CPUs of which policy `k`'s earlier picks changed the occupancy; nullptr when none.
    const CpuMask* dirty(size_t k) const { return per_[k].changed ? &per_[k].dirty : nullptr; }
    /// Whether an earlier pick of policy `k` still occupies `c`.
    bool occupied(size_t k, Cpu c) const { return per_[k].cells[c.v].added != 0; }
    /// Where picks for `p` are kept; valid until forget(p).
    uint32_t slot(TaskId p) {
        if (p.v < slots_.size() && slots_[p.v] != kNone) return slots_[p.v];
        return take_slot(p);
    }
    /// Policy `k` put the task of that slot on `pick` where the record says `recorded`.
    void diverge(size_t k, uint32_t slot, Cpu pick, Cpu recorded) {
        picks_[slot * per_.size() + k] = {pick.v, recorded.v};
        active_[slot * active_words_ + k / 64] |= uint64_t{1} << (k % 64);
        PerPolicy& pp = per_[k];
        ++pp.cells[pick.v].added;
        pp.enter(pick);
        pp.enter(recorded);
    }
    /// `p` went to sleep, or is placed anew: none of its earlier picks counts any more.
    void forget(TaskId p) {
        if (p.v < slots_.size() && slots_[p.v] != kNone) forget_slow(p);
    }

  private:
    static constexpr uint32_t kNone = 0xffffffff;
    struct Pick {
        uint16_t pick = 0, recorded = 0;
    };
    struct Cell {
        uint16_t added = 0;  ///< earlier picks that occupy the CPU
        uint16_t changed = 0;  ///< these, and recorded picks that did not happen
    };
    struct PerPolicy {
        CpuMask dirty;
        int changed = 0;  ///< CPUs in `dirty`
        std::vector<Cell> cells;  ///< per CPU
        // Without branches: whether a count passes zero is as good as random.
        void enter(Cpu c) {
            changed += cells[c.v].changed++ == 0;
            dirty.set(c);
        }
        void leave(Cpu c) {
            const bool gone = --cells[c.v].changed == 0;
            changed -= gone;
            dirty.w[c.v >> 6] &= ~(uint64_t{gone} << (c.v & 63));
        }
    };
    uint32_t take_slot(TaskId p);
    void forget_slow(TaskId p);
    std::vector<PerPolicy> per_;
    std::vector<uint32_t> slots_;  ///< per task: its slot in picks_, or kNone
    std::vector<Pick> picks_;  ///< slot * policies + k
    std::vector<uint64_t> active_;  ///< slot * active_words_ + k / 64: policies whose pick for that task counts
    size_t active_words_;
    std::vector<uint32_t> free_;
};

}  // namespace rewake
