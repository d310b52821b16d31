// SPDX-License-Identifier: GPL-2.0-or-later
// Binding of the open loop: one pass over a recording, all policies at once.
#include "replay/engine/open_loop.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>

#include "replay/bind/engine.hpp"
#include "replay/bind/policy_source.hpp"
#include "replay/engine/steps_in_time.hpp"

namespace rewake::bind {

namespace {

using Spec = std::tuple<std::string, PolicyParams>;

template <class T>
OptionalColumn<T> nullable(const nb::dict& t, const char* name, size_t& n) {
    OptionalColumn<T> c;
    if (t.contains(name)) c.values = column<T>(t, name, n, &c.null);
    return c;
}

InferredColumns read_inferred(const nb::dict& t, size_t n) {
    InferredColumns c;
    if (t.contains("sync")) c.sync = column<bool>(t, "sync", n);
    if (t.contains("scan_prev")) {
        c.scan_waker = column<int32_t>(t, "scan_waker", n);
        c.scan_prev = column<int32_t>(t, "scan_prev", n);
    }
    if (t.contains("turned")) c.turned = column<bool>(t, "turned", n);
    if (t.contains("flips")) c.flips = column<uint8_t>(t, "flips", n);
    if (t.contains("clock")) c.clock = column<uint8_t>(t, "clock", n);
    for (size_t i = 0; c.flips && i < n; ++i)
        if (c.flips[i] >= FlipHypotheses::kMost) throw std::invalid_argument("column flips: no such value");
    return c;
}

ProbeColumns read_probes(const nb::dict& t, size_t n) {
    ProbeColumns p;
    p.id = nullable<int64_t>(t, "probe_id", n);
    p.wake_flags = nullable<int32_t>(t, "wake_flags", n);
    p.recent = nullable<uint16_t>(t, "recent_cpu", n);
    p.flips = nullable<uint32_t>(t, "flips", n);
    p.util = nullable<int64_t>(t, "util", n);
    p.load = nullable<int64_t>(t, "load", n);
    p.nr_idle_scan = nullable<int32_t>(t, "nr_idle_scan", n);
    p.has_idle_cores = nullable<int32_t>(t, "has_idle_cores", n);
    p.rq_load = nullable<int64_t>(t, "rq_load", n);
    p.rq_nr = nullable<int32_t>(t, "rq_nr", n);
    return p;
}

}  // namespace

DecisionColumns read_decisions(const nb::dict& t, size_t n_cpus, size_t n_tasks, size_t n_masks) {
    DecisionColumns d;
    d.n = kAnyLength;
    d.event_id = column<int64_t>(t, "event_id", d.n);
    d.ts = column<int64_t>(t, "ts_ns", d.n);
    d.kind = column<uint8_t>(t, "kind", d.n);
    d.cls = column<uint8_t>(t, "class", d.n);
    d.task = column<uint32_t>(t, "task", d.n);
    d.waker_task = column<uint32_t>(t, "waker_task", d.n, &d.waker_task_null);
    d.waker_cpu = column<uint16_t>(t, "waker_cpu", d.n, &d.waker_cpu_null);
    d.irq_ctx = column<uint8_t>(t, "irq_ctx", d.n, &d.irq_ctx_null);
    d.prio = column<int16_t>(t, "prio", d.n);
    d.prev_cpu = column<uint16_t>(t, "prev_cpu", d.n, &d.prev_cpu_null);
    d.chosen_cpu = column<uint16_t>(t, "chosen_cpu", d.n, &d.chosen_cpu_null);
    d.latency = column<int64_t>(t, "latency_ns", d.n, &d.latency_null);
    d.low_confidence = column<bool>(t, "low_confidence", d.n);
    d.inferred = read_inferred(t, d.n);
    if (t.contains("before")) d.before = read_inferred(nb::cast<nb::dict>(t["before"]), d.n);
    if (t.contains("allowed")) d.allowed = column<uint32_t>(t, "allowed", d.n, &d.allowed_null);
    if (t.contains("looks")) d.looks = column<uint8_t>(t, "looks", d.n);
    if (t.contains("decided")) d.decided = column<int64_t>(t, "decided", d.n);
    if (t.contains("by_waker")) d.by_waker = column<bool>(t, "by_waker", d.n);
    if (t.contains("probes")) d.probes = read_probes(nb::cast<nb::dict>(t["probes"]), d.n);
    if (t.contains("scanned")) d.scanned = column<uint8_t>(t, "scanned", d.n);
    if (t.contains("luck")) {
        d.luck = column<float>(t, "luck", d.n);
        d.luck_preempt = column<float>(t, "luck_preempt", d.n);
    }
    if (t.contains("hint")) d.hint = column<uint8_t>(t, "hint", d.n);
    auto cpu_ok = [&](const uint16_t* v, const bool* null, size_t i) { return (null && null[i]) || v[i] < n_cpus; };
    for (size_t i = 0; i < d.n; ++i)
        if (d.task[i] >= n_tasks || !((d.waker_task_null && d.waker_task_null[i]) || d.waker_task[i] < n_tasks) ||
            !cpu_ok(d.waker_cpu, d.waker_cpu_null, i) || !cpu_ok(d.prev_cpu, d.prev_cpu_null, i) ||
            !cpu_ok(d.chosen_cpu, d.chosen_cpu_null, i) ||
            (d.allowed && !(d.allowed_null && d.allowed_null[i]) && d.allowed[i] >= n_masks) ||
            d.probes.recent.at(i).value_or(0) >= n_cpus)
            throw std::invalid_argument("decision " + std::to_string(i) +
                                        " names a CPU, task or mask that does not exist");
    return d;
}

std::vector<std::unique_ptr<Policy>> make_policies(const std::vector<nb::object>& specs, const Topology& topo,
                                                   uint64_t seed) {
    std::vector<std::unique_ptr<Policy>> all;
    for (const nb::object& spec : specs) {
        if (nb::isinstance<PolicySource>(spec)) {
            all.push_back(nb::cast<const PolicySource&>(spec).make(topo, seed));
        } else {
            const auto [name, params] = nb::cast<Spec>(spec);
            all.push_back(make_policy(name, params, topo, seed));
        }
    }
    return all;
}

/// unseen.py, FirstFlips: flips, grown_s, halved_s, and of tasks that began otherwise their own.
using PyFlips =
    std::tuple<uint32_t, float, float, std::vector<std::tuple<uint32_t, std::tuple<uint32_t, float, float>>>>;

FlipHypothesis hypothesis(const PyFlips& row) {
    const auto& [flips, grown, halved, own] = row;
    FlipHypothesis out{.all = {flips, grown, halved}};
    for (const auto& [task, its] : own) out.own[task] = {std::get<0>(its), std::get<1>(its), std::get<2>(its)};
    return out;
}

std::vector<FlipHypothesis> hypotheses(const std::vector<PyFlips>& rows) {
    std::vector<FlipHypothesis> out;
    for (const PyFlips& row : rows) out.push_back(hypothesis(row));
    return out;
}

ReplayOptions read_options(const nb::dict& o) {
    ReplayOptions r;
    r.sync = nb::cast<bool>(o["sync"]);
    if (o.contains("first_flips")) r.first_flips = hypotheses(nb::cast<std::vector<PyFlips>>(o["first_flips"]));
    if (r.first_flips.empty()) throw std::invalid_argument("first_flips: at least one hypothesis expected");
    if (o.contains("panel_scans")) r.panel_scans = nb::cast<std::vector<int32_t>>(o["panel_scans"]);
    if (o.contains("panel_clocks")) r.panel_clocks = nb::cast<bool>(o["panel_clocks"]);
    if (o.contains("scan_clocks"))
        for (const auto& [base, per_cpu] : nb::cast<std::vector<std::pair<Ns, Ns>>>(o["scan_clocks"]))
            r.scan_clocks.push_back({base, per_cpu});
    if (r.scan_clocks.size() > 32) throw std::invalid_argument("scan_clocks: at most 32");
    for (const int32_t v : r.panel_scans)
        if (r.panel_clocks && static_cast<size_t>(v) >= r.scan_clocks.size())
            throw std::invalid_argument("panel_scans: no such clock");
    if (o.contains("looks"))
        for (const auto& [from, step] : nb::cast<std::vector<std::pair<Ns, Ns>>>(o["looks"]))
            r.looks.push_back({from, step});
    r.hz = nb::cast<uint32_t>(o["hz"]);
    r.migration_cost = nb::cast<Ns>(o["migration_cost"]);
    r.inferred = nb::cast<uint32_t>(o["inferred"]);
    const auto short_time = [](Ns t) { return std::clamp<Ns>(t, 0, 100'000); };
    const auto times = [&](const char* name) {
        std::vector<Ns> ns;
        if (o.contains(name)) ns = nb::cast<std::vector<Ns>>(o[name]);
        for (Ns& t : ns) t = short_time(t);
        return ns;
    };
    r.settle = times("settle"), r.clearing = times("clearing");
    if (o.contains("lead"))
        for (const auto& [switched, queued] : nb::cast<std::vector<std::pair<Ns, Ns>>>(o["lead"]))
            r.lead.push_back({short_time(switched), short_time(queued)});
    if (o.contains("listing"))
        for (const auto& [migrate, stay] : nb::cast<std::vector<std::pair<Ns, Ns>>>(o["listing"]))
            r.listing.push_back({short_time(migrate), short_time(stay)});
    if (o.contains("order_window")) r.order_window = short_time(nb::cast<Ns>(o["order_window"]));
    if (o.contains("panel")) r.panel = nb::cast<bool>(o["panel"]);
    if (o.contains("blind")) r.blind = nb::cast<bool>(o["blind"]);
    if (o.contains("log_flips")) r.log_flips = nb::cast<bool>(o["log_flips"]);
    if (o.contains("log_inputs")) r.log_inputs = nb::cast<bool>(o["log_inputs"]);
    if (o.contains("own")) r.own = nb::cast<std::vector<bool>>(o["own"]);
    if (o.contains("tick_at")) r.tick_at = nb::cast<Ns>(o["tick_at"]);
    if (o.contains("clock_offset")) r.clock_offset = nb::cast<Ns>(o["clock_offset"]);
    if (o.contains("exit_latency")) r.exit_latency = nb::cast<std::vector<std::vector<int32_t>>>(o["exit_latency"]);
    if (o.contains("energy_aware")) r.energy_aware = nb::cast<bool>(o["energy_aware"]);
    if (o.contains("calls_seen")) r.calls_seen = nb::cast<bool>(o["calls_seen"]);
    if (r.hz < 1 || r.hz > 100'000) throw std::invalid_argument("hz must lie in 1..100000");
    return r;
}

FairSettings read_fair(const Topology& topo, const nb::dict& o) {
    const auto of = [&](const char* name, Ns otherwise) {
        return o.contains(name) ? nb::cast<Ns>(o[name]) : otherwise;
    };
    const ReplayOptions r = read_options(o);
    FairSettings s = FairSettings::of(static_cast<int>(of("major", 0)), static_cast<int>(of("minor", 0)),
                                      topo.online.count(topo.words), 1'000'000'000 / static_cast<Ns>(r.hz));
    s.tick_at = r.tick_at;
    s.slice = of("slice_ns", s.slice);
    s.latency = of("latency_ns", s.latency);
    s.granularity = of("min_granularity_ns", s.granularity);
    s.wakeup_granularity = of("wakeup_granularity_ns", s.wakeup_granularity);
    if (o.contains("hrtick")) s.hrtick = nb::cast<bool>(o["hrtick"]);
    if (o.contains("delays")) s.delays = s.delays && nb::cast<bool>(o["delays"]);
    return s;
}

namespace {

/// The recorded kernel's slices, and its queues: of one that does not delay dequeues these tell placement nothing.
ReplayOptions with_fair(ReplayOptions r, const Topology& topo, const nb::dict& options) {
    const FairSettings fair = read_fair(topo, options);
    const bool eevdf = fair.kind == FairSettings::Kind::eevdf;
    r.slice_least = eevdf ? fair.slice : fair.granularity;
    r.slice_shared = eevdf ? 0 : fair.latency;
    const bool wanted = options.contains("delays") && nb::cast<bool>(options["delays"]);
    if (wanted && fair.delays) r.fair = fair;
    return r;
}

std::vector<Shape> read_shapes(nb::handle rows, size_t n_cpus) {
    using Cpus = std::vector<uint16_t>;
    std::vector<Shape> out;
    for (const auto& [from, inactive, gone, off, rebuilds] :
         nb::cast<std::vector<std::tuple<Ns, Cpus, Cpus, bool, bool>>>(rows)) {
        Shape& s = out.emplace_back(Shape{.from = from, .inactive = {}, .gone = {}, .off = off, .rebuilds = rebuilds});
        for (const auto& [cpus, mask] : {std::pair(&inactive, &s.inactive), std::pair(&gone, &s.gone)})
            for (uint16_t c : *cpus) {
                if (c >= n_cpus) throw std::invalid_argument("a shape names a CPU that does not exist");
                mask->set(Cpu(c));
            }
    }
    return out;
}

class PyOpenLoop {
  public:
    PyOpenLoop(const Recorded& r, const std::vector<nb::object>& specs, uint64_t seed, const nb::dict& options,
               const std::vector<std::tuple<Ns, Ns>>& same_llc, const std::vector<std::tuple<Ns, Ns>>& cross_llc,
               const Running& running)
        : topo_(r.topo),
          n_cpus_(static_cast<size_t>(r.topo.n_cpus)),
          n_tasks_(r.tasks.tasks.size()),
          n_masks_(r.tasks.masks.size()),
          loop_(topo_, r.tasks, make_policies(specs, topo_, seed), with_fair(read_options(options), topo_, options),
                ranges(same_llc, cross_llc), known(r, running)) {
        if (options.contains("shapes")) loop_.reshape(topo_, read_shapes(options["shapes"], n_cpus_));
    }

    void run(const nb::dict& batch, nb::object next, const nb::dict& decisions) {
        const Batch b = read_batch(batch);
        const DecisionColumns d = read_decisions(decisions, n_cpus_, n_tasks_, n_masks_);
        if (next.is_none()) {
            loop_.run(b, nullptr, d);
        } else {
            const SwitchColumns ahead = read_switch_times(nb::cast<nb::dict>(next));
            loop_.run(b, &ahead, d);
        }
    }

    static nb::dict ledger(nb::handle_t<PyOpenLoop> self, size_t k) {
        LedgerColumns& o = nb::cast<PyOpenLoop&>(self).loop_.instances().at(k).out;
        nb::object undecided = lend(o.undecided, self);
        nb::dict d;
        d["cpu"] = nb::make_tuple(lend(o.cpu, self), undecided);
        d["branch"] = nb::make_tuple(lend(o.branch, self), undecided);
        d["cpus_scanned"] = nb::make_tuple(lend(o.cpus_scanned, self), undecided);
        d["inputs_assumed"] = nb::make_tuple(lend(o.inputs_assumed, self), undecided);
        d["outcome"] = nb::make_tuple(lend(o.outcome, self), undecided);
        d["known"] = nb::make_tuple(lend(o.known, self), undecided);
        d["lo_ns"] = nb::make_tuple(lend(o.lo, self), lend(o.lo_null, self));
        d["hi_ns"] = nb::make_tuple(lend(o.hi, self), lend(o.hi_null, self));
        return d;
    }

    /// (ts, cpu, decision) of every CPU that became idle or busy.
    nb::tuple flips() const {
        std::vector<int64_t> ts, decision;
        std::vector<uint16_t> cpu;
        for (const Flip& f : loop_.flips()) ts.push_back(f.ts), cpu.push_back(f.cpu.v), decision.push_back(f.decision);
        return nb::make_tuple(own(std::move(ts)), own(std::move(cpu)), own(std::move(decision)));
    }
    void account(In<int64_t> ts, In<uint16_t> cpu, In<int64_t> decision, Ns window) {
        std::vector<Flip> flips;
        for (size_t i = 0; i < ts.shape(0) && i < cpu.shape(0) && i < decision.shape(0); ++i) {
            if (cpu.data()[i] >= n_cpus_) throw std::invalid_argument("a flip names a CPU that does not exist");
            flips.push_back({ts.data()[i], Cpu(cpu.data()[i]), decision.data()[i]});
        }
        loop_.account(std::move(flips), window);
    }
    nb::dict blames() const {
        std::vector<uint16_t> proven, possible, placebo_proven, placebo_possible;
        std::vector<uint8_t> answers, among, equivalent;
        for (const Blame& b : loop_.blames()) {
            proven.push_back(b.proven), possible.push_back(b.possible);
            placebo_proven.push_back(b.placebo_proven), placebo_possible.push_back(b.placebo_possible);
            answers.push_back(b.answers), among.push_back(b.among), equivalent.push_back(b.equivalent);
        }
        nb::dict d;
        d["proven"] = own(std::move(proven));
        d["possible"] = own(std::move(possible));
        d["placebo_proven"] = own(std::move(placebo_proven));
        d["placebo_possible"] = own(std::move(placebo_possible));
        d["answers"] = own(std::move(answers));
        d["among"] = own_bool(std::move(among));
        d["equivalent"] = own_bool(std::move(equivalent));
        return d;
    }

    nb::object wide_under(const std::vector<PyFlips>& first) const { return own(loop_.wide_under(hypotheses(first))); }

    nb::dict wide_apart(const PyFlips& base, const std::vector<PyFlips>& tries,
                        const nb::ndarray<const bool, nb::ndim<1>, nb::c_contig>& asked) const {
        const std::vector<bool> rows(asked.data(), asked.data() + asked.shape(0));
        const FlipsApart a = loop_.wide_apart(hypothesis(base), hypotheses(tries), rows);
        nb::dict d;
        d["row"] = own(a.row), d["curr"] = own(a.curr), d["p"] = own(a.p);
        d["of_curr"] = own(a.of_curr), d["of_p"] = own(a.of_p);
        return d;
    }

    nb::dict answers() const {
        const PanelAnswers& a = loop_.answers();
        nb::dict d;
        d["agreed"] = own(a.agreed);
        d["scanned"] = own(a.scanned);
        d["searched"] = own(a.searched);
        d["wide"] = own(a.wide);
        d["doubt"] = own(a.doubt);
        d["otherwise"] = own(a.otherwise);
        d["decided"] = own_bool(a.decided);
        d["scan_prev"] = own(a.scan_prev);
        d["scan_waker"] = own(a.scan_waker);
        d["chances_prev"] = own(a.chances_prev);
        d["chances_waker"] = own(a.chances_waker);
        d["writes_prev"] = own(a.writes_prev);
        d["writes_waker"] = own(a.writes_waker);
        return d;
    }

    nb::dict inputs() const {
        const InputLog& log = loop_.inputs();
        nb::dict d;
        d["decided"] = own_bool(log.decided);
        d["sync"] = own_bool(log.sync);
        d["recent_cpu"] = own(log.recent_cpu);
        d["flips"] = own(log.flips);
        d["flips_warm"] = own(log.flips_warm);
        d["flips_known"] = own_bool(log.flips_known);
        d["recent_known"] = own_bool(log.recent_known);
        d["util"] = own(log.util);
        d["load"] = own(log.load);
        d["rq_load"] = own(log.rq_load);
        d["nallowed"] = own(log.nallowed);
        d["nr_idle_scan"] = own(log.nr_idle_scan);
        d["has_idle_cores"] = own(log.has_idle_cores);
        d["rq_nr"] = own(log.rq_nr);
        return d;
    }

    PyOpenLoop(const PyOpenLoop&) = delete;
    PyOpenLoop& operator=(const PyOpenLoop&) = delete;

    static nb::list histogram(const Histogram& h) {
        nb::list out;
        if (h.zero) out.append(nb::make_tuple(nb::none(), h.zero));
        for (size_t b = 0; b < h.n.size(); ++b)
            if (h.n[b]) out.append(nb::make_tuple(b, h.n[b]));
        return out;
    }
    nb::list recorded_buckets() const { return histogram(loop_.recorded()); }

    void watch(std::vector<int64_t> event_ids) { loop_.watch(std::move(event_ids)); }
    nb::list explanations() const { return plain(loop_.explanations(), topo_); }

    nb::list totals() {
        nb::list out;
        for (const OpenLoop::Instance& in : loop_.instances()) {
            nb::dict d;
            d["decided"] = in.counts.decided;
            d["exposed"] = in.counts.exposed;
            d["self_collision"] = in.counts.self_collisions;
            d["by_energy"] = in.by_energy;
            d["lo"] = histogram(in.counts.lo);
            d["hi"] = histogram(in.counts.hi);
            out.append(d);
        }
        return out;
    }

  private:
    static IdleLatency ranges(const std::vector<std::tuple<Ns, Ns>>& same,
                              const std::vector<std::tuple<Ns, Ns>>& cross) {
        IdleLatency l;
        for (auto [lo, hi] : same) l.same_llc.push_back({lo, hi});
        for (auto [lo, hi] : cross) l.cross_llc.push_back({lo, hi});
        l.have = !same.empty() || !cross.empty();
        return l;
    }

    Topology topo_;
    size_t n_cpus_, n_tasks_, n_masks_;
    OpenLoop loop_;
};

nb::tuple steps(const nb::dict& rules, const nb::dict& votes) {
    StepRules r;
    r.values = nb::cast<std::vector<int32_t>>(rules["values"]);
    r.stays = nb::cast<float>(rules["stays"]);
    r.kept = nb::cast<float>(rules["kept"]);
    r.doubt = nb::cast<float>(rules["doubt"]);
    r.hint = nb::cast<float>(rules["hint"]);
    r.reach = nb::cast<float>(rules["reach"]);
    r.block = nb::cast<Ns>(rules["block"]);
    r.causal = nb::cast<bool>(rules["causal"]);
    const auto share = [](float x) { return x > 0 && x <= 1; };
    if (r.block < 1 || !(r.reach > 0) || !share(r.doubt) || !share(r.hint) || !share(r.stays) || !share(r.kept))
        throw std::invalid_argument(
            "block, reach, doubt, hint, stays and kept must be positive, the last four at most 1");
    StepVotes v;
    v.n = kAnyLength;
    v.n_llcs = nb::cast<int32_t>(votes["n_llcs"]);
    v.ts = column<int64_t>(votes, "ts", v.n);
    v.agreed = column<uint32_t>(votes, "agreed", v.n);
    v.searched = column<uint8_t>(votes, "searched", v.n);
    v.llc_prev = column<uint16_t>(votes, "llc_prev", v.n);
    v.llc_waker = column<uint16_t>(votes, "llc_waker", v.n);
    v.model_prev = column<int32_t>(votes, "model_prev", v.n);
    v.model_waker = column<int32_t>(votes, "model_waker", v.n);
    v.chances_prev = column<int32_t>(votes, "chances_prev", v.n);
    v.chances_waker = column<int32_t>(votes, "chances_waker", v.n);
    v.writes_prev = column<int32_t>(votes, "writes_prev", v.n);
    v.writes_waker = column<int32_t>(votes, "writes_waker", v.n);
    LlcSteps found = steps_in_time(r, v);
    return nb::make_tuple(own(std::move(found.prev)), own(std::move(found.waker)));
}

using Codes = std::vector<std::pair<unsigned, const char*>>;

/// Names in order of their codes, with a hole where two codes collide: a test compares them with forms/tables.py.
nb::list by_code(const Codes& codes) {
    std::vector<std::string> names(codes.size());
    for (const auto& [code, name] : codes)
        if (code < names.size()) names[code] = name;
    nb::list out;
    for (const std::string& name : names) out.append(nb::cast(name));
    return out;
}
template <class E>
unsigned code(E e) {
    return static_cast<unsigned>(e);
}
unsigned bit(unsigned mask) { return static_cast<unsigned>(std::countr_zero(mask)); }

void bind_codes(nb::module_& m) {
    using C = DecisionClass;
    using S = PrevState;
    nb::dict enums;
    enums["decision_class"] = by_code({{code(C::moved), "moved"},
                                       {code(C::stayed), "stayed"},
                                       {code(C::self), "self"},
                                       {code(C::bypass_on_rq), "bypass_on_rq"},
                                       {code(C::maybe_on_cpu), "maybe_on_cpu"},
                                       {code(C::maybe_delayed), "maybe_delayed"},
                                       {code(C::pinned), "pinned"},
                                       {code(C::rt), "rt"},
                                       {code(C::dl), "dl"},
                                       {code(C::ext), "ext"},
                                       {code(C::throttled), "throttled"},
                                       {code(C::core_cookie), "core_cookie"},
                                       {code(C::unclosed), "unclosed"},
                                       {code(C::waker_lost), "waker_lost"},
                                       {code(C::observer), "observer"},
                                       {code(C::unrecorded), "unrecorded"}});
    enums["decision_kind"] =
        by_code({{code(Kind::wake), "wake"}, {code(Kind::fork), "fork"}, {code(Kind::exec), "exec"}});
    enums["irq_ctx"] = by_code({{code(IrqCtx::task), "task"},
                                {code(IrqCtx::softirq), "softirq"},
                                {code(IrqCtx::hardirq), "hardirq"},
                                {code(IrqCtx::nmi), "nmi"}});
    enums["migrate_cause"] = by_code({{code(Cause::wake), "wake"},
                                      {code(Cause::fork), "fork"},
                                      {code(Cause::exec), "exec"},
                                      {code(Cause::newidle), "newidle"},
                                      {code(Cause::periodic), "periodic"},
                                      {code(Cause::active), "active"},
                                      {code(Cause::numa), "numa"},
                                      {code(Cause::affinity), "affinity"},
                                      {code(Cause::hotplug), "hotplug"},
                                      {code(Cause::unknown), "unknown"}});
    enums["prev_state"] = by_code({{code(S::R), "R"},
                                   {code(S::R_plus), "R+"},
                                   {code(S::S), "S"},
                                   {code(S::D), "D"},
                                   {code(S::T), "T"},
                                   {code(S::t), "t"},
                                   {code(S::X), "X"},
                                   {code(S::Z), "Z"},
                                   {code(S::P), "P"},
                                   {code(S::I), "I"},
                                   {code(S::other), "other"}});
    m.attr("ENUMS") = enums;
    m.attr("SCAN_CLOCK") = nb::make_tuple(ScanClock{}.base, ScanClock{}.per_cpu);
    m.attr("INPUTS") = by_code({{bit(kSync), "sync"},
                                {bit(kAllowed), "allowed"},
                                {bit(kLoad), "load"},
                                {bit(kUtil), "util"},
                                {bit(kFlips), "flips"},
                                {bit(kRecent), "recent"},
                                {bit(kHasIdleCores), "has_idle_cores"},
                                {bit(kNrIdleScan), "nr_idle_scan"},
                                {bit(kCfsNr), "cfs_nr"},
                                {bit(kHotClock), "hot_clock"},
                                {bit(kIdlePolicy), "idle_policy"},
                                {bit(kNr), "nr"},
                                {bit(kCapacity), "capacity"},
                                {bit(kDomains), "domains"},
                                {bit(kIrqLoad), "irq_load"},
                                {bit(kIdleState), "idle_state"}});
    m.attr("SUSPECTS") = by_code({{bit(kWasSync), "sync"},
                                  {bit(kWasRecent), "recent"},
                                  {bit(kWasFlips), "flips"},
                                  {bit(kWasLoad), "load"},
                                  {bit(kWasNrIdleScan), "nr_idle_scan"},
                                  {bit(kWasIdleCores), "has_idle_cores"},
                                  {bit(kWasIdle), "idle"},
                                  {bit(kWasSeveral), "several"},
                                  {bit(kWasAllowed), "allowed"},
                                  {bit(kWasUtil), "util"}});
    m.attr("OUTCOMES") = by_code({{bit(kTargetIdle), "target_idle"},
                                  {bit(kIdleMissedLlc), "idle_missed_llc"},
                                  {bit(kIdleMissedMachine), "idle_missed_machine"},
                                  {bit(kStacked), "stacked"},
                                  {bit(kExposed), "exposed"},
                                  {bit(kSelfCollision), "self_collision"},
                                  {bit(kLowConfidence), "low_confidence"}});
}

}  // namespace

}  // namespace rewake::bind

using namespace rewake;
using namespace rewake::bind;

void bind_open_loop(nb::module_& m) {
    m.def(
        "bucket_edges",
        [] {
            std::vector<uint64_t> edges;
            for (size_t b = 0; b < BucketEdges::get().size(); ++b) edges.push_back(BucketEdges::get().edge(int(b)));
            return edges;
        },
        "Largest value, ns, of each latency bucket.");
    nb::class_<PyOpenLoop>(m, "OpenLoop", "Re-decides every recorded decision under each policy (policies.md A13, D1).")
        .def(nb::init<const Recorded&, const std::vector<nb::object>&, uint64_t, const nb::dict&,
                      const std::vector<std::tuple<Ns, Ns>>&, const std::vector<std::tuple<Ns, Ns>>&, const Running&>(),
             nb::arg("recorded"), nb::arg("policies"), nb::arg("seed"), nb::arg("options"), nb::arg("same_llc"),
             nb::arg("cross_llc"), nb::arg("running"), nb::keep_alive<1, 2>(),
             "policies: (name, params) or PolicySource; options: sync, hz, migration_cost (ns), inferred (Input bits), "
             "tick_at (ns, "
             "when "
             "some tick was); optional: exit_latency (us, per CPU and idle state), energy_aware, calls_seen, "
             "first_flips "
             "(hypotheses (flips, grown_s, halved_s, own: [(task, (flips, grown_s, halved_s))]), of which the "
             "decisions' column `flips` names one), own "
             "(per policy: stands for the recorded kernel), settle, clearing (ns, by CPU), lead (ns, of switches and "
             "of queued tasks, by CPU), log_inputs, panel "
             "(the one policy is "
             "asked "
             "under all "
             "of first_flips and panel_scans: answers() instead of ledger()); same_llc, cross_llc: (lo, hi) ns "
             "of recorded wakeups on idle targets by "
             "idle state, the last entry for an unknown state.")
        .def("run", &PyOpenLoop::run, nb::arg("batch"), nb::arg("next").none(), nb::arg("decisions"),
             "Replays one part; `next` holds the first switches of the following one (they end the running segments), "
             "or "
             "is None.")
        .def("ledger", &PyOpenLoop::ledger, nb::arg("k"), nb::sig("def ledger(self, k: int) -> dict"),
             "Ledger columns of policy k for the part just run; the arrays are overwritten by the next run().")
        .def("watch", &PyOpenLoop::watch, nb::arg("event_ids"),
             "Explains the decisions that these events open, when run() comes to them.")
        .def("explanations", &PyOpenLoop::explanations, nb::sig("def explanations(self) -> list[dict]"),
             "Explanations so far, in order; none of a decision that no policy is asked about.")
        .def("recorded_buckets", &PyOpenLoop::recorded_buckets, "(bucket or None for zero, n) of the recorded latency.")
        .def("flips", &PyOpenLoop::flips, nb::sig("def flips(self) -> tuple"),
             "ts, cpu and decision (-1: none) of every CPU that became idle or busy so far (option log_flips).")
        .def("account", &PyOpenLoop::account, nb::arg("ts"), nb::arg("cpu"), nb::arg("decision"), nb::arg("window"),
             nb::sig("def account(self, ts: object, cpu: object, decision: object, window: int) -> None"),
             "From now on accounts for the misses of the recorded kernel's policy; the arrays: flips() of an earlier "
             "run; "
             "window: ns within which the order of events on two CPUs is not known.")
        .def("blames", &PyOpenLoop::blames, nb::sig("def blames(self) -> dict"),
             "Per decision of the part just run: Suspect bits and what the order of events leaves open "
             "(engine/budget.hpp).")
        .def("inputs", &PyOpenLoop::inputs, nb::sig("def inputs(self) -> dict"),
             "Per decision of the part just run: the inputs that the recorded kernel's policy had (option log_inputs).")
        .def("wide_under", &PyOpenLoop::wide_under, nb::arg("first_flips"),
             nb::sig("def wide_under(self, first_flips: list[tuple[object, ...]]) -> object"),
             "With option panel, per decision of all parts run so far: bits of wake_wide() under up to 32 other "
             "hypotheses; ends early where none asked any more.")
        .def(
            "wide_apart", &PyOpenLoop::wide_apart, nb::arg("base"), nb::arg("tries"), nb::arg("asked"),
            nb::sig("def wide_apart(self, base: tuple[object, ...], tries: list[tuple[object, ...]], asked: object) -> "
                    "dict"),
            "With option panel: those decisions of `asked` (by decision so far: bool) of which wake_wide() is another "
            "where one task began as one of "
            "up to 31 `tries` says and all others as `base`: row, curr and p (tasks), of_curr and of_p (FlipsApart of "
            "engine/flips.hpp).")
        .def("answers", &PyOpenLoop::answers, nb::sig("def answers(self) -> dict"),
             "Per decision of the part just run, with option panel: PanelAnswers of engine/panel.hpp; agreed and "
             "searched "
             "have four values each.")
        .def("totals", &PyOpenLoop::totals,
             "Per policy over all parts so far: decided, by_energy, exposed, self_collision, and the buckets of lo and "
             "hi.");
    m.def("steps_in_time", &steps, nb::arg("rules"), nb::arg("votes"),
          nb::sig("def steps_in_time(rules: dict, votes: dict) -> tuple"),
          "nr_idle_scan of the LLCs of prev and of the waker at each wakeup (engine/steps_in_time.hpp). rules: values, "
          "stays, "
          "kept, doubt, hint, reach, block (ns), causal; votes: n_llcs and the columns of StepVotes.");
    nb::list branches;
    for (int i = 0; i < static_cast<int>(Branch::count_); ++i)
        branches.append(nb::cast(std::string(branch_name(static_cast<Branch>(i)))));
    m.attr("BRANCHES") = nb::tuple(branches);
    bind_codes(m);
}
