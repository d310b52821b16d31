// SPDX-License-Identifier: GPL-2.0-or-later
// Runs one conformance vector: builds the View and the private state that the vector gives, runs the part of the policy
// that its scope names, and hands back what it decided and left behind. Comparing is Python's (replay/conformance.py).
#include "replay/bind/conformance.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string_view.h>

#include <map>
#include <tuple>

#include "replay/bind/fields.hpp"
#include "replay/bind/policy_source.hpp"
#include "replay/bind/sequences.hpp"
#include "replay/plugin/plugin.hpp"
#include "replay/policies/composed.hpp"

namespace rewake::bind {
namespace {

Topology read_topology(const Fields& f) {
    Topology t;
    const int64_t n = f.number("ncpu");
    if (n < 1 || n > kMaxCpus) throw std::invalid_argument("ncpu " + std::to_string(n));
    t.n_cpus = static_cast<int>(n);
    t.known = true;
    t.online = f.set("online", t.n_cpus);
    using Sets = std::vector<Numbers>;
    auto each = [&](const char* name, auto use) {
        for (const Numbers& cpus : f.get<Sets>(name)) use(Fields::mask(cpus, t.n_cpus, name), cpus);
    };
    t.smt.assign(t.n_cpus, {});
    for (int c = 0; c < t.n_cpus; ++c) t.smt[c].set(Cpu(static_cast<uint16_t>(c)));
    each("smt", [&](const CpuMask& m, const Numbers& cpus) {
        for (int64_t c : cpus) t.smt[c] = m;
    });
    t.node.assign(t.n_cpus, 0);
    uint16_t node = 0;
    each("nodes", [&](const CpuMask&, const Numbers& cpus) {
        for (int64_t c : cpus) t.node[c] = node;
        ++node;
    });
    for (int64_t cap : f.get<Numbers>("cap_orig")) t.cap_orig.push_back(static_cast<uint16_t>(cap));
    t.has_llc_domain.assign(t.n_cpus, false);
    for (int c = 0; c < t.n_cpus; ++c) t.llc_id.push_back(static_cast<uint16_t>(c));
    each("llc", [&](const CpuMask&, const Numbers& cpus) {
        for (int64_t c : cpus) {
            t.has_llc_domain[c] = true;
            t.llc_id[c] = static_cast<uint16_t>(cpus.front());
        }
    });
    t.cluster.assign(t.n_cpus, {});
    for (nb::dict level : f.get<std::vector<nb::dict>>("levels")) {
        const Fields l(level);
        const auto name = l.get<std::string>("name");
        for (const Numbers& cpus : l.get<Sets>("spans")) {
            Domain d;
            d.name = name;
            d.span = Fields::mask(cpus, t.n_cpus, "spans");
            d.numa = name == "NUMA";
            d.share_llc = name == "SMT" || name == "CLS" || name == "MC";
            d.wake_affine = d.balance_fork = d.balance_exec = !(d.numa && f.flag("numa_far"));
            d.balance_wake = f.flag("balance_wake");
            if (d.numa) d.imb_numa_nr = static_cast<int>(f.number("imb_numa_nr", 0));
            if (name == "CLS")
                for (int64_t c : cpus) t.cluster[c] = d.span;
            t.domains.push_back(std::move(d));
        }
    }
    t.finish();
    t.asym = f.flag("asym");  // its domains may be all even: then those of another root domain are not
    return t;
}

/// Task ids of a vector; the idle tasks come first.
struct Roles {
    TaskId curr, p, other;
    Roles(const Topology& t, const Fields& f, Cpu waker) {
        const auto n = static_cast<uint32_t>(t.n_cpus);
        p = TaskId(n);
        other = TaskId(n + 1);
        const auto who = f.get<std::string>("curr");
        curr = who == "idle" ? TaskId(waker.v) : who == "p" ? p : TaskId(n + 2);
    }
};

View read_view(const Fields& f, const Topology& t) {
    View v;
    v.topo = &t;
    const int n = t.n_cpus;
    const std::vector<int32_t> zeros(n, 0);
    const CpuMask current = f.set("idle", n), pending = f.has("pending") ? f.set("pending", n) : CpuMask{};
    const CpuMask stolen = f.has("vcpu_preempted") ? f.set("vcpu_preempted", n) : CpuMask{};
    v.nr = f.per_cpu("nr", zeros);
    v.cfs_nr = f.per_cpu("cfs_nr", v.nr);
    v.delayed = f.per_cpu("delayed", zeros);
    v.load = f.per_cpu("load", std::vector<int64_t>(n, 0));
    v.cap = f.per_cpu("cap", std::vector<int32_t>(t.cap_orig.begin(), t.cap_orig.end()));
    v.thermal = f.per_cpu("thermal", zeros);
    v.clock_task = f.per_cpu("clock_task", std::vector<Ns>(n, 0));
    v.avg_idle.assign(n, f.number("avg_idle", 0));
    const auto idle_h = f.per_cpu("idle_h", zeros);
    for (int i = 0; i < n; ++i) {
        const Cpu c(static_cast<uint16_t>(i));
        v.idle.assign(c, current.test(c) && v.nr[i] == 0 && !pending.test(c));
        v.avail.assign(c, v.idle.test(c) && !stolen.test(c));
        v.sidle.assign(c, v.nr[i] > 0 && idle_h[i] == v.nr[i]);
    }
    v.scan_clocks = {{.base = 0, .per_cpu = 0}};  // frozen
    v.nr_idle_scan.assign(t.llc_span.size(), 0);
    if (f.has("nr_idle_scan"))
        for (const Numbers& pair : f.get<std::vector<Numbers>>("nr_idle_scan"))
            v.nr_idle_scan[t.llc[Fields::checked(pair.at(0), n, "nr_idle_scan").v].v] =
                static_cast<int32_t>(pair.at(1));
    return v;
}

SlowInputs read_slow(const Fields& f, const Topology& t, const View& v) {
    const std::vector<int32_t> zeros(t.n_cpus, 0);
    SlowInputs s;
    if (f.has("pending")) s.pending = f.set("pending", t.n_cpus);
    s.blocked_load = f.per_cpu("blocked_load", v.load);
    s.util = f.per_cpu("util", zeros);
    s.util_est = f.per_cpu("util_est", zeros);
    s.runnable = f.per_cpu("runnable", zeros);
    s.exit_latency = f.per_cpu("exit_latency", std::vector<int32_t>(t.n_cpus, -1));
    s.idle_stamp = f.per_cpu("idle_stamp", std::vector<Ns>(t.n_cpus, 0));
    return s;
}

IrqLoad read_irq(const Fields& f, const Topology& t) {
    return {.intrload = f.per_cpu("intrload", std::vector<int32_t>(t.n_cpus, 0)),
            .threshold = static_cast<int32_t>(f.number("intr_threshold", 1000))};
}

Wakeup read_wakeup(const Fields& f, const Topology& t, const Roles& roles, const CpuMask& allowed) {
    Wakeup w;
    const auto kind = f.get<std::string>("kind", "wake");
    if (kind != "wake" && kind != "fork" && kind != "exec") throw std::invalid_argument("unknown kind " + kind);
    w.kind = kind == "wake" ? Kind::wake : kind == "fork" ? Kind::fork : Kind::exec;
    w.p = roles.p;
    w.curr = roles.curr;
    w.waker = f.cpu("waker", t.n_cpus);
    w.prev = w.task_cpu = w.waker;
    if (f.get<std::string>("scope") != "idlest_cpu") {
        w.prev = f.cpu("prev", t.n_cpus);
        w.task_cpu = f.cpu("task_cpu", t.n_cpus);
    }
    w.allowed = &allowed;
    w.n_allowed = allowed.count();
    w.sync = f.flag("sync");
    w.in_task = f.number("in_task", 1) != 0;
    w.curr_is_idle = f.get<std::string>("curr") == "idle";
    w.curr_kthread = f.flag("curr_kthread");
    w.curr_one_cpu = f.number("curr_nr_allowed", 0) == 1;
    w.curr_exiting = f.flag("curr_exiting");
    w.migration_disabled = f.flag("p_migration_disabled");
    w.p_idle_policy = f.flag("p_idle_policy");
    w.p_load = f.number("p_load", 0);
    w.curr_load = f.number("curr_load", 0);
    w.p_util = static_cast<int32_t>(f.number("p_util", 0));
    w.p_util_est = static_cast<int32_t>(f.number("p_util_est", 0));
    w.p_runnable = static_cast<int32_t>(f.number("p_runnable", 0));
    w.numa_preferred = static_cast<int16_t>(f.number("p_numa_preferred", -1));
    w.hint = static_cast<uint8_t>(f.number("hint", 0));
    w.uclamp_used = f.has("uclamp");
    if (w.uclamp_used) {
        const auto clamp = f.get<Numbers>("uclamp");
        w.uclamp_min = static_cast<int32_t>(clamp.at(0));
        w.uclamp_max = static_cast<int32_t>(clamp.at(1));
    }
    w.jiffies = static_cast<uint64_t>(f.number("jiffies", 0));
    w.hz = static_cast<uint32_t>(f.number("hz", 250));
    w.p_exec_start = f.number("p_exec_start", 0);
    w.migration_cost = f.number("migration_cost", 500000);
    return w;
}

void read_state(const Fields& f, const Topology& t, const Roles& roles, PolicyState& s) {
    s.tasks.clear();
    s.hic.assign(t.llc_span.size(), 0);
    for (int64_t id : f.get<Numbers>("hic", {})) s.hic[t.llc[Fields::checked(id, t.n_cpus, "hic").v].v] = 1;
    s.scan_cost.assign(static_cast<size_t>(t.n_cpus), f.number("avg_scan_cost", 0));
    auto recent = [&](TaskId task, const char* name) {
        if (!f.has(name)) return;
        s.task(task).has_recent = true;
        s.task(task).recent = f.cpu(name, t.n_cpus);
    };
    recent(roles.curr, "curr_recent");
    recent(roles.p, "p_recent");  // last: an exec's curr is p
    s.task(roles.p).flips = static_cast<uint32_t>(f.number("p_flips", 0));
    PolicyState::Task& curr = s.task(roles.curr);
    curr.flips = static_cast<uint32_t>(f.number("curr_flips", 0));
    curr.decay_ts = static_cast<uint64_t>(f.number("curr_decay_ts", 0));
    const auto last = f.get<std::string>("curr_last_wakee", "none");
    curr.has_last_wakee = last != "none";
    curr.last_wakee = last == "p" ? roles.p : roles.other;
    s.buddies.clear();
    auto buddy = [&](TaskId task, const std::string& of) {
        auto who = [&](const std::string& name) {
            const auto role = f.get<std::string>(name.c_str(), "none");
            return role == "p"       ? roles.p
                   : role == "curr"  ? roles.curr
                   : role == "other" ? roles.other
                                     : PolicyState::Buddy::kNobody;
        };
        auto ref = [&](const std::string& name) { return static_cast<uint32_t>(f.number(name.c_str(), 0)); };
        s.buddy(task) = {who(of + "_waker"), who(of + "_wakee"), ref(of + "_waker_ref"), ref(of + "_wakee_ref")};
    };
    buddy(roles.curr, "curr");
    buddy(roles.p, "p");
}

void write_state(nb::dict& out, const Topology& t, const Roles& roles, Cpu waker, PolicyState& s) {
    nb::list hic;
    for (int c = 0; c < t.n_cpus; ++c)
        if (t.llc_id[c] == c && s.hic[t.llc[c].v]) hic.append(c);
    out["hic"] = hic;
    const PolicyState::Task p = s.task(roles.p), curr = s.task(roles.curr);
    out["p_recent"] = p.has_recent ? nb::object(nb::int_(p.recent.v)) : nb::none();
    out["curr_recent"] = curr.has_recent ? nb::object(nb::int_(curr.recent.v)) : nb::none();
    out["waker_scan_cost"] = s.scan_cost[waker.v];
    const PolicyState::Buddy p_buddy = s.buddy(roles.p), curr_buddy = s.buddy(roles.curr);
    auto role = [&](TaskId who) {
        return who == PolicyState::Buddy::kNobody ? "none"
               : who == roles.p                   ? "p"
               : who == roles.curr                ? "curr"
                                                  : "other";
    };
    out["p_waker"] = role(p_buddy.waker);
    out["p_wakee"] = role(p_buddy.wakee);
    out["p_waker_ref"] = p_buddy.waker_ref;
    out["p_wakee_ref"] = p_buddy.wakee_ref;
    out["curr_wakee"] = role(curr_buddy.wakee);
    out["curr_waker_ref"] = curr_buddy.waker_ref;
    out["curr_wakee_ref"] = curr_buddy.wakee_ref;
    out["curr_flips"] = curr.flips;
    out["curr_last_wakee"] = !curr.has_last_wakee ? "none" : curr.last_wakee == roles.p ? "p" : "other";
    out["curr_decay_ts"] = curr.decay_ts;
}

class Oracle {
  public:
    explicit Oracle(const std::vector<nb::dict>& topologies) {
        for (const nb::dict& d : topologies) {
            const Fields f(d);
            const auto name = f.get<std::string>("name");
            try {
                topologies_.emplace(name, read_topology(f));
            } catch (const std::invalid_argument& e) {
                throw std::invalid_argument("topology " + name + ": " + e.what());
            }
        }
    }

