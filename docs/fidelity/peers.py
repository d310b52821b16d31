# SPDX-License-Identifier: GPL-2.0-or-later
"""Which probed recordings a recording of docs/fidelity.md is compared with, and what these prove."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import targets
from measure import AUTO, BLIND, Measured

TOLD = {"load", "util", "has_idle_cores"}
"""Inputs that follow from events, however roughly: no miss is excused by them."""
TOGETHER = "together"
"""Stands for the probed inputs of a miss that none of them turns alone."""


class Job(NamedTuple):
    """What was recorded where: two recordings that differ in nothing of it are repeats of each other."""

    architecture: str
    """As uname says; empty when that is not known."""
    load: str
    machine: str
    kernel: str
    clocks: int
    """Most by which the clocks of two emulated CPUs differ, ns; 0: not known."""

    @classmethod
    def of(cls, found: Measured) -> Job:
        words = str(found.meta.get("kernel", "")).split()
        architecture = next((w for w in words if w in ("x86_64", "aarch64")), "")
        line, beside = targets.command(found), found.meta.get("background")
        load = f"{line}; beside it: {beside}" if beside else line
        kernel = ".".join(str(found.header["kernel"]).split(".")[:2])
        round_ = re.search(r"(\d+) instructions per round, 1 instruction = 1 ns", str(found.meta.get("emulation", "")))
        return cls(architecture, load, str(found.meta.get("topology")), kernel, int(round_[1]) if round_ else 0)


def peers(found: Measured, all_: Iterable[Measured]) -> list[Measured]:
    """The probed recordings that `found` is compared with: itself, else all of one job of the same program; or none.

    That is the job on the same architecture, then the same command line, then as busy, then on the same machine, else
    on one with about as many LLCs, then of the same kernel, then with the same clocks, then the first.
    """
    if found.probed:
        return [found]
    alike = [m for m in all_ if m.probed and m.header and targets.workload(m) == targets.workload(found)]
    if not alike:
        return []
    mine = Job.of(found)

    def strangeness(other: Measured) -> tuple[Any, ...]:
        job = Job.of(other)
        llcs = abs((other.header["llcs"] or 0) - (found.header["llcs"] or 0))
        busy = targets.quiet(other.fidelity[AUTO]) != targets.quiet(found.blind)
        architecture, load, machine, kernel, clocks = (a != b for a, b in zip(job, mine, strict=True))
        return architecture, load, busy, machine, llcs, kernel, clocks

    best = Job.of(min(alike, key=strangeness))
    return [m for m in alike if Job.of(m) == best]


def finer(found: Measured, all_: Iterable[Measured]) -> list[Measured]:
    """Of a recording without probes such recordings of the same job whose CPUs have clocks that differ by less."""
    if found.probed:
        return []
    mine = Job.of(found)
    jobs = ((m, Job.of(m)) for m in all_ if not m.probed and m.header)
    return [m for m, job in jobs if 0 < job.clocks < mine.clocks and job._replace(clocks=mine.clocks) == mine]


def differences(found: Measured, others: Sequence[Measured]) -> list[str]:
    """What sets the job of `others` apart from that of `found`; empty: nothing, they are its twins."""
    both = zip(Job._fields, Job.of(found), Job.of(others[0]), strict=True)
    return [name for name, a, b in both if a != b]


def misses(recordings: Iterable[Measured], way: str) -> int:
    return sum(m.budget[way]["misses"] for m in recordings)


def skill(recordings: Sequence[Measured], way: str) -> float | None:
    """Of probed recordings together."""
    if len(recordings) == 1:
        alone: float | None = recordings[0].fidelity[way]["skill"]
        return alone
    moved = sum(m.fidelity[way]["moved"] for m in recordings)
    return 1 - misses(recordings, way) / moved if moved else None


class Proof(NamedTuple):
    """What becomes of the misses from events of probed recordings with the probes."""

    misses: int
    turned: Counter[str]
    """By input: misses that become the recorded choice with its probed value; TOGETHER: with all of them only."""
    excused: int
    """Misses that do with an input that no event tells."""

    @classmethod
    def of(cls, recordings: Sequence[Measured]) -> Proof:
        turned: Counter[str] = Counter()
        excused = 0
        for found in recordings:
            stay = {m["decision_id"] for m in found.budget[AUTO]["listed"]}
            for miss in found.budget[BLIND]["listed"]:
                alone = set(miss["proven"]) - {"several"}
                if not alone and (miss["proven"] or miss["decision_id"] not in stay):
                    alone = {TOGETHER}
                turned.update(alone)
                excused += bool(alone - TOLD)
        return cls(misses(recordings, BLIND), turned, excused)

    def __str__(self) -> str:
        """Empty when there was no miss."""
        ranked = sorted(self.turned.items(), key=lambda x: (x[0] == TOGETHER, -x[1], x[0]))
        words = ", ".join(f"{name} {n:,}" for name, n in ranked) or "nothing"
        return f"{words} of {self.misses:,}" if self.misses else ""


def share(found: Measured, others: Sequence[Measured]) -> float | None:
    """Skill from events, of the probed skill. None where there is no skill to compare."""
    mine, best = found.blind["skill"], skill(others, AUTO)
    return mine / best if mine is not None and best is not None and best > 0 else None


def failed(found: Measured, others: Sequence[Measured]) -> list[str] | None:
    """What a recording without its probes fails of the target; empty: it holds; None: there is no skill to compare.

    A share of a skill that fails its own target proves nothing.
    """
    mine, best = found.blind["skill"], skill(others, AUTO)
    if mine is None or best is None:
        return None
    words = ["share"] if mine < targets.OF_PROBED * best else []
    fails = any(targets.probed_target(m.fidelity[AUTO]) is False for m in others)
    return words + (["the probed one fails"] if fails else [])


def excuse(found: Measured, others: Sequence[Measured]) -> Proof | None:
    """The proof that a share is too low for want of an input that no event tells; None: there is none.

    It takes probed recordings of the same job, whose own share is too low as well, and is not without the misses that
    come out right with the probed value of such an input.
    """
    if failed(found, others) != ["share"] or differences(found, others):
        return None
    best, blind = skill(others, AUTO), skill(others, BLIND)
    moved = sum(m.fidelity[AUTO]["moved"] for m in others)
    assert best is not None and blind is not None  # there is a share
    proof = Proof.of(others)
    without = blind + proof.excused / moved
    return proof if blind < targets.OF_PROBED * best <= without else None


def ordered(found: Measured, others: Sequence[Measured], with_finer: Sequence[Measured]) -> float | None:
    """Skill together of the recordings of finer(), where theirs holds and the share does not: likely it wants the order
    of events. No proof, for repeats scatter. None: that is not so."""
    if failed(found, others) != ["share"] or differences(found, others) or not with_finer:
        return None
    best, mine = skill(others, AUTO), skill(with_finer, AUTO)
    return mine if best is not None and mine is not None and mine >= targets.OF_PROBED * best else None


def _told(found: Measured, others: Sequence[Measured]) -> bool:
    """Whether enough wakeups moved for a share: here, and in the probed recordings, whose skill tells nothing either if
    the verdict is another one somewhere in the interval of so few."""
    best = skill(others, AUTO)
    missed, moved = misses(others, AUTO), sum(m.fidelity[AUTO]["moved"] for m in others)
    assert best is not None  # else there is nothing to compare
    if not targets.tells(found.blind, targets.OF_PROBED * best):
        return False
    if others == [found] or moved >= targets.FEW:
        return True
    span = targets.interval(missed, moved)
    sides = {found.blind["skill"] >= targets.OF_PROBED * x for x in span or ()}
    return len(sides) == 1


def holds(found: Measured, others: Sequence[Measured]) -> bool | str | None:
    """Whether a recording without its probes has its share of the probed skill, INPUT, or TOO_SHORT; None: there is no
    skill to compare."""
    wanting = failed(found, others)
    if wanting is None:
        return None
    if excuse(found, others):
        return targets.INPUT
    if wanting in ([], ["share"]) and not _told(found, others):
        return targets.TOO_SHORT
    return not wanting


def quiet_holds(found: Measured, others: Sequence[Measured]) -> bool | str:
    """Whether a quiet recording without its probes has few enough of prev's misses, INPUT (its share proves that, or it
    has no topology), or TOO_SHORT."""
    few = bool(found.blind["skill"] >= targets.QUIET_SKILL)
    if not few and (found.header["llcs"] is None or excuse(found, others)):
        return targets.INPUT
    return few if targets.tells(found.blind, targets.QUIET_SKILL) else targets.TOO_SHORT
