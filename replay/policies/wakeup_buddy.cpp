// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/wakeup_buddy.hpp"

#include <limits>

#include "replay/policies/steps/affine_old.hpp"

namespace rewake {
namespace {

/// Whether p and curr are buddies, before this wakeup counts (the patch updates after the decision, which reads nothing
/// else of it).
class Buddies : public Step {
  public:
    explicit Buddies(uint32_t ref)
        : Step(Stage::gate, "related: p and curr are each other's last waker and wakee, >= " + std::to_string(ref) +
                                " times; then count this wakeup"),
          ref_(ref) {}

    bool run(Ctx& x) const override {
        x.look(kFlips);
        x.related = wakeup_related(x.s, x.w.curr, x.w.p, ref_);
        wakeup_ref(x.s, x.w.curr, x.w.p);
        return false;
    }

  private:
    uint32_t ref_;
};

/// Only related tasks are pulled to the waker by the column's own rule, even where prev is the waker's CPU; Ctx::related
/// becomes the answer.
class BuddyAffine : public Affine {
  public:
    BuddyAffine(std::unique_ptr<Affine> own, const Topology& t, const Imbalance& imb)
        : Affine(own->text() + "; for related tasks only, the others stay at prev", t, imb), own_(std::move(own)) {}
    bool pulls(Ctx& x, int64_t factor) const override { return x.related = x.related && own_->pulls(x, factor); }

  private:
    std::unique_ptr<Affine> own_;
};

/// A pulled task is not searched a CPU when nothing but a sync waker runs there, or nothing at all.
class BuddyAlone : public Step {
  public:
    BuddyAlone()
        : Step(Stage::slow, "pulled, and nr of the waker's CPU is 0, or 1 with sync: waker CPU, not searched") {}

    bool run(Ctx& x) const override {
        if (!x.related || x.affine_domain == Topology::kNone) return false;
        x.look(kNr | kSync);
        return x.v.nr[x.w.waker.v] == int{x.sync} && x.decide(x.w.waker, Branch::nosearch);
    }
};

Composition compose_seed(Column row, const PolicyParams& params, const Topology& t) {
    row = configured(row, params);
    row.walk_at_prev = true;
    const auto ref = static_cast<uint32_t>(int_param(params, "ref", 1, std::numeric_limits<uint32_t>::max()));
    Parts parts;
    parts.gate.push_back(std::make_unique<Buddies>(ref));
    parts.slow_gate.push_back(std::make_unique<Buddies>(ref));
    parts.affine.push_back(std::make_unique<BuddyAffine>(affine_step(row, t), t, row.imbalance));
    parts.affine.push_back(std::make_unique<BuddyAlone>());
    return compose(row, t, std::move(parts));
}

}  // namespace

void wakeup_ref(PolicyState& s, TaskId curr, TaskId p) {
    PolicyState::Buddy& wakee = s.buddy(p);
    if (wakee.waker == curr)
        ++wakee.waker_ref;
    else
        wakee.waker = curr, wakee.waker_ref = 0;
    PolicyState::Buddy& waker = s.buddy(curr);
    if (waker.wakee == p)
        ++waker.wakee_ref;
    else
        waker.wakee = p, waker.wakee_ref = 0;
}

bool wakeup_related(PolicyState& s, TaskId curr, TaskId p, uint32_t ref) {
    auto buddy = [&](TaskId a, TaskId b) {
        const PolicyState::Buddy& of = s.buddy(a);
        return of.waker == b && of.wakee == b && of.waker_ref >= ref && of.wakee_ref >= ref;
    };
    return buddy(p, curr) && buddy(curr, p);
}

PolicyEntry wakeup_buddy_entry(const Column& on) {
    PolicyInfo info{
        .name = "wakeup-buddy",
        .summary = "that pulls a task to its waker only when the two keep waking each other",
        .source = "Michael Wang, [RFC PATCH] sched: wakeup buddy, 2013-02-28",
        .oracle_column = "v3.8+seed2",
        .reference = false,
        .params = {{"ref", "8",
                    "wakeups in a row after the first, on both sides, that make buddies; at least 1. The code "
                    "compares >=, the posting's text says more than"}},
        .steps = {},
        .deviations = {"tasks are told apart by thread, where the patch compares pointers that may be reused"},
        .reads_irq = false,
        .base = "linux-3.8"};
    std::vector<std::string> port = {
        "whether buddies are pulled is the column's own affine step, asked also for wakeups on prev itself; its gate "
        "stays in front"};
    if (on.affine.delayed) port.push_back("the waker is alone by nr, in which delayed tasks count");
    return composed_entry(seed_info(std::move(info), on, std::move(port)),
                          [&on](const PolicyParams& p, const Topology& t) { return compose_seed(on, p, t); });
}

}  // namespace rewake
