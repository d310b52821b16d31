# SPDX-License-Identifier: GPL-2.0-or-later
"""Every table and column of a recording (``NAME.rewake/``) and of a run (``NAME.run/``): name, type, unit and meaning.

docs/columns.md is generated from these declarations and the C++ column structs are checked against them by a test.

Absent is NULL, nothing is ever -1. Enumerations cross as small integers: the code is the index into the tuple in
`ENUMS`.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA_VERSION = 1
"""Additive columns keep the number; anything else raises it."""

BATCH_EVENTS = 1_000_000
"""Most events that decode hands on at once; one part file per batch and table."""

TRUE = ("1", "true", "on", "yes")
"""Words for a parameter of a policy that is on."""

NOT_RECORDED = "no {}: "
"""With its name, what the line on an event of wakeups that was not recorded begins with, in a manifest's `missing`."""

ENUMS: dict[str, tuple[str, ...]] = {
    # Interrupt context of the record, from common_flags (nmi wins over hardirq wins over softirq).
    "irq_ctx": ("task", "softirq", "hardirq", "nmi"),
    # prev_state of sched_switch, by the letters of the event's own print format; preempted is the kernel's "R+".
    "prev_state": ("R", "R+", "S", "D", "T", "t", "X", "Z", "P", "I", "other"),
    "migrate_cause": (
        "wake", "fork", "exec", "newidle", "periodic", "active", "numa", "affinity", "hotplug", "unknown",
    ),
    "irq_kind": (
        "device", "local_timer", "reschedule", "call_function", "call_function_single", "irq_work", "thermal_apic",
        "threshold_apic", "deferred_error_apic", "error_apic", "spurious_apic", "x86_platform_ipi", "other",
    ),
    "softirq_phase": ("raise", "entry", "exit"),
    "ipi_phase": ("send", "entry", "exit"),
    "probe_phase": ("in", "out"),
    "decision_kind": ("wake", "fork", "exec"),
    "decision_class": (
        "moved", "stayed", "self", "bypass_on_rq", "maybe_on_cpu", "maybe_delayed", "pinned", "rt", "dl", "ext",
        "throttled", "core_cookie", "unclosed", "waker_lost", "observer", "unrecorded",
    ),
    "task_source": ("idle", "fork", "first_sight", "snapshot"),
    "attr_source": ("snapshot", "event", "inferred"),
    "policy_class": ("other", "fifo", "rr", "batch", "iso", "idle", "deadline", "ext"),
}  # fmt: skip

FAIR_CLASSES = ("moved", "stayed")
"""Decision classes that are the fair class's own decisions: the population of every decision metric."""

INPUTS = (
    "sync", "allowed", "load", "util", "flips", "recent", "has_idle_cores", "nr_idle_scan", "cfs_nr", "hot_clock",
    "idle_policy", "nr", "capacity", "domains", "irq_load", "idle_state",
)  # fmt: skip
"""Bits of `inputs_assumed`, lowest first: inputs that were inferred or modelled where the decision looked at them."""

OUTCOMES = (
    "target_idle", "idle_missed_llc", "idle_missed_machine", "stacked", "exposed", "self_collision", "low_confidence",
)  # fmt: skip
"""Bits of `outcome`, lowest first: what the chosen CPU looked like at the decision."""


@dataclass(frozen=True)
class Column:
    """One column: DuckDB type, whether NULL may occur, unit ('' when none), enumeration ('' when none), meaning."""

    name: str
    type: str
    nullable: bool
    unit: str
    enum: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table: a directory of Parquet part files (`parts`) or a single file, in the order of its first column."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    parts: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


_TYPES = {
    "i64": "BIGINT", "i32": "INTEGER", "i16": "SMALLINT", "u8": "UTINYINT", "u16": "USMALLINT", "u32": "UINTEGER",
    "u64": "UBIGINT", "bool": "BOOLEAN", "str": "VARCHAR", "f64": "DOUBLE", "i32[]": "INTEGER[]", "i64[]": "BIGINT[]",
}  # fmt: skip


