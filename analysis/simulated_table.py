# SPDX-License-Identifier: GPL-2.0-or-later
"""The closed-loop run as text. Every name goes through `text.terminal`; no figure is computed here, only formatted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewake.analysis.grid import NOTHING, Column, count, counted, llcs, micros, number, percent, render, wrap
from rewake.analysis.simulated import NOTHING_TO_JUDGE, Check, Simulated
from rewake.analysis.table import hints
from rewake.analysis.text import terminal

NAMES = {"pinned": "V3 pinned", "null": "null model", "factual": "V4 factual"}
NONE_IN_CHARGE = "Only the recorded placement was simulated (--pin)."


def table(s: Simulated, next_steps: Sequence[str] = ()) -> str:
    """What qualifies the figures, the figures, what they mean, what to type next."""
    m = s.machine
    lines = [
        *wrap(f"{terminal(m.recording)}  {m.cpus} CPUs  {llcs(m.llcs)}  kernel {terminal(m.kernel or 'unknown')}"),
        *wrap(terminal(s.quality.line(), None)),
        *_trust(s),
        "",
        *_policies(s),
        "",
        *(line for note in notes(s) for line in wrap(terminal(note, None))),
    ]
    lines += [f"next: {step}" if i == 0 else f"      {step}" for i, step in enumerate(next_steps)]
    return "\n".join(lines) + "\n"


def _trust(s: Simulated) -> list[str]:
    lines = ["Does the model reproduce what was recorded?  simulated / recorded, µs", *render(checks(s))]
    return [*lines, *wrap(verdict(s))]


def per_s(c: Check, name: str) -> str:
    """A rate, simulated / recorded; marked where the check misses it."""
    model, truth = c.figures[f"{name}_per_s"], c.figures[f"recorded_{name}_per_s"]
    mark = " !" if name in c.missed else ""
    return f"{number(model, 0)} / {number(truth, 0)}{mark}"


def checks(s: Simulated) -> list[Column]:
    """The arms that should reproduce the recording, beside it; what does not is marked."""
    rows = s.checks

    def pair(c: Check, name: str) -> str:
        mark = " !" if name in c.missed else ""
        return f"{micros(c.figures[f'{name}_ns'])} / {micros(c.figures[f'recorded_{name}_ns'])}{mark}"

    return [
        Column(("",), [NAMES[c.kind] for c in rows], left=True),
        Column(("p50",), [pair(c, "p50") for c in rows]),
        Column(("p90",), [pair(c, "p90") for c in rows]),
        Column(("p99",), [pair(c, "p99") for c in rows]),
        Column(("KS",), [number(c.figures["ks"], 3) + (" !" if "ks" in c.missed else "") for c in rows]),
        Column(("queue wait p90",), [pair(c, "wait_p90") for c in rows]),
        Column(("KS",), [number(c.figures["wait_ks"], 3) for c in rows]),
        Column(("moves/s",), [per_s(c, "moves") for c in rows]),
    ]


def verdict(s: Simulated) -> str:
    """What the checks come to, in a sentence."""
    asked = [c for c in s.checks if c.kind != "null"]
    failed = [f"{NAMES[c.kind]}: {', '.join(c.missed)}" for c in asked if c.missed]
    told = "holds" if not failed else "does NOT hold (!): " + "; ".join(failed)
    if not any(c.judged for c in asked):
        told = f"says nothing: there was {NOTHING_TO_JUDGE}, for no wakeup was recorded that waited for a CPU"
    elif s.settings.get("pin"):
        told += " as far as it goes: V4 was not asked (--pin)"
    elif s.factual is None:
        told += " as far as it goes: the recorded kernel has no column here, so V4 was not asked"
    broken = "conservation checks: all hold" if not s.broken else f"{s.broken} conservation checks FAILED"
    return f"validation {told}. {broken}."


def versus(p: Mapping[str, Any], figure: str) -> str:
    """Distance from the factual run; nothing for that run itself, or without one."""
    value = p[f"{figure}_vs_factual_pct"]
    return "" if value is None or p["kind"] == "factual" else f"{value:+.0f}%"


def reach(low: int | None, high: int | None) -> str:
    """Smallest and largest of a window, µs."""
    return NOTHING if low is None else f"{micros(low)}..{micros(high)}"


def policies(s: Simulated, escape: Callable[[str], str]) -> tuple[list[Column], list[Column]]:
    """Latency, and what happens per second, with each policy in charge; names go through `escape`."""
    shown = s.in_charge

    def with_versus(p: dict[str, Any], key: str, text: str) -> str:
        told = versus(p, key)
        return text if p["kind"] == "factual" else f"{text} {f'({told})' if told else '':>7}"

    names = [escape(p["policy"]) + ("  (factual)" if p["kind"] == "factual" else "") for p in shown]
    first = [
        Column(("modelled, latency µs",), names, left=True),
        Column(("p50",), [with_versus(p, "p50_ns", micros(p["p50_ns"])) for p in shown]),
        Column(("p90",), [with_versus(p, "p90_ns", micros(p["p90_ns"])) for p in shown]),
        Column(("p99",), [with_versus(p, "p99_ns", micros(p["p99_ns"])) for p in shown]),
        Column(("p99, windows",), [reach(p["p99_low_ns"], p["p99_high_ns"]) for p in shown]),
        Column(("p99.9",), [micros(p["p999_ns"]) for p in shown]),
        Column(("queue", "wait p99"), [micros(p["wait_p99_ns"]) for p in shown]),
    ]
    second = [
        Column(("modelled, per second",), names, left=True),
        Column(("wake", "cycles"), [with_versus(p, "cycles_per_s", number(p["cycles_per_s"], 0)) for p in shown]),
        Column(("moves:", "wakeup"), [number(p["wake_per_s"], 0) for p in shown]),
        Column(("new", "idle"), [number(p["newidle_per_s"], 0) for p in shown]),
        Column(("peri-", "odic"), [number(p["periodic_per_s"], 0) for p in shown]),
        Column(("leave", "LLC"), [number(p["cross_llc_per_s"], 0) for p in shown]),
        Column(("leave", "node"), [number(p["cross_node_per_s"], 0) for p in shown]),
        Column(("idle while", "waiting"), [percent(p["machine_idle_pct"]) for p in shown]),
        Column(("di-", "verged"), [percent(p["diverged_pct"], 0) for p in shown]),
    ]
    return first, second


def _policies(s: Simulated) -> list[str]:
    if not s.in_charge:
        return [NONE_IN_CHARGE]
    first, second = policies(s, terminal)
    return [*render(first, spill=True), "", *render(second, spill=True)]


def balancing(s: Simulated) -> list[str]:
    """How often balancing moved tasks with the recorded kernel's column in charge, beside how often it did."""
    check = s.check("factual")
    if check is None or check.figures["recorded_newidle_per_s"] is None:
        return []
    told = f"to CPUs that go idle {per_s(check, 'newidle')}, periodically {per_s(check, 'periodic')}"
    return [f"Moves by balancing in V4, simulated / recorded per second (not judged): {told}."]


