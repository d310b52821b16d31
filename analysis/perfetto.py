# SPDX-License-Identifier: GPL-2.0-or-later
"""A run as a Perfetto timeline: the recording as one machine, each policy as a machine of its own.

Machine 0 is what was recorded: its sched_switch and sched_waking. The machine of a policy shows placements: each
decision is a slice of the wakee on the CPU that the policy chose, from the decision on, as long as the wakee's recorded
run was, cut at the policy's next placement on that CPU. Nothing is re-run for it: it says where, not when.

Beside the machines there is a group of tracks per policy, one track per CPU below its LLC, with an instant for every
decision: recorded CPU, chosen CPU, the rule that decided, CPUs examined. Where a policy chose another CPU than the
record, an arrow leads from the recorded decision to the policy's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import IO, TYPE_CHECKING, Any

from rewake.errors import MissingExtra, UsageError
from rewake.forms import ENUMS

if TYPE_CHECKING:
    import duckdb

MOST_EVENTS = 2_000_000
"""Events of a timeline above which a window has to be asked for: the Perfetto UI becomes slow there."""

_CHUNK = 50_000
_SEQUENCE = 1
_CLEARED, _NEEDED = 1, 2  # SEQ_INCREMENTAL_STATE_CLEARED, SEQ_NEEDS_INCREMENTAL_STATE
_STATES = {"R": 0, "R+": 256, "S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "Z": 32, "P": 64, "I": 128}
"""sched_switch's prev_state as kernels since 4.14 write it; `other` is shown as S."""
_IDLE = (0, "swapper")
_GROUP = 1 << 24
"""Track numbers: those of group k start at (k + 1) times this."""
_FLOWS = 1 << 48
"""Flow numbers: those of group k start at k times this."""


@dataclass(frozen=True)
class Window:
    """From and until, ns on the recording's clock; until is not part of it."""

    from_ns: int
    until_ns: int


@dataclass(frozen=True)
class Exported:
    """What a timeline holds."""

    switches: int
    wakings: int
    decisions: dict[str, int]
    """Placements by policy instance."""
    differ: dict[str, int]
    """Those of them at another CPU than recorded."""


def export(
    con: duckdb.DuckDBPyConnection,
    manifest: Mapping[str, Any],
    policies: Sequence[str],
    window: Window | None,
    out: IO[bytes],
    branches: Mapping[str, Sequence[str]],
) -> Exported:
    """Writes a timeline of the run that `con` is connected to.

    `manifest`: the recording's; `policies`: instances in the run, `recorded` among them or not; `window` None: all of
    it; `branches`: names of branch codes by instance. UsageError when there are too many events for one timeline,
    MissingExtra without the package perfetto.
    """
    first, last = int(manifest.get("first_ns") or 0), int(manifest.get("last_ns") or 0)
    window = window or Window(first, last + 1)
    shown = [p for p in policies if p != "recorded"]
    _select(con, window, shown)
    _refuse_too_many(con, len(shown), window, first, last)
    writer = _Writer(out)
    cpus = con.execute("SELECT cpu, llc FROM cpu ORDER BY llc NULLS LAST, cpu").fetchall()
    # The leaders of shown threads are there too: processes are called by them.
    known = con.execute(
        """
        SELECT t.task_id, t.tid, coalesce(t.tgid, t.tid), arg_max(c.name, coalesce(a.from_ns, -1)),
            t.task_id IN (FROM shown_task)
        FROM task t LEFT JOIN task_attr a USING (task_id) LEFT JOIN comm c ON c.id = a.comm
        WHERE t.tid > 0 GROUP BY ALL ORDER BY t.task_id
        """
    ).fetchall()
    processes = {tid: str(name) for _, tid, tgid, name, _ in known if tid == tgid and name}
    threads = [(task, tid, tgid, str(name or f"tid-{tid}")) for task, tid, tgid, name, seen in known if seen]
    names = {task: (tid, name) for task, tid, _, name in threads}
    for machine, title in enumerate(["recorded", *shown]):
        writer.machine(machine, title, manifest, [t[1:] for t in threads], processes)
    switches, wakings = writer.recorded(con, names)
    for k, policy in enumerate(["recorded", *shown]):
        writer.tracks(k, policy, cpus)
    writer.recorded_instants(con, shown, names)  # before the policies': an arrow begins before it ends
    decisions, differ = {}, {}
    for k, policy in enumerate(shown, 1):
        decisions[policy] = writer.placements(con, k, policy, names)
        differ[policy] = writer.instants(con, k, policy, names, branches.get(policy, ()))
    return Exported(switches, wakings, decisions, differ)