def _table(name: str, meaning: str, spec: str, *, parts: bool = False) -> Table:
    """Reads one column a line: `name type[?] [unit] [enum:NAME] | meaning`; a `?` means that NULL may occur."""
    columns = []
    for line in spec.strip().splitlines():
        if not line:
            continue
        head, _, text = line.partition("|")
        words = head.split()
        kind = words[1]
        enum = next((w[5:] for w in words[2:] if w.startswith("enum:")), "")
        unit = next((w for w in words[2:] if not w.startswith("enum:")), "")
        columns.append(Column(words[0], _TYPES[kind.rstrip("?")], kind.endswith("?"), unit, enum, text.strip()))
    return Table(name, meaning, tuple(columns), parts)


_HEAD = """
id        i64      | number of the event in (time, cpu, sequence) order, dense over all tables; a slice keeps it
ts_ns     i64  ns  | timestamp on the recording's clock
cpu       u16      | CPU that recorded the event
"""
_CURR = """
curr_task u32      | task that was current on `cpu` (interrupt context: the interrupted task)
irq_ctx   u8  enum:irq_ctx | interrupt context of the record
"""

EVENT_TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table("switch", "sched_switch", _HEAD + """
prev_task  u32     | task that leaves the CPU
prev_prio  i16     | kernel priority of prev_task: below 0 deadline, 0-99 RT, 100-139 fair
prev_state u8 enum:prev_state | why it leaves: R/R+ still runnable, X/Z dead, else asleep (other: also by raced.py)
next_task  u32     | task that gets the CPU
next_prio  i16     | kernel priority of next_task
"""),
        _table("waking", "sched_waking (4.3+)", _HEAD + _CURR + """
task       u32     | wakee
prio       i16     | kernel priority of the wakee
target_cpu u16     | task_cpu(wakee) before placement, i.e. its previous CPU; never the chosen one
"""),
        _table("wakeup", "sched_wakeup and sched_wakeup_new (success=0: dropped and counted)", _HEAD + _CURR + """
task       u32     | wakee
prio       i16     | kernel priority of the wakee
target_cpu u16     | CPU on whose run queue it was put
is_new     bool    | true for sched_wakeup_new
"""),
        _table("migrate", "sched_migrate_task", _HEAD + _CURR + """
task       u32     | task that moves
prio       i16     | its kernel priority
orig_cpu   u16     | CPU it leaves
dest_cpu   u16     | CPU it goes to
cause      u8? enum:migrate_cause | why, worked out at import
"""),
        _table("fork", "sched_process_fork", _HEAD + """
task       u32     | parent
child      u32     | child (a new generation of its tid)
"""),
        _table("exec", "sched_process_exec", _HEAD + """
task       u32     | task that executes the new program
"""),
        _table("exit", "sched_process_exit", _HEAD + """
task       u32     | task that exits
prio       i16     | its kernel priority
"""),
        _table("irq", "irq_handler_entry/exit and irq_vectors:*", _HEAD + """
curr_task  u32     | interrupted task
kind       u8 enum:irq_kind | device handler or the vector's name
vector     i32     | interrupt number (device) or vector
entry      bool    | true on entry, false on exit
"""),
        _table("softirq", "softirq_raise/entry/exit", _HEAD + """
curr_task  u32     | task that was current
vec        u8      | softirq number
phase      u8 enum:softirq_phase | raise, entry or exit
"""),
        _table("ipi", "ipi:* events", _HEAD + """
curr_task  u32     | task that was current
phase      u8 enum:ipi_phase | sent (ipi_raise, ipi_send_cpu, ipi_send_cpumask), handler entry or exit
target_cpu u16?    | receiving CPU where the event names exactly one
"""),
        _table("idle", "cpu_idle", _HEAD + """
idle_cpu   u16     | CPU whose idle state changes (cpu_id)
state      u32?    | idle state entered; NULL: the CPU leaves idle
"""),
        _table("freq", "cpu_frequency", _HEAD + """
freq_cpu   u16     | CPU whose frequency changes (cpu_id)
khz        u32 kHz | new frequency
"""),
        _table("loss", "gaps in a CPU's stream", _HEAD + """
lost       i64?    | events lost just before the next event of this CPU; NULL: unknown number
"""),
        _table("probe", "rewake:select_in / select_out, ground truth of placement", _HEAD + """
curr_task  u32     | task that was current (the waker)
phase      u8 enum:probe_phase | entry or return of the placement function
task       u32?    | in: wakee
prev_cpu   u16?    | in: prev handed to the function
wake_flags i32?    | in: wake flags
recent_cpu u16?    | in: recent_used_cpu of the wakee
flips      u32?    | in: wakee_flips of the wakee
util       i64?    | in: util_avg of the wakee
load       i64?    | in: load_avg of the wakee
nallowed   i32?    | in: number of CPUs the wakee may use
nr_idle_scan i32?  | in: nr_idle_scan of the LLC of the wakee's CPU
has_idle_cores i32? | in: has_idle_cores of the LLC of the wakee's CPU
rq_load    i64?    | in: load_avg of the wakee's run queue
rq_nr      i32?    | in: nr_running of the wakee's run queue
chosen_cpu u16?    | out: CPU that the function returned
"""),
    )
}  # fmt: skip
EVENT_TABLES = {k: Table(t.name, t.meaning, t.columns, parts=True) for k, t in EVENT_TABLES.items()}

