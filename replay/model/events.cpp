// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/events.hpp"

#include <algorithm>
#include <array>

namespace rewake {
namespace {

constexpr uint32_t kNobody = std::numeric_limits<uint32_t>::max();

/// What the place of an event in the order hangs on.
struct Place {
    int64_t at = 0;  ///< when it counts
    uint16_t cpu = 0;
    std::array<uint32_t, 2> tasks{kNobody, kNobody};  ///< that it tells of

    bool concerns(uint32_t task) const { return task != kNobody && (task == tasks[0] || task == tasks[1]); }
    /// Whether the order of the two is certain.
    bool tied_to(const Place& other) const {
        return cpu == other.cpu || concerns(other.tasks[0]) || concerns(other.tasks[1]);
    }
};

Place place_of(const Batch& b, Event e, size_t i) {
    const auto of = [i](const HeadColumns& h, uint32_t p = kNobody, uint32_t q = kNobody) {
        return Place{h.ts[i], h.cpu[i], {p, q}};
    };
    switch (e) {
        case Event::sw: return of(b.sw, b.sw.prev_task[i], b.sw.next_task[i]);
        case Event::waking: return of(b.waking, b.waking.task[i]);
        case Event::wakeup: return of(b.wakeup, b.wakeup.task[i]);
        case Event::migrate: return of(b.migrate, b.migrate.task[i]);
        case Event::fork: return of(b.fork, b.fork.task[i], b.fork.child[i]);
        case Event::exec: return of(b.exec, b.exec.task[i]);
        case Event::exit: return of(b.exit, b.exit.task[i]);
        case Event::idle: return of(b.idle);
        case Event::irq: return of(b.irq);
        case Event::loss: return of(b.loss);
        case Event::balance: return of(b.balance);
        case Event::tick: return of(b.tick);
        case Event::wake_list: return of(b.wake_list);
        case Event::probe: return of(b.probe);
        case Event::none: break;
    }
    return {};
}

}  // namespace

void EventOrder::bring_forward(const Batch& b, const std::vector<Lead>& lead) {
    std::erase(slots_, 0u);
    const auto event = [](uint32_t slot) { return static_cast<Event>(slot >> kRowBits); };
    const auto row = [](uint32_t slot) { return static_cast<size_t>(slot & kRowMask); };
    const auto lead_at = [&](uint32_t slot) { return lead_of(b, event(slot), row(slot), lead); };
    for (size_t k = 0; k < slots_.size(); ++k) {
        const uint32_t slot = slots_[k];
        const int64_t early = lead_at(slot);
        if (early <= 0) continue;
        const Place here = place_of(b, event(slot), row(slot));
        size_t to = k;
        for (; to > 0; --to) {
            const uint32_t before = slots_[to - 1];
            const Place there = place_of(b, event(before), row(before));
            if (there.at - lead_at(before) <= here.at - early || here.tied_to(there)) break;
            slots_[to] = before;
        }
        slots_[to] = slot;
    }
}

}  // namespace rewake
