// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/budget.hpp"

#include "replay/engine/saved_state.hpp"
#include "replay/model/tasks.hpp"

#include <algorithm>
#include <optional>

namespace rewake {
namespace {

/// Puts the private state that one decision can change back on destruction.
class Restore {
  public:
    Restore(PolicyState& s, const Wakeup& w) : s_(s), w_(w) {
        s.task(w.curr), s.task(w.p);
        before_.take(s, w);
    }
    ~Restore() { before_.put(s_, w_); }
    Restore(const Restore&) = delete;
    Restore& operator=(const Restore&) = delete;

  private:
    PolicyState& s_;
    const Wakeup& w_;
    SavedState before_;
};

void set_idle(View& v, Cpu c, bool idle) {
    v.idle.assign(c, idle);
    v.avail.assign(c, idle);
    v.turns.forget(c);
}

bool core_idle(const View& v, Cpu c) {
    for (int i = 0; i < v.topo->words; ++i)
        if (v.topo->smt[c.v].w[i] & ~v.avail.w[i]) return false;
    return true;
}

/// A CPU that p may use other than `made`, fixed by the decision's number.
Cpu placebo(const View& v, const Wakeup& w, Cpu made, Cpu recorded, int64_t number) {
    std::vector<Cpu> others;
    for_each_cpu(
        v.topo->words, [&](int i) { return w.allowed->w[i] & v.topo->online.w[i]; },
        [&](Cpu c) {
            if (c != made && c != recorded) others.push_back(c);
            return false;
        });
    if (others.empty()) return made;
    uint64_t x = static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15u;  // splitmix64
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return others[(x ^ (x >> 31)) % others.size()];
}

}  // namespace

Cpu Budget::ask(Policy& policy, const View& v, const Wakeup& w) { return policy.decide(v, w, nullptr, w.prev).cpu; }

uint16_t Budget::proven(Policy& policy, View& v, const Wakeup& w, Cpu goal, const Probed& x) {
    const Llc llc = v.topo->llc[w.prev.v];
    PolicyState& s = policy.memory();
    uint16_t found = 0;
    // Takes over some of the probed values, asks, and puts everything back.
    auto attempt = [&](uint16_t what) {
        const Restore restore(s, w);
        Wakeup as = w;
        const int32_t scan = v.nr_idle_scan[llc.v];
        const int64_t load = v.load[w.prev.v];
        Probed some;
        if (what & kWasSync && x.wake_flags) as.sync = (*x.wake_flags & Probed::kWfSync) != 0;
        if (what & kWasRecent) some.recent = x.recent;
        if (what & kWasFlips) some.flips = x.flips;
        if (what & kWasIdleCores) some.has_idle_cores = x.has_idle_cores;
        if (what & kWasNrIdleScan && x.nr_idle_scan) v.nr_idle_scan[llc.v] = *x.nr_idle_scan;
        // What is probed is load_avg, and no load of columns that compare another one (up to 5.4).
        if (what & kWasLoad && x.rq_load && policy.load_kind() == LoadKind::average) v.load[w.prev.v] = *x.rq_load;
        if (what & kWasLoad && x.load && w.p_load_avg > 0)
            as.p_load = std::min<int64_t>(*x.load, 1 << 20) * w.p_load / w.p_load_avg;
        if (what & kWasUtil && x.util) as.p_util = static_cast<int32_t>(*x.util);
        take_private(s, some, w.p, llc);
        const bool hit = ask(policy, v, as) == goal;
        v.nr_idle_scan[llc.v] = scan;
        v.load[w.prev.v] = load;
        return hit;
    };
    uint16_t all = 0;
    for (uint16_t what : {kWasSync, kWasRecent, kWasFlips, kWasLoad, kWasNrIdleScan, kWasIdleCores, kWasUtil}) {
        if (attempt(what)) found |= what;
        all |= what;
    }
    if (!found && attempt(all)) found = kWasSeveral;
    return found;
}

uint16_t Budget::possible(Policy& policy, View& v, const Wakeup& w, Cpu made, Cpu goal) {
    PolicyState& s = policy.memory();
    auto attempt = [&](auto&& change) {
        const Restore restore(s, w);
        Wakeup as = w;
        change(as);
        return ask(policy, v, as) == goal;
    };
    uint16_t found = 0;
    auto suspect = [&](uint16_t what, bool hit) { found = static_cast<uint16_t>(found | (hit ? what : 0)); };

    suspect(kWasSync, attempt([](Wakeup& as) { as.sync = !as.sync; }));
    suspect(kWasRecent, attempt([&](Wakeup&) {
                s.task(w.p).recent = goal;
                s.task(w.p).has_recent = true;
            }));
    for (int32_t util : {0, 1024}) suspect(kWasUtil, attempt([util](Wakeup& as) { as.p_util = as.p_util_est = util; }));
    const auto factor = static_cast<uint32_t>(v.topo->llc_size(w.waker));
    for (uint32_t least : {0u, factor})  // narrow, wide
        suspect(kWasFlips, attempt([&](Wakeup&) {
                    s.task(w.p).flips = least;
                    s.task(w.curr).flips = least * (factor + 1);
                }));
    const auto load = v.load;
    for (bool pull : {false, true}) {
        constexpr int64_t kHeavy = 1 << 20;
        v.load[w.waker.v] = pull ? 0 : kHeavy;
        v.load[w.prev.v] = pull ? kHeavy : 0;
        suspect(kWasLoad, attempt([](Wakeup& as) { as.p_load = as.curr_load = 0; }));
    }
    v.load = load;
    const auto scan = v.nr_idle_scan;
    for (int32_t nr : {0, int32_t{v.topo->n_cpus}}) {
        std::fill(v.nr_idle_scan.begin(), v.nr_idle_scan.end(), nr);
        suspect(kWasNrIdleScan, attempt([](Wakeup&) {}));
    }
    v.nr_idle_scan = scan;
    suspect(kWasIdleCores, attempt([&](Wakeup&) {
                for (uint8_t& flag : s.hic) flag = !flag;
            }));
    const TaskTable::Allowed all{*w.allowed, w.n_allowed};
    for (bool grants : {false, true}) {
        TaskTable::Allowed some = all;
        some.n += grants && !some.mask.test(goal) ? 1 : !grants && some.mask.test(made) ? -1 : 0;
        some.mask.assign(grants ? goal : made, grants);
        if (some.n > 0 && some.n != all.n)
            suspect(kWasAllowed, attempt([&](Wakeup& as) {
                        as.allowed = &some.mask;
                        as.n_allowed = some.n;
                    }));
    }
    const bool made_idle = v.avail.test(made), goal_idle = v.avail.test(goal);
    const Turns turns = v.turns;
    set_idle(v, goal, !goal_idle);
    suspect(kWasIdle, attempt([](Wakeup&) {}));
    set_idle(v, made, !made_idle);
    suspect(kWasIdle, attempt([](Wakeup&) {}));
    set_idle(v, goal, goal_idle);
    suspect(kWasIdle, attempt([](Wakeup&) {}));
    set_idle(v, made, made_idle);
    v.turns = turns;
    return found;
}

void Budget::orders(Policy& policy, View& v, const Wakeup& w, Cpu recorded, int64_t number, Blame& out) {
    while (first_ < flips_.size() && flips_[first_].ts < v.now - 2 * window_) ++first_;
    std::array<Cpu, kMostFlips> near{};
    size_t n = 0;
    for (size_t i = first_; i < flips_.size() && flips_[i].ts <= v.now + window_; ++i) {
        const Flip& f = flips_[i];
        if (f.ts < v.now - window_ || f.decision == number || f.cpu == w.waker) continue;
        if (std::find(near.begin(), near.begin() + n, f.cpu) != near.begin() + n || n == kMostFlips) continue;
        near[n++] = f.cpu;
    }
    std::vector<Cpu> answers;
    for (uint32_t state = 0; state < (1u << n); ++state) {
        for (size_t i = 0; i < n; ++i) set_idle(v, near[i], (state >> i) & 1);
        const Restore restore(policy.memory(), w);
        const Cpu c = ask(policy, v, w);
        if (std::find(answers.begin(), answers.end(), c) == answers.end()) answers.push_back(c);
        out.among |= c == recorded;
    }
    out.answers = static_cast<uint8_t>(answers.size());
}

Blame Budget::blame(Policy& policy, const View& v, const Wakeup& w, Cpu recorded, const Probed& truth, int64_t number) {
    Blame out;
    scratch_ = v;
    const auto made = [&] {
        const Restore restore(policy.memory(), w);
        return ask(policy, v, w);
    }();
    if (made != recorded) {
        const Cpu other = placebo(v, w, made, recorded, number);
        out.proven = proven(policy, scratch_, w, recorded, truth);
        out.possible = possible(policy, scratch_, w, made, recorded);
        if (other != made) {
            out.placebo_proven = proven(policy, scratch_, w, other, truth);
            out.placebo_possible = possible(policy, scratch_, w, made, other);
        }
        out.equivalent = v.avail.test(made) && v.avail.test(recorded) && v.topo->share_cache(made, recorded) &&
                         core_idle(v, made) == core_idle(v, recorded);
    }
    orders(policy, scratch_, w, recorded, number, out);
    return out;
}

}  // namespace rewake