def _select(con: duckdb.DuckDBPyConnection, window: Window, policies: Sequence[str]) -> None:
    """TEMP tables of what is shown."""
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE shown_switch AS
            SELECT id, ts_ns, cpu, prev_task, prev_prio, prev_state, next_task, next_prio FROM switch
            WHERE ts_ns >= $1 AND ts_ns < $2
        """,
        [window.from_ns, window.until_ns],
    )
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE shown_waking AS
            SELECT id, ts_ns, cpu, curr_task, task, prio, target_cpu FROM waking WHERE ts_ns >= $1 AND ts_ns < $2
        """,
        [window.from_ns, window.until_ns],
    )
    # How long the wakee then ran: until the next switch on the CPU where it first got in.
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE shown_decision AS
        WITH runs AS (
            SELECT next_task AS task, ts_ns, lead(ts_ns) OVER (PARTITION BY cpu ORDER BY id) - ts_ns AS ran_ns
            FROM switch
        )
        SELECT d.decision_id, d.ts_ns, d.task, d.prev_cpu, d.chosen_cpu, d.waker_cpu, d.latency_ns, d.prio, r.ran_ns
        FROM decision d ASOF LEFT JOIN runs r ON d.task = r.task AND d.ts_ns <= r.ts_ns
        WHERE d.ts_ns >= $1 AND d.ts_ns < $2 AND is_fair(d.class)
        """,
        [window.from_ns, window.until_ns],
    )
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE shown_ledger AS
            SELECT l.policy, l.decision_id, l.cpu, l.branch, l.cpus_scanned, l.known, d.* EXCLUDE (decision_id)
            FROM ledger l JOIN shown_decision d USING (decision_id)
            WHERE l.cpu IS NOT NULL AND list_contains($1::VARCHAR[], l.policy)
        """,
        [list(policies)],
    )
    con.execute(
        """
        CREATE OR REPLACE TEMP VIEW shown_task AS
            SELECT prev_task FROM shown_switch UNION SELECT next_task FROM shown_switch
            UNION SELECT task FROM shown_waking UNION SELECT curr_task FROM shown_waking
            UNION SELECT task FROM shown_decision
        """
    )


def _refuse_too_many(con: duckdb.DuckDBPyConnection, policies: int, window: Window, first: int, last: int) -> None:
    counted = "SELECT (SELECT count(*) FROM shown_switch) + (SELECT count(*) FROM shown_waking), "
    events, placements = con.execute(counted + "(SELECT count(*) FROM shown_ledger)").fetchall()[0]
    if events + 3 * placements <= MOST_EVENTS:
        return
    span = max(min(window.until_ns, last) - max(window.from_ns, first), 1)
    fits = span * MOST_EVENTS / (events + 3 * placements) / 1e9
    raise UsageError(
        f"{events:,} events and {placements:,} placements of {policies} policies are too many for one timeline: about "
        f"{fits:.2g} s of this recording fit; give --window or fewer --policy"
    )


