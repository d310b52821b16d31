// SPDX-License-Identifier: GPL-2.0-or-later
// Which group of a domain is the idlest: GL, GS and GT of policies.md A8. Loads are unsigned and wrap as the kernel's
// do.
#include <algorithm>
#include <limits>

#include "replay/policies/steps/slow_path.hpp"

namespace rewake {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

/// Sum of a column over `n` CPUs in a row: a loop that is vectorised. It wraps.
template <class T>
uint64_t sum(const std::vector<T>& column, size_t first, size_t n) {
    uint64_t s = 0;
    for (const T* at = column.data() + first; n > 0; --n, ++at) s += static_cast<uint64_t>(int64_t{*at});
    return s;
}

/// CPUs of a group of `d`, the allowed ones or all.
struct Members {
    const Ctx& x;
    const CpuMask& group;
    Words words;
    bool allowed_only = false;
    uint64_t word(int i) const { return allowed_only ? group.w[i] & x.w.allowed->w[i] : group.w[i]; }
    template <class F>
    void runs(F f) const {
        for_each_run(words, [this](int i) { return word(i); }, f);
    }
    template <class F>
    void each(F f) const {
        for_each_cpu(words, [this](int i) { return word(i); }, [&](Cpu c) { return f(c), false; });
    }
    /// Notes that the decision depends on the state of all of them.
    void touch(Ctx& ctx) const {
        for (int i = words.from; ctx.dirty && i < words.to; ++i)
            if (word(i) & ctx.dirty->w[i]) ctx.d.exposed = true;
    }
};

bool any_allowed(const Ctx& x, const Domain& d, const CpuMask& g) {
    for (int i = d.first_word; i < d.end_word; ++i)
        if (g.w[i] & x.w.allowed->w[i]) return true;
    return false;
}

/// Calls `f(members, local)` for the groups with an allowed CPU, in ring order from the one that holds `c`.
template <class F>
void each_group(Ctx& x, const Domain& d, Cpu c, F f) {
    size_t first = 0;
    while (first + 1 < d.groups.size() && !d.groups[first].test(c)) ++first;
    for (size_t k = 0; k < d.groups.size(); ++k) {
        const CpuMask& g = d.groups[(first + k) % d.groups.size()];
        if (any_allowed(x, d, g)) f(Members{x, g, d.words()}, g.test(c));
    }
}

uint64_t capacity(const Members& g) {
    uint64_t cap = 0;
    g.runs([&](size_t first, size_t n) { cap += sum(g.x.v.cap, first, n); });
    return cap;
}

/// p is no longer or not yet part of any CPU's sums: a new task.
bool is_new(const Wakeup& w) { return w.kind == Kind::fork; }

/// Calls `f` with cpu_util of `n` CPUs in a row, at most its capacity, and the CPU's number: a loop that is vectorised.
template <class F>
void utils(const Ctx& x, const SlowRules& r, size_t first, size_t n, F f) {
    const int32_t *util = x.v.slow->util.data(), *est = x.v.slow->util_est.data();
    const uint16_t* cap = x.t.cap_orig.data();
    auto least = [](int32_t a, int32_t b) { return a < b ? a : b; };  // by value, else the loop is not
    auto most = [](int32_t a, int32_t b) { return a > b ? a : b; };
    if (r.util_est)
        for (size_t c = first; c < first + n; ++c) f(least(most(util[c], est[c]), cap[c]), c);
    else
        for (size_t c = first; c < first + n; ++c) f(least(most(util[c], 0), cap[c]), c);
}

/// The same of one CPU.
int32_t util_of(const Ctx& x, const SlowRules& r, Cpu c) {
    int32_t u = 0;
    utils(x, r, c.v, 1, [&](int32_t util, size_t) { u = util; });
    return u;
}

/// cpu_util_without: the same without p.
int64_t util_without(Ctx& x, const SlowRules& r, Cpu c) {
    const Wakeup& w = x.w;
    const SlowInputs& in = *x.v.slow;
    if (c != w.task_cpu || is_new(w)) return util_of(x, r, c);
    const int64_t util = std::max<int64_t>(in.util[c.v] - w.p_util, 0);
    int64_t est = r.util_est ? in.util_est[c.v] : 0;
    if (r.est_removed && w.kind == Kind::exec)
        est = std::max<int64_t>(est - (r.est_odd ? w.p_util_est | 1 : w.p_util_est), 0);
    return std::min<int64_t>(std::max(util, est), x.t.cap_orig[c.v]);
}

/// Capacity that the least used CPU of the group has left, without p.
int64_t most_spare_of(Ctx& x, const SlowRules& r, const Members& g) {
    auto cap = [&](size_t c) { return r.late_gs ? x.v.cap[c] : int32_t{x.t.cap_orig[c]}; };
    const Cpu own = x.w.task_cpu;
    if (!is_new(x.w) && g.group.test(own)) {  // its utilisation is not that of the column
        int64_t most = 0;
        g.each([&](Cpu c) { most = std::max(most, cap(c.v) - util_without(x, r, c)); });
        return most;
    }
    int32_t most = 0;
    g.runs([&](size_t first, size_t n) {
        int32_t here = 0;
        utils(x, r, first, n, [&](int32_t util, size_t c) { here = here > cap(c) - util ? here : cap(c) - util; });
        most = std::max(most, here);
    });
    return most;
}

enum Type : uint8_t { has_spare, fully_busy, misfit, overloaded };

/// Statistics of one group, without p.
struct Stats {
    const CpuMask* group = nullptr;
    Type type = overloaded;
    int weight = 0, idle = 0, nr = 0;
    int64_t cap = 0, util = 0, load = 0, runnable = 0;
    int64_t max_cap = 0;  ///< where capacities differ
    uint64_t avg_load = std::numeric_limits<uint32_t>::max();
};

Stats statistics(Ctx& x, const SlowRules& r, const Members& g, int pct, bool asym) {
    const Wakeup& w = x.w;
    const SlowInputs& in = *x.v.slow;
    const Members seen{x, g.group, g.words, r.allowed_only};
    Stats s;
    s.group = &g.group;
    s.weight = count_all(g.words, [&](unsigned i) { return g.group.w[i]; });
    s.cap = static_cast<int64_t>(capacity(g));
    seen.touch(x);
    seen.runs([&](size_t first, size_t n) {
        s.load += static_cast<int64_t>(sum(x.v.load, first, n));
        s.runnable += static_cast<int64_t>(sum(in.runnable, first, n));
        s.nr += static_cast<int>(sum(x.v.nr, first, n));
        int64_t util = 0;
        utils(x, r, first, n, [&](int32_t u, size_t) { util += u; });
        s.util += util;
    });
    for_each_cpu(
        g.words, [&](int i) { return seen.word(i) & x.v.idle.w[i]; },
        [&](Cpu c) { return s.idle += x.v.nr[c.v] == 0, false; });
    bool fits = !asym;
    if (asym) {
        g.each([&](Cpu c) { s.max_cap = std::max<int64_t>(s.max_cap, x.v.cap[c.v]); });
        seen.each([&](Cpu c) { fits = fits || util_fits_cpu(x, c, r.fit, r.fit_margin) > 0; });
    }
    const Cpu own = w.task_cpu;
    if (!is_new(w) && g.group.test(own) && (!r.allowed_only || w.allowed->test(own))) {
        s.load += std::max<int64_t>(x.v.load[own.v] - w.p_load, 0) - x.v.load[own.v];
        s.runnable += std::max<int64_t>(in.runnable[own.v] - w.p_runnable, 0) - in.runnable[own.v];
        s.util += util_without(x, r, own) - util_of(x, r, own);
        if (w.kind == Kind::exec) {  // p runs there
            s.idle += x.v.nr[own.v] == 1 && !in.pending.test(own);
            s.idle -= x.v.nr[own.v] == 0 && x.v.idle.test(own);
            s.nr -= 1;
        }
    }
    const bool short_util = 100 * s.cap < s.util * pct, short_runnable = s.cap * pct < 100 * s.runnable;
    if (s.nr > s.weight && (short_util || short_runnable))
        s.type = overloaded;
    else if (!fits)
        s.type = misfit;
    else
        s.type = s.nr < s.weight || (!short_runnable && 100 * s.cap > s.util * pct) ? has_spare : fully_busy;
    s.avg_load = s.type == fully_busy || s.type == overloaded ? static_cast<uint64_t>(s.load * 1024 / s.cap) : 0;
    return s;
}

/// Whether remote group `s` is idler than `best`.
bool idler(const Stats& s, const Stats& best) {
    if (s.type != best.type) return s.type < best.type;
    switch (s.type) {
        case overloaded:
        case fully_busy: return s.avg_load < best.avg_load;
        case misfit: return s.max_cap > best.max_cap;
        case has_spare: break;
    }
    return s.idle > best.idle || (s.idle == best.idle && s.util < best.util);
}

/// Both groups have spare capacity and lie on different nodes: the one that NUMA rules settle on, or nullptr.
const Stats* numa_choice(Ctx& x, const SlowRules& r, const Domain& d, const Stats& local, const Stats& best, Cpu c) {
    const int preferred = x.w.numa_preferred;
    const Cpu there = *first_in_wrap(d.words(), 0, [&](unsigned i) { return best.group->w[i]; });
    if (preferred == x.t.node[c.v]) return &local;
    if (preferred == x.t.node[there.v]) return &best;
    switch (r.numa) {
        case NumaRule::local_idle: return local.idle > 0 ? &local : nullptr;
        case NumaRule::quarter_busy: return local.nr + 1 < local.weight / 4 ? &local : nullptr;
        case NumaRule::imb_numa_nr: break;
    }
    const int allowed = count_all(d.words(), [&](unsigned i) { return local.group->w[i] & x.w.allowed->w[i]; });
    const int most = std::min(allowed, d.imb_numa_nr.value_or(0)), apart = std::abs(local.idle - best.idle);
    return apart == 0 || (local.nr + 1 <= most && apart <= 2) ? &local : nullptr;
}

}  // namespace

