// SPDX-License-Identifier: GPL-2.0-or-later
// Model of sd_llc_shared->nr_idle_scan (SIS_UTIL, policies.md A7): when periodic load balancing writes it, CPU by CPU as
// sched_balance_domains() goes through its domains (rebalance_domains() until 6.9; kernels 5.19 - 7.2).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/topology.hpp"

namespace rewake {

/// nr_idle_scan for the sum of cpu_util over an LLC of `llc_size` CPUs (kernel 6.1, update_idle_cpu_scan; `pct`: of its
/// domain).
int32_t nr_idle_scan_of(int64_t sum_util, int llc_size, int pct = 117);

class Balancer {
  public:
    static constexpr int kBusyFactor = 16;  ///< sched_domain::busy_factor, 5.10+
    /// Jiffies from one balance of a level to the next, of a `busy` CPU or an idle one, `ms`: sched_domain::balance_interval
    /// (get_sd_balance_interval(), 6.1). `online`: CPUs.
    static int64_t jiffies(int64_t ms, bool busy, Ns tick, int online) {
        const int64_t longest = std::max<int64_t>(1, 100'000'000 * int64_t{online} / tick);
        const int64_t ns = ms * 1'000'000 * (busy ? kBusyFactor : 1);
        return std::clamp<int64_t>((ns + tick - 1) / tick - busy, 1, longest);
    }
    /// Who balances for `group`: its first CPU of `idle`, one for which `half` is true after all others; or else the first
    /// (should_we_balance(); from 6.6 on `half` of a core is idle).
    template <class Half>
    static std::optional<Cpu> leader(const CpuMask& group, Words words, const CpuMask& idle, Half half) {
        std::optional<Cpu> first, best, thread;
        for_each_cpu(
            words, [&](int i) { return group.w[i]; },
            [&](Cpu c) {
                if (!first) first = c;
                if (!idle.test(c)) return false;
                const bool is_half = half(c);
                if (is_half && !thread) thread = c;
                if (!is_half) best = c;
                return !is_half;
            });
        return best ? best : thread ? thread : first;
    }
    /// `built`: the jiffy in which the kernel built the domains, that counts as their last balance; nothing: long ago. Their first
    /// interval is the shortest (sd_init(), 2.6.18 - 7.2).
    explicit Balancer(const Topology& topo, std::optional<int64_t> built = {});
    /// Length of a jiffy. Before any look().
    void set_tick(Ns tick);
    /// `c` looks which of its domains are due, as an idle CPU or a busy one. True: it balances its LLC, and so writes
    /// nr_idle_scan. `idle`: the CPUs that idle_cpu() takes for idle.
    bool look(Cpu c, bool is_idle, int64_t jiffy, const CpuMask& idle) {
        return jiffy >= next_[2u * c.v + is_idle] && turn(c, is_idle, jiffy, idle);
    }
    /// Some task was pulled: the next balance of that domain comes early.
    void pulled(Cpu from, Cpu to);
    /// `c` last balanced that level of its stack in that jiffy; nothing: never. `found`: it had something to pull there, or had in
    /// that interval. `sure`: some pull has told when it does; before one, only how often it does is known.
    struct Turn {
        int64_t last = 0;
        bool found = false, sure = false;
    };
    std::optional<Turn> last_turn(Cpu c, size_t level) const {
        if (level >= levels_[c.v].size()) return {};  // of a topology that has become larger
        const Level& l = levels_[c.v][level];
        return l.last == kNever ? std::nullopt : std::optional(Turn{l.last, l.early, l.sure});
    }
    const std::vector<Cpu>& cpus(Llc llc) const { return cpus_[llc.v]; }
    int pct(Llc llc) const { return pct_[llc.v]; }

  private:
    struct Level {
        CpuMask span, group;  ///< of the domain; its CPUs of which one balances for the group of this one
        int least_ms = 0;  ///< Domain::least_ms
        bool balances = false, writes = false;  ///< it is balanced at all; nr_idle_scan is of it
        int64_t last = kNever;  ///< jiffy of the last balance
        bool early = false, sure = false;
        int32_t every[2][2] = {};  ///< jiffies from balance to balance: busy or idle, late or early
    };
    static constexpr int64_t kNever = std::numeric_limits<int64_t>::min() / 2;
    bool turn(Cpu c, bool is_idle, int64_t jiffy, const CpuMask& idle);
    int words_, online_;
    std::vector<std::vector<Level>> levels_;  ///< per CPU, as its stack
    std::vector<int64_t> next_;  ///< per CPU, busy and idle: jiffy before which none of them is due
    std::vector<std::vector<Cpu>> cpus_;  ///< per LLC
    std::vector<int> pct_;  ///< imbalance_pct, per LLC
};

}  // namespace rewake