MACHINE_TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table("cpu", "one row per possible CPU", """
cpu      u16    | CPU number
core     u16?   | lowest CPU number of its physical core (hardware siblings)
llc      u16?   | lowest CPU number that shares its last-level cache (llc_id); the CPU itself when it has no LLC domain
cluster  u16?   | lowest CPU number of its cluster; NULL when the kernel has no cluster level there
node     u16?   | NUMA node number
package  u16?   | physical package number
capacity u16?   | cap_orig, 1024 = biggest CPU of the machine
"""),
        _table("cpu_state", "state of a CPU over time", """
cpu         u16      | CPU number
from_ns     i64  ns  | valid from this time on
online      bool     | whether it is online
isolated    bool     | whether it has no scheduler domain (isolcpus)
root_domain u16?     | lowest CPU number of its root domain
capacity    u16?     | cap_orig from this time on
"""),
        _table("domain", "scheduler domains, bottom up", """
cpu           u16   | CPU whose domain it is
level         u8    | 0 = lowest
name          str   | kernel's name (SMT, CLS, MC, PKG/DIE, NUMA)
span          str   | CPUs in kernel list form (0-3,8)
flags         str   | SD_* flags, space separated
imbalance_pct u16?  % | imbalance_pct of the level
"""),
    )
}  # fmt: skip

TASK_TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table("task", "one row per task (tid + generation); ids 0..n_cpus-1 are the idle tasks", """
task_id    u32      | dense number
tid        u32      | thread id (0: idle task)
generation u32      | 0 for the first task seen with this tid
tgid       u32?     | process id, from the snapshot
parent     u32?     | task_id of the parent, from fork
kthread    bool?    | kernel thread, from the snapshot or as its parent
observer   bool?    | belongs to the collector that made the trace; NULL: the capture does not say
source     u8 enum:task_source | how it became known
first_ns   i64?  ns | first event that names it; NULL: snapshot only
exit_ns    i64?  ns | its sched_process_exit
"""),
        _table("task_attr", "attributes of a task over time", """
task_id  u32     | task
from_ns  i64? ns | valid from; NULL: from the start
to_ns    i64? ns | valid until; NULL: to the end
comm     u32?    | id into comm; NULL: no event and no snapshot names it
policy   u8? enum:policy_class | scheduling policy
nice     i16?    | nice value
cgroup   u32?    | id into cgroup
allowed  str?    | allowed CPUs in kernel list form
source   u8 enum:attr_source | where the row comes from
"""),
        _table("cgroup", "cgroups of the snapshot", """
cgroup_id u32    | dense number
path      str    | path below the cgroup root; ending in autogroup-N, what the kernel makes of a session
parent    u32?   | parent cgroup
weight    u32?   | cpu.weight, 0 with cpu.idle; of version 1 cpu.shares in its units, 1024 of which are 100
quota_ns  i64? ns | cpu.max quota; NULL: no limit
period_ns i64? ns | cpu.max period
cpuset    str?   | cpuset.cpus.effective
shares    u32?   | cpu.shares of version 1, of which `weight` is the nearest in its units; NULL: of version 2
"""),
        _table("comm", "task names", """
id   u32  | dense number
name str  | name; bytes that are not printable UTF-8 are escaped as \\xNN at decode
"""),
    )
}  # fmt: skip