class _Writer:
    """Packets of one trace file."""

    def __init__(self, out: IO[bytes]) -> None:
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
            from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
        except ImportError:
            raise MissingExtra("perfetto", "a Perfetto timeline") from None
        self._protos = protos
        self._out = StreamingTraceProtoBuilder(out)
        self._known: dict[str, dict[str, int]] = {}
        self._begun = False

    def _packet(self, machine: int = 0) -> Any:
        packet = self._out.create_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE + machine
        if machine:
            packet.machine_id = machine
        return packet

    def machine(
        self,
        machine: int,
        title: str,
        manifest: Mapping[str, Any],
        threads: Sequence[tuple[int, int, str]],
        processes: Mapping[int, str],
    ) -> None:
        """Its name, kernel, threads (tid, tgid, name) and the names of processes."""
        packet = self._packet(machine)
        info = packet.system_info
        info.utsname.sysname = "Linux"
        info.utsname.release = str(manifest.get("kernel") or "4.14.0")
        info.machine_name = title
        self._out.write_packet(packet)
        packet = self._packet(machine)
        for tgid in sorted({tgid for _, tgid, _ in threads}):
            process = packet.process_tree.processes.add()
            process.pid = tgid
            process.cmdline.append(processes.get(tgid, f"pid-{tgid}"))
            process.cmdline_is_comm = True
        for tid, tgid, name in threads:
            thread = packet.process_tree.threads.add()
            thread.tid, thread.tgid, thread.name = tid, tgid, name
        self._out.write_packet(packet)

    def recorded(self, con: duckdb.DuckDBPyConnection, names: Mapping[int, tuple[int, str]]) -> tuple[int, int]:
        """sched_switch and sched_waking as they were, CPU by CPU; returns how many of each."""
        states = [_STATES.get(word, 1) for word in ENUMS["prev_state"]]
        rows = con.execute(
            """
            SELECT cpu, ts_ns, 0 AS kind, prev_task, prev_prio, prev_state, next_task, next_prio, id FROM shown_switch
            UNION ALL SELECT cpu, ts_ns, 1, curr_task, 0, target_cpu, task, prio, id FROM shown_waking
            ORDER BY cpu, id
            """
        )
        counted = [0, 0]
        for cpu, events in _by_cpu(rows):
            packet = self._packet()
            bundle = packet.ftrace_events
            bundle.cpu = cpu
            for ts, kind, task, prio, state, other, other_prio, _ in events:
                counted[kind] += 1
                event = bundle.event.add()
                one, two = names.get(task, _IDLE), names.get(other, _IDLE)
                if kind:
                    event.timestamp, event.pid = ts, one[0]
                    waking = event.sched_waking
                    waking.pid, waking.comm = two
                    waking.prio, waking.success, waking.target_cpu = other_prio, 1, state
                else:
                    _switch(event, ts, one, two, prio, states[state], other_prio)
            self._out.write_packet(packet)
        return counted[0], counted[1]

    def placements(
        self, con: duckdb.DuckDBPyConnection, machine: int, policy: str, names: Mapping[int, tuple[int, str]]
    ) -> int:
        """A policy's decisions as slices of its own machine; returns how many."""
        rows = con.execute(
            """
            SELECT cpu, ts_ns, task, prio, least(ts_ns + greatest(coalesce(ran_ns, 1), 1), lead(ts_ns) OVER placed)
            FROM shown_ledger WHERE policy = ? WINDOW placed AS (PARTITION BY cpu ORDER BY decision_id)
            ORDER BY cpu, decision_id
            """,
            [policy],
        )
        placed = 0
        open_: dict[int, tuple[tuple[int, str], int]] = {}
        for cpu, events in _by_cpu(rows):
            packet = self._packet(machine)
            packet.ftrace_events.cpu = cpu
            running, until = open_.get(cpu, (_IDLE, 0))
            for ts, task, prio, end in events:
                if running is not _IDLE and until < ts:
                    _switch(packet.ftrace_events.event.add(), until, running, _IDLE)
                    running = _IDLE
                _switch(packet.ftrace_events.event.add(), ts, running, names.get(task, _IDLE), following_prio=prio)
                running, until = names.get(task, _IDLE), end
                placed += 1
            open_[cpu] = running, until
            self._out.write_packet(packet)
        for cpu, (running, until) in open_.items():
            packet = self._packet(machine)
            packet.ftrace_events.cpu = cpu
            _switch(packet.ftrace_events.event.add(), until, running, _IDLE)
            self._out.write_packet(packet)
        return placed

    def tracks(self, group: int, policy: str, cpus: Sequence[tuple[int, int | None]]) -> None:
        """A group for a policy: its LLCs in order, its CPUs below them."""
        top = _track(group)
        kind = "decisions recorded" if policy == "recorded" else "one-step decisions"
        self._describe(top, None, f"{policy}: {kind}", group)
        llcs: dict[int | None, int] = {}
        for rank, (cpu, llc) in enumerate(cpus):
            if llc not in llcs:
                llcs[llc] = top + 1 + len(llcs)
                self._describe(llcs[llc], top, "LLC unknown" if llc is None else f"LLC of CPU {llc}", rank)
            self._describe(_track(group, cpu), llcs[llc], f"CPU {cpu}", rank)

    def _describe(self, uuid: int, parent: int | None, name: str, rank: int) -> None:
        packet = self._packet()
        track = packet.track_descriptor
        track.uuid, track.name, track.sibling_order_rank = uuid, name, rank
        track.child_ordering = self._protos.TrackDescriptor.ChildTracksOrdering.EXPLICIT
        if parent is not None:
            track.parent_uuid = parent
        self._out.write_packet(packet)

    def instants(
        self,
        con: duckdb.DuckDBPyConnection,
        group: int,
        policy: str,
        names: Mapping[int, tuple[int, str]],
        branches: Sequence[str],
    ) -> int:
        """A policy's decisions with their reasons; returns how many are not what was recorded."""
        rows = con.execute(
            """
            SELECT decision_id, ts_ns, task, cpu, chosen_cpu, prev_cpu, waker_cpu, branch, cpus_scanned, known
            FROM shown_ledger WHERE policy = ? ORDER BY decision_id
            """,
            [policy],
        )
        differ = 0
        for decision, ts, task, cpu, chosen, prev, waker, branch, scanned, known in _rows(rows):
            packet = self._instant(ts, _track(group, cpu), names.get(task, _IDLE)[1])
            self._notes(
                packet, decision_id=decision, chosen_cpu=cpu, recorded_cpu=chosen, prev_cpu=prev, waker_cpu=waker,
                decided_by=branches[branch] if branch is not None and branch < len(branches) else None,
                cpus_scanned=scanned, as_recorded=bool(known),
            )  # fmt: skip
            if not known:
                differ += 1
                packet.track_event.terminating_flow_ids.append(_flow(group, decision))
            self._out.write_packet(packet)
        return differ

    def recorded_instants(
        self, con: duckdb.DuckDBPyConnection, policies: Sequence[str], names: Mapping[int, tuple[int, str]]
    ) -> None:
        """The recorded decisions, with an arrow to every policy that chose another CPU."""
        rows = con.execute(
            """
            SELECT d.decision_id, any_value(d.ts_ns), any_value(d.task), any_value(d.chosen_cpu),
                any_value(d.prev_cpu), any_value(d.waker_cpu), any_value(d.latency_ns),
                list(list_position($1::VARCHAR[], l.policy) ORDER BY l.policy) FILTER (WHERE NOT l.known)
            FROM shown_decision d LEFT JOIN shown_ledger l USING (decision_id)
            WHERE d.chosen_cpu IS NOT NULL GROUP BY d.decision_id ORDER BY d.decision_id
            """,
            [list(policies)],
        )
        for decision, ts, task, chosen, prev, waker, latency, others in _rows(rows):
            packet = self._instant(ts, _track(0, chosen), names.get(task, _IDLE)[1])
            self._notes(
                packet, decision_id=decision, recorded_cpu=chosen, prev_cpu=prev, waker_cpu=waker, latency_ns=latency
            )
            packet.track_event.flow_ids.extend(_flow(group, decision) for group in others or ())
            self._out.write_packet(packet)

    def _instant(self, ts: int, track: int, name: str) -> Any:
        packet = self._packet()
        packet.timestamp = ts
        packet.sequence_flags = _NEEDED if self._begun else _NEEDED | _CLEARED
        self._begun = True
        event = packet.track_event
        event.type = self._protos.TrackEvent.Type.TYPE_INSTANT
        event.track_uuid = track
        event.name_iid = self._interned(packet, "event_names", name)
        return packet

    def _notes(self, packet: Any, **values: int | str | bool | None) -> None:
        for key, value in values.items():
            if value is None:
                continue
            note = packet.track_event.debug_annotations.add()
            note.name_iid = self._interned(packet, "debug_annotation_names", key)
            if isinstance(value, bool):
                note.bool_value = value
            elif isinstance(value, int):
                note.int_value = value
            else:
                note.string_value_iid = self._interned(packet, "debug_annotation_string_values", value)

    def _interned(self, packet: Any, kind: str, text: str) -> int:
        """The number of a text, told once."""
        known = self._known.setdefault(kind, {})
        if text not in known:
            known[text] = len(known) + 1
            entry = getattr(packet.interned_data, kind).add()
            entry.iid = known[text]
            if kind == "debug_annotation_string_values":
                entry.str = text.encode()
            else:
                entry.name = text
        return known[text]