    Oracle(const Oracle&) = delete;

    /// A policy that the registry does not have. `source` must outlive the oracle.
    void add(const std::string& name, const PolicySource& source) { sources_[name] = &source; }

    nb::dict run(const std::string& policy, nb::dict vector, const PolicyParams& params, int64_t id) {
        const Fields f(std::move(vector));
        const auto scope = f.get<std::string>("scope");
        if (scope == "wake" || scope == "sis" || scope == "wake_affine" || scope == "fork_exec" ||
            scope == "idlest_cpu")
            return decision(policy, params, scope, f, id);
        const auto what = f.get<std::string>("what", "");
        if (what == "record_wakee") return wakee_sequence(f);
        if (what == "has_idle_cores") return idle_core_sequence(policy, f);
        if (what == "should_scan" && policy == "idle-thread-scan") return scan_estimate(f);
        if (what == "buddy" && policy == "wakeup-buddy") return buddy_sequence(f);
        if (what == "intrload" && policy == "irq-aware") return irq_sequence(f);
        if (what == "threshold" && policy == "irq-aware") return irq_threshold(f);
        throw Unsupported(policy + " has no scope " + scope + (what.empty() ? "" : " " + what));
    }

  private:
    /// The policy on that machine, made once.
    Policy& made(const std::string& policy, const PolicyParams& params, const std::string& name) {
        const auto t = topologies_.find(name);
        if (t == topologies_.end()) throw std::invalid_argument("no topology '" + name + "'");
        auto& made = policies_[{policy, params, name}];
        const auto source = sources_.find(policy);
        if (!made)
            made = source == sources_.end() ? make_policy(policy, params, t->second, 0)
                                            : source->second->make(t->second, 0);
        return *made;
    }