DECISION = _table("decision", "one row per wakeup, fork or exec that reached, or may have reached, placement", """
decision_id   i64      | dense, in (time, cpu, sequence) order; a slice keeps the numbers of the whole
event_id      i64      | event that opens it (waking, wakeup_new, exec, or the first sign on kernels before 4.3)
ts_ns         i64  ns  | decision time
kind          u8 enum:decision_kind | wake, fork or exec
class         u8 enum:decision_class | what became of it; only moved and stayed are the fair class's own decisions
task          u32      | wakee
waker_task    u32?     | task current on the waker CPU
waker_cpu     u16?     | CPU that executed the wakeup; NULL: lost
irq_ctx       u8? enum:irq_ctx | interrupt context of the waker
prio          i16      | kernel priority of the wakee
prev_cpu      u16?     | CPU the task was on before
chosen_cpu    u16?     | CPU that the kernel picked; NULL: unclosed
ran_cpu       u16?     | CPU where it first ran afterwards; NULL: never seen
chosen_idle   bool?    | chosen CPU was idle (nothing queued, nothing pending) at the decision
idle_state    u32?     | cpu_idle state of the chosen CPU at the decision, when idle and recorded
wakeup_ns     i64? ns  | decision to sched_wakeup
latency_ns    i64? ns  | decision to first switch-in (without sched_waking: from sched_wakeup); 0 when it was running
censored      bool     | no switch-in before the trace ended or events were lost
low_confidence bool    | state of a CPU involved was resynchronised less than 10 ms before
""", parts=True)  # fmt: skip

