# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules that give tasks placement hints, for policies that follow them (seed 5; docs/hints.md describes the file).

A task has at a time the hints of the first rule that matches it then. Where none does, it has those that its parent had
when it forked it.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rewake.errors import UsageError
from rewake.forms import ENUMS, Columns, Recording, values_of
from rewake.replay import _engine

HINTS: dict[str, int] = _engine.HINTS
"""Name -> bit, as prctl of the posting takes them; WAKE_WIDE is only described there."""
PROPOSED = ("WAKE_WIDE",)
HINT_PAIRS = (("FORK_AFFINE", "FORK_SPREAD"), ("WAKE_AFFINE", "WAKE_HOLD"))
_WORDS, _NUMBERS = ("comm", "cgroup"), ("tgid", "tid")
_KEYS = (*_WORDS, *_NUMBERS, "from", "to", "hints")
_COUNTED = tuple(ENUMS["decision_class"].index(c) for c in ("moved", "stayed"))
_ALWAYS, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
NO_RULE = -1


@dataclass(frozen=True)
class Rule:
    """One [[rule]]: all that it names must match, each by one of its patterns or numbers. Times in ns from the start
    of the recording, `to_ns` excluded."""

    hints: tuple[str, ...]
    comm: tuple[str, ...] = ()
    cgroup: tuple[str, ...] = ()
    tgid: tuple[int, ...] = ()
    tid: tuple[int, ...] = ()
    from_ns: int | None = None
    to_ns: int | None = None

    @property
    def mask(self) -> int:
        return sum(HINTS[name] for name in self.hints)

    def matches(self, tid: int, tgid: int | None, comm: str | None, cgroup: str | None) -> bool:
        """Whether it is about such a task, whatever the time."""
        return (
            (not self.tid or tid in self.tid)
            and (not self.tgid or tgid in self.tgid)
            and (not self.comm or (comm is not None and any(fnmatchcase(comm, p) for p in self.comm)))
            and (not self.cgroup or (cgroup is not None and any(fnmatchcase(cgroup, p) for p in self.cgroup)))
        )


@dataclass(frozen=True)
class Rules:
    """A rules file: its name, what identifies its content, and its rules in order."""

    name: str
    digest: str
    rules: tuple[Rule, ...]

    @property
    def used(self) -> int:
        """All hints of all rules."""
        bits = 0
        for rule in self.rules:
            bits |= rule.mask
        return bits


def rules_of(name: str, rules: Sequence[Rule]) -> Rules:
    """Rules that no file holds yet."""
    return Rules(name, _digest(tuple(rules)), tuple(rules))


def exactly(name: str) -> str:
    """The pattern that matches a task's or cgroup's name and nothing else."""
    return re.sub(r"[*?[]", r"[\g<0>]", name)


def dump(rules: Sequence[Rule]) -> str:
    """The text of a rules file; `load` reads the same rules from it."""
    out = []
    for rule in rules:
        lines = ["[[rule]]"]
        for key in (*_WORDS, *_NUMBERS):
            if values := getattr(rule, key):
                lines.append(f"{key} = {_toml(values[0] if len(values) == 1 else list(values))}")
        for key in ("from", "to"):
            if (ns := getattr(rule, f"{key}_ns")) is not None:
                lines.append(f"{key} = {ns // 10**9}.{ns % 10**9:09d}")
        out.append("\n".join([*lines, f"hints = {_toml(list(rule.hints))}"]) + "\n")
    return "\n".join(out)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, int):
        return str(value)
    plain = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
    return '"' + "".join(plain) + '"'


def _digest(rules: tuple[Rule, ...]) -> str:
    return hashlib.sha256(repr(rules).encode()).hexdigest()


