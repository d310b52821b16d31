# SPDX-License-Identifier: GPL-2.0-or-later
"""Redaction: a recording without the names of those it was taken from, so that it can leave a company.

Task names, tids, tgids and the parts of cgroup paths become keyed hashes (BLAKE2b), the same under the same key in
every recording; without the key they can neither be undone nor be guessed and checked. What stays readable: idle tasks
and kernel threads with a name of `WELL_KNOWN`, without what they work on; the kernel's release, for it names the policy
column; times, CPU numbers and the machine's shape. Everything else that could bear a name goes: the host's name, file
names, the hardware's own description, event names that no table is made of, values of settings that are no numbers.

Every figure stays: replay of the redacted recording gives the ledgers of the original (a test compares them).
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from rewake.errors import UsageError
from rewake.forms import ENUMS, Columns, with_null

MIN_KEY_BYTES = 16
_MAX_KEY_BYTES = 1 << 20
WELL_KNOWN = re.compile(
    r"(swapper/\d+|kthreadd|(?:migration|ksoftirqd|cpuhp|rcuc|rcuop|rcuog|rcuos|watchdog|idle_inject|irq_work|ktimers"
    r"|ktimersoftd|stopper|backlog_napi|posixcputmr)/\d+|rcu_(?:sched|preempt|bh|gp|par_gp|tasks\w{0,20})|kworker/u?\d+:\d+H?"
    r"|kswapd\d+|kcompactd\d+|khugepaged|ksmd|kauditd|khungtaskd|oom_reaper|kdevtmpfs|netns|writeback|kblockd|watchdogd)"
    r"(?:[+-].*)?"
)
"""Names that the kernel gives and that say nothing of a machine's use; what follows `-` or `+` is cut off."""
_TID_HALF = 15  # bits; tids are below 2^22, so that a permutation of 30 bits has no collisions
_SETTING = re.compile(r"(kernel|debug\.sched)\.(numa_balancing\.)?\w+")
_CPU_NUMBER = re.compile(r"/\d+")

_AS_IT_IS = (
    "tool", "first_ns", "last_ns", "span_ns", "events_total", "loss", "lost", "steps_back", "wakeup_failed", "notes",
    "hz", "guest", "steal_pct", "exit_latency_us", "energy_aware", "sched_ext", "core_scheduling", "preempt_rt",
    "topology", "machine", "replay", "kernel", "first_decision", "running_at_start", "missing",
    "outside", "contexts", "window", "silences", "recorded_cpus", "clock_offset_ns",
)  # fmt: skip
_WORDS = {
    "trace-cmd", "perf", "perfetto", "script", "tracefs", "flight", "stream", "file", "command", "duration", "signal",
    "size", "disk", "latency", "tool",
}  # fmt: skip

_WITH_EDGES = {*ENUMS["irq_kind"], "irq_handler", "softirq", "ipi", "sched_process"}
"""What of an event's name stands before _entry or _exit."""


