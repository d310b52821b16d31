# SPDX-License-Identifier: GPL-2.0-or-later
"""The policy grammar, in one place: `NAME[@COLUMN][:key=value[,...]]`, a value may be a range `a..b`; a NAME with a
`/` is the path of a plugin.

`parse` gives one `PolicySpec` per combination of range values; `str(spec)` is the instance's name everywhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product

from rewake.errors import UsageError

MOST_INSTANCES = 256
"""Most instances that the ranges of one --policy may stand for."""

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


@dataclass(frozen=True)
class PolicySpec:
    """One policy instance: registered name or path of a plugin, parameters as text, column when one was asked for."""

    name: str
    params: dict[str, str] = field(default_factory=dict)
    column: str | None = None

    @property
    def is_plugin(self) -> bool:
        return "/" in self.name

    @property
    def policy(self) -> str:
        """The policy without its parameters, as the engine knows it: NAME or NAME@COLUMN."""
        return self.name if self.column is None else f"{self.name}@{self.column}"

    def __str__(self) -> str:
        text = self.policy
        if self.params:
            text += ":" + ",".join(f"{k}={v}" for k, v in sorted(self.params.items()))
        return text


def _values(text: str, value: str) -> list[str]:
    match = _RANGE.fullmatch(value)
    if match is None:
        return [value]
    low, high = int(match[1]), int(match[2])
    if high < low:
        raise UsageError(f"--policy {text}: range {value} runs backwards")
    if high - low >= MOST_INSTANCES:
        raise UsageError(f"--policy {text}: range {value} has more than {MOST_INSTANCES} values")
    return [str(v) for v in range(low, high + 1)]


def parse(text: str) -> list[PolicySpec]:
    """The instances that `text` asks for, in order of the ranges. UsageError says what is wrong."""
    head, colon, tail = text.partition(":")
    name, at, column = head.partition("@")
    if "/" in head:
        name, column = head, ""
        if "\0" in name:
            raise UsageError(f"--policy {text}: the path of a plugin expected, there is a NUL in it")
    elif not _WORD.fullmatch(name) or (at and not _WORD.fullmatch(column)):
        raise UsageError(f"--policy {text}: expected NAME[@COLUMN][:key=value[,...]]; see `rewake policies list`")
    choices: dict[str, list[str]] = {}
    for item in tail.split(",") if colon else ():
        key, equals, value = item.partition("=")
        if not equals or not _WORD.fullmatch(key) or not value:
            raise UsageError(f"--policy {text}: expected key=value, got {item or 'nothing'}")
        if not value.isprintable():
            raise UsageError(f"--policy {text}: the value of {key} is no printable text")
        if key in choices:
            raise UsageError(f"--policy {text}: {key} given twice")
        choices[key] = _values(text, value)
    combinations = list(product(*choices.values()))
    if len(combinations) > MOST_INSTANCES:
        raise UsageError(f"--policy {text}: stands for {len(combinations)} instances, at most {MOST_INSTANCES}")
    return [PolicySpec(name, dict(zip(choices, values, strict=True)), column or None) for values in combinations]


def parse_sweep(text: str) -> list[PolicySpec]:
    """As `parse`, and a key may have several values: `NAME:key=a,b,c`."""
    head, colon, tail = text.partition(":")
    choices: list[list[str]] = []
    for item in tail.split(",") if colon else ():
        key, equals, _ = item.partition("=")
        if equals or not choices:
            choices.append([item])
        else:
            choices[-1].append(f"{choices[-1][0].partition('=')[0]}={key}")
    found = [spec for values in product(*choices) for spec in parse(head + colon + ",".join(values))]
    if len(found) > MOST_INSTANCES:
        raise UsageError(f"{text}: stands for {len(found)} instances, at most {MOST_INSTANCES}")
    return found