RUN_TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table("ledger", "row i is decision i under one policy instance", """
cpu            u16?   | CPU the policy chose; NULL: not its decision (other class, or a path it does not have)
branch         u8?    | which rule decided: index into the run manifest's `branches`
cpus_scanned   u16?   | CPUs examined by its idle search
inputs_assumed u32?   | bit set of INPUTS
outcome        u16?   | bit set of OUTCOMES
known          bool?  | it chose what was recorded
lo_ns          i64? ns | latency where not known: lower end; recorded latency where known; NULL: no estimate
hi_ns          i64? ns | upper end; NULL with lo_ns set: unbounded
""", parts=True),
        _table("bucket", "wakeup latency as mergeable logarithmic buckets", """
policy  str     | policy instance
metric  str     | recorded, lo or hi
bucket  i32?    | b = ceil(ln(x)/ln(gamma)), gamma = (1+a)/(1-a), a = 1 %; NULL: the value 0
n       i64     | samples
"""),
        _table("arm", "closed loop: who was in charge of the simulation, and in which replica", """
arm      u16    | number of the arm
policy   str    | policy instance, or the placement that was forced
kind     str    | policy, factual (the recorded kernel's), pinned (recorded placement) or null (pinned, first come)
replica  u16    | number of the replica: another seed for every cost that is drawn
"""),
        _table("sim_window", "closed loop: one simulated window of one arm; all figures modelled", """
arm           u16     | arm
window_id     u32     | number of the window
from_ns       i64 ns  | start of the counted part
to_ns         i64 ns  | its end; earlier than planned where the window diverged
diverged      bool    | stopped: it had left the recording behind
why           str?    | what diverged
wakeups       i64     | wakeups that ended a sleep
early         i64     | wakeups that came before their sleep, which then did not happen
external      i64     | wakeups from outside that were given: timers, devices, tasks of other classes
exhausted     i64     | tasks that came to the end of what was recorded of them
wake_moves    i64     | migrations by wakeups
fork_moves    i64     | migrations by forks
exec_moves    i64     | migrations by execs
newidle_moves i64     | migrations by CPUs that went idle
periodic_moves i64    | migrations by periodic balancing
forced_moves  i64     | recorded migrations that were forced (pinned arms)
missed_moves  i64     | recorded migrations that could not be: the task ran or slept
cross_llc     i64     | migrations of any cause that left the LLC
cross_node    i64     | those that left the NUMA node
preemptions   i64     | times that a task had to leave a CPU to another
switches      i64     | context switches
cpu_ns        i64 ns  | CPU time of the fair tasks
work_ns       i64 ns  | work done of their scripts, at full capacity, the warm-up's included
llc_idle_ns   i64 ns  | time in which a task waited and a CPU of its LLC was idle
llc_over_10us i64     | such intervals of at least 10 us
llc_over_100us i64    | at least 100 us
llc_over_1ms  i64     | at least 1 ms
machine_idle_ns i64 ns | the same, any CPU of the machine
machine_over_10us i64 | intervals of at least 10 us
machine_over_100us i64 | at least 100 us
machine_over_1ms i64  | at least 1 ms
throttled_ns  i64 ns  | time that task groups had somebody to run on a CPU and were throttled there, over both
ends          i64     | tasks that ended in the counted part of the recording
ended         i64     | of these, those that ended here, in the counted part or as long again after it
makespan_ns   i64? ns | from the start of the counted part until the last of them ended; NULL: none of them, or not all
events        i64     | events of the simulation
broken        i64     | conservation checks that failed; 0, or the figures are worthless
"""),
        _table("woken", "closed loop: one simulated wakeup in the counted part of a window", """
arm         u16     | arm
window_id   u32     | window
decision_id i64?    | recorded decision that this wakeup was cut out of
ts_ns       i64 ns  | simulated time of the wakeup
task        u32     | wakee
prev_cpu    u16     | CPU that it was on
cpu         u16     | CPU where it ran, or waited to
idle_target bool    | the chosen CPU was idle
placed      bool    | the policy was asked (pinned arms: the recorded kernel's was)
latency_ns  i64? ns | wakeup to switch-in; NULL: the window ended before (right-censored)
wait_ns     i64? ns | of which on the run queue
"""),
        _table("trial", "agreement of a candidate with the record in one block of time (`fidelity --identify`)", """
policy       str    | candidate: policy instance
sync         str    | WF_SYNC: 0, 1 or auto (inferred for this candidate)
from_ns      i64 ns | start of the block
decisions    i64    | fair wakeups in it that every candidate decided
telling      i64    | those that the kernel or, under this WF_SYNC, some candidate moves: at all others everybody agrees
agreed       i64    | decisions at which the candidate chose the recorded CPU
moved        i64    | wakeups that the kernel moved
moved_agreed i64    | those of them at which the candidate chose the same CPU
policy_moved i64    | wakeups that the candidate moves
"""),
    )
}  # fmt: skip

STORE_TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table("figure", "what a store keeps of a run: one value a row, or one latency bucket", """
suite     str    | what was run: recordings of one suite are repeats of one load
machine   str    | machine class
kernel    str?   | release of the recorded kernel
revision  str?   | commit or build that was measured
made      str    | when, ISO 8601 in UTC: the order of a history
recording str    | the recording's hash
run       str    | name of the run
tool      str    | version of rewake
policy    str    | policy instance; empty in the row that holds the report
metric    str    | metric (analysis/measures.py), `latency` in rows of buckets, `report` in that of the report
side      str?   | end of the figure: lo, hi or, in rows of buckets, recorded
bucket    i32?   | bucket of the table `bucket`; NULL: the value 0, or no row of buckets
value     f64?   | the figure in the metric's unit, or the samples of the bucket; NULL: unbounded
report    str?   | the run's report as JSON, in one row
"""),
    )
}  # fmt: skip
"""Columns may be added; files written before read as NULL there."""

