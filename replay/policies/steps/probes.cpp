// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/probes.hpp"

namespace rewake {
namespace {

std::string with_filters(std::string text, const Filters& filters) {
    for (const auto& f : filters) text += ", " + f->text();
    return text;
}

}  // namespace

Probe::Probe(std::string text, Filters filters)
    : Step(Stage::probe, with_filters(std::move(text), filters)), filters_(std::move(filters)) {}

TargetIdle::TargetIdle(Filters f) : Probe("X1 target usable", std::move(f)) {}

bool TargetIdle::run(Ctx& x) const {
    return x.usable(x.target) && passes(x, x.target) && x.decide(x.target, Branch::x1);
}

PrevIdle::PrevIdle(PrevOf source, Filters f, bool clusters)
    : Probe(std::string(source == PrevOf::prev ? "X2 prev" : "X2 task_cpu") + " in target's " +
                (clusters ? "cluster, usable; kept when in its LLC (cluster machines)" : "LLC, usable"),
            std::move(f)),
      source_(source),
      clusters_(clusters) {}

bool PrevIdle::run(Ctx& x) const {
    const Cpu c = source_ == PrevOf::prev ? x.w.prev : x.w.task_cpu;
    if (c == x.target || !x.t.share_cache(c, x.target)) return false;
    if (!x.usable(c) || !passes(x, c)) return false;
    if (clusters_ && !x.t.share_resources(c, x.target)) {
        x.prev_aff = c;
        return false;
    }
    return x.decide(c, Branch::x2);
}

KthreadWaker::KthreadWaker(Filters f, bool in_task)
    : Probe(in_task ? "X3 curr is a per-CPU kthread in task context on prev, nr <= 1"
                    : "X3 curr is a per-CPU kthread on prev, nr <= 1",
            std::move(f)),
      in_task_(in_task) {}

bool KthreadWaker::run(Ctx& x) const {
    const Wakeup& w = x.w;
    if (!w.curr_kthread || !w.curr_one_cpu || (in_task_ && !w.in_task) || w.prev != w.waker) return false;
    x.look(kNr);
    x.touch(w.prev);
    return x.v.nr[w.waker.v] <= 1 && passes(x, w.prev) && x.decide(w.prev, Branch::x3);
}

RecentIdle::RecentIdle(Filters f, bool clusters)
    : Probe(std::string("X4 recently used CPU in target's ") +
                (clusters ? "cluster, usable, allowed, kept when in its LLC (cluster machines); recent = prev"
                          : "LLC, usable, allowed; recent = prev"),
            std::move(f)),
      clusters_(clusters) {}

bool RecentIdle::run(Ctx& x) const {
    PolicyState::Task& p = x.s.task(x.w.p);
    const Cpu r = p.has_recent ? p.recent : x.w.prev;  // unknown at first: prev
    p.recent = x.w.prev;
    p.has_recent = true;
    x.look(kRecent);
    if (r == x.w.prev || r == x.target || !x.t.share_cache(r, x.target)) return false;
    if (!x.usable(r) || !x.w.allowed->test(r) || !passes(x, r)) return false;
    if (clusters_ && !x.t.share_resources(r, x.target)) {
        x.recent_aff = r;
        return false;
    }
    return x.decide(r, Branch::x4);
}

RecentIdleOld::RecentIdleOld(Filters f)
    : Probe("X4 recently used CPU in target's LLC, usable, allowed; then recent = prev", std::move(f)) {}

bool RecentIdleOld::run(Ctx& x) const {
    PolicyState::Task& p = x.s.task(x.w.p);
    x.look(kRecent);
    if (!p.has_recent) return false;  // unknown at first: prev
    const Cpu r = p.recent;
    if (r == x.w.prev || r == x.target || !x.t.share_cache(r, x.target)) return false;
    if (!x.usable(r) || !x.w.allowed->test(r) || !passes(x, r)) return false;
    p.recent = x.w.prev;
    return x.decide(r, Branch::x4);
}

RecentIdleUnchecked::RecentIdleUnchecked(Filters f)
    : Probe("X4 recently used CPU in target's LLC, usable, where prev is allowed; recent = prev", std::move(f)) {}

bool RecentIdleUnchecked::run(Ctx& x) const {
    PolicyState::Task& p = x.s.task(x.w.p);
    const Cpu r = p.has_recent ? p.recent : x.w.prev;
    p.recent = x.w.prev;
    p.has_recent = true;
    x.look(kRecent);
    if (r == x.w.prev || r == x.target || !x.t.share_cache(r, x.target)) return false;
    return x.usable(r) && x.w.allowed->test(x.w.prev) && passes(x, r) && x.decide(r, Branch::x4);
}

NoLlc::NoLlc() : Step(Stage::probe, "X6 target without LLC domain: target") {}

bool NoLlc::run(Ctx& x) const { return !x.t.has_llc_domain[x.target.v] && x.decide(x.target, Branch::x6); }

KeptAffine::KeptAffine() : Step(Stage::scan, "nothing found: the kept prev, else the kept recent CPU") {}

bool KeptAffine::run(Ctx& x) const {
    if (x.prev_aff) return x.decide(*x.prev_aff, Branch::prev_aff);
    return x.recent_aff && x.decide(*x.recent_aff, Branch::recent_aff);
}

ReturnTarget::ReturnTarget() : Step(Stage::fallback, "nothing found: target") {}

bool ReturnTarget::run(Ctx& x) const { return x.decide(x.target, Branch::target); }

}  // namespace rewake
