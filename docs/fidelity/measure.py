# SPDX-License-Identifier: GPL-2.0-or-later
"""What docs/fidelity.md says of one recording: asked from rewake, and from the snapshots beside the recording."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from _pages import Refused, asked, meta_of, rewake  # noqa: E402

TRACES = (".dat", ".data", ".pftrace")
AUTO, BLIND, CAUSAL, ZERO = "auto", "blind", "causal", "zero"
WAYS = {
    AUTO: ["--assume", "sync=auto"],
    BLIND: ["--assume", "sync=auto", "--ignore-probes"],
    CAUSAL: ["--assume", "sync=causal", "--ignore-probes"],
    ZERO: ["--assume", "sync=0", "--ignore-probes"],
}
"""How a recording is replayed. Without placement probes AUTO and BLIND are the same, and BLIND is left out."""
TICK_S = 0.01
"""Unit of /proc/stat (USER_HZ)."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class Idle:
    """Idle shares of the CPUs: of the events less those of a snapshot pair, one per CPU."""

    stat: list[float]
    """Against /proc/stat, without interrupts."""
    tick: float
    """What /proc/stat counts in, of the time between the snapshots."""
    outside: float
    """Of that time, what the recording does not cover."""
    schedstat: list[float]
    """Against the run time of tasks in /proc/schedstat, in ns."""

    @property
    def resolution(self) -> float:
        """Most by which a share of /proc/stat may differ from a true one: two counts cut off at a tick, and what each
        CPU did outside the recording."""
        return self.tick + self.outside


@dataclass
class Measured:
    """One recording. `refused`: why there are no figures of it; then everything below is empty."""

    name: str
    trace: str
    """The file, below the directory of recordings."""
    meta: Figures
    refused: str = ""
    header: Figures = field(default_factory=dict)
    probed: bool = False
    fidelity: dict[str, Figures] = field(default_factory=dict)
    """By way: what `rewake fidelity` says, and `kinds`, rows of figures.sql for its policy, by kind of decision."""
    budget: dict[str, Figures] = field(default_factory=dict)
    inputs: list[Figures] = field(default_factory=list)
    """Rows of the audit, with span_ns, how long the recording is."""
    idle: Idle | None = None

    def ways(self) -> list[str]:
        """The ways under sync=auto."""
        return [w for w in (AUTO, BLIND) if w in self.fidelity]

    @property
    def blind(self) -> Figures:
        """Fidelity with nothing but events."""
        return self.fidelity[BLIND if self.probed else AUTO]


def traces(folders: list[Path]) -> Iterator[tuple[str, Path]]:
    """Name and file of every trace in the directories of `folders`, each name once."""
    seen = set()
    for folder in folders:
        for place in sorted(p for p in folder.iterdir() if p.is_dir()):
            files = sorted(f for f in place.iterdir() if f.suffix in TRACES and f.is_file())
            for file in files:
                name = place.name if len(files) == 1 else f"{place.name}/{file.name}"
                if name not in seen:
                    seen.add(name)
                    yield name, file


def measure(name: str, trace: Path) -> Measured:
    """Everything about one recording."""
    found = Measured(name, f"{trace.parent.name}/{trace.name}", meta_of(trace.parent))
    print(f"fidelity: {name}", file=sys.stderr)
    try:
        _replay(found, trace)
    except Refused as error:
        text = str(error).split(": ", 1)[1].replace(str(trace), found.trace)
        found.refused = text.removeprefix("rewake: ").removeprefix("error: ").splitlines()[0]
    return found


def _replay(found: Measured, trace: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "page.run"
        report = rewake("replay", trace, *WAYS[AUTO], "--policy", "auto", "-o", run, "--format", "json")
        found.header = report["recording"]
        if report["fidelity"] is None:
            found.refused = report["refusal"]
            return
        rows = _figures(found, AUTO, report["fidelity"], run)
        found.probed = rows[0]["probes"] > 0
        if rows[0]["quotas"]:
            found.idle = idle(asked(run, HERE / "idle.sql"), trace.parent / "topology.tar.gz")
    for way in (AUTO, BLIND) if found.probed else (AUTO,):
        words = ["--inputs"] if found.probed and way == AUTO else []
        answer = rewake("fidelity", trace, *WAYS[way], "--budget", *words, "--format", "json")
        found.budget[way] = answer["budget"]
        span = {"span_ns": rows[0]["span_ns"]}
        found.inputs += [row | span for row in answer.get("inputs", {}).get("inputs", [])]
    if found.probed:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "page.run"
            report = rewake("replay", trace, *WAYS[BLIND], "--policy", "auto", "-o", run, "--format", "json")
            _figures(found, BLIND, report["fidelity"], run)
    for way in (CAUSAL, ZERO):
        found.fidelity[way] = rewake("fidelity", trace, *WAYS[way], "--format", "json")


def _figures(found: Measured, way: str, fidelity: Figures, run: Path) -> list[Figures]:
    rows = [r for r in asked(run, HERE / "figures.sql") if r["policy"] == fidelity["policy"]]
    found.fidelity[way] = fidelity | {"kinds": {r["kind"]: r for r in rows}}
    return rows


def idle(rows: list[Figures], snapshots: Path) -> Idle | None:
    """Idle shares of the rows of idle.sql against the snapshots; None when these have no such file."""
    shares = {f"cpu{r['cpu']}": r["idle_ns"] / r["span_ns"] for r in rows}
    handled = {f"cpu{r['cpu']}": r["interrupts_ns"] / r["span_ns"] for r in rows}
    texts = {}
    try:
        with tarfile.open(snapshots) as archive:
            for when in ("before", "after"):
                for name in ("stat", "schedstat", "uptime"):
                    file = archive.extractfile(f"./{when}/proc/{name}")
                    texts[when, name] = file.read().decode("ascii") if file else ""
    except (KeyError, FileNotFoundError):
        return None
    span, tick = _span_ns(texts), TICK_S * 1e9
    # Its idle and iowait are measured times; user and system time are samples, and their sum is not the time passed.
    before, after = ({c: n[3] + n[4] for c, n in _numbers(texts[when, "stat"]).items()} for when in ("before", "after"))
    stat = [share - handled[cpu] - (after[cpu] - before[cpu]) * tick / span for cpu, share in shares.items()]
    outside = max(0.0, 1 - rows[0]["span_ns"] / span)
    before, after = (_numbers(texts[when, "schedstat"]) for when in ("before", "after"))
    run_ns = {cpu: after[cpu][6] - before[cpu][6] for cpu in shares}  # time that tasks ran on the CPU
    return Idle(stat, tick / span, outside, [share - (1 - run_ns[cpu] / span) for cpu, share in shares.items()])


def _numbers(text: str) -> dict[str, list[int]]:
    lines = [line.split() for line in text.splitlines() if line.startswith(("cpu", "timestamp"))]
    return {words[0]: [int(w) for w in words[1:]] for words in lines if all(w.isdigit() for w in words[1:])}


def _span_ns(texts: dict[tuple[str, str], str]) -> float:
    """Time between the snapshots, in whole jiffies: /proc/schedstat counts them, /proc/uptime says how long one is."""
    jiffies = [_numbers(texts[when, "schedstat"])["timestamp"][0] for when in ("before", "after")]
    uptime = [float(texts[when, "uptime"].split()[0]) for when in ("before", "after")]
    about = (jiffies[1] - jiffies[0]) / (uptime[1] - uptime[0])
    return (jiffies[1] - jiffies[0]) * 1e9 / min((100, 250, 300, 1000), key=lambda hz: abs(hz - about))
