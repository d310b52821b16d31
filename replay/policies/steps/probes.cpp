// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/probes.hpp"

namespace rewake {
namespace {

std::string with_filters(std::string text, const Filters& filters) {
    for (const auto& f : filters) text += ", " + f->text();
    return text;
}

uint32_t with_inputs(uint32_t inputs, const Filters& filters) {
    for (const auto& f : filters) inputs |= f->inputs();
    return inputs;
}

}  // namespace

Probe::Probe(std::string text, Filters filters, uint32_t inputs)
    : Step(Stage::probe, with_filters(std::move(text), filters), with_inputs(inputs, filters)),
      filters_(std::move(filters)) {}

void Probe::refuse(Ctx& x, const char* name, Cpu c, const char* refusal) const {
    if (!x.usable(c)) return x.reasons->say(x.t, name, c, " is not idle");
    if (refusal) return x.reasons->say(x.t, name, c, " is idle, but ", refusal);
    for (const auto& f : filters_)
        if (!f->passes(x, c)) return x.reasons->say(x.t, name, c, " is idle, but fails: ", std::string_view(f->text()));
}

TargetIdle::TargetIdle(Filters f) : Probe("X1 target usable", std::move(f), 0) {}

bool TargetIdle::run(Ctx& x) const {
    if (!takes(x, "X1: target ", x.target)) return false;
    WHY(x, "X1: target ", x.target, " is idle");
    return x.decide(x.target, Branch::x1);
}

PrevIdle::PrevIdle(PrevOf source, Filters f, bool clusters)
    : Probe(std::string(source == PrevOf::prev ? "X2 prev" : "X2 task_cpu") + " in target's " +
                (clusters ? "cluster, usable; kept when in its LLC (cluster machines)" : "LLC, usable"),
            std::move(f), kDomains),
      source_(source),
      clusters_(clusters) {}

bool PrevIdle::run(Ctx& x) const {
    const Cpu c = source_ == PrevOf::prev ? x.w.prev : x.w.task_cpu;
    if (c != x.target) x.look(kDomains);
    if (c == x.target || !x.t.share_cache(c, x.target)) {
        WHY(x, "X2: prev ", c, c == x.target ? " is target" : " is not in target's LLC");
        return false;
    }
    if (!takes(x, "X2: prev ", c)) return false;
    if (clusters_ && !x.t.share_resources(c, x.target)) {
        WHY(x, "X2: prev ", c, " is idle, but in another cluster -> kept for later");
        x.prev_aff = c;
        return false;
    }
    WHY(x, "X2: prev ", c, " is idle and in target's LLC");
    return x.decide(c, Branch::x2);
}

KthreadWaker::KthreadWaker(Filters f, bool in_task)
    : Probe(in_task ? "X3 curr is a per-CPU kthread in task context on prev, nr <= 1"
                    : "X3 curr is a per-CPU kthread on prev, nr <= 1",
            std::move(f), kNr),
      in_task_(in_task) {}

bool KthreadWaker::run(Ctx& x) const {
    const Wakeup& w = x.w;
    if (!w.curr_kthread || !w.curr_one_cpu || (in_task_ && !w.in_task) || w.prev != w.waker) return false;
    x.look(kNr);
    x.touch(w.prev);
    if (x.v.nr[w.waker.v] > 1 || !passes(x, w.prev)) {
        WHY(x, "X3: the waker is a per-CPU kthread on prev ", w.prev, ", but nr is ", x.v.nr[w.waker.v],
            x.v.nr[w.waker.v] > 1 ? "" : " and p does not fit there");
        return false;
    }
    WHY(x, "X3: the waker is a per-CPU kthread on prev ", w.prev, ", nr ", x.v.nr[w.waker.v]);
    return x.decide(w.prev, Branch::x3);
}

namespace {

/// X4's first tests.
bool eligible(Ctx& x, Cpu r) {
    if (r != x.w.prev && r != x.target) {
        x.look(kDomains);
        if (x.t.share_cache(r, x.target)) return true;
    }
    WHY(x, "X4: recent ", r, r == x.w.prev ? " is prev" : r == x.target ? " is target" : " is not in target's LLC");
    return false;
}

}  // namespace

RecentIdle::RecentIdle(Filters f, bool clusters)
    : Probe(std::string("X4 recently used CPU in target's ") +
                (clusters ? "cluster, usable, allowed, kept when in its LLC (cluster machines); recent = prev"
                          : "LLC, usable, allowed; recent = prev"),
            std::move(f), kRecent | kDomains),
      clusters_(clusters) {}

bool RecentIdle::run(Ctx& x) const {
    PolicyState::Task& p = x.s.task(x.w.p);
    const Cpu r = p.has_recent ? p.recent : x.w.prev;  // unknown at first: prev
    p.recent = x.w.prev;
    p.has_recent = true;
    x.look(kRecent);
    const char* refusal = x.w.allowed->test(r) ? nullptr : "not allowed";
    if (!eligible(x, r) || !takes(x, "X4: recent ", r, refusal)) return false;
    if (clusters_ && !x.t.share_resources(r, x.target)) {
        WHY(x, "X4: recent ", r, " is idle, but in another cluster -> kept for later");
        x.recent_aff = r;
        return false;
    }
    WHY(x, "X4: recent ", r, " is idle, allowed and in target's LLC");
    return x.decide(r, Branch::x4);
}

RecentIdleOld::RecentIdleOld(Filters f)
    : Probe("X4 recently used CPU in target's LLC, usable, allowed; then recent = prev", std::move(f),
            kRecent | kDomains) {}

bool RecentIdleOld::run(Ctx& x) const {
    PolicyState::Task& p = x.s.task(x.w.p);
    x.look(kRecent);
    if (!p.has_recent) {  // unknown at first: prev
        WHY(x, "X4: no recent CPU is known");
        return false;
    }
    const Cpu r = p.recent;
    const char* refusal = x.w.allowed->test(r) ? nullptr : "not allowed";
    if (!eligible(x, r) || !takes(x, "X4: recent ", r, refusal)) return false;
    p.recent = x.w.prev;
    WHY(x, "X4: recent ", r, " is idle, allowed and in target's LLC");
    return x.decide(r, Branch::x4);
}

RecentIdleUnchecked::RecentIdleUnchecked(Filters f)
    : Probe("X4 recently used CPU in target's LLC, usable, where prev is allowed; recent = prev", std::move(f),
            kRecent | kDomains) {}

bool RecentIdleUnchecked::run(Ctx& x) const {
    PolicyState::Task& p = x.s.task(x.w.p);
    const Cpu r = p.has_recent ? p.recent : x.w.prev;
    p.recent = x.w.prev;
    p.has_recent = true;
    x.look(kRecent);
    const char* refusal =
        x.w.allowed->test(x.w.prev) ? nullptr : "prev is not allowed, which is what this kernel tests";
    if (!eligible(x, r) || !takes(x, "X4: recent ", r, refusal)) return false;
    WHY(x, "X4: recent ", r, " is idle and in target's LLC");
    return x.decide(r, Branch::x4);
}

NoLlc::NoLlc() : Step(Stage::probe, "X6 target without LLC domain: target", kDomains) {}

bool NoLlc::run(Ctx& x) const {
    x.look(kDomains);
    return !x.t.has_llc_domain[x.target.v] && x.decide(x.target, Branch::x6);
}

KeptAffine::KeptAffine() : Step(Stage::scan, "nothing found: the kept prev, else the kept recent CPU") {}

bool KeptAffine::run(Ctx& x) const {
    if (x.prev_aff) {
        WHY(x, "nothing found: the idle prev that X2 kept");
        return x.decide(*x.prev_aff, Branch::prev_aff);
    }
    WHY(x, x.recent_aff ? "nothing found: the idle recent CPU that X4 kept" : "X2 and X4 kept no CPU");
    return x.recent_aff && x.decide(*x.recent_aff, Branch::recent_aff);
}

ReturnTarget::ReturnTarget() : Step(Stage::fallback, "nothing found: target") {}

bool ReturnTarget::run(Ctx& x) const { return x.decide(x.target, Branch::target); }

}  // namespace rewake
