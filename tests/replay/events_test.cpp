// SPDX-License-Identifier: GPL-2.0-or-later
// The order of events whose change others see before their time stamps.
#include "replay/model/events.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rewake {
namespace {

/// sched_switch, sched_waking and sched_wakeup by CPU, time and task; their ids are their places in time.
class Events {
  public:
    Events& sw(uint16_t cpu, int64_t ts, uint32_t prev, uint32_t next) {
        at(sw_, cpu, ts), prev_.push_back(prev), next_.push_back(next);
        return *this;
    }
    Events& waking(uint16_t cpu, int64_t ts, uint32_t task) {
        at(waking_, cpu, ts), woken_.push_back(task);
        return *this;
    }
    Events& wakeup(uint16_t cpu, int64_t ts, uint32_t task, bool is_new = false) {
        at(wakeup_, cpu, ts), queued_.push_back(task), target_.push_back(cpu), new_.push_back(is_new);
        return *this;
    }
    /// Times of the events in the order of the walk, in ns; `w` and `q` stand before those of sched_waking and sched_wakeup.
    std::string order(const std::vector<Lead>& lead) {
        Batch b;
        head(b.sw, sw_), head(b.waking, waking_), head(b.wakeup, wakeup_);
        b.sw.prev_task = prev_.data(), b.sw.next_task = next_.data();
        const std::vector<uint32_t> curr(woken_.size() + queued_.size());
        const std::vector<uint16_t> prev_cpu(woken_.size());
        b.waking.task = woken_.data(), b.waking.curr_task = curr.data(), b.waking.target_cpu = prev_cpu.data();
        b.wakeup.task = queued_.data(), b.wakeup.curr_task = curr.data(), b.wakeup.target_cpu = target_.data();
        const auto fresh = std::make_unique<bool[]>(new_.size());
        std::copy(new_.begin(), new_.end(), fresh.get());
        b.wakeup.is_new = fresh.get();
        EventOrder order(4, 100);
        order.build(b);
        if (!lead.empty()) order.bring_forward(b, lead);
        std::string out;
        order.walk([&](Event e, size_t i) {
            const HeadColumns& h = e == Event::sw       ? static_cast<HeadColumns&>(b.sw)
                                   : e == Event::waking ? b.waking
                                                        : b.wakeup;
            if (!out.empty()) out += ' ';
            if (e != Event::sw) out += e == Event::waking ? 'w' : 'q';
            out += std::to_string(h.ts[i]);
        });
        return out;
    }

  private:
    struct Head {
        std::vector<int64_t> id, ts;
        std::vector<uint16_t> cpu;
    };
    void at(Head& h, uint16_t cpu, int64_t ts) { h.id.push_back(ids_++), h.ts.push_back(ts), h.cpu.push_back(cpu); }
    static void head(HeadColumns& out, const Head& h) {
        out.n = h.id.size(), out.id = h.id.data(), out.ts = h.ts.data(), out.cpu = h.cpu.data();
    }
    Head sw_, waking_, wakeup_;
    std::vector<uint32_t> prev_, next_, woken_, queued_;
    std::vector<uint16_t> target_;
    std::vector<bool> new_;
    int64_t ids_ = 0;
};

const std::vector<Lead> kLead{{}, {400, 400}};  // CPU 1 is slow

TEST(EventOrder, WhatASlowCpuChangesIsSeenBeforeItsEvent) {
    EXPECT_EQ(Events().sw(0, 1000, 8, 0).waking(0, 1300, 9).sw(1, 1500, 10, 1).order(kLead), "1000 1500 w1300");
    EXPECT_EQ(Events().waking(0, 1300, 9).wakeup(1, 1500, 10).order(kLead), "q1500 w1300");
    EXPECT_EQ(Events().waking(0, 1000, 9).sw(1, 1500, 10, 1).order(kLead), "w1000 1500") << "not as long before";
    EXPECT_EQ(Events().waking(0, 1100, 9).sw(1, 1500, 10, 1).order(kLead), "w1100 1500")
        << "at the same time: as it was";
    EXPECT_EQ(Events().sw(1, 1300, 10, 1).sw(0, 1500, 8, 0).order(kLead), "1300 1500") << "CPU 0 is fast";
}

TEST(EventOrder, NothingOfTheSameCpuOrTaskIsOvertaken) {
    EXPECT_EQ(Events().waking(0, 1200, 9).sw(1, 1300, 10, 11).waking(0, 1350, 8).sw(1, 1500, 11, 1).order(kLead),
              "1300 1500 w1200 w1350");
    EXPECT_EQ(Events().waking(0, 1200, 9).waking(1, 1300, 8).waking(0, 1400, 7).sw(1, 1500, 10, 1).order(kLead),
              "w1200 w1300 1500 w1400");
    EXPECT_EQ(Events().waking(0, 1300, 10).wakeup(1, 1500, 10).order(kLead), "w1300 q1500");
    EXPECT_EQ(Events().waking(0, 1300, 10).sw(1, 1500, 10, 1).order(kLead), "w1300 1500") << "who leaves";
    EXPECT_EQ(Events().wakeup(0, 1300, 10).sw(1, 1500, 1, 10).order(kLead), "q1300 1500") << "who starts";
    EXPECT_EQ(Events().waking(0, 1300, 9).wakeup(1, 1500, 10, true).order(kLead), "w1300 q1500") << "opens a decision";
}

TEST(EventOrder, EventsOfOneSpeedKeepTheirOrder) {
    Events e;
    e.waking(0, 1100, 9).sw(1, 1400, 10, 1).sw(2, 1400, 12, 2).wakeup(0, 1450, 9).wakeup(2, 1500, 13);
    const std::string as_recorded = "w1100 1400 1400 q1450 q1500";
    EXPECT_EQ(e.order({}), as_recorded);
    EXPECT_EQ(e.order({{}, {}, {}}), as_recorded);
    EXPECT_EQ(e.order({{}, {400, 400}, {400, 400}}), "1400 1400 w1100 q1500 q1450") << "two as slow keep theirs, too";
}

TEST(EventOrder, SwitchesMayBeSeenEarlierAndQueuedTasksNot) {
    const std::vector<Lead> lead{{}, {400, 0}};
    EXPECT_EQ(Events().waking(0, 1300, 9).sw(1, 1500, 10, 1).order(lead), "1500 w1300");
    EXPECT_EQ(Events().waking(0, 1300, 9).wakeup(1, 1500, 10).order(lead), "w1300 q1500");
}

TEST(EventOrder, AnInterruptMayBeOneThatEmptiesAWakeList) {
    const int64_t irq_id[] = {7, 8}, list_id[] = {8}, ts[] = {100, 200};
    const uint16_t cpu[] = {0, 1};
    Batch b;
    b.irq.n = 2, b.irq.id = irq_id, b.irq.ts = ts, b.irq.cpu = cpu;
    b.wake_list.n = 1, b.wake_list.id = list_id, b.wake_list.ts = ts + 1, b.wake_list.cpu = cpu + 1;
    EventOrder order(4, 100);
    order.build(b);
    std::vector<std::pair<Event, size_t>> heard;
    order.walk([&](Event e, size_t i) { heard.emplace_back(e, i); });
    const std::vector<std::pair<Event, size_t>> expected{{Event::irq, 0}, {Event::wake_list, 0}, {Event::irq, 1}};
    EXPECT_EQ(heard, expected);
    b.balance = b.wake_list;
    EXPECT_THROW(order.build(b), std::invalid_argument) << "nothing else has an event of another table";
}

}  // namespace
}  // namespace rewake