class Redactor:
    """What replaces the names, for one key. Raises UsageError for a key file that is too short or cannot be read."""

    def __init__(self, keyfile: Path) -> None:
        try:
            with keyfile.open("rb") as file:
                secret = file.read(_MAX_KEY_BYTES + 1)
        except OSError as error:
            raise UsageError(f"--redact {keyfile}: {error.strerror}") from error
        if not MIN_KEY_BYTES <= len(secret) <= _MAX_KEY_BYTES:
            raise UsageError(
                f"--redact {keyfile}: a key has {MIN_KEY_BYTES} bytes to 1 MiB, this file has {len(secret)}:"
                f" make one with `head -c 32 /dev/urandom > KEYFILE`"
            )
        self._key = hashlib.blake2b(secret).digest()

    @property
    def mark(self) -> tuple[str, ...]:
        """Tells keys apart, and tells nothing of them."""
        return ("redacted", self.digest("key", "", 32))

    def digest(self, what: str, text: str, length: int = 14) -> str:
        """`length` hexadecimal digits for a text. `what` keeps kinds of names apart."""
        found = hashlib.blake2b(text.encode(), key=self._key, person=what.encode(), digest_size=-(-length // 2))
        return found.hexdigest()[:length]

    def comm(self, name: str) -> str:
        """A task's name: 15 characters, as the kernel has room for."""
        # A number behind a slash makes an inferred CPU mask trustworthy (replay); which number does not matter.
        numbered = _CPU_NUMBER.search(name) is not None
        known = WELL_KNOWN.fullmatch(name)
        if known and numbered == (_CPU_NUMBER.search(known[1]) is not None):
            return known[1]
        return f"t{self.digest('comm', name, 12)}/0" if numbered else f"t{self.digest('comm', name)}"

    def tid(self, tid: int) -> int:
        """A permutation of the numbers below 2^30 (four rounds of a Feistel network); 0 stays the idle task."""
        if tid == 0:
            return 0
        while True:
            left, right = tid >> _TID_HALF, tid & ((1 << _TID_HALF) - 1)
            for round_ in range(4):
                mixed = int(self.digest("tid", f"{round_} {right}", 8), 16) & ((1 << _TID_HALF) - 1)
                left, right = right, left ^ mixed
            tid = left << _TID_HALF | right
            if tid != 0:
                return tid

    def path(self, path: str) -> str:
        """A cgroup path, part by part: the tree keeps its shape."""
        return "/".join("c" + self.digest("cgroup", part, 12) if part else "" for part in path.split("/"))

    # --- tables ---

    def tasks(self, task: Columns, task_attr: Columns, comm: Columns) -> tuple[Columns, Columns]:
        """The tables `task` and `comm`; `task_attr` has numbers only, and stays."""
        from rewake.replay.recorded import collectors

        names = [str(name) for name in comm["name"]]
        carriers = list(collectors(task_attr, dict(enumerate(names))))
        observer, unknown = (part.copy() for part in with_null(task["observer"]))
        known = unknown & np.isin(np.asarray(task["task_id"]), carriers)
        observer[known], unknown[known] = True, False
        out = {
            **task,
            "tid": self._tids(task["tid"]),
            "tgid": self._tids(task["tgid"]),
            "observer": (observer, unknown),
        }
        hidden = np.array([self.comm(name) for name in names], dtype=object)
        return out, {**comm, "name": hidden}

    def _tids(self, column: Any) -> Any:
        values, null = with_null(column)
        changed = np.array([0 if n else self.tid(int(v)) for v, n in zip(values, null, strict=True)], values.dtype)
        return (changed, null) if isinstance(column, tuple) else changed

    def cgroup(self, cgroup: Columns) -> Columns:
        return {**cgroup, "path": np.array([self.path(str(p)) for p in cgroup["path"]], dtype=object)}

    # --- manifest ---

    def manifest(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """What may stay of it; a key that is not known here goes."""
        out = {key: manifest[key] for key in _AS_IT_IS if key in manifest}
        skipped = manifest.get("skipped") or {}
        events = {n: k for n, k in (manifest.get("events") or {}).items() if n not in skipped and not _foreign(n)}
        passed = sum(skipped.values())
        others = passed + sum(k for n, k in (manifest.get("events") or {}).items() if n not in skipped and _foreign(n))
        source = manifest.get("source") or {}
        snapshot = manifest.get("snapshot") or {}
        clock = manifest.get("clock")
        return out | {
            "id": self.digest("id", str(manifest.get("id")), 64),
            "redacted": {"key": self.digest("key", "", 8), "by": "BLAKE2b"},
            "source": {
                **{k: source.get(k) for k in ("format", "version", "compression", "packed", "bytes")},
                "name": "f" + self.digest("file", str(source.get("name"))),
                "sha256": self.digest("file", str(source.get("sha256")), 64),
            },
            "snapshot": {
                "sources": [
                    {"name": "f" + self.digest("file", str(s.get("name"))),
                     "sha256": self.digest("file", str(s.get("sha256")), 64)}
                    for s in snapshot.get("sources") or []
                ],
                "threads": snapshot.get("threads"), "clock": _word(snapshot.get("clock")),
            },
            "clock": _word(clock),
            "uname": self._uname(manifest.get("uname")),
            "events": events | ({"(others)": others} if others else {}),
            "skipped": {"(others)": passed} if passed else {},
            "problems": [_unplaced(p) for p in manifest.get("problems") or []],
            **self._slice(manifest.get("slice")),
            "features": {k: v for k, v in (manifest.get("features") or {}).items() if re.fullmatch(r"[A-Z0-9_]+", k)},
            "sysctl": {
                k: v for k, v in (manifest.get("sysctl") or {}).items()
                if _SETTING.fullmatch(k) and re.fullmatch(r"[\d\s-]+", str(v))
            },
            "capture": self._capture(manifest.get("capture")),
        }  # fmt: skip

    def _slice(self, of: dict[str, Any] | None) -> dict[str, Any]:
        if of is None:
            return {}
        damage = [_unplaced(p) for p in of.get("damage") or ()]
        return {"slice": of | {"of": self.digest("id", str(of.get("of")), 64), "damage": damage}}

    def _uname(self, uname: str | None) -> str | None:
        """With another name of the host, and no words but those that tell of preemption."""
        words = (uname or "").split()
        if len(words) < 3:
            return None
        told = [w for w in words[3:] if w in ("SMP", "PREEMPT", "PREEMPT_RT", "PREEMPT_DYNAMIC", "RT")]
        return " ".join([words[0], "h" + self.digest("host", words[1], 8), words[2], *told])

    def _capture(self, capture: dict[str, Any] | None) -> dict[str, Any] | None:
        """Numbers, counters and CPU lists; texts of a fixed list."""
        if capture is None:
            return None
        out: dict[str, Any] = {}
        for key, value in capture.items():
            if key == "stop_tid":
                out[key] = self.tid(value)
            elif isinstance(value, (int, float)) or key in ("cpus", "kernel") or value in _WORDS:
                out[key] = value
        return out


def _foreign(event: str) -> bool:
    """Whether an event is taken for that of an interrupt vector by the form of its name only."""
    stem, _, edge = event.rpartition("_")
    return edge in ("entry", "exit") and stem not in _WITH_EDGES


def _unplaced(problem: str) -> str:
    """What is wrong and how often, without the place: that may be the name of an instance or of an event."""
    if re.match(r"CPU \d+: ", problem):
        return problem
    times = re.search(r": \d+ times(?=, first at )", problem)
    return problem.partition(": ")[0] + (times[0] if times else "")


def _word(text: str | None) -> str | None:
    """The name of a clock, as the kernel has them."""
    return text if text in ("local", "global", "counter", "uptime", "perf", "mono", "mono_raw", "boot", "tai",
                            "x86-tsc", "ppc-tb") else None  # fmt: skip
