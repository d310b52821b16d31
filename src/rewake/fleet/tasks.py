# SPDX-License-Identifier: GPL-2.0-or-later
"""What is to be done with one trace, and the name under which the answer is kept: a hash of all that decides it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from rewake import __version__, runs

OPEN, CLOSED = "open", "closed"


@dataclass(frozen=True)
class Study:
    """What all tasks share. Plain data: it travels to other machines."""

    mode: str
    policies: tuple[str, ...]
    settings: Mapping[str, Any]
    """Closed loop: those of the simulation. Open loop: sync, probes, hints (name and text)."""
    cut: str = ""
    """How the traces were cut into windows, in words."""
    plugins: tuple[str, ...] = ()
    """Hashes of the shared objects among the policies."""
    tool: str = ""

    @property
    def key(self) -> str:
        return _hash(asdict(self))

    @property
    def asked(self) -> str:
        """In words."""
        verb = "replay" if self.mode == OPEN else "simulate"
        words = [verb, ", ".join(self.policies) or "default policies"]
        words += [f"cut into {self.cut}"] if self.cut else []
        words += [f"{k}={v}" for k, v in sorted(self.settings.items()) if k != "hints_text" and v is not None]
        return "; ".join(words)


@dataclass(frozen=True)
class Task:
    """One trace, or a window of it, under one seed."""

    study: Study
    uri: str
    """As it was named."""
    where: str
    """Where any process finds it: absolute."""
    content: str
    """Hash of the trace's bytes and of the snapshot beside it."""
    from_ns: int | None = None
    until_ns: int | None = None
    seed: int = 0
    topology: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """workload, made, machine: what the list says of the trace."""

    @property
    def key(self) -> str:
        """Where it lies on this machine decides nothing."""
        return _hash({k: v for k, v in asdict(self).items() if k != "where"})

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Task:
        study = dict(plain["study"])
        study |= {name: tuple(study[name]) for name in ("policies", "plugins")}
        return Task(**{**plain, "study": Study(**study)})


def _hash(plain: Mapping[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


@cache
def tool() -> str:
    """Version, and a hash of all code and queries that decide what a shard holds."""
    from rewake import importing

    here = Path(__file__).parent
    digest = hashlib.sha256(importing.code_digest().encode())
    digest.update(runs.engine_digest().encode())
    rooms = [Path(str(files("rewake").joinpath(room))).resolve() for room in ("analysis", "queries")]
    for file in sorted(p for d in (*rooms, here) for p in d.rglob("*") if p.suffix in (".py", ".sql")):
        digest.update(file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"
