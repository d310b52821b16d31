// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/interrupts.hpp"

#include <algorithm>
#include <stdexcept>

namespace rewake::closed {

Interrupts::Interrupts(size_t cpus, const std::vector<Interrupt>& all) : cpus_(all.empty() ? 0 : cpus) {
    for (const Interrupt& x : all) {
        if (x.cpu.v >= cpus_.size() || x.from > x.to) throw std::invalid_argument("an interrupt that cannot be");
        std::vector<Handler>& of = cpus_[x.cpu.v];
        Ns before = 0;
        if (!of.empty()) {
            if (x.from < of.back().to) throw std::invalid_argument("interrupts of one CPU overlap");
            before = of.back().before + of.back().to - of.back().from;
        }
        of.push_back({x.from, x.to, before});
    }
}

Ns Interrupts::within(Cpu c, Ns from, Ns to) const {
    if (c.v >= cpus_.size() || cpus_[c.v].empty() || from >= to) return 0;
    const std::vector<Handler>& of = cpus_[c.v];
    const auto until = [&of](Ns ts) -> Ns {  // of all time before `ts`
        const auto next = std::ranges::upper_bound(of, ts, {}, &Handler::from);
        if (next == of.begin()) return 0;
        const Handler& last = *std::prev(next);
        return last.before + std::min(ts, last.to) - last.from;
    };
    return until(to) - until(from);
}

std::vector<Interrupt> Interrupts::between(Ns from, Ns to) const {
    std::vector<Interrupt> found;
    for (size_t c = 0; c < cpus_.size(); ++c)
        for (auto h = std::ranges::upper_bound(cpus_[c], from, {}, &Handler::to); h != cpus_[c].end() && h->from < to;
             ++h)
            found.push_back({h->from, h->to, Cpu(static_cast<uint16_t>(c))});
    return found;
}

}  // namespace rewake::closed