def load(path: Path) -> Rules:
    """Reads a rules file. UsageError names file and rule, and what is allowed."""
    try:
        data = path.read_bytes()
        document = tomllib.loads(data.decode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # not TOML, not UTF-8, a number of thousands of digits
        raise UsageError(f"{path}: not TOML: {error}") from error
    except RecursionError:
        raise UsageError(f"{path}: not a rules file: nested too deeply") from None
    rules = document.get("rule")
    if set(document) != {"rule"} or not isinstance(rules, list) or not rules:
        raise UsageError(f"{path}: [[rule]] tables expected, at least one and nothing else")
    found = tuple(_rule(f"{path}: rule {i}", rule) for i, rule in enumerate(rules, 1))
    return Rules(path.name, _digest(found), found)


def _rule(where: str, given: object) -> Rule:
    if not isinstance(given, dict):
        raise UsageError(f"{where}: a table of {', '.join(_KEYS)} expected")
    for key in given:
        if key not in _KEYS:
            raise UsageError(f"{where}: unknown key {key!r}; allowed are {', '.join(_KEYS)}")
    if not any(key in given for key in (*_WORDS, *_NUMBERS)):
        raise UsageError(f"{where}: names no task; at least one of {', '.join((*_WORDS, *_NUMBERS))} expected")
    words: dict[str, Any] = {key: _list(where, key, given[key], str) for key in _WORDS if key in given}
    numbers: dict[str, Any] = {key: _list(where, key, given[key], int) for key in _NUMBERS if key in given}
    since, until = (_seconds(where, key, given.get(key)) for key in ("from", "to"))
    if until is not None and until <= (since or 0):
        raise UsageError(f"{where}: to={given['to']} is not after from={given.get('from', 0)}")
    return Rule(_hints(where, given.get("hints")), **words, **numbers, from_ns=since, to_ns=until)


def _list(where: str, key: str, value: object, kind: type) -> tuple[Any, ...]:
    values: list[Any] = value if isinstance(value, list) else [value]
    allowed = (lambda v: type(v) is int and v >= 0) if kind is int else (lambda v: isinstance(v, str) and v != "")
    if not values or not all(map(allowed, values)):
        what = "whole number" if kind is int else "text, exact or with * ? [...]"
        raise UsageError(f"{where}: {key}={value!r}: a {what} expected, or a list of them")
    return tuple(values)


def _seconds(where: str, key: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise UsageError(f"{where}: {key}={value!r}: seconds since the start of the recording expected")
    return round(value * 1e9)


def _hints(where: str, value: object) -> tuple[str, ...]:
    allowed = f"a list of {', '.join(HINTS)} expected (empty: none), of each FORK and WAKE pair at most one"
    if not isinstance(value, list) or any(not isinstance(v, str) or v not in HINTS for v in value):
        raise UsageError(
            f"{where}: hints={value!r}: {allowed}" if value is not None else f"{where}: no hints: {allowed}"
        )
    for pair in HINT_PAIRS:
        if all(name in value for name in pair):
            raise UsageError(f"{where}: {' and '.join(pair)} exclude each other; {allowed}")
    return tuple(name for name in HINTS if name in value)


def check_followed(rules: Rules, policies: Sequence[tuple[str, int]]) -> None:
    """UsageError where none of the policies, given with the bits that it follows, follows hints, or one that does
    cannot follow all of these."""
    followers = [(name, follows) for name, follows in policies if follows]
    if not followers:
        raise UsageError(f"{rules.name}: none of these policies follows hints: userspace-hints does")
    for name, follows in followers:
        lost = [hint for hint, bit in HINTS.items() if rules.used & bit & ~follows]
        if lost:
            shown = name.partition(":")[0]
            raise UsageError(f"{rules.name}: {name} cannot follow {', '.join(lost)}; rewake policies show {shown}")


@dataclass(frozen=True)
class _Segments:
    """What a task has from each time on: number of the rule, or NO_RULE, and whether by its fork."""

    start: npt.NDArray[np.int64]
    rule: npt.NDArray[np.int64]
    inherited: npt.NDArray[np.bool_]

    def at(self, ts: int) -> int:
        return int(self.rule[np.searchsorted(self.start, ts, "right") - 1])


class TaskHints:
    """The hints of a recording's tasks over time, and how many decisions had them."""

    def __init__(self, recording: Recording, rules: Rules) -> None:
        self._rules = rules
        self._masks = np.array([0, *(r.mask for r in rules.rules)], np.uint8)  # index: rule + 1
        self._decisions = np.zeros(len(rules.rules) + 1, np.int64)
        first, last = (int(recording.manifest.get(end) or 0) for end in ("first_ns", "last_ns"))
        self._tasks = {
            task: segments
            for task, timeline in _timelines(recording, rules.rules, (first, last))
            if (segments := _segments(timeline, NO_RULE)) is not None
        }
        for parent, child, ts in _forks(recording):
            got = self._tasks[parent].at(ts) if parent in self._tasks else NO_RULE
            if got != NO_RULE:
                own = self._tasks.get(child)
                timeline = [(_ALWAYS, NO_RULE)] if own is None else list(zip(own.start, own.rule, strict=True))
                segments = _segments(timeline, got)
                assert segments is not None
                self._tasks[child] = segments

    def of(self, decisions: Columns) -> npt.NDArray[np.uint8]:
        """The hint bits of each decision's task at its time."""
        task, ts, cls = (decisions[name] for name in ("task", "ts_ns", "class"))
        assert isinstance(task, np.ndarray)
        assert isinstance(ts, np.ndarray)
        assert isinstance(cls, np.ndarray)
        rule = np.full(len(task), NO_RULE, np.int64)
        order = np.argsort(task, kind="stable")
        present, first = np.unique(task[order], return_index=True)
        for name, rows in zip(present.tolist(), np.split(order, first)[1:], strict=True):
            if (segments := self._tasks.get(name)) is not None:
                rule[rows] = segments.rule[np.searchsorted(segments.start, ts[rows], "right") - 1]
        np.add.at(self._decisions, rule[np.isin(cls, _COUNTED)] + 1, 1)
        hints: npt.NDArray[np.uint8] = self._masks[rule + 1]
        return hints

    def summary(self) -> dict[str, Any]:
        """For the run's manifest: per rule its hints, how many tasks it matched, how many more inherited it, and how
        many decisions of the fair class had it."""
        own, inherited = (np.zeros(len(self._rules.rules), np.int64) for _ in range(2))
        for segments in self._tasks.values():
            by_match = set(segments.rule[~segments.inherited].tolist()) - {NO_RULE}
            by_fork = set(segments.rule[segments.inherited].tolist()) - {NO_RULE} - by_match
            own[list(by_match)] += 1
            inherited[list(by_fork)] += 1
        rules = [
            {"hints": list(rule.hints), "tasks": int(own[i]), "inherited": int(inherited[i]),
             "decisions": int(self._decisions[i + 1])}
            for i, rule in enumerate(self._rules.rules)
        ]  # fmt: skip
        return {"file": self._rules.name, "digest": self._rules.digest, "rules": rules}


def _segments(timeline: Sequence[tuple[int, int]], inherited: int) -> _Segments | None:
    """From (time, own rule) pairs; None where there is no rule at all."""
    own = np.array([rule for _, rule in timeline], np.int64)
    rule = np.where(own == NO_RULE, inherited, own)
    if (rule == NO_RULE).all():
        return None
    by_fork = (own == NO_RULE) & (rule != NO_RULE)
    return _Segments(np.array([start for start, _ in timeline], np.int64), rule, by_fork)


def _timelines(
    recording: Recording, rules: Sequence[Rule], span: tuple[int, int]
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Per task: from which time on which rule matches it; the first time is _ALWAYS. `span`: of the recording."""
    origin, end = span
    names = dict(zip(*_plain(recording, "comm", "id", "name"), strict=True))
    paths = dict(zip(*_plain(recording, "cgroup", "cgroup_id", "path"), strict=True))
    attributes: dict[int, list[tuple[int, str | None, str | None]]] = {}
    for task, since, comm, cgroup in zip(
        *_plain(recording, "task_attr", "task_id", "from_ns", "comm", "cgroup"), strict=True
    ):
        start = _ALWAYS if since is None else since
        attributes.setdefault(task, []).append((start, names.get(comm), paths.get(cgroup)))
    for task, tid, tgid in zip(*_plain(recording, "task", "task_id", "tid", "tgid"), strict=True):
        rows = sorted(attributes.get(task, []), key=lambda row: row[0])
        timeline: list[tuple[int, int]] = []
        comm = cgroup = None
        for k, (since, name, path) in enumerate(rows or [(_ALWAYS, None, None)]):
            start = _ALWAYS if k == 0 else since  # a task has its first attributes from its beginning
            comm, cgroup = name if name is not None else comm, path if path is not None else cgroup
            until = rows[k + 1][0] if k + 1 < len(rows) else _NEVER
            about = [i for i, rule in enumerate(rules) if rule.matches(tid, tgid, comm, cgroup)]
            windows = [(_at(origin, rules[i].from_ns, _ALWAYS), _at(origin, rules[i].to_ns, _NEVER), i) for i in about]
            until = min(until, end + 1)
            edges = {start, *(edge for window in windows for edge in window[:2] if start < edge < until)}
            for edge in sorted(edges):
                in_force = next((i for low, high, i in windows if low <= edge < high), NO_RULE)
                timeline.append((edge, in_force))
        yield task, timeline


def _at(origin: int, offset: int | None, otherwise: int) -> int:
    return otherwise if offset is None else origin + offset


def _forks(recording: Recording) -> Iterator[tuple[int, int, int]]:
    """(parent, child, ts) in order of time."""
    for part in range(recording.n_parts):
        fork = recording.read_part("fork", part, ("ts_ns", "task", "child"))
        yield from zip(*(values_of(fork[name]) for name in ("task", "child", "ts_ns")), strict=True)


def _plain(recording: Recording, table: str, *columns: str) -> list[list[Any]]:
    read = recording.read(table, columns)
    return [values_of(read[name]) for name in columns]
