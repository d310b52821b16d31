# SPDX-License-Identifier: GPL-2.0-or-later
"""Policies from shared objects (replay/plugin/rewake_policy.h), from the side that survives them.

A plugin runs in a process of its own, plugin_child.py, which is a fresh one and not a fork: the parent has DuckDB's
threads and locks, and a plugin that scribbles over memory must not find a recording or a run there. The child replays
the recording for the plugin alone and stores each answer in a shared file as it goes, and in a shared page where it
is. The parent watches that page, and replays the answers together with its other policies. So whatever becomes of the
child, every answer up to then counts, and no other policy ever notices.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rewake.replay._engine as _engine
from rewake.errors import PluginError, UsageError
from rewake.forms import ENUMS
from rewake.replay.spec import PolicySpec, parse

DEFAULT_TIMEOUT = 10.0
"""Seconds that one call of a plugin may take."""

OWN_BRANCH = "OWN"
"""Name of the branch of a plugin's choice that neither a built-in step nor a name of its own stands for."""

_FOLDER = Path(__file__).parent / "plugin"
HEADER = _FOLDER / "rewake_policy.h"

_PHASES = ("", "while it was loaded", "in create", "in decide", "in on_fork", "in on_cpu_idle", "in destroy")
"""By code of progress.hpp."""
_PAGE = struct.Struct("=QqI")
"""progress.hpp: calls so far, decision, phase."""
_POLL_S = 0.05
_CODE = (
    "import json, pathlib, sys; folder = pathlib.Path(sys.argv[1]); "
    "sys.path[:] = json.loads((folder / 'job.json').read_text())['sys_path']; "
    "from rewake.replay.plugin_child import main; main(folder)"
)


@dataclass(frozen=True)
class About:
    """What a plugin says of itself. `path` is absolute, `sha256` of the file; texts are as the plugin gives them."""

    path: str
    sha256: str
    name: str
    version: str
    summary: str
    source: str
    base: PolicySpec
    kinds: int
    params: tuple[tuple[str, str, str], ...]
    """(name, default, meaning)"""
    branches: tuple[str, ...]

    def values(self, spec: PolicySpec) -> list[str]:
        """The value of each parameter. UsageError for one that the plugin does not have."""
        names = [name for name, _, _ in self.params]
        for name in spec.params:
            if name not in names:
                raise UsageError(f"{spec.name} has no parameter '{name}'; it has {', '.join(names) or 'none'}")
        return [spec.params.get(name, default) for name, default, _ in self.params]

    @property
    def branch_names(self) -> list[str]:
        """Names of the ledger's branch codes."""
        return [*_engine.BRANCHES, OWN_BRANCH, *self.branches]

    def _decides(self) -> list[str]:
        return [kind for bit, kind in enumerate(ENUMS["decision_kind"]) if self.kinds >> bit & 1]

    def info(self) -> dict[str, Any]:
        """In the form of the engine's policies()."""
        base = _engine.policy(self.base.policy)
        version = f" {self.version}" if self.version else ""
        return {
            "name": self.name,
            "summary": self.summary,
            "plugin": f"{self.path}{version}" + (f": {self.source}" if self.source else ""),
            "author": None,
            "date": None,
            "posting": None,
            "kernel": None,
            "oracle_column": None,
            "reference": False,
            "base": None,
            "hybrid": False,
            "params": [{"name": n, "value": v, "meaning": m, "constant": False} for n, v, m in self.params],
            "steps": [f"{', '.join(self._decides())}: its own code, with the steps of {self.base}"],
            "inputs": base["inputs"],
            "quirks": [],
            "deviations": [],
            "reads_irq": base["reads_irq"],
            "hints": base["hints"],
        }


