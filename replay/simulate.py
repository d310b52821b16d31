# SPDX-License-Identifier: GPL-2.0-or-later
"""Closed loop: windows of a recording re-run as a discrete-event simulation with each policy in charge. Modelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.errors import TraceError, UsageError
from rewake.forms import RUN_TABLES, Columns, Recording, RunWriter, sparingly
from rewake.replay import costs, plugins
from rewake.replay.asking import askers
from rewake.replay.computing import computing
from rewake.replay.driver import hardirq_source, machine_notes
from rewake.replay.fair import placement_only
from rewake.replay.first_flips import FirstFlips
from rewake.replay.handlers import Handlers
from rewake.replay.hints import Rules, TaskHints, check_followed
from rewake.replay.loop import DECISION_COLUMNS, Loop
from rewake.replay.recorded import CAUSES, batch, processes, tells_queued
from rewake.replay.segments import CHUNK, Growing
from rewake.replay.settings import Settings
from rewake.replay.spec import PolicySpec

WARM_UP = 50_000_000
"""Start of each window that is simulated and not counted, ns (policies.md D2.8)."""

FEWEST_WINDOWS = 4
"""A recording that is shorter than so many windows is cut into so many, so that there is a spread to show."""

SLACK = 250_000_000
"""Scripts reach so far beyond their window, at most, ns: for tasks that get ahead of the recording, and so that who
waits when it ends waits for as long as others have work."""

MIN_WINDOW = 5_000_000
MOST_DIVERGED = 0.1
"""Windows are shortened until so many of the factual run diverge, at most."""

ANCHOR = 2_000_000
"""Length of the windows of the pinned arms, and of their warm-up."""
ANCHOR_WARM_UP = 1_000_000
MOST_WINDOWS = 10_000_000
"""Many more do not fit in memory; of that length they last for five and a half hours. Of a longer recording, those are
made in which anything happens."""
MOST_TAIL = 50_000_000
"""Their scripts go on for so long at most: so many of them are in memory at once."""

PINNED = "pinned"
"""Name of the arm in which every wakeup goes where it went in the recording."""
NULL = "fifo"
"""Name of the null model: recorded placement, first come, first served, no preemption."""

_MORE: dict[str, tuple[str, ...] | None] = CAUSES | {"irq": ("id", "ts_ns", "cpu", "entry", "kind")}
"""Tables that the simulation reads beside those of the model."""

_LONGEST_WAIT = """
WITH counted AS (
    SELECT latency_ns, count(*) AS times FROM decision
    WHERE kind = 0 AND prio >= 100 AND latency_ns IS NOT NULL GROUP BY latency_ns
), added AS (
    SELECT latency_ns, sum(times) OVER (ORDER BY latency_ns) AS upto, sum(times) OVER () AS n FROM counted
)
SELECT min(latency_ns) FROM added WHERE upto >= ceil(0.99 * n::BIGINT)
"""
"""quantile_disc(0.99), which holds all values at once; these mostly repeat."""

FEWEST_PULLS = 20
"""Of a class, before it has a rate of its own."""

FEWEST_WAKEUPS = 100
"""A window with fewer says nothing of how many there should be."""


@dataclass(frozen=True)
class Arm:
    """One line of the answer: a policy in charge, or the recorded placement."""

    name: str
    spec: PolicySpec | _engine.PolicySource | None
    settings: Mapping[str, Any]
    kind: str = "policy"
    replica: int = 0


@dataclass(frozen=True)
class Window:
    index: int
    start: int
    measured: int
    to: int
    horizon: int
    costs: int = 0
    """Costs that it draws from: 0 all, 1 not of odd() anchored windows, 2 of odd() ones."""


def plan(
    first: int, last: int, length: int, warm_up: int = WARM_UP, slack: int = 0, end: int | None = None,
    numbers: Iterable[int] | None = None,
) -> list[Window]:  # fmt: skip
    """Windows of `length` ns over a recording, each after a warm-up; the rest before `last` is left out. Scripts go on
    for four times that, or for `slack` ns if that is longer, and end before `end`. `numbers`: of these only."""
    end = last if end is None else end
    slack = min(SLACK, max(slack, 4 * length))
    out = []
    for k in range((last - first) // length) if numbers is None else numbers:
        begin = first + k * length
        warm = min(warm_up, length // 2)
        measured = begin if k else begin + warm
        to = begin + length
        out.append(Window(k, max(first, measured - warm), measured, to, min(end, to + slack)))
    return out


def odd(ts: Any, first: int) -> Any:
    """To which half of a recording that begins at `first` the anchored window belongs that holds a time: whether its
    number has an odd number of bits set. So has half of the windows of any phase; of every second one all would have
    the tick."""
    number = (ts - first) // ANCHOR
    for bits in (16, 8, 4, 2, 1):
        number = number ^ number >> bits
    return number % 2 == 1


def crossed(anchored: Sequence[Window], first: int) -> list[Window]:
    """Costs of each are those of the half of the windows to which it does not belong."""
    return [replace(w, costs=1 if odd(w.measured, first) else 2) for w in anchored]


def _pull_rates(pulled: Sequence[Sequence[int]], chances: Sequence[Sequence[int]]) -> list[list[float]]:
    """How often a CPU that goes idle pulls, by level and class of its average idle time, which makes it no
    rarer: of who is idle for longer than a balance takes all throw the same dice (newidle_balance()). A step
    that was seen too rarely is drawn to what all of its level do, and that to what all levels do, the more so
    the rarer it was seen."""
    pulls, of_all = np.asarray(pulled), np.asarray(chances)
    anywhere = min(1.0, pulls.sum() / of_all.sum()) if of_all.any() else 1.0
    out = []
    for taken, of in zip(pulls, of_all, strict=True):
        overall = (taken.sum() + FEWEST_PULLS * anywhere) / (of.sum() + FEWEST_PULLS)
        steps: list[list[float]] = []  # pulls, chances, classes
        for k, n in zip(taken, of, strict=True):
            steps.append([k, n, 1])
            while len(steps) > 1 and steps[-2][0] * steps[-1][1] >= steps[-1][0] * steps[-2][1]:
                steps[-2:] = [[a + b for a, b in zip(*steps[-2:], strict=True)]]
        rates = [min(1.0, (k + FEWEST_PULLS * overall) / (n + FEWEST_PULLS)) for k, n, _ in steps]
        out.append(np.repeat(rates, [int(m) for _, _, m in steps]).tolist())
    return out


class Simulator:
    """What does not depend on the policies: the recording, its costs, its windows."""

    def __init__(self, recording: Recording, settings: Settings, auto: PolicySpec | None) -> None:
        recording = recording.read_by_one()
        self.recording, self.settings, self.auto = recording, settings, auto
        self.loop = Loop(recording, settings.seed, use_probes=False)
        unseen = self.loop.infer(auto, again=False, scans=False) if auto is not None else None
        _engine.give_back()
        flips = FirstFlips() if unseen is None else unseen.likeliest
        self.first_flips = flips
        self.options = self.loop.options | {"sync": False, "first_flips": [tuple(flips)]}
        if not recording.rows("decision"):
            raise TraceError(f"{recording.given}: no wakeups: nothing to simulate")
        self.span = self._span()
        self._refuse_gaps()
        # The end of the recording is left to tasks that get ahead of it.
        usable = self.span[1] - min(SLACK, (self.span[1] - self.span[0]) // 20)
        length = min(settings.windows_ns, (usable - self.span[0]) // FEWEST_WINDOWS)
        if settings.windows_ns >= MIN_WINDOW > length:
            needed = -(-FEWEST_WINDOWS * MIN_WINDOW * 20 // 19)  # and what is left to tasks that get ahead
            raise UsageError(
                f"{recording.given}: {(self.span[1] - self.span[0]) / 1e6:.1f} ms from its first switch to its last are"
                f" too short to simulate: {needed / 1e6:.1f} ms at least"
            )
        if length < MIN_WINDOW:
            raise UsageError(f"{recording.given}: windows of {length / 1e6:.1f} ms are too short to simulate")
        self.usable, self.length = usable, length
        self.windows = self._plan(usable, length)
        self.handlers = Handlers(recording)
        searched = None if unseen is None else unseen.searched
        lazily = self.loop.recorded.preempts_lazily
        found = costs.costs(recording, self.handlers, lambda ts: odd(ts, self.span[0]), searched, lazily)
        self._samples = _kept_samples(found.samples)
        self.never_idle = not (found.samples["path"] == costs.PATHS.index("idle")).any()
        """No wakeup onto an idle CPU tells what one costs."""
        self.told = _told(recording.rows("decision"), None if unseen is None else unseen.sync, found.scanned)
        self.costs = found._replace(samples={}, scanned=None)
        del unseen, searched, found
        _engine.give_back()
        self.races, self.unseen_for = sparingly(lambda: costs.races(recording))
        self.hidden = 1.0
        self.pull_ns = sparingly(lambda: costs.pull(recording))
        self.waits_ns = sparingly(lambda: costs.waits(recording))
        self.looks_ns = sparingly(lambda: costs.looks(recording))
        self.asks = sparingly(lambda: askers(recording))
        n_cpus = self.loop.recorded.n_cpus
        self.computes = sparingly(lambda: computing(recording, n_cpus)) if lazily else []
        self.mask_changes = self.loop.mask_changes()
        self.survey = self._survey()
        _engine.give_back()

    def _span(self) -> tuple[int, int]:
        """Of which all CPUs have records: before, one task may seem to run on all that have none yet (perf)."""
        con = self.recording.connect(("switch",))
        try:
            row = con.execute("SELECT min(ts_ns), max(ts_ns) FROM switch").fetchone()
        finally:
            con.close()
        if row is None or row[0] is None:
            raise TraceError(f"{self.recording.given}: no sched_switch: nothing to simulate")
        first, last = int(row[0]), int(row[1])
        if window := self.recording.manifest.get("window"):
            first, last = max(first, window["begin_ns"]), min(last, window["end_ns"])
            if last < first:
                raise TraceError(f"{self.recording.given}: at no time all CPUs have records: nothing to simulate")
        return first, last

    def _refuse_gaps(self) -> None:
        """Of a machine that was recorded for hours, most seconds have a switch. A damaged time makes days and years."""
        first, last = self.span
        seconds = (last - first) // 10**9
        if seconds * 10**9 <= MOST_WINDOWS * ANCHOR:
            return
        if 2 * (held := len(self._busy(last, 10**9))) < seconds:
            raise UsageError(
                f"{self.recording.given}: {seconds / 3600:,.1f} h from its first switch to its last, and only"
                f" {held:,} s of them have any: keep a part with rewake slice; if it was not recorded for so long, a"
                " time in it is damaged"
            )

    def _busy(self, last: int, length: int) -> list[int]:
        """Numbers of the windows of that length in which anything happens."""
        con = self.recording.connect(("switch", "decision"))
        ask = " UNION ALL ".join(f"SELECT ts_ns FROM {t} WHERE ts_ns BETWEEN ? AND ?" for t in ("switch", "decision"))
        first, end = self.span[0], last - (last - self.span[0]) % length - 1
        try:
            found = sparingly(
                lambda: con.execute(
                    f"SELECT DISTINCT (ts_ns - ?) // ? AS number FROM ({ask}) ORDER BY number",
                    [first, length, first, end, first, end],
                ).fetchnumpy()
            )
        finally:
            con.close()
        numbers: list[int] = found["number"].tolist()
        return numbers

    def _plan(self, last: int, length: int, warm_up: int = WARM_UP, slack: int = 0) -> list[Window]:
        first, end = self.span
        numbers = self._busy(last, length) if (last - first) // length > MOST_WINDOWS else None
        if numbers is not None and len(numbers) > MOST_WINDOWS:
            raise UsageError(
                f"{self.recording.given}: {len(numbers):,} windows of {length / 1e6:g} ms in which anything happens are"
                f" more than the {MOST_WINDOWS:,} that can be simulated: keep a part with rewake slice"
            )
        return plan(first, last, length, warm_up, slack, end, numbers)

    def _drawn_from(self, windows: Sequence[Window]) -> list[_engine.Costs]:
        """Costs of all anchored windows, of those that are not odd(), and of those that are (Window.costs): those that
        these windows draw from, of others none."""
        samples = self._samples.read(0, len(self._samples))
        of_odd = samples.pop("odd")
        wanted = {w.costs for w in windows}
        kept = (slice(None), ~of_odd, of_odd)
        return [
            _engine.Costs({name: of[kept[k] if k in wanted else slice(0)] for name, of in samples.items()})
            for k in range(len(kept))
        ]

    def _recorded_wakeups(self, first: int, end: int) -> int:
        """Of fair tasks, from one time until before another."""
        con = self.recording.connect(("decision",))
        try:
            found = con.execute(
                "SELECT count(*) FROM decision "
                "WHERE kind = 0 AND prio >= 100 AND latency_ns IS NOT NULL AND ts_ns >= ? AND ts_ns < ?",
                [first, end],
            ).fetchone()
        finally:
            con.close()
        return 0 if found is None else int(found[0])

    def _survey(self) -> dict[str, Any]:
        loop = self._engine([], [], 1)
        loop.change_masks(self.mask_changes)
        loop.processes(processes(self.recording).tolist())
        for part in self._parts():
            loop.run(*part)
            del part
        self.leads, self.phases, self.last_seen = loop.leads(), loop.limit_phases(), loop.last_seen()
        found = dict(loop.survey())
        # Who meets others answers nobody; neither shares its work, and who does any of these reads nothing.
        meets = [g >= 0 for g in found["meetings"]]
        serves = found["servers"] = [s and not m for s, m in zip(found["servers"], meets, strict=True)]
        found["pools"] = [-1 if s or m else g for s, m, g in zip(serves, meets, found["pools"], strict=True)]
        known = [s or m or g >= 0 for s, m, g in zip(serves, meets, found["pools"], strict=True)]
        found["readers"] = [(-1, 0) if k else p for k, p in zip(known, found["readers"], strict=True)]
        # Who waits in lockstep does so by its own script alone.
        own = [not k and p[0] <= 0 for k, p in zip(known, found["readers"], strict=True)]
        found["awaited"] = [
            a if a[0] >= 0 and own[t] and own[a[0]] else (-1, -1) for t, a in enumerate(found["awaited"])
        ]
        return found

    def _engine(self, arms: Sequence[Arm], windows: Sequence[Window], threads: int) -> _engine.ClosedLoop:
        specs = [(a.spec.policy, dict(a.spec.params)) if isinstance(a.spec, PolicySpec) else a.spec for a in arms]
        given = [(w.start, w.measured, w.to, w.horizon, w.costs) for w in windows]
        try:
            return _engine.ClosedLoop(
                self.loop.recorded, specs, self.settings.seed, self.options, [dict(a.settings) for a in arms], given,
                self._drawn_from(windows), self.handlers.during(0, 0), self.loop.running, threads,
            )  # fmt: skip
        except ValueError as error:
            raise UsageError(str(error)) from error

    def _parts(self, hints: TaskHints | None = None) -> Iterator[tuple[dict[str, Columns], dict[str, Any]]]:
        first = 0
        for k in range(self.recording.n_parts):
            decisions: dict[str, Any] = dict(self.recording.read_part("decision", k, DECISION_COLUMNS))
            n = len(decisions["event_id"])
            decisions |= self.costs.luck.read(first, first + n) | self.told.read(first, first + n)
            if self.settings.sync != "auto":
                decisions["sync"] = np.full(n, self.settings.sync == "1")
            if hints is not None:
                decisions["hint"] = hints.of(decisions)
            first += n
            yield batch(self.recording, k, probe=False, more=_MORE), decisions

    def arm_settings(self, **more: Any) -> dict[str, Any]:
        """Settings of an arm of this recording."""
        s, found = self.settings, self.survey
        features = self.recording.manifest.get("features") or {}
        base: dict[str, Any] = {
            "balance": s.balance, "move_factor": s.move_factor, "search_ns": self.costs.search_ns,
            "scan_ns": s.scan_ns, "smt": s.smt,
            "absolute_timers": s.timers == "absolute", "major": self.options["major"],
            "minor": self.options["minor"], "queues_wakeups": features.get("TTWU_QUEUE", True) is not False,
            "queued_wakeups": features.get("TTWU_QUEUE", True) is not False,
            "pull_ns": self.pull_ns[0], "pulled_ns": self.pull_ns[1],
            "waits_ns": self.waits_ns, "looks_ns": self.looks_ns,
            "pulls": _pull_rates(found["pulled"], found["chances"]), "hidden": self.hidden,
            "seed": s.seed,
        }  # fmt: skip
        base |= self.unseen_for
        base["serves"], base["asks"], base["computes"] = found["servers"], self.asks, self.computes
        if any(first > 0 for first, _ in found["readers"]):
            base["reads"] = found["readers"]
        if any(group >= 0 for group in found["meetings"]):
            base["meets"] = found["meetings"]
        if any(pool >= 0 for pool in found["pools"]):
            base["pools"] = found["pools"]
        if any(by >= 0 for by, _ in found["awaited"]):
            base["awaited"] = found["awaited"]
        if any(found["yielders"]):
            base["yields"] = found["yielders"]
        if found["idle_states"]:
            base["idle_state"] = int(np.argmax(found["idle_states"]))
        return base | more

    def run(
        self,
        arms: Sequence[Arm],
        windows: Sequence[Window] | None = None,
        threads: int = 1,
        progress: Callable[[int, int], None] | None = None,
        hints: TaskHints | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Simulated windows, in order; each of all arms. `hints`: for the arms whose policy follows them."""
        chosen = self.windows if windows is None else windows
        engine = self._engine(arms, chosen, threads)
        engine.begin_with(self.leads, self.phases, self.last_seen)
        engine.change_masks(self.mask_changes)
        parts = self._parts(hints)
        reached = self.span[0]
        for k in range(self.recording.n_parts):
            part = next(parts)
            first = min((w.start for w in chosen if w.horizon >= reached), default=reached)
            reached = max([reached, *(int(ts.max()) for ts in _times(part[0]) if len(ts))])
            last = k + 1 == self.recording.n_parts
            engine.interrupted_by(self.handlers.during(first, 2**62 if last else reached + 1))
            engine.run(*part)
            del part  # before the next one is read
            if not last:
                _engine.give_back()
            yield from map(self._numbered, _taken(engine))
            if progress is not None:
                progress(k + 1, self.recording.n_parts)
        engine.finish()
        yield from map(self._numbered, _taken(engine))

    def _numbered(self, result: dict[str, Any]) -> dict[str, Any]:
        """A slice's decisions keep the numbers of the whole; the engine counts from 0."""
        decision, none = result["woken"]["decision_id"]
        result["woken"]["decision_id"] = (decision + self.recording.first_decision, none)
        return result

    def shorten(self, most: float, threads: int = 1) -> None:
        """Halves the windows while more than `most` of them diverge under the recorded kernel's column, or drift."""
        if self.auto is None:
            return
        while True:
            found = self.calibrate(threads)
            diverged = [bool(r["diverged"]) or self._drifted(r) for r in found]
            if self.length // 2 < MIN_WINDOW or sum(diverged) <= most * len(diverged):
                return
            self.length //= 2
            self.windows = self._plan(self.usable, self.length)

    def calibrate(self, threads: int = 1) -> list[dict[str, Any]]:
        """Runs the recorded kernel's column, and sets how often decisions are hidden by it. Returns its windows."""
        if self.auto is None:
            return []
        factual = Arm("", self.auto, self.arm_settings(own_luck=True), "factual")
        found = [r | {"woken": None} for r in self.run([factual], threads=threads)]
        self._hide(found)
        return found

    def _drifted(self, window: Mapping[str, Any]) -> bool:
        """Half the recorded wakeups were given in it, or twice as many."""
        recorded = self._recorded_wakeups(window["from_ns"], window["to_ns"])
        return not recorded / 2 <= window["wakeups"] <= 2 * recorded and recorded >= FEWEST_WAKEUPS

    def _hide(self, found: Sequence[Mapping[str, Any]]) -> None:
        """How often decisions are hidden, so that as many collide as in the recording."""
        simulated = sum(r["collided"] for r in found)
        counted = sum(r["to_ns"] - r["from_ns"] for r in found)
        if simulated >= costs.FEWEST_RACES and self.races >= costs.FEWEST_RACES:
            recorded = self.races * counted / (self.span[1] - self.span[0])
            self.hidden = min(1.0, self.hidden * recorded / simulated)

    def _longest_wait(self) -> int:
        """For which one in a hundred woken fair tasks waited in the recording, ns; longer ones have no part in p99."""
        con = self.recording.connect(("decision",))
        try:
            found = con.execute(_LONGEST_WAIT).fetchone()
        finally:
            con.close()
        return 0 if found is None or found[0] is None else int(found[0])

    def anchored(self) -> list[Window]:
        """Windows of the pinned arms: recorded placements mean nothing on a machine that has left the recording."""
        found = self._plan(self.span[1], ANCHOR, ANCHOR_WARM_UP, min(MOST_TAIL, 2 * self._longest_wait()))
        return crossed(found, self.span[0])


