// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/imbalance.hpp"

namespace rewake::closed {

Imbalance::Sum Imbalance::sum(const CpuMask& group) const {
    Sum s;
    for_each_cpu(
        level_.words(), [&](int i) { return group.w[i]; },
        [&](Cpu c) {
            const bool goes = c == to_ && has_ == Has::none_now;  // idle_cpu() is not true of it yet
            ++s.cpus;
            if (goes || left_out(c)) return false;
            s.idle += view_.idle.test(c);
            s.tasks += view_.nr[c.v];
            s.movable += on(c);
            return false;
        });
    return s;
}

/// group_classify(): who has fewer tasks than CPUs has room. So has who has not, while its CPUs have hardly been used; and who has
/// more is overloaded only if they have been. From 6.6 on an idle CPU that is not of that core relieves one with two tasks.
Imbalance::Kind Imbalance::kind(const CpuMask& group, const Sum& s) const {
    const bool shares =
        rules_.counts_cores && has_ != Has::tasks && s.movable > 1 && !group.test(to_) && is_core(group);
    if (s.tasks < s.cpus) return shares ? Kind::shares_core : Kind::has_room;
    int64_t capacity = 0, util = 0, runnable = 0;
    for_each_cpu(
        level_.words(), [&](int i) { return group.w[i]; },
        [&](Cpu c) {
            capacity += view_.cap[c.v];
            if (left_out(c)) return false;
            const Machine::Used used = used_(c);
            util += used.util, runnable += used.runnable;
            return false;
        });
    const int64_t pct = level_.imbalance_pct;
    const bool crowded = capacity * pct < runnable * 100;
    if (s.tasks > s.cpus && (crowded || capacity * 100 < util * pct)) return Kind::overloaded;
    if (shares) return Kind::shares_core;
    return !crowded && capacity * 100 > util * pct ? Kind::has_room : Kind::full;
}

Imbalance::Load Imbalance::load(const CpuMask& group) const {
    Load s;
    for_each_cpu(
        level_.words(), [&](int i) { return group.w[i]; },
        [&](Cpu c) {
            s.load += left_out(c) ? 0 : view_.load[c.v];
            s.capacity += view_.cap[c.v];
            return false;
        });
    return s;
}

/// `to` has less capacity than the least of `group`.
bool Imbalance::slower(const CpuMask& group) const {
    const auto& cap = view_.cap;
    return !for_each_cpu(
        level_.words(), [&](int i) { return group.w[i]; }, [&](Cpu c) { return !greater(cap[c.v], cap[to_.v]); });
}

std::optional<Surplus> Imbalance::find() const {
    const CpuMask* own = level_.group(to_);
    if (!own) return {};
    Sum most;
    std::optional<int64_t> load_of_most;
    const CpuMask* from = nullptr;
    const auto first = static_cast<size_t>(own - level_.groups.data()), n = level_.groups.size();
    for (size_t i = first + 1; i < first + n; ++i) {  // a ring that begins with its own: of equal ones the first stays
        const CpuMask& g = level_.groups[i < n ? i : i - n];
        if (level_.overlaps && g.test(to_)) continue;  // as local as its own
        Sum s = sum(g);
        if (s.movable == 0) continue;
        s.kind = kind(g, s);
        if (from && s.kind < most.kind) continue;
        if (level_.asym && s.kind <= Kind::full && slower(g)) continue;
        std::optional<int64_t> loaded;
        if (from && s.kind == most.kind) {
            if (s.kind == Kind::overloaded) {
                if (!load_of_most) load_of_most = load(*from).mean();
                if (loaded = load(g).mean(); loaded <= load_of_most) continue;
            } else if (!busier(s, *from, most)) {
                continue;
            }
        }
        most = s, from = &g, load_of_most = loaded;
    }
    if (!from) return {};
    Sum here = sum(*own);
    here.kind = kind(*own, here);
    if (here.kind > most.kind) return {};
    if (most.kind == Kind::shares_core) return part(here, *own, most, *from);
    if (here.kind != Kind::has_room) {
        if (most.kind == Kind::overloaded) return share(here, *own, *from);
        return {};
    }
    return fill(here, *own, most, *from);
}

/// Of one kind, which is not overloaded (update_sd_pick_busiest()).
bool Imbalance::busier(const Sum& s, const CpuMask& than, const Sum& most) const {
    const bool even = s.kind == Kind::full || (s.kind == Kind::shares_core && s.idle == 0 && most.idle == 0);
    if (even) return rules_.boosts && !is_core(than);
    return s.idle < most.idle || (s.idle == most.idle && s.tasks > most.tasks);
}

/// Two tasks share a core: one of them comes (group_smt_balance).
std::optional<Surplus> Imbalance::part(const Sum& here, const CpuMask& own, const Sum& most,
                                       const CpuMask& from) const {
    const bool spreads = here.kind == Kind::has_room && level_.evens_out && more(here, own, most, from) > 1;
    if (!spreads && is_core(own) && here.idle <= most.idle + 1) return {};
    return Surplus{&from, Surplus::Of::tasks, 1};
}

/// Both have at least as many tasks as CPUs, the other one more.
std::optional<Surplus> Imbalance::share(const Sum& here, const CpuMask& own, const CpuMask& from) const {
    const Load our = load(own), their = load(from);
    Load all;
    for (const CpuMask& g : level_.groups) {
        const Load x = load(g);
        all.load += x.load, all.capacity += x.capacity;
    }
    if (our.mean() >= their.mean() || our.mean() >= all.mean()) return {};
    if (here.kind == Kind::overloaded && 100 * their.mean() <= level_.imbalance_pct * our.mean()) return {};
    int64_t amount = (all.mean() - our.mean()) * our.capacity;
    // Below the mean, too, if a group with tasks of more weight has no more of them than CPUs: differences have no sign.
    if (their.mean() >= all.mean()) amount = std::min(amount, (their.mean() - all.mean()) * their.capacity);
    return amount >= 1024 ? std::optional(Surplus{&from, Surplus::Of::load, amount / 1024}) : std::nullopt;
}

/// `group` is hardware siblings (SD_SHARE_CPUCAPACITY).
bool Imbalance::is_core(const CpuMask& group) const {
    std::span<const uint16_t> siblings;
    int cpus = 0;
    const bool others = for_each_cpu(
        level_.words(), [&](int i) { return group.w[i]; },
        [&](Cpu c) {
            if (++cpus == 1) siblings = view_.topo->siblings(c);
            return std::ranges::find(siblings, c.v) == siblings.end();
        });
    return !others && cpus > 1;
}

/// Cores with a CPU in `group`.
int Imbalance::cores(const CpuMask& group) const {
    int n = 0;
    for_each_cpu(
        level_.words(), [&](int i) { return group.w[i]; },
        [&](Cpu c) {
            n += std::ranges::none_of(view_.topo->siblings(c),
                                      [&](uint16_t s) { return s < c.v && group.test(Cpu(s)); });
            return false;
        });
    return n;
}

/// How many tasks `from` has more; from 6.6 on for as many cores, and none for who has tasks itself (sibling_imbalance()).
int Imbalance::more(const Sum& here, const CpuMask& own, const Sum& most, const CpuMask& from) const {
    const int more = std::max(0, most.tasks - here.tasks);
    if (!rules_.counts_cores) return more;
    if (has_ == Has::tasks) return 0;
    const int ours = cores(own), theirs = cores(from);
    if (ours == theirs) return more;
    const int both = ours + theirs, even = std::max(0, ours * most.tasks - theirs * here.tasks);
    const int rounded = (2 * even + both) / both;
    return rounded <= 1 && here.tasks == 0 && most.tasks > 1 ? 2 : rounded;
}

/// The own group has room for more tasks.
std::optional<Surplus> Imbalance::fill(const Sum& here, const CpuMask& own, const Sum& most,
                                       const CpuMask& from) const {
    const bool overloaded = most.kind == Kind::overloaded;
    const bool spreads = level_.evens_out && more(here, own, most, from) > 1;
    if (!spreads && !overloaded) {
        if (has_ == Has::tasks || most.movable == 1) return {};
        if (most.cpus > 1 && here.idle <= most.idle + 1) return {};
    }
    using Of = Surplus::Of;
    if (overloaded && !level_.share_llc) {
        int64_t room = load(own).capacity;
        for_each_cpu(
            level_.words(), [&](int i) { return own.w[i]; },
            [&](Cpu c) {
                room -= used_(c).util;
                return false;
            });
        if (room > 0) return Surplus{&from, Of::util, room};
        return has_ == Has::tasks ? std::nullopt : std::optional(Surplus{&from, Of::tasks, 1});
    }
    const bool by_tasks = most.cpus == 1 || level_.evens_out;
    int amount = by_tasks ? more(here, own, most, from) : here.idle - most.idle;
    // A few tasks more on a node that has hardly any are left there (adjust_numa_imbalance()).
    if (level_.numa && here.tasks + 1 <= level_.imb_numa_nr.value_or(0) && amount <= 2) amount = 0;
    return amount > 1 ? std::optional(Surplus{&from, Of::tasks, amount / 2}) : std::nullopt;
}

}  // namespace rewake::closed
