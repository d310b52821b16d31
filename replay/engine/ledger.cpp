// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/ledger.hpp"

namespace rewake {

void LedgerColumns::resize(size_t n) {
    cpu.resize(n), cpus_scanned.resize(n), outcome.resize(n), branch.resize(n), inputs_assumed.resize(n),
        known.resize(n);
    lo.resize(n), hi.resize(n), undecided.resize(n), lo_null.resize(n), hi_null.resize(n);
}

void LedgerBlock::write(size_t k, size_t from, size_t n, LedgerColumns& out, size_t to, LedgerCounts& counts) const {
    // Pointers of its own: a store to a column of bytes could be one to any vector's.
    const auto at = [to](auto& column) { return column.data() + to; };
    uint16_t *const cpu = at(out.cpu), *const scanned = at(out.cpus_scanned), *const outcome = at(out.outcome);
    uint8_t* const branch = at(out.branch);
    uint32_t* const assumed = at(out.inputs_assumed);
    int64_t *const lo = at(out.lo), *const hi = at(out.hi);
    bool *const known = at(out.known), *const undecided = at(out.undecided);
    bool *const lo_null = at(out.lo_null), *const hi_null = at(out.hi_null);
    const size_t step = policies_;
    const Verdict* const verdicts = verdicts_.data();
    const Answer* answer = &answers_[from * step + k];
    int64_t decided = 0, exposed = 0, self_collisions = 0;
    for (size_t i = 0; i < n; ++i, answer += step) {
        const Answer& x = *answer;
        undecided[i] = x.verdict == kNone;
        if (x.verdict == kNone) {  // NULL, and the same bytes in every run
            cpu[i] = scanned[i] = outcome[i] = 0;
            branch[i] = 0, assumed[i] = 0, known[i] = false;
            lo[i] = hi[i] = 0, lo_null[i] = hi_null[i] = true;
            continue;
        }
        const Verdict& v = verdicts[x.verdict];
        ++decided;
        exposed += (x.outcome & kExposed) != 0;
        self_collisions += (x.outcome & kSelfCollision) != 0;
        cpu[i] = v.cpu.v;
        scanned[i] = x.scanned;
        outcome[i] = static_cast<uint16_t>(v.outcome | x.outcome);
        branch[i] = x.branch;
        assumed[i] = x.inputs_assumed;
        known[i] = v.known;
        lo[i] = v.lo, lo_null[i] = v.lo_null;
        hi[i] = v.hi, hi_null[i] = v.hi_null;
        if (v.counts && !v.lo_null) counts.lo.count(v.lo_bucket);
        if (v.counts && !v.hi_null) counts.hi.count(v.hi_bucket);
    }
    counts.decided += decided, counts.exposed += exposed, counts.self_collisions += self_collisions;
}

}  // namespace rewake