def _told(n: int, sync: npt.NDArray[np.bool_] | None, scanned: npt.NDArray[np.uint8] | None) -> Growing:
    """What was inferred of each decision, as far as it was."""
    columns = {name: of for name, of in (("sync", sync), ("scanned", scanned)) if of is not None}
    told = Growing()
    for first in range(0, n if columns else 0, CHUNK):
        told.append({name: of[first : first + CHUNK] for name, of in columns.items()})
    return told


def _kept_samples(samples: Mapping[str, npt.NDArray[Any]]) -> Growing:
    """Recorded costs, in files: for as long as a simulation runs, they are only needed as _engine.Costs."""
    kept = Growing(0)
    kept.append(dict(samples))
    return kept


def _times(events: Mapping[str, Mapping[str, Any]]) -> Iterator[npt.NDArray[np.int64]]:
    for table in events.values():
        yield table["ts_ns"]


def _taken(engine: _engine.ClosedLoop) -> Iterator[dict[str, Any]]:
    """The windows that are done, few at a time."""
    while found := engine.take(64):
        yield from found


def arms_of(simulator: Simulator, specs: Sequence[PolicySpec], queues_wakeups: bool | None = None) -> list[Arm]:
    """The recorded kernel's column first, then the policies, each in every replica. `queues_wakeups`: TTWU_QUEUE of the
    policies, where it is not that of the recording."""
    settings = simulator.settings
    wanted = {str(s): s for s in specs}
    names = {str(simulator.auto): (simulator.auto, "factual")} if simulator.auto is not None else {}
    changed = queues_wakeups is not None and queues_wakeups != simulator.arm_settings()["queues_wakeups"]
    for name, spec in wanted.items():
        if changed or name not in names:
            names[f"{name} TTWU_QUEUE={int(bool(queues_wakeups))}" if changed else name] = (spec, "policy")
    out = []
    for name, (of, kind) in names.items():
        for replica in range(settings.replicas):
            more = simulator.arm_settings(own_luck=replica == 0, seed=settings.seed + replica)
            if changed and kind == "policy":
                more["queues_wakeups"] = queues_wakeups
            out.append(Arm(name, of, more, kind, replica))
    return out


