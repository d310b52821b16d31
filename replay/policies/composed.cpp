// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/composed.hpp"

#include <charconv>
#include <stdexcept>

#include "replay/policies/steps/scan_u.hpp"
#include "replay/policies/steps/slow_path.hpp"

namespace rewake {
namespace {

/// A machine with different capacities, so that a description names every step.
const Topology& asymmetric_machine() {
    static const Topology t = [] {
        Topology a;
        a.n_cpus = 2;
        a.online.set(Cpu(0));
        a.online.set(Cpu(1));
        a.cap_orig = {512, 1024};
        a.finish();
        return a;
    }();
    return t;
}

}  // namespace

Composed::Composed(Composition c, const Topology& t) : topo_(t), c_(std::move(c)) {
    state.hic.assign(t.llc_span.size(), 0);
    state.scan_cost.assign(static_cast<size_t>(t.n_cpus), 0);
}

[[gnu::noinline]] void Composed::look(const Turns& turns, const CpuMask& idle) {
    looked_ = idle;
    for (const Turns::Turn& t : turns.since) looked_.assign(t.cpu, turns.idle(t.cpu, turns.from));
}

Ctx Composed::context(const View& v, const Wakeup& w, const CpuMask* dirty, Decision& d) {
    const CpuMask& idle = c_.idle == IdlePred::idle ? v.idle : v.avail;
    const bool turns = v.turns.any();
    if (turns) [[unlikely]]
        look(v.turns, idle);
    return Ctx{.v = v,
               .w = w,
               .t = topo_,
               .s = state,
               .dirty = dirty,
               .idle = turns ? looked_ : idle,
               .soft = takes_sidle(w) ? v.sidle : Ctx::none(),
               .in_turn = turns ? &looked_ : nullptr,
               .d = d,
               .reasons = reasons};
}

bool Composed::takes_sidle(const Wakeup& w) const {
    return c_.idle == IdlePred::avail_or_sidle ||
           (c_.idle == IdlePred::avail_or_sidle_unless_idle_policy && !w.p_idle_policy);
}

void Composed::run(Ctx& x, Stage from, Stage to) const {
    bool decided = false;
    for (const auto& step : c_.steps) {
        if (step->stage() < from || (decided && step->stage() != Stage::check)) continue;
        if (step->stage() > to) return;
        decided = step->run(x);
    }
}

Decision Composed::decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu) {
    Decision d;
    Ctx x = context(v, w, dirty && dirty->any(topo_.words) ? dirty : nullptr, d);
    if (w.kind != Kind::wake)
        decide_slow(x);
    else if (x.reasons)
        decide_wake<true>(x);
    else
        decide_wake<false>(x);
    return d;
}

/// Runs one step and files what it told; a step that only goes on need not tell anything.
static bool run_told(const Step& step, Ctx& x) {
    const bool decided = step.run(x);
    x.reasons->close(step.text(), decided);
    return decided;
}

/// `kTold`: somebody listens to the reasons; a template so that replay does not ask at every step.
template <bool kTold>
void Composed::decide_wake(Ctx& x) const {
    auto run = [&x](const Step& step) { return kTold ? run_told(step, x) : step.run(x); };
    const auto check = c_.steps.end() - 1;
    for (auto step = c_.steps.begin(); step != check && !run(**step);) ++step;
    run(**check);
}

/// An exec calls the class directly: neither the core's shortcut for one allowed CPU nor its check.
void Composed::decide_slow(Ctx& x) const {
    const bool exec = x.w.kind == Kind::exec;
    bool decided = false;
    for (const auto& step : c_.slow) {
        if (exec && (step->stage() == Stage::admission || step->stage() == Stage::check)) continue;
        if (!decided || step->stage() == Stage::check) decided = x.reasons ? run_told(*step, x) : step->run(x);
    }
    if (exec) x.d.class_cpu = x.d.cpu;
}

Decision Composed::select_idle_sibling(const View& v, const Wakeup& w, Cpu target) {
    Decision d;
    Ctx x = context(v, w, nullptr, d);
    x.target = target;
    run(x, Stage::probe, Stage::fallback);
    return d;
}

std::optional<Cpu> Composed::affine(const View& v, const Wakeup& w) {
    Decision d;
    Ctx x = context(v, w, nullptr, d);
    x.sync = w.sync;
    x.related = true;  // the test itself, not the condition on it
    x.target = w.prev;
    for (int i : topo_.stack[w.waker.v])
        if (topo_.domains[i].span.test(w.prev)) {
            x.affine_domain = i;
            run(x, Stage::affine, Stage::affine);
            return x.target;
        }
    return std::nullopt;
}

std::optional<Cpu> Composed::idlest_cpu(const View& v, const Wakeup& w, const CpuMask& group) {
    Decision d;
    Ctx x = context(v, w, nullptr, d);
    for (const auto& step : c_.slow)
        if (const auto* slow = dynamic_cast<const SlowPath*>(step.get())) return slow->idlest_cpu(x, group, w.waker);
    return std::nullopt;
}

