// SPDX-License-Identifier: GPL-2.0-or-later
// Load balancing, as far as the state depends on it: which averages it brings up to date, and nr_idle_scan.
#include <algorithm>
#include <utility>

#include "replay/model/machine.hpp"

namespace rewake {

void Machine::update_blocked(Cpu c) {
    accrue(c);
    if (!groups_.any()) return;
    groups_.update_all(at(c));
    publish(c);
}

void Machine::on_balance(Cpu c, Ns ts) {
    now_ = ts;
    const Ns now = jiffy();
    const bool idle = view_.idle.test(c);
    if (idle && !ticks(c, now)) return balance_idle(c);
    update_blocked(c);
    cpus_[c.v].blocked = static_cast<uint32_t>(now);
    balance(c, idle, now);
}

void Machine::on_idle_tick(Cpu c, Ns ts) {
    now_ = ts;
    cpus_[c.v].ticked = static_cast<uint32_t>(jiffy());
}

/// An idle CPU was told to balance for all whose tick has stopped (nohz_balancer_kick, _nohz_idle_balance), itself last.
void Machine::balance_idle(Cpu by) {
    const Ns now = jiffy();
    const auto n = static_cast<uint16_t>(cpus_.size());
    for (uint16_t k = 1, i = by.v; k <= n; ++k) {
        if (++i == n) i = 0;
        if (view_.idle.test(Cpu(i)) && !ticks(Cpu(i), now)) balance_one_idle(Cpu(i), now);
    }
}

void Machine::balance_one_idle(Cpu c, Ns jiffy) {
    const auto now = static_cast<uint32_t>(jiffy);
    if (std::exchange(cpus_[c.v].blocked, now) != now) update_blocked(c);  // once a jiffy (update_nohz_stats)
    balance(c, true, jiffy);
}

/// Where the recording does not say when the balancer runs: at each tick. CPUs that compete for tasks have an idle one
/// do so for all that are (nohz_balancer_kick). The tick of a CPU that has been idle for less than one goes on: it expects to be
/// woken before the next (tick_nohz_stop_tick() follows the cpuidle governor), and balances for itself.
void Machine::balance_by_ticks() {
    const Ns now = jiffy();
    if (now <= std::exchange(ticked_, now)) return;
    bool kicks = false;
    const Ns tick = last_tick();
    for (uint16_t c = 0; c < cpus_.size(); ++c) {
        if (view_.idle.test(Cpu(c)) && cpus_[c].idle_stamp > 1 && tick - cpus_[c].idle_stamp < tick_)
            balance_one_idle(Cpu(c), now);
        if (view_.nr[c] == 0) continue;
        catch_up(Cpu(c), tick);
        balance(Cpu(c), false, now);
        const CpuMask& llc = topo_.llc_span[topo_.llc[c].v];
        kicks = kicks || view_.nr[c] > 1 || (llc & view_.idle).count() + 1 < llc.count();
    }
    const auto first = first_in_wrap(topo_.words, 0, [&](unsigned i) { return view_.idle.w[i]; });
    if (kicks && first) balance_idle(*first);
}

/// `c` looks at its domains, as an idle CPU if all its tasks are of SCHED_IDLE, too (sched_balance_domains()).
void Machine::balance(Cpu c, bool is_idle, Ns jiffy) {
    const Llc llc = topo_.llc[c.v];
    LlcScan& scan = scans_[llc.v];
    scan.chances += std::exchange(scan.chance, jiffy) != jiffy;
    if (!balancer_.look(c, is_idle || view_.sidle.test(c), jiffy, view_.idle)) return;
    ++scan.writes;
    if (!scan.recorded) write_idle_scan(llc);
}

void Machine::rebuilt(Ns at) {
    view_.nr_idle_scan.assign(view_.nr_idle_scan.size(), 0);
    balancer_ = Balancer(topo_, jiffy_at(at));
    balancer_.set_tick(tick_);
}

std::optional<Machine::Balanced> Machine::balanced(Cpu c, size_t level) const {
    const auto turn = balancer_.last_turn(c, level);
    if (!turn) return {};
    return Balanced{last_tick() - (jiffy() - turn->last) * tick_, turn->found, turn->sure};
}

void Machine::write_idle_scan(Llc llc) {
    int64_t sum = 0;
    const Ns tick = last_tick();
    const std::vector<Cpu>& cpus = balancer_.cpus(llc);
    for (Cpu i : cpus) {
        if (!topo_.llc_span[llc.v].test(i)) continue;  // offline
        catch_up(i, tick);
        const CpuState& s = cpus_[i.v];
        sum += std::min(std::max(s.pelt.util_avg, s.util_est), view_.cap[i.v]);
    }
    view_.nr_idle_scan[llc.v] = nr_idle_scan_of(sum, std::max(1, topo_.llc_weight[llc.v]), balancer_.pct(llc));
}

}  // namespace rewake