def pinned_arms(simulator: Simulator) -> list[Arm]:
    """Recorded placement and balancing forced, and the null model beside it, each in every replica: of the costs, every
    wakeup keeps the rank that its own had in all of them."""
    out = []
    for name, kind, more in ((PINNED, "pinned", {}), (NULL, "null", {"fifo": True})):
        for replica in range(simulator.settings.replicas):
            seed = simulator.settings.seed + replica
            forced = simulator.arm_settings(pinned=True, balance="forced", own_luck=True, serves=[], seed=seed)
            out.append(Arm(name, None, forced | more, kind, replica))
    return out


def simulate(
    recording: Recording,
    specs: Sequence[PolicySpec],
    writer: RunWriter,
    settings: Settings,
    *,
    auto: PolicySpec | None,
    threads: int = 1,
    queues_wakeups: bool | None = None,
    hints: Rules | None = None,
    progress: Callable[[int, int], None] | None = None,
    plugin_timeout: float = plugins.DEFAULT_TIMEOUT,
) -> None:
    """Re-runs `recording` with each policy in charge and fills `writer` (arm, window, woken, manifest).

    The recorded kernel's column `auto` is simulated beside them, and so are the recorded placement and the null model:
    what they come to is what can be trusted of the rest. `hints` are for the policies that follow them. UsageError for
    hints that none of the policies follows. Of a plugin that fails, or that does not answer a call within
    `plugin_timeout` seconds, there is nothing but `problems` in the manifest's `plugins`.
    """
    from rewake.replay import in_charge

    if hints is not None:
        check_followed(hints, [(str(s), int(Loop.about(s)["hints"])) for s in specs])
    given = None if hints is None else TaskHints(recording, hints)
    simulator = Simulator(recording, settings, auto)
    plans: list[tuple[list[Arm], list[Window]]] = [(pinned_arms(simulator), simulator.anchored())]
    if not settings.pin:
        simulator.shorten(MOST_DIVERGED, threads)
        built_in = [s for s in specs if not s.is_plugin]
        if in_process := arms_of(simulator, built_in, queues_wakeups):  # no column and plugins only: none
            plans.append((in_process, simulator.windows))
    arms: list[Arm] = []
    rows = _Windows()

    def take(results: Iterable[dict[str, Any]], theirs: Sequence[Arm]) -> None:
        for result in results:
            arm = result["arm"] + len(arms)
            writer.append("woken", _woken(result, arm))
            rows.append(result | {"arm": arm})
        arms.extend(theirs)

    for group, windows in plans:
        about = given if any(arm.kind != "pinned" for arm in group) else None
        _engine.give_back()
        take(simulator.run(group, windows, threads, progress, about), group)
    told = []
    for k, spec in enumerate(s for s in specs if s.is_plugin and not settings.pin):
        asked = in_charge.Plan(spec, settings, auto, simulator.windows, simulator.hidden, queues_wakeups, hints)
        found = in_charge.simulate(recording, simulator, asked, writer.part / f"plugin-{k}", plugin_timeout)
        take(found.windows(), found.arms)
        told.append(found.manifest(str(spec)))
    for name, columns in _small(arms, rows.columns()).items():
        writer.write(name, columns)
    writer.manifest |= {
        "mode": "closed",
        "settings": asdict(settings) | {"windows_ns": simulator.length},
        "auto": None if auto is None else str(auto),
        "policies": [{"name": a.name, "kind": a.kind, "replica": a.replica} for a in arms],
        "plugins": told,
        "servers": sum(simulator.survey["servers"]),
        "windows": len(simulator.windows),
        "fair_class": {k: simulator.survey[k] for k in ("picks", "picks_right", "preempts")},
        "options": simulator.options,
        "first_flips": simulator.first_flips,
        "hints": None if given is None else given.summary(),
        "notes": _notes(simulator, specs, 0 if hints is None else hints.used)
        + [f"plugin {plugin['name']}: {text}" for plugin in told for text in plugin["problems"]],
    }


