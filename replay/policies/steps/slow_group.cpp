// SPDX-License-Identifier: GPL-2.0-or-later
// Which group of a domain is the idlest: GL, GS and GT of policies.md A8. Loads are unsigned and wrap as the kernel's
// do.
#include <algorithm>
#include <limits>

#include "replay/policies/group_sums.hpp"
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
        if (any_allowed(x, d, g)) f(Members{x, g, words_of(g)}, g.test(c));
    }
}

int64_t capacity(const Members& g) {
    uint64_t cap = 0;
    g.runs([&](size_t first, size_t n) { cap += sum(g.x.v.cap, first, n); });
    return static_cast<int64_t>(cap);
}

/// Which sums of a group: whoever asks for the same of it gets the same.
enum Sums : uint8_t { kLoads = 1, kBlockedToo = 2, kOfTypes = 4, kAllowedOnly = 8, kUtilEst = 16 };

template <class Make>
GroupSums shared(const Ctx& x, const CpuMask& group, int which, Make make) {
    return x.w.sums ? x.w.sums->get(group, static_cast<uint8_t>(which), make) : make();
}

/// GL and GS: loads of all CPUs of a group and their capacity.
GroupSums loads(const Ctx& x, const Members& g, bool blocked_too) {
    return shared(x, g.group, kLoads | blocked_too * kBlockedToo, [&] {
        uint64_t load = 0, blocked = 0;
        g.runs([&](size_t first, size_t n) {
            load += sum(x.v.load, first, n);
            if (blocked_too) blocked += sum(x.v.slow->blocked_load, first, n);
        });
        return GroupSums{
            .cap = capacity(g), .load = static_cast<int64_t>(load), .blocked_load = static_cast<int64_t>(blocked)};
    });
}

/// p is no longer or not yet part of any CPU's sums: a new task.
bool is_new(const Wakeup& w) { return w.kind == Kind::fork; }

/// cpu_util: the CPU's utilisation, at most its capacity. By value, without which a loop over it is not vectorised.
int32_t util_of(const Ctx& x, const SlowRules& r, size_t c) {
    const int32_t util = x.v.slow->util[c], est = r.util_est ? x.v.slow->util_est[c] : 0, cap = x.t.cap_orig[c];
    const int32_t most = util > est ? util : est;
    return most < cap ? most : cap;
}

/// cpu_util_without: the same without p.
int64_t util_without(Ctx& x, const SlowRules& r, Cpu c) {
    const Wakeup& w = x.w;
    const SlowInputs& in = *x.v.slow;
    if (c != w.task_cpu || is_new(w)) return util_of(x, r, c.v);
    const int64_t util = std::max<int64_t>(in.util[c.v] - w.p_util, 0);
    int64_t est = r.util_est ? in.util_est[c.v] : 0;
    if (r.est_removed && w.kind == Kind::exec)
        est = std::max<int64_t>(est - (r.est_odd ? w.p_util_est | 1 : w.p_util_est), 0);
    return std::min<int64_t>(std::max(util, est), x.t.cap_orig[c.v]);
}

enum Type : uint8_t { has_spare, fully_busy, misfit, overloaded };

/// Statistics of one group, without p.
struct Stats : GroupSums {
    const CpuMask* group = nullptr;
    Type type = overloaded;
    int64_t max_cap = 0;  ///< where capacities differ
    uint64_t avg_load = std::numeric_limits<uint32_t>::max();
};

/// GT: the sums over the CPUs that count, and the capacity of all.
GroupSums sums_of_types(const Ctx& x, const SlowRules& r, const Members& all, const Members& seen) {
    return shared(x, all.group, kOfTypes | r.allowed_only * kAllowedOnly | r.util_est * kUtilEst, [&] {
        GroupSums s;
        s.weight = count_all(all.words, [&](unsigned i) { return all.group.w[i]; });
        s.cap = capacity(all);
        seen.runs([&](size_t first, size_t n) {
            s.load += static_cast<int64_t>(sum(x.v.load, first, n));
            s.runnable += static_cast<int64_t>(sum(x.v.slow->runnable, first, n));
            s.nr += static_cast<int32_t>(sum(x.v.nr, first, n));
            for (size_t c = first; c < first + n; ++c) s.util += util_of(x, r, c);
        });
        for_each_cpu(
            all.words, [&](int i) { return seen.word(i) & x.v.idle.w[i]; },
            [&](Cpu c) { return s.idle += x.v.nr[c.v] == 0, false; });
        return s;
    });
}

Stats statistics(Ctx& x, const SlowRules& r, const Members& g, int pct, bool asym) {
    const Wakeup& w = x.w;
    const SlowInputs& in = *x.v.slow;
    const Members seen{x, g.group, g.words, r.allowed_only};
    seen.touch(x);
    Stats s{sums_of_types(x, r, g, seen)};
    s.group = &g.group;
    bool fits = !asym;
    if (asym) {
        g.each([&](Cpu c) { s.max_cap = std::max<int64_t>(s.max_cap, x.v.cap[c.v]); });
        seen.each([&](Cpu c) { fits = fits || util_fits_cpu(x, c, r.fit, r.fit_margin) > 0; });
    }
    const Cpu own = w.task_cpu;
    if (!is_new(w) && g.group.test(own) && (!r.allowed_only || w.allowed->test(own))) {
        s.load += std::max<int64_t>(x.v.load[own.v] - w.p_load, 0) - x.v.load[own.v];
        s.runnable += std::max<int64_t>(in.runnable[own.v] - w.p_runnable, 0) - in.runnable[own.v];
        s.util += util_without(x, r, own) - util_of(x, r, own.v);
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
        g.touch(x);
        const GroupSums s = loads(x, g, false);
        const uint64_t load = static_cast<uint64_t>(s.load) * 1024 / static_cast<uint64_t>(s.cap);
        if (local)
            here = load;
        else if (load < least)
            least = load, idlest = &g.group;
    });
    return idlest && 100 * here >= scale * least ? idlest : nullptr;
}

const CpuMask* idlest_group_gs(Ctx& x, const SlowRules& r, const Domain& d, int pct, Cpu c) {
    const Wakeup& w = x.w;
    const uint64_t scale = static_cast<uint64_t>(100 + (pct - 100) / 2),
                   margin = static_cast<uint64_t>(1024 * (pct - 100) / 100);
    uint64_t least_runnable = kMost, least_avg = kMost;
    uint64_t here_runnable = r.late_gs ? kMost : 0, here_avg = here_runnable;
    int64_t here_spare = 0, most_spare = 0;
    const CpuMask *idlest = nullptr, *sparest = nullptr;
    each_group(x, d, c, [&](const Members& g, bool local) {
        g.touch(x);
        const GroupSums s = loads(x, g, true);
        const auto scaled = [&](int64_t load) {
            return static_cast<uint64_t>(load) * 1024 / static_cast<uint64_t>(s.cap);
        };
        const uint64_t runnable = scaled(s.load), avg = scaled(s.blocked_load);
        int64_t spare = 0;  // not asked for where p is new
        if (!is_new(w))
            g.each([&](Cpu i) {
                spare = std::max(spare, (r.late_gs ? x.v.cap[i.v] : x.t.cap_orig[i.v]) - util_without(x, r, i));
            });
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
    if (!is_new(w)) {
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