const CpuMask* idlest_group_gl(Ctx& x, const Domain& d, int pct, Cpu c) {
    const uint64_t scale = static_cast<uint64_t>(100 + (pct - 100) / 2);
    uint64_t here = 0, least = kMost;
    const CpuMask* idlest = nullptr;
    each_group(x, d, c, [&](const Members& g, bool local) {
        uint64_t load = 0;
        g.touch(x);
        g.runs([&](size_t first, size_t n) { load += sum(x.v.load, first, n); });
        load = load * 1024 / capacity(g);
        if (local)
            here = load;
        else if (load < least)
            least = load, idlest = &g.group;
    });
    return idlest && 100 * here >= scale * least ? idlest : nullptr;
}

const CpuMask* idlest_group_gs(Ctx& x, const SlowRules& r, const Domain& d, int pct, Cpu c) {
    const Wakeup& w = x.w;
    const SlowInputs& in = *x.v.slow;
    const uint64_t scale = static_cast<uint64_t>(100 + (pct - 100) / 2),
                   margin = static_cast<uint64_t>(1024 * (pct - 100) / 100);
    uint64_t least_runnable = kMost, least_avg = kMost;
    uint64_t here_runnable = r.late_gs ? kMost : 0, here_avg = here_runnable;
    int64_t here_spare = 0, most_spare = 0;
    const CpuMask *idlest = nullptr, *sparest = nullptr;
    each_group(x, d, c, [&](const Members& g, bool local) {
        uint64_t runnable = 0, avg = 0;
        g.touch(x);
        g.runs([&](size_t first, size_t n) {
            runnable += sum(x.v.load, first, n);
            avg += sum(in.blocked_load, first, n);
        });
        const int64_t spare = most_spare_of(x, r, g);
        const uint64_t cap = capacity(g);
        runnable = runnable * 1024 / cap;
        avg = avg * 1024 / cap;
        if (local) {
            here_runnable = runnable, here_avg = avg, here_spare = spare;
            return;
        }
        if (least_runnable > runnable + margin)
            least_runnable = runnable, least_avg = avg, idlest = &g.group;
        else if (runnable < least_runnable + margin && 100 * least_avg > scale * avg)
            least_avg = avg, idlest = &g.group;
        if (spare > most_spare) most_spare = spare, sparest = &g.group;
    });
    if (w.kind != Kind::fork) {
        x.look(kUtil);
        const int64_t half = w.p_util / 2;
        if (here_spare > half && static_cast<int64_t>(scale) * here_spare > 100 * most_spare) return nullptr;
        if (most_spare > half) return sparest;
    }
    if (!idlest) return nullptr;
    if (r.late_gs && d.numa && least_runnable + margin >= here_runnable) return nullptr;
    if (least_runnable > here_runnable + margin) return nullptr;
    if (here_runnable < least_runnable + margin && 100 * here_avg < scale * least_avg) return nullptr;
    return idlest;
}