def _notes(simulator: Simulator, specs: Sequence[PolicySpec], hints: int) -> list[str]:
    recording = simulator.recording
    notes = machine_notes(recording, specs, hints)
    if any(Loop.about(s)["reads_irq"] for s in specs):
        notes.append(f"hardirq time: {hardirq_source(recording.manifest.get('events') or {})}")
    kernels = {str(s): Loop.about(s).get("kernel") for s in specs if str(s) != str(simulator.auto)}
    if stays := placement_only(recording.manifest.get("kernel"), kernels, "the recorded kernel"):
        notes.append(stays)
    if off := sorted({gone.cpu for gone in simulator.loop.away}):
        notes.append(f"offline for a time: CPU {', '.join(map(str, off))}: busy then, and in its domains all the same")
    if not recording.manifest.get("topology"):
        notes.append("no topology: searches, domains and costs of moves are as if each CPU were an LLC of its own")
    if not tells_queued(recording.manifest):
        notes.append("no sched_wakeup: when a wakee was queued is a model, half of its time to an idle CPU")
    if (simulator.span[1] - simulator.span[0]) // ANCHOR > MOST_WINDOWS:
        notes.append(f"windows of {ANCHOR // 10**6} ms in which nothing happens are left out: the recording is long")
    if simulator.never_idle:
        notes.append("no wakeup onto an idle CPU was recorded: one costs what those cost that preempt on a busy one")
    return notes