@dataclass(frozen=True)
class Failure:
    """How a plugin ended before its time. `what`: in words; `phase`: of _PHASES; `decision`: under way, or the last."""

    what: str
    phase: int
    decision: int | None

    def __str__(self) -> str:
        return f"{self.what} {_PHASES[self.phase]}".rstrip()

    @property
    def consequence(self) -> str:
        """Where in a recording it was, and what that costs."""
        if self.decision is None:
            return ": it decided nothing"
        if _PHASES[self.phase] == "in destroy":
            return ", after its last decision"
        when = "at" if _PHASES[self.phase] == "in decide" else "after"
        return f" {when} decision {self.decision}: undecided from there on"


@dataclass(frozen=True)
class Answered:
    """What a plugin made of a recording: its answers, as a policy for the engine, and how it ended.

    The answers are mapped: their file may go.
    """

    about: About
    source: _engine.Answers
    failure: Failure | None

    def manifest(self) -> dict[str, Any]:
        """What the run's manifest says of this policy beyond what it says of every policy."""
        a = self.about
        return {
            "label": "plugin",
            "branches": a.branch_names,
            "problems": self.problems(),
            "plugin": {"path": a.path, "sha256": a.sha256, "name": a.name, "version": a.version, "base": str(a.base)},
        }

    def problems(self) -> list[str]:
        """What the user has to know, once the answers are replayed."""
        told = []
        if self.failure is not None:
            told.append(f"{self.failure}{self.failure.consequence}")
        return told + invalid_answers(self.source.invalid, "left undecided")


def invalid_answers(found: tuple[int, int, int], so: str) -> list[str]:
    """What to say of answers that no policy may give; `found`: how many, decision and CPU of the first; `so`: what
    became of them."""
    n, first, cpu = found
    what = "which does not exist, is offline or not allowed"
    return [f"chose CPU {cpu} in decision {first}, {what}: {n} such answer{'s' if n > 1 else ''} {so}"] if n else []


_described: dict[str, About] = {}


def describe(path: str, timeout: float = DEFAULT_TIMEOUT) -> About:
    """What the plugin at `path` is; asked once. PluginError when it is none that this rewake can run."""
    if path not in _described:
        _described[path] = _describe(path, timeout)
    return _described[path]


def _describe(path: str, timeout: float) -> About:
    file = Path(path)
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise PluginError(f"{path}: not a regular file")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PluginError(f"{path}: {error.strerror}") from error
    if not content.startswith(b"\x7fELF"):
        raise PluginError(f"{path}: not a shared object: compile it with cc -shared -fPIC")
    with tempfile.TemporaryDirectory(prefix="rewake-plugin-") as folder:
        told, failure = run_child(Path(folder), {"task": "describe", "plugin": str(file.resolve())}, timeout, path)
    if failure is not None:
        raise PluginError(f"{path}: {failure}")
    assert told is not None
    for name, _, _ in told["params"]:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", name):
            raise PluginError(f"{path}: a parameter has the name {name!r}: letters, digits and _ . + - are expected")
    return About(
        path=str(file.resolve()),
        sha256=hashlib.sha256(content).hexdigest(),
        base=_base(path, told["base"]),
        params=tuple((n, v, m) for n, v, m in told["params"]),
        branches=tuple(told["branches"]),
        **{key: told[key] for key in ("name", "version", "summary", "source", "kinds")},
    )


def _base(path: str, text: str) -> PolicySpec:
    names = [p["name"] for p in _engine.policies() if not p["reference"]]
    try:
        (spec,) = parse(text)
        if spec.name in names and _engine.policy(spec.policy):
            return spec
    except (UsageError, ValueError):
        pass
    raise PluginError(f"{path}: its base is {text!r}; one of {', '.join(names)} is expected, or SEED@COLUMN")


def instance(spec: PolicySpec, timeout: float) -> dict[str, Any]:
    """What a child needs to make the policy."""
    about = describe(spec.name, timeout)
    return {
        "plugin": about.path, "values": about.values(spec), "base": [about.base.policy, about.base.params],
    }  # fmt: skip