def notes(s: Simulated) -> list[str]:
    """What the figures mean, and where they cannot be answered for. Names are as they are."""
    t = s.settings
    windows = max((p["windows"] for p in s.in_charge), default=0)
    run = f"{count(windows)} windows of at most {t.get('windows_ns', 0) / 1e9:g} s"
    settings = (
        f"Closed loop, modelled throughout: {'recorded placement in short windows' if t.get('pin') else run} "
        f"({counted(t.get('replicas', 1), 'replica')}), each begun on the recorded "
        f"machine. Balancing: {'as recorded' if t.get('pin') else t.get('balance')}. "
        f"Costs of moving x{t.get('move_factor', 0):g}, per CPU searched "
        f"{t.get('scan_ns', 0)} ns, speed beside a busy sibling {t.get('smt', 1):g}. No cache, bandwidth, frequency or "
        "lock contention."
    )
    if s.factual is not None:
        settings += " Compare with the factual line, never with the record."
    if t.get("sync", "auto") != "auto":
        settings += f" WF_SYNC assumed {'set' if t['sync'] == '1' else 'clear'} for every wakeup by a task."
    lines = [settings, *balancing(s)]
    lines += [
        f"{p['policy']}: {percent(p['diverged_pct'], 0)} of its windows left the recording behind." for p in s.diverged
    ]
    lines += [
        f"{p['policy']}: {count(p['censored'])} wakeups had not run when their window stopped; percentiles from "
        f"p{p['biased_from']:g} may be low (worst case p99 {micros(p['p99_worst_ns'])} µs)."
        for p in s.in_charge
        if p["biased_from"] is not None
    ]
    lines += _left_out(s)
    return [*lines, *(f"{note}." for note in s.remarks), *hints(s.hints)]


def _left_out(s: Simulated) -> list[str]:
    """The windows that the range of p99 leaves out: with them, the p99 of all may lie outside of it."""
    some = [p for p in s.in_charge if 0 < p["p99_windows"] < p["windows"]]
    told = ", ".join(f"{p['policy']} {count(p['p99_windows'])} of {count(p['windows'])}" for p in some)
    return [f"p99, windows: of those with 1,000 wakeups or more: {told}."] if some else []