def kept(
    simulator: Simulator, arms: Sequence[Arm], windows: Sequence[Window], hints: TaskHints | None, threads: int = 1
) -> dict[str, Columns]:
    """The tables `arm`, `sim_window` and `woken` of these arms, in memory."""
    rows, parts = _Windows(), []
    for result in simulator.run(arms, windows, threads, hints=hints):
        parts.append(_woken(result, result["arm"]))
        rows.append(result)
    if not parts:
        raise TraceError(f"{simulator.recording.given}: no window of it could be simulated")
    woken = _joined(parts, RUN_TABLES["woken"].names)
    return {**_small(arms, rows.columns()), "woken": woken}


def _woken(result: dict[str, Any], arm: int) -> Columns:
    """Takes the simulated wakeups out of a window."""
    woken: Columns = result.pop("woken")
    n = len(woken["ts_ns"])
    window = np.full(n, result["window_id"], np.uint32)
    return woken | {"arm": np.full(n, arm, np.uint16), "window_id": window}


class _Windows:
    """Rows of sim_window, most of them as columns: a tenth of what rows take."""

    def __init__(self) -> None:
        self._pieces: list[Columns] = []
        self._rows: list[Mapping[str, Any]] = []

    def append(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) == 1024:
            self._fold()

    def _fold(self) -> None:
        rows, self._rows = self._rows, []
        columns: Columns = {}
        for column in RUN_TABLES["sim_window"].columns:
            values = [row[column.name] for row in rows]
            if column.name == "makespan_ns":
                missing = np.array([v is None for v in values], np.bool_)
                columns[column.name] = (np.array([v or 0 for v in values], np.int64), missing)
            elif column.name == "why":
                columns[column.name] = (np.array(values, object), np.array([not v for v in values], np.bool_))
            else:
                kinds = {"USMALLINT": np.uint16, "UINTEGER": np.uint32, "BOOLEAN": np.bool_, "BIGINT": np.int64}
                columns[column.name] = np.array(values, kinds[column.type])
        self._pieces.append(columns)

    def columns(self) -> Columns:
        if self._rows or not self._pieces:
            self._fold()
        return _joined(self._pieces, RUN_TABLES["sim_window"].names)


def _joined(parts: Sequence[Columns], names: Sequence[str]) -> Columns:
    joined: Columns = {}
    for name in names:
        columns = [part[name] for part in parts]
        if isinstance(columns[0], tuple):
            joined[name] = tuple(np.concatenate(list(x)) for x in zip(*columns, strict=True))  # type: ignore[assignment]
        else:
            joined[name] = np.concatenate(columns)
    return joined


def _small(arms: Sequence[Arm], windows: Columns) -> dict[str, Columns]:
    return {
        "arm": {
            "arm": np.arange(len(arms), dtype=np.uint16),
            "policy": np.array([a.name for a in arms], object),
            "kind": np.array([a.kind for a in arms], object),
            "replica": np.array([a.replica for a in arms], np.uint16),
        },
        "sim_window": windows,
    }