void Composed::cpu_idle(const View&, Cpu c, bool core_idle) {
    if (c_.idle_cores) update_idle_core(state, topo_, c, core_idle);
}

void Composed::fork(TaskId parent, TaskId child, Cpu cpu) {
    PolicyState::Task copy = state.task(parent);  // flips, last wakee and decay stamp are inherited
    copy.has_recent = c_.fork_recent;
    copy.recent = cpu;
    state.task(child) = copy;
    if (state.buddies.empty()) return;
    const PolicyState::Buddy buddy = state.buddy(parent);
    state.buddy(child) = buddy;
}

bool Composed::follow(const View& v, const Wakeup& w, Cpu recorded, const Decision& made,
                      const PolicyState::Task& before, const std::vector<uint8_t>& hic) {
    if (w.kind != Kind::wake || !made.class_called || made.cpu == recorded) return false;
    // An idle waker or prev CPU came out of the early exits X1 and X2, anything else from X4 or later. What looks busy was
    // idle a moment before or after, where X4 has an idle CPU to take: only an early exit keeps a wakeup from that.
    const bool soft = takes_sidle(w);
    auto usable = [&](Cpu c) { return v.avail.test(c) || (soft && v.sidle.test(c)); };
    const bool could = recorded == w.waker || recorded == w.prev, idle = usable(recorded);
    const bool early = could && (idle || made.branch == Branch::x4);
    const bool guessed = c_.recent_reached && could && !idle;
    if (c_.recent_reached) {
        PolicyState::Task& p = state.task(w.p);
        p.recent = early ? before.recent : w.prev;
        p.has_recent = !early || before.has_recent;
    }
    if (!c_.idle_cores || !topo_.smt_active) return guessed;
    // A whole idle core was found, or none was looked for: the flag stays. Else the search that failed cleared it.
    state.hic = hic;
    const CpuMask& smt = topo_.smt[recorded.v];
    bool core_idle = true;
    for (int i = 0; i < topo_.words; ++i) core_idle &= (smt.w[i] & ~v.avail.w[i]) == 0;
    const bool recent = before.has_recent && recorded == before.recent && idle;
    const uint16_t llc = topo_.llc[recorded.v].v;
    const bool found = recorded != w.waker && recorded != w.prev;  // so there was a search, whatever nr_idle_scan says
    if (early || recent || core_idle) return guessed;
    // A target that is busy although prev has an idle sibling: that was not looked for, because the flag was set.
    bool sibling = false;
    if (!found && !w.curr_kthread && topo_.share_cache(w.prev, recorded))
        for (uint16_t c : topo_.siblings(w.prev))
            sibling = sibling || (c != w.prev.v && usable(Cpu(c)) && w.allowed->test(Cpu(c)));
    if (sibling)
        state.hic[llc] = 1;
    else if (found || v.nr_idle_scan[llc] != 0)
        state.hic[llc] = 0;
    return guessed;
}

PolicyEntry composed_entry(PolicyInfo info, Compose compose) {
    const Composition all = compose(with_defaults(info, {}), asymmetric_machine());
    const bool soft = all.idle == IdlePred::avail_or_sidle || all.idle == IdlePred::avail_or_sidle_unless_idle_policy;
    info.inputs = soft ? kIdlePolicy : 0u;  // part of the idle test, whichever step makes it
    for (const auto& step : all.steps) {
        info.steps.push_back(step->text());
        info.inputs |= step->inputs();
    }
    for (const auto& step : all.slow) {
        info.inputs |= step->inputs();
        if (step->stage() == Stage::slow) info.steps.push_back("fork, exec: " + step->text());
    }
    PolicyEntry entry{info, nullptr};
    entry.make = [info, compose = std::move(compose)](const PolicyParams& given, const Topology& t,
                                                      uint64_t) -> std::unique_ptr<Policy> {
        return std::make_unique<Composed>(compose(with_defaults(info, given), t), t);
    };
    return entry;
}

PolicyParams with_defaults(const PolicyInfo& info, const PolicyParams& given) {
    PolicyParams all;
    std::string names;
    for (const auto& p : info.params) {
        all[p.name] = p.value;
        names += (names.empty() ? "" : ", ") + p.name;
    }
    for (const auto& [name, value] : given) {
        if (!all.contains(name))
            throw std::invalid_argument(info.name + " has no parameter '" + name + "'; it has " +
                                        (names.empty() ? "none" : names));
        all[name] = value;
    }
    return all;
}

bool flag_param(const PolicyParams& params, const std::string& name) {
    const std::string& value = params.at(name);
    if (value != "0" && value != "1") throw std::invalid_argument(name + "=" + value + ": 0 or 1 expected");
    return value == "1";
}

int64_t int_param(const PolicyParams& params, const std::string& name, int64_t least, int64_t most,
                  const std::string& or_else) {
    const std::string& text = params.at(name);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most) return value;
    throw std::invalid_argument(name + "=" + text + ": a whole number of " + std::to_string(least) + " to " +
                                std::to_string(most) + (or_else.empty() ? "" : ", or " + or_else) + " expected");
}

}  // namespace rewake
