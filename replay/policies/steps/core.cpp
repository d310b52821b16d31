// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/core.hpp"

namespace rewake {
namespace {

std::string pinned_text(Pinned rule) {
    if (rule == Pinned::class_prev) return "one allowed CPU: prev";
    return rule == Pinned::keep_prev ? "one allowed CPU: prev, class not called"
                                     : "one allowed CPU or migration disabled: first allowed CPU, class not called";
}

}  // namespace

PinnedStep::PinnedStep(Pinned rule)
    : Step(rule == Pinned::class_prev ? Stage::gate : Stage::admission, pinned_text(rule), kAllowed), rule_(rule) {}

bool PinnedStep::run(Ctx& x) const {
    x.look(kAllowed);
    if (x.w.n_allowed != 1 && !(rule_ == Pinned::any_allowed && x.w.migration_disabled)) return false;
    WHY(x, x.w.n_allowed == 1 ? "one CPU is allowed" : "migration is disabled");
    x.d.class_called = rule_ == Pinned::class_prev;
    if (rule_ != Pinned::any_allowed) return x.decide(x.w.prev, Branch::pinned);
    const auto first = first_in_wrap(x.t.words, 0, [&](unsigned i) { return x.w.allowed->w[i]; });
    return x.decide(first.value_or(x.w.prev), Branch::pinned);
}

CoreCheck::CoreCheck()
    : Step(Stage::check, "not allowed or offline: lowest allowed CPU of the task's node, else of all", kAllowed) {}

bool CoreCheck::run(Ctx& x) const {
    Decision& d = x.d;
    d.class_cpu = d.cpu;
    x.look(kAllowed);
    if (x.w.allowed->test(d.cpu) && x.t.online.test(d.cpu)) {
        WHY(x, "CPU ", d.cpu, " is allowed and online");
        return true;
    }
    d.branch = Branch::fallback;
    const CpuMask& node = x.t.node_span[x.t.node[x.w.task_cpu.v]];
    auto valid = [&](unsigned i) { return x.w.allowed->w[i] & x.t.online.w[i]; };
    auto first = first_in_wrap(x.t.words, 0, [&](unsigned i) { return valid(i) & node.w[i]; });
    if (!first) first = first_in_wrap(x.t.words, 0, valid);
    if (!first) {  // the kernel widens the mask: to the cpuset's, then to all possible CPUs
        d.widened = true;
        first = first_in_wrap(x.t.words, 0, [&](unsigned i) { return x.t.online.w[i]; });
    }
    d.cpu = *first;
    WHY(x, "CPU ", d.class_cpu,
        " is not allowed, or offline -> fallback: lowest allowed CPU of the task's node, else of all");
    return true;
}

}  // namespace rewake