def decide(spec: PolicySpec, replayed: Mapping[str, Any], decisions: int, folder: Path, timeout: float) -> Answered:
    """Has the plugin decide a recording, in `folder`, which is made and removed again.

    `replayed` is what driver.decide_alone is told; the recording has that many `decisions`.
    """
    about = describe(spec.name, timeout)
    folder.mkdir()
    answers = folder / "answers"
    try:
        source = _engine.Answers(str(answers), decisions, len(about.branch_names))
    except RuntimeError as error:  # no room
        raise PluginError(str(error)) from error
    job = {
        "task": "replay", **instance(spec, timeout), "replay": dict(replayed), "answers": str(answers),
        "decisions": decisions,
    }  # fmt: skip
    _, failure = run_child(folder, job, timeout, str(spec))
    shutil.rmtree(folder)
    return Answered(about, source, failure)


def run_child(
    folder: Path, job: Mapping[str, Any], timeout: float, name: str
) -> tuple[dict[str, Any] | None, Failure | None]:
    """Runs `job` (plugin_child.py) in `folder`: its result, or how the plugin ended. `name` is for errors.

    PluginError when the plugin refuses, or the child itself fails.
    """
    page = folder / "progress"
    page.write_bytes(_PAGE.pack(0, -1, 0))
    result = folder / "result.json"
    told = {**job, "progress": str(page), "sys_path": sys.path, "parent": os.getpid()}
    (folder / "job.json").write_text(json.dumps(told))
    # A session of its own: Ctrl-C reaches this process, which then ends the child and whatever that has started.
    child = subprocess.Popen(
        [sys.executable, "-c", _CODE, str(folder)], stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
    )
    try:
        hung = _watch(child.pid, page, timeout)
    finally:
        os.killpg(
            child.pid, signal.SIGKILL
        )  # also what it left running; not reaped yet, so the number is still its own
        child.wait()
    if not hung and result.exists():
        answer: dict[str, Any] = json.loads(result.read_text())
        if "refused" in answer:
            raise PluginError(f"{name}: {answer['refused']}")
        if "threw" not in answer:
            done: dict[str, Any] = answer["done"]
            return done, None
        what = f"let out a C++ exception ({answer['threw']})"
    elif hung:
        what = f"did not return within {timeout:g} s"
    elif child.returncode < 0:
        what = f"crashed ({_signal_name(-child.returncode)})"
    else:
        what = f"called exit({child.returncode})"
    _, decision, phase = _PAGE.unpack(page.read_bytes()[: _PAGE.size])
    if not 0 < phase < len(_PHASES):
        phase = 0
        what = f"its process ended ({what}) outside its own functions"
    return None, Failure(what, phase, decision if decision >= 0 else None)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _watch(child: int, page: Path, timeout: float) -> bool:
    """Waits for the child's end, without reaping it; True as soon as one call of the plugin took longer than `timeout`.

    Time counts only as far as this process ran as well: a machine that was suspended is no hang.
    """
    spent, before, last, pause = 0.0, None, time.monotonic(), 0.001
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        time.sleep(pause)
        pause = min(2 * pause, _POLL_S, timeout / 4)
        now = time.monotonic()
        entered, _, phase = _PAGE.unpack(page.read_bytes()[: _PAGE.size])
        spent = spent + min(now - last, 4 * _POLL_S) if phase and entered == before else 0.0
        before, last = entered, now
        if spent >= timeout:
            return True
    return False


def scaffold(name: str, folder: Path) -> list[Path]:
    """Writes a template that compiles, and its header: NAME.c, rewake_policy.h. Never overwrites a file."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name):
        raise UsageError(f"{name}: a name of small letters, digits, _ and - is expected, a letter first")
    template = (_FOLDER / "template.c.in").read_text(encoding="ascii")
    texts = {folder / f"{name}.c": template.replace("@NAME@", name), folder / HEADER.name: HEADER.read_text()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            if path.name == HEADER.name and path.exists() and path.read_text(errors="replace") == text:
                continue
            with path.open("x") as file:
                file.write(text)
    except OSError as error:
        raise PluginError(f"{error.filename}: {error.strerror}") from error
    return list(texts)