FLEET_TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        _table("shard", "what a fleet keeps of a task: a row per policy, one per policy and cgroup where the task has "
                        "cgroups, or one that says why it failed; counts and buckets add up over rows", """
task      str    | hash of all that the task is made from; the file's name
study     str    | hash of what the tasks of a study share: mode, policies, settings, version
asked     str    | the same in words
mode      str    | open (replay) or closed (simulate)
uri       str    | the trace as it was named
content   str    | hash of the trace's bytes and of the machine's snapshot beside it
from_ns   i64? ns | window of the trace, from its first event; NULL: from its start
until_ns  i64? ns | its end; NULL: to the end
seed      i64    | seed
tool      str    | version of rewake and hash of its code
workload  str?   | what was recorded: as the list said, else the recording's name
made      str?   | when it was recorded, ISO 8601 in UTC; NULL: nobody said
machine   str?   | machine class: CPUs, LLCs, cores, nodes, or as the list said
cpus      i32?   | CPUs
llcs      i32?   | LLCs; NULL: unknown
nodes     i32?   | NUMA nodes; NULL: unknown
kernel    str?   | release of the recorded kernel
span_ns   i64? ns | first to last event of the window
events    i64?   | events in it
lost      i64?   | events lost in it
found     i64?   | decisions of every class in it
refused   str?   | what the quality card says where it refuses the window, few decisions apart; NULL: it does not
no_column str?   | why no policy stands for the recorded kernel; NULL: one does
missed    str?   | closed loop: figures in which the simulated record or recorded kernel misses the recording
error     str?   | kind of failure: trace, usage, memory, timeout, crash, ...; NULL: it did not fail
message   str?   | what failed
policy    str?   | policy instance; NULL: the task failed
base      str?   | the policy without parameters
reference bool?  | a reference policy: a record, a null or an unreachable best
auto      bool?  | it is the column that stands for the recorded kernel
kind      str?   | closed loop: policy, factual, pinned or null (table `arm`)
cgroup    str?   | path of the wakee's cgroup; NULL: all tasks
decisions i64?   | decisions of the population (docs/metrics.md); closed loop: simulated wakeups
would_move i64?  | they leave the previous CPU; closed loop: migrations by wakeups
cross_llc_prev i64? | they leave its LLC; NULL: no topology; closed loop: migrations of any cause that left the LLC
cross_llc_waker i64? | they leave the waker's LLC
cross_node_prev i64? | they leave the node of the previous CPU; closed loop: those that left the node
cross_node_waker i64? | they leave the waker's node
idle_missed_llc i64? | to a busy CPU although one in its LLC is idle
idle_missed_machine i64? | although one anywhere is idle
stacked   i64?   | onto the waker's busy CPU
exposed   i64?   | looked at a CPU that its own earlier picks would have changed
self_collision i64? | picked a CPU that its own earlier pick still occupies
agreed    i64?   | chose the recorded CPU
prev_agreed i64? | the recorded CPU is the previous one: what the null policy prev agrees on
moved     i64?   | the kernel moved the wakee
moved_agreed i64? | of those, chose the recorded CPU
policy_moved_agreed i64? | of those that it moves itself, chose the recorded CPU
llc_agreed i64?  | chose the recorded LLC
assumed   i64?   | looked at an input that was inferred or modelled
scans     i64?   | decisions of which is known how many CPUs were examined
scanned   i64?   | CPUs that they examined
ranked    i64?   | samples of the latency
censored  i64?   | known choices without a recorded switch-in
no_estimate i64? | decisions without any estimate: taken as [0, unbounded)
lo_bucket i32[]? | buckets of the lower ends of the latency (table `bucket`), NULL in it: the value 0
lo_n      i64[]? | samples of each
hi_bucket i32[]? | buckets of the upper ends; what is missing to `ranked` is unbounded
hi_n      i64[]? | samples of each
windows   i64?   | closed loop: simulated windows, over all replicas
diverged  i64?   | closed loop: those that left the recording behind
sim_ns    i64? ns | closed loop: time simulated
cpu_ns    i64? ns | closed loop: CPU time of the fair tasks in it
"""),
    )
}  # fmt: skip
"""Columns may be added; files written before read as NULL there."""

RECORDING_TABLES: dict[str, Table] = {**EVENT_TABLES, **MACHINE_TABLES, **TASK_TABLES, "decision": DECISION}

TABLES: dict[str, Table] = {**RECORDING_TABLES, **RUN_TABLES, **STORE_TABLES, **FLEET_TABLES}
