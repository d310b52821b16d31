# SPDX-License-Identifier: GPL-2.0-or-later
"""The process in which a plugin runs (see plugins.py, which starts it): one job, then its end."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rewake.replay._engine as _engine
from rewake.errors import RewakeError

_PR_SET_PDEATHSIG = 1
_MEMORY_BYTES = 16 << 30
"""Address space; a replay by itself needs below 2 GiB."""

Job = dict[str, Any]


def main(folder: Path) -> None:
    """Does the job in `folder/job.json` and writes `folder/result.json`: done, refused (why) or threw (what)."""
    job: Job = json.loads((folder / "job.json").read_text())
    _confine(job["parent"])
    try:
        result = {"done": _TASKS[job["task"]](job)}
    except _engine.PluginThrew as error:
        result = {"threw": str(error)}
    except (RewakeError, ValueError) as error:
        result = {"refused": str(error)}
    part = folder / "result.part"
    part.write_text(json.dumps(result))
    part.rename(folder / "result.json")
    os._exit(0)  # neither the plugin's handlers at exit nor ours


def _confine(parent: int) -> None:
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    if used < _MEMORY_BYTES // 2:  # an address sanitizer reserves far more than that
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _source(job: Job, plugin: _engine.Plugin) -> _engine.PluginSource:
    name, params = job["base"]
    return plugin.source(job["values"], (name, params), job.get("answers"), job.get("decisions", 0))


def _describe(job: Job) -> Any:
    told = _engine.Plugin(job["plugin"], job["progress"]).describe()

    def text(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode("utf-8", "backslashreplace")
        return [text(v) for v in value] if isinstance(value, (list, tuple)) else value

    return {key: text(value) for key, value in told.items()}


def _replay(job: Job) -> Any:
    from rewake.replay import driver

    driver.decide_alone(_source(job, _engine.Plugin(job["plugin"], job["progress"])), **job["replay"])
    return None


def _simulate(job: Job) -> Any:
    from rewake.replay import in_charge

    source = _source(job, _engine.Plugin(job["plugin"], job["progress"]))
    return in_charge.simulate_alone(source, **job["simulate"])


def _check(job: Job) -> Any:
    from rewake.replay import conformance

    standing = conformance.Standing(
        job["name"], job["column"], job["kinds"], _source(job, _engine.Plugin(job["plugin"], job["progress"]))
    )
    files = [Path(f) for f in job["files"]]
    outcome = conformance.check(files, scopes=job["scopes"], without=job["without"], standing=standing)
    return {"outcome": outcome.to_json(), "explained": [conformance.explain(f) for f in outcome.failures]}


_TASKS: dict[str, Callable[[Job], Any]] = {
    "describe": _describe, "replay": _replay, "simulate": _simulate, "check": _check,
}  # fmt: skip