def _switch(
    event: Any,
    ts: int,
    prev: tuple[int, str],
    following: tuple[int, str],
    prio: int = 120,
    state: int = _STATES["S"],
    following_prio: int = 120,
) -> None:
    """Makes an event a sched_switch; prev and following are (tid, name)."""
    event.timestamp, event.pid = ts, prev[0]
    switch = event.sched_switch
    switch.prev_pid, switch.prev_comm = prev
    switch.prev_prio, switch.prev_state = prio, state
    switch.next_pid, switch.next_comm = following
    switch.next_prio = following_prio


def _track(group: int, cpu: int | None = None) -> int:
    """Number of a group's track, or of its track of a CPU; its LLCs lie between."""
    return (group + 1) * _GROUP + (0 if cpu is None else _GROUP // 2 + cpu)


def _flow(group: int, decision: int) -> int:
    return group * _FLOWS + decision + 1


def _rows(answer: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := answer.fetchmany(_CHUNK):
        yield from rows


def _by_cpu(answer: duckdb.DuckDBPyConnection) -> Iterator[tuple[int, list[tuple[Any, ...]]]]:
    """Rows whose first column is the CPU, in bundles of one CPU; the rest of each row."""
    for cpu, group in groupby(_rows(answer), key=lambda row: row[0]):
        while some := [row[1:] for row in islice(group, _CHUNK)]:
            yield cpu, some
