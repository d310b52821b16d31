# SPDX-License-Identifier: GPL-2.0-or-later
"""Advice as text, for a terminal and as markdown. Names go through one escape; no figure is computed here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rewake.analysis.advice import Advice, Change, Guard, Judged, Objective, Searched, percent
from rewake.analysis.grid import NOTHING, Column, micros, number, render, wrap
from rewake.analysis.simulated_table import NAMES
from rewake.analysis.stats import ALPHA
from rewake.analysis.text import terminal

Escape = Callable[[str], str]


def table(a: Advice, next_steps: Sequence[str] = ()) -> str:
    """The verdict, what it rests on, every trial, what it does not say."""
    lines = [*wrap(headline(a, _whole)), *wrap(about(a, _whole)), ""]
    if a.judged is not None:
        lines += [*wrap(judged_title(a)), *render(judged(a.judged)), ""]
        lines += [*wrap(verdict(a.judged)), ""]
    if a.trials:
        lines += [*wrap(trials_title(a)), *render(trials(a, terminal), spill=True), ""]
    lines += [line for note in notes(a, _whole) for line in wrap(note)]
    lines += [f"next: {step}" if i == 0 else f"      {step}" for i, step in enumerate(next_steps)]
    return "\n".join(lines) + "\n"


def preface(a: Advice) -> str:
    """Comments that head a rules file."""
    lines = [headline(a, _whole), about(a, _whole), "Written by rewake advise. How to read it: docs/hints.md."]
    return "".join(f"# {line}\n" for line in lines) + "\n"


def _whole(text: str) -> str:
    return terminal(text, None)


def headline(a: Advice, escape: Escape) -> str:
    """The answer in a sentence."""
    j = a.judged
    if j is None or not j.recommended:
        return "No setting distinguishable from no hint: nothing is recommended."
    gain = f"{_signed(j.gain.test.effect)} {a.objective.label} ({_range(j.gain)})"
    return f"Recommended: {escape(j.name)}: {gain}, modelled."


def about(a: Advice, escape: Escape) -> str:
    """What was asked, of what."""
    guards = ", ".join(map(str, a.guards)) or "none"
    return (
        f"Objective {a.objective.name}, guards {guards}. Compared with {escape(a.base)} simulated (no hint). Searched "
        f"on {', '.join(map(escape, a.searched_on))}; judged on {', '.join(map(escape, a.judged_on))}, which "
        "the search did not see."
    )


def judged_title(a: Advice) -> str:
    assert a.judged is not None
    return f"Judged: change to no hint, mean over windows with {100 * (1 - ALPHA):.0f} % interval (modelled)"


def judged(j: Judged) -> list[Column]:
    """Objective, guards and the null, a row each."""
    rows: list[tuple[str, Change, Guard | None]] = [(j.gain.objective.label, j.gain, None)]
    rows += [(c.objective.label, c, g) for g, c in j.guards]
    rows.append(("null: no hint, redrawn", j.redrawn, None))
    names = list(j.gain.by_recording)

    def bound(g: Guard | None, c: Change) -> str:
        return "" if g is None else f"{g.pct:+g} % {'holds' if j.holds(g, c) else 'may NOT hold'}"

    grid = [
        Column(("",), [name for name, _, _ in rows], left=True),
        Column(("no hint",), [_value(c, c.base) for _, c, _ in rows]),
        Column(("setting",), [_value(c, c.value) for _, c, _ in rows]),
        Column(("change",), [_signed(c.test.effect) for _, c, _ in rows]),
        Column(("interval",), [_range(c) for _, c, _ in rows]),
        Column(("guard",), [bound(g, c) for _, c, g in rows]),
    ]
    if 1 < len(names) <= _MOST_SHOWN:
        grid += [
            Column(("judged", f"on {i}"), [_signed(c.by_recording.get(name)) for _, c, _ in rows])
            for i, name in enumerate(names, 1)
        ]
    return grid


_MOST_SHOWN = 4
"""Judged recordings that get a column each."""


def verdict(j: Judged) -> str:
    """Null spread, and what stands against it."""
    spread = f"Null spread {number(percent(j.spread.value))} % ({j.spread.how})."
    if j.recommended:
        return f"{spread} The gain is above it, its interval excludes no gain, every guard holds."
    return f"{spread} Against recommending {_whole(j.name)}: {'; '.join(j.reasons)}."


def trials_title(a: Advice) -> str:
    return (
        f"Tried: {len(a.trials)}, in this order. Change to no hint on the search's own recordings, ± standard error: "
        "of the best of many too good, never the estimate"
    )


def trials(a: Advice, escape: Escape) -> list[Column]:
    """What was tried, as the search saw it."""
    best = None if a.judged is None else a.judged.name

    def mark(t: Searched) -> str:
        if t.name == best:
            return "judged"
        return "" if t.within else "guard" if t.diverged_pct <= 0 else f"{t.diverged_pct:.0f} % diverged"

    return [
        Column(("setting",), [escape(t.name) for t in a.trials], left=True),
        Column((a.objective.name,), [_signed(t.change) for t in a.trials]),
        Column(("±",), [_error(t) for t in a.trials]),
        *(Column((g.objective.name,), [_signed(t.guards[i]) for t in a.trials]) for i, g in enumerate(a.guards)),
        Column(("",), [mark(t) for t in a.trials], left=True),
    ]


def notes(a: Advice, escape: Escape) -> list[str]:
    """How it was decided, and what it cannot say."""
    s = a.settings
    n = len(a.trials)
    how = (
        f"Closed loop, modelled throughout: windows of {s['windows_ns'] / 1e6:g} ms, {s['replicas']} replicas, seed "
        f"{s['seed']}. "
    )
    if a.judged is not None:
        how += (
            f"Only the best of {n} was judged, once, on what the search had not seen: its interval needs no correction "
            "for the number tried. It covers the scatter of the model, not its error: the machine may gain less, or "
            "nothing. Try it there, and compare recordings."
        )
    elif n:
        how += (
            f"None of {n} is better than no hint by more than its standard error even where it was searched for, so "
            "nothing was judged."
        )
    else:
        how += "Nothing could be tried."
    lines = [how]
    if a.objective.lower_is_better and a.level < 2 * a.objective.least:
        lines.append(
            f"Without hint there is next to nothing to gain: {a.objective.label} is {_shown(a.objective, a.level)}."
        )
    if a.halves:
        lines.append(
            "Judged on the same run as searched: what another run would say is not known. Give more recordings."
        )
    for check in a.checks:
        missed = [f"{NAMES[kind]}: {', '.join(m)}" for kind, m in check["missed"].items() if m and kind != "null"]
        told = "reproduces it" if not missed else f"does NOT reproduce it: {'; '.join(missed)}"
        lines.append(f"{escape(check['recording'])}: the model {told} (rewake simulate says how far).")
    return [*lines, *(f"Not tried: {escape(what)}." for what in a.left_out)]


def _signed(log: float | None) -> str:
    if log is None or math.isnan(log):
        return NOTHING
    pct = percent(log)
    return "+∞" if math.isinf(pct) else f"{pct:+.1f} %"


def _error(t: Searched) -> str:
    return f"{t.error_pct:.1f}" if math.isfinite(t.error_pct) else "∞"


def _range(c: Change) -> str:
    if not c.test.n:
        return NOTHING
    return (
        f"{_signed(c.test.low)} .. {_signed(c.test.high)}".replace(" %", "", 1)
        if math.isfinite(c.test.low)
        else "unbounded"
    )


def _value(c: Change, value: float) -> str:
    return _shown(c.objective, value)


def _shown(o: Objective, value: float) -> str:
    if math.isnan(value):
        return NOTHING
    if o.unit == "ns":
        return f"{micros(round(value))} µs"
    return number(value, 0 if value >= 1000 else 1)