    nb::dict decision(const std::string& policy, const PolicyParams& params, const std::string& scope, const Fields& f,
                      int64_t id) {
        const auto name = f.get<std::string>("topo");
        Policy& whole = made(policy, params, name);
        auto* plugin = dynamic_cast<PluginPolicy*>(&whole);
        auto* composed = plugin ? &plugin->base() : dynamic_cast<Composed*>(&whole);
        if (!composed || (plugin && scope != "wake" && scope != "fork_exec"))
            throw Unsupported(policy + " has no parts");
        Composed& c = *composed;
        const Topology& t = topologies_.at(name);
        View v = read_view(f, t);
        const SlowInputs slow = read_slow(f, t, v);
        v.slow = &slow;
        const IrqLoad irq = read_irq(f, t);
        v.irq = &irq;
        const CpuMask allowed = f.has("allowed") ? f.set("allowed", t.n_cpus) : t.online;
        const Roles roles(t, f, f.cpu("waker", t.n_cpus));
        Wakeup w = read_wakeup(f, t, roles, allowed);
        w.id = id;
        read_state(f, t, roles, c.state);
        nb::dict out;
        if (scope == "wake_affine") {
            const auto cpu = c.affine(v, w);
            if (!cpu) throw std::invalid_argument("no domain of the waker holds prev");
            out["cpu"] = cpu->v;
            return out;
        }
        if (scope == "idlest_cpu") {
            const auto cpu = c.idlest_cpu(v, w, f.set("group", t.n_cpus));
            out["cpu"] = cpu ? int{cpu->v} : -1;
            return out;
        }
        const Decision d = scope == "sis" ? c.select_idle_sibling(v, w, f.cpu("target", t.n_cpus))
                                          : whole.decide(v, w, nullptr, Cpu{});
        out["cpu"] = d.undecided ? nb::none() : nb::object(nb::int_(d.cpu.v));
        if (scope != "sis" && d.class_called && !d.undecided) out["class_cpu"] = d.class_cpu.v;
        if (d.widened) out["widened"] = true;
        write_state(out, t, roles, w.waker, c.state);
        if (d.branch < Branch::count_) out["exit"] = std::string(branch_name(d.branch));
        return out;
    }

    std::map<std::string, Topology> topologies_;
    std::map<std::string, const PolicySource*> sources_;
    std::map<std::tuple<std::string, PolicyParams, std::string>, std::unique_ptr<Policy>> policies_;
};

}  // namespace
}  // namespace rewake::bind

namespace nb = nanobind;

void bind_conformance(nb::module_& m) {
    using namespace rewake::bind;
    nb::exception<Unsupported>(m, "Unsupported");
    nb::class_<Oracle>(m, "Oracle", "Runs conformance vectors on the machines of topologies.json.")
        .def(nb::init<const std::vector<nb::dict>&>(), nb::arg("topologies"))
        .def("add", &Oracle::add, nb::arg("name"), nb::arg("source"), nb::keep_alive<1, 3>(),
             "Makes a policy known that is not in the registry.")
        .def("run", &Oracle::run, nb::arg("policy"), nb::arg("vector"), nb::arg("params") = rewake::PolicyParams{},
             nb::arg("id") = 0,
             "What the policy decides and leaves behind, in the fields of the vector's `out` (sequences: `steps`). "
             "Raises Unsupported\n"
             "when the policy has no such scope, ValueError for a malformed vector.");
}