const CpuMask* idlest_group_gt(Ctx& x, const SlowRules& r, const Domain& d, int pct, bool asym, Cpu c) {
    x.look(kUtil | kNr);
    Stats local, best;
    each_group(x, d, c, [&](const Members& g, bool here) {
        const Stats s = statistics(x, r, g, pct, asym);
        if (here)
            local = s;
        else if (idler(s, best))
            best = s;
    });
    if (!best.group) return nullptr;
    if (!local.group) return best.group;
    if (local.type != best.type) return local.type < best.type ? nullptr : best.group;
    switch (local.type) {
        case overloaded:
        case fully_busy: {
            const uint64_t margin = static_cast<uint64_t>(1024 * (pct - 100) / 100);
            const bool stays = (d.numa && best.avg_load + margin >= local.avg_load) ||
                               best.avg_load >= local.avg_load + margin ||
                               100 * local.avg_load <= static_cast<uint64_t>(pct) * best.avg_load;
            return stays ? nullptr : best.group;
        }
        case misfit: return local.max_cap >= best.max_cap ? nullptr : best.group;
        case has_spare: break;
    }
    const int hint = r.fork_hints ? (x.w.hint | r.hint) & (kForkAffine | kForkSpread) : 0;
    if (d.numa && !hint)
        if (const Stats* s = numa_choice(x, r, d, local, best, c)) return s == &local ? nullptr : best.group;
    if ((hint & kForkAffine) && local.idle > local.weight / r.affine_divisor) return nullptr;
    if (local.idle != best.idle) return local.idle > best.idle ? nullptr : best.group;
    return (hint & kForkSpread) && local.util > best.util ? best.group : nullptr;
}

}  // namespace rewake
