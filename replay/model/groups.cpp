// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/groups.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

namespace rewake {

namespace {
constexpr int64_t kLeastShares = 2;
constexpr double kNothing = 1e-4;  // of an average: it does not come back
}  // namespace

GroupQueues::GroupQueues(const std::vector<TaskGroup>& groups, int n_cpus, GroupRules rules)
    : groups_(groups), rules_(rules), n_cpus_(static_cast<size_t>(n_cpus)) {
    if (!any()) return;
    cells_.resize(groups_.size() * n_cpus_);
    total_.resize(groups_.size());
    running_.resize(n_cpus_);
    words_ = (groups_.size() + 63) / 64;
    leaves_.resize(n_cpus_ * words_);
}

GroupQueues::Above GroupQueues::above(uint16_t g, const At& at) {
    const uint16_t up = groups_[g].parent;
    if (up == 0) return {at.root.pelt, at.root.weight, at.root.entities};
    Cell& x = cell(up, at.cpu);
    return {x.pelt, x.weight, x.entities};
}

/// Nothing of the group is left there, and its queue is off the list of those that are kept up to date
/// (cfs_rq_is_decayed, list_del_leaf_cfs_rq). Limited ones stay on it.
bool GroupQueues::rests(uint16_t g, const Cell& x) const {
    const QueuePelt& p = x.pelt;
    if (x.tasks != 0 || x.queued || x.runs || x.news || x.stops != 0 || limited(g)) return false;
    const int64_t leaving = p.gone_load + p.gone_util + p.gone_runnable + x.told;
    const int64_t seen = p.load_avg + p.util_avg + p.runnable_avg + x.load_avg + x.util_avg + x.runnable_avg;
    const double kept = p.load + p.util + p.runnable + 1024 * x.runnable + x.util + x.tasks_waiting;
    return leaving == 0 && seen == 0 && kept < kNothing;
}

void GroupQueues::accrue(uint16_t g, const At& at) {
    wake(g, at.cpu);
    Cell& x = cell(g, at.cpu);
    QueuePelt& p = x.pelt;
    if (p.gone_load != 0) {
        x.news = true;
        x.arrived -= p.gone_runnable / 1024.0;
        x.decayed = true;
    }
    const Ns edge = p.edge;
    p.accrue(clock(g, at.cpu, at.clock), static_cast<double>(x.weight), x.tasks, x.runs);
    x.decayed |= p.edge != edge;
    const uint16_t up = groups_[g].parent;
    const Ns now = up == 0 ? at.clock : clock(up, at.cpu, at.clock);
    if (now <= x.at) return;
    const double keep = pelt_decay(now - x.at);
    x.runnable = x.runnable * keep + (x.queued ? 1 - keep : 0);
    x.util = x.util * keep + (x.runs ? 1024 * (1 - keep) : 0);
    x.tasks_waiting = x.tasks_waiting * keep + (x.queued ? 1024 * x.tasks * (1 - keep) : 0);
    x.at = now;
    if (now < x.edge) return;
    x.edge = now + kPeltPeriod - (now - x.edge) % kPeltPeriod;
    x.load_avg = static_cast<int64_t>(static_cast<double>(x.share) * x.runnable);
    x.util_avg = static_cast<int32_t>(x.util);
    x.runnable_avg = static_cast<int32_t>(x.tasks_waiting);
}

/// From the top, since a queue has to be up to date before what is on it changes.
void GroupQueues::accrue_chain(uint16_t g, const At& at) {
    if (g == 0) return;
    accrue_chain(groups_[g].parent, at);
    accrue(g, at);
}

/// update_tg_load_avg, as update_load_avg calls it: with a new period, or where tasks came or went.
void GroupQueues::tell(uint16_t g, Cell& x, Ns now) {
    if (!std::exchange(x.decayed, false) & !std::exchange(x.changed, false)) return;
    const int64_t delta = x.pelt.load_avg - x.told;
    if (now - x.told_at < rules_.tell_every || std::abs(delta) <= x.told / 64) return;
    total_[g] += delta;
    x.told = x.pelt.load_avg;
    x.told_at = now;
}

/// update_cfs_group
void GroupQueues::weigh(Cell& x, uint16_t g, Above up) {
    if (x.weight != 0 || rules_.weigh_empty) reweigh(x, g, up);
}

/// calc_group_shares and reweight_entity.
void GroupQueues::reweigh(Cell& x, uint16_t g, Above up) {
    const int64_t load = std::max(x.weight, x.pelt.load_avg);
    const int64_t all = total_[g] - x.told + load;
    const int64_t shares = groups_[g].shares;
    const int64_t due = std::clamp(all > 0 ? shares * load / all : shares, kLeastShares, shares);
    if (due == x.share) return;
    if (x.queued) up.weight += due - x.share;
    up.pelt.load = std::max(0.0, up.pelt.load + static_cast<double>(due - x.share) * x.runnable);
    const auto load_avg = static_cast<int64_t>(static_cast<double>(due) * x.runnable);
    up.pelt.load_avg = std::max<int64_t>(0, up.pelt.load_avg + load_avg - x.load_avg);
    x.load_avg = load_avg;
    x.share = due;
}

/// What changed in `g` reaches the queue above (propagate_entity_load_avg). Both are up to date.
void GroupQueues::settle(uint16_t g, const At& at, bool reweigh) {
    Cell& x = cell(g, at.cpu);
    const Above up = above(g, at);
    const uint16_t parent = groups_[g].parent;
    if (x.news) {
        // The entity's own averages, which went on while the group was throttled, become those of the group's queue.
        const int32_t by_util = x.pelt.util_avg - std::exchange(x.util_avg, x.pelt.util_avg);
        const int32_t by_runnable = x.pelt.runnable_avg - std::exchange(x.runnable_avg, x.pelt.runnable_avg);
        if (by_util != 0) x.util = x.util_avg;
        if (by_runnable != 0) x.tasks_waiting = x.runnable_avg;
        double runnable = x.runnable;
        if (x.arrived > 0) {
            runnable = std::min(1.0, runnable + x.arrived);
        } else if (x.arrived < 0) {
            const double rest = x.weight > 0 ? x.pelt.load / static_cast<double>(x.weight) : 0;
            runnable = std::min(runnable, rest);
        }
        if (x.arrived != 0) runnable = std::max(runnable, x.util / 1024);  // of several tasks it may be above 1
        const auto share = static_cast<double>(x.share);
        const auto load_avg = static_cast<int64_t>(share * runnable);
        up.pelt.shift(share * (runnable - x.runnable), load_avg - x.load_avg, by_util, by_runnable);
        x.runnable = runnable;
        x.load_avg = load_avg;
        if (parent != 0) {
            Cell& p = cell(parent, at.cpu);
            wake(parent, at.cpu);
            p.news = p.decayed = true;
            p.arrived += x.arrived;
        }
        x.news = false;
        x.arrived = 0;
    }
    if (parent != 0) tell(parent, cell(parent, at.cpu), at.now);  // before what weighing changes
    if (reweigh) weigh(x, g, up);
}

void GroupQueues::update(uint16_t g, const At& at, bool reweigh) {
    if (g == 0) return;
    accrue_chain(g, at);
    tell(g, cell(g, at.cpu), at.now);
    for (; g != 0; g = groups_[g].parent) settle(g, at, reweigh);
}

void GroupQueues::tick(const At& at) { update(running_[at.cpu.v], at, true); }

void GroupQueues::update_all(const At& at) {
    uint64_t* const leaves = &leaves_[at.cpu.v * words_];
    for (size_t i = 0; i < words_; ++i)
        for (uint64_t w = leaves[i]; w != 0; w &= w - 1)
            accrue(static_cast<uint16_t>(i * 64 + static_cast<size_t>(std::countr_zero(w))), at);
    for (size_t i = words_; i-- > 0;)
        for (uint64_t left = ~uint64_t{0}; (leaves[i] & left) != 0;) {  // a group puts the one above it on the list
            const auto bit = 63 - static_cast<unsigned>(std::countl_zero(leaves[i] & left));
            left = (uint64_t{1} << bit) - 1;
            const auto g = static_cast<uint16_t>(i * 64 + bit);
            Cell& x = cell(g, at.cpu);
            if (x.decayed && x.stops == 0) emptied(g, at.cpu);
            tell(g, x, at.now);
            settle(g, at, false);
            if (rests(g, x)) leaves[i] &= ~(uint64_t{1} << bit);
        }
}

void GroupQueues::begin(const std::vector<At>& at) {
    for (size_t k = groups_.size(); --k > 0;) {
        const auto g = static_cast<uint16_t>(k);
        for (const At& there : at) {
            accrue_chain(g, there);
            Cell& x = cell(g, there.cpu);
            total_[g] += x.pelt.load_avg - std::exchange(x.told, x.pelt.load_avg);
        }
        for (const At& there : at) {
            settle(g, there, false);
            reweigh(cell(g, there.cpu), g, above(g, there));
        }
    }
}

void GroupQueues::enqueue(uint16_t g, const At& at, int64_t weight) {
    accrue_chain(g, at);
    Cell& own = cell(g, at.cpu);
    tell(g, own, at.now);
    own.weight += weight;
    own.entities += 1;
    for (; g != 0; g = groups_[g].parent) {
        Cell& x = cell(g, at.cpu);
        x.tasks += 1;
        settle(g, at, true);
        if (x.queued) continue;
        const Above up = above(g, at);
        x.queued = true;
        up.weight += x.share;
        up.entities += 1;
        up.pelt.waiting += static_cast<double>(x.load_avg);
    }
}

void GroupQueues::dequeue(uint16_t g, const At& at, int64_t weight, const Pelt* taken) {
    accrue_chain(g, at);
    Cell& own = cell(g, at.cpu);
    if (taken) detach(own, *taken, weight);  // before the group is weighed
    tell(g, own, at.now);
    own.weight -= weight;
    own.entities -= 1;
    for (; g != 0; g = groups_[g].parent) {
        Cell& x = cell(g, at.cpu);
        x.tasks -= 1;
        settle(g, at, true);
        if (x.entities > 0 || !x.queued) continue;
        const Above up = above(g, at);
        x.queued = false;
        up.weight -= x.share;
        up.entities -= 1;
        up.pelt.waiting = std::max(0.0, up.pelt.waiting - static_cast<double>(x.load_avg));
    }
}

void GroupQueues::detach(Cell& x, const Pelt& p, int64_t weight) {
    x.pelt.detach(p);
    x.news = x.changed = true;
    x.arrived -= p.load_avg / static_cast<double>(std::max<int64_t>(weight, 1));
}

void GroupQueues::attach(uint16_t g, const At& at, const Pelt& p, int64_t weight) {
    accrue_chain(g, at);
    Cell& x = cell(g, at.cpu);
    x.pelt.attach(p);
    x.news = x.changed = true;
    x.arrived += static_cast<double>(p.load_avg) / static_cast<double>(std::max<int64_t>(weight, 1));
}

void GroupQueues::rejoin(uint16_t g, const At& at, int64_t weight, Pelt& p) {
    dequeue(g, at, weight);
    Cell& x = cell(g, at.cpu);
    x.pelt.rejoin(p);
    detach(x, p, weight);
    update(g, at, false);
    attach(g, at, p, weight);
    update(g, at, false);
    enqueue(g, at, weight);
}

void GroupQueues::run(uint16_t g, const At& at) {
    const uint16_t last = running_[at.cpu.v];
    if (last == 0 && g == 0) return;
    accrue_chain(last, at);
    accrue_chain(g, at);
    // Where both are below one group, nothing changes above its queue (pick_next_task_fair).
    uint16_t both = g;
    while (!within(last, both)) both = groups_[both].parent;
    auto up_to_it = [&](uint16_t from, auto touch) {
        for (uint16_t x = from; x != 0; x = groups_[x].parent) {
            touch(x, cell(x, at.cpu));
            if (x == both) break;
        }
    };
    up_to_it(last, [](uint16_t, Cell& x) { x.runs = x.decayed = false; });  // put_prev_entity tells nothing
    up_to_it(g, [&](uint16_t k, Cell& x) {
        x.runs = true;
        tell(k, x, at.now);
    });
    running_[at.cpu.v] = g;
}

void GroupQueues::stop(uint16_t g, Cpu c, Ns root_clock) {
    for (size_t i = g; i < groups_.size(); ++i) {
        if (!within(static_cast<uint16_t>(i), g)) continue;
        Cell& x = cell(static_cast<uint16_t>(i), c);
        if (x.stops++ == 0) x.stopped_at = root_clock;
    }
}

void GroupQueues::start(uint16_t g, Cpu c, Ns root_clock, bool forget) {
    for (size_t i = g; i < groups_.size(); ++i) {
        if (!within(static_cast<uint16_t>(i), g)) continue;
        Cell& x = cell(static_cast<uint16_t>(i), c);
        if (--x.stops == 0 && !forget) x.stopped_for += root_clock - x.stopped_at;
    }
}

int64_t GroupQueues::h_load(uint16_t g, Cpu c, Ns jiffy, int64_t root, int64_t root_load_avg) const {
    if (g == 0) return root;
    const Cell& x = cell(g, c);
    if (x.h_load_jiffy == jiffy) return x.h_load;
    const uint16_t up = groups_[g].parent;
    const int64_t queue = up == 0 ? root_load_avg : cell(up, c).pelt.load_avg;
    return h_load(up, c, jiffy, root, root_load_avg) * x.load_avg / (queue + 1);
}

void GroupQueues::asked(uint16_t g, Cpu c, Ns jiffy, int64_t root, int64_t root_load_avg) {
    if (g == 0) return;
    asked(groups_[g].parent, c, jiffy, root, root_load_avg);
    Cell& x = cell(g, c);
    x.h_load = h_load(g, c, jiffy, root, root_load_avg);
    x.h_load_jiffy = jiffy;
}

}  // namespace rewake
