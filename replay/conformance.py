# SPDX-License-Identifier: GPL-2.0-or-later
"""Conformance: decisions of the policies against what the kernel's own compiled code decided.

A vector file (``FILE.jsonl`` or ``FILE.jsonl.zst``) holds one decision a line with its complete inputs, and in ``out``
what the kernel chose and left behind; its machines are in ``topologies.json`` beside it, else in fixtures/oracle. Every
field of ``out`` is compared except ``exit`` (where the decision ended, informative) and, when the kernel had to widen
the affinity mask, ``cpu``.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rewake.replay._engine as _engine
from rewake.errors import PluginError, RewakeError
from rewake.forms import ENUMS
from rewake.replay import plugins
from rewake.replay.spec import PolicySpec

Vector = dict[str, Any]

_BUNDLED = Path(__file__).resolve().parents[1] / "fixtures" / "oracle"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SUFFIXES = (".jsonl", ".jsonl.zst")
_SKIP = "exit"
_STEP_FIELDS = {
    "record_wakee": ("waker_flips", "waker_last_wakee", "waker_decay_ts", "wide"),
    "has_idle_cores": ("hic",),
    "buddy": ("related", "wakee_after", "waker_after"),
    "intrload": ("intrload", "buckets", "threshold"),
}
"""Answers of each step of a sequence, by its ``what``; a step has those that its operation gives."""


@dataclass(frozen=True)
class Failure:
    """A vector whose decision (`got`) differs from the kernel's (`expected`, its ``out``) in `fields`."""

    file: str
    line: int
    policy: str
    vector: Vector
    expected: dict[str, Any]
    got: dict[str, Any]
    fields: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        inputs = {k: v for k, v in self.vector.items() if k != "out"}
        return {
            "file": self.file, "line": self.line, "policy": self.policy, "fields": list(self.fields),
            "inputs": inputs, "expected": self.expected, "got": self.got, "branch": self.got.get("exit"),
        }  # fmt: skip


@dataclass
class Report:
    """`passed` and `failed` count vectors by (column, scope, exit branch of the kernel); `errors` counts vectors that
    could not be run, by the reason; `left_out` counts vectors that the caller deselected, by (column, scope)."""

    passed: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Every vector was run and passed, and there was at least one."""
        return not self.failed and not self.errors and bool(self.passed)

    def to_json(self) -> dict[str, Any]:
        rows = [
            {"column": c, "scope": s, "exit": e or None, "passed": self.passed[c, s, e], "failed": self.failed[c, s, e]}
            for c, s, e in sorted(set(self.passed) | set(self.failed))
        ]
        return {
            "ok": self.ok,
            "passed": self.passed.total(),
            "failed": self.failed.total(),
            "rows": rows,
            "errors": [{"reason": r, "vectors": n} for r, n in sorted(self.errors.items())],
            "left_out": [{"column": c, "scope": s, "vectors": n} for (c, s), n in sorted(self.left_out.items())],
            "failures": [f.to_json() for f in self.failures],
        }


@dataclass(frozen=True)
class Standing:
    """A policy that is not in the registry, and the column whose vectors it shall pass: whole decisions of the `kinds`
    (bits of rewake_policy.h) that it makes."""

    name: str
    column: str
    kinds: int
    source: Any

    def takes(self, vector: Vector) -> bool:
        kind = ENUMS["decision_kind"].index(vector.get("kind", "wake"))
        whole = vector["scope"] in ("wake", "fork_exec")
        return whole and vector["column"] == self.column and bool(self.kinds >> kind & 1)


def check(
    paths: list[Path],
    *,
    columns: Collection[str] = (),
    scopes: Collection[str] = (),
    without: Collection[str] = (),
    max_failures: int = 20,
    standing: Standing | None = None,
) -> Report:
    """Runs all vectors of the files. `columns`, `scopes`: only these (empty: all); `without`: not these, each
    `SCOPE/TOPOLOGY`. `standing`: that policy alone, on the vectors that it takes.

    Only the first `max_failures` failures are kept in full. Raises RewakeError for a file that cannot be read.
    """
    policy_of = {p["oracle_column"]: p["name"] for p in _engine.policies() if p["oracle_column"]}
    if standing is not None:
        policy_of = {standing.column: standing.name}
    oracles: dict[Path, Any] = {}
    report = Report()
    for index, path in enumerate(paths):
        where = path.parent / "topologies.json"
        where = where if where.exists() else _BUNDLED / "topologies.json"
        if where not in oracles:
            oracles[where] = _load_oracle(where)
            if standing is not None:
                oracles[where].add(standing.name, standing.source)
        for number, vector in _vectors(path):
            try:
                column, scope = str(vector["column"]), str(vector["scope"])
                wanted = (not columns or column in columns) and (not scopes or scope in scopes)
                wanted = wanted and f"{scope}/{vector.get('topo')}" not in without
                if not wanted or (standing is not None and not standing.takes(vector)):
                    report.left_out[column, scope] += 1
                elif column not in policy_of:
                    report.errors[f"no policy for column '{column}'; there are {', '.join(sorted(policy_of))}"] += 1
                else:
                    at = (index, number)
                    _run(report, oracles[where], policy_of[column], str(path), at, vector, max_failures)
            except (KeyError, ValueError, TypeError, AttributeError) as e:
                what = f"field {e} is missing" if isinstance(e, KeyError) else str(e)
                raise RewakeError(f"{path}:{number}: not a conformance vector: {what}") from None
    return report


def files(paths: list[Path]) -> list[Path]:
    """The vector files among `paths` and in the directories among them, by name."""
    found = []
    for path in paths:
        found += sorted(f for f in path.iterdir() if f.name.endswith(_SUFFIXES)) if path.is_dir() else [path]
    return found


def bundled(column: str | None) -> list[Path]:
    """The vector files of a column in the source tree; none where this is not run from one."""
    return [f for f in files([_BUNDLED]) if f.name.startswith(f"{column}.")] if _BUNDLED.is_dir() else []


def check_plugin(
    spec: PolicySpec,
    column: str,
    paths: list[Path],
    *,
    scopes: Collection[str] = (),
    without: Collection[str] = (),
    timeout: float = plugins.DEFAULT_TIMEOUT,
) -> tuple[dict[str, Any], list[str]]:
    """Has a plugin decide the vectors of `column`, in its own process: Report.to_json() and the explained failures.

    PluginError, with file and line of the vector, when it does not survive that.
    """
    job = {
        "task": "check", "name": str(spec), "column": column, "kinds": plugins.describe(spec.name, timeout).kinds,
        "files": [str(p) for p in paths], "scopes": list(scopes), "without": list(without),
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rewake-plugin-") as folder:
        told, failure = plugins.run_child(Path(folder), job | plugins.instance(spec, timeout), timeout, str(spec))
    if failure is not None:
        where = ""
        if failure.decision is not None:
            index, line = vector_at(failure.decision)
            where = f" at {paths[index]}:{line}"
        raise PluginError(f"{spec}: {failure}{where}")
    assert told is not None
    return told["outcome"], told["explained"]


def explain(failure: Failure) -> str:
    """Inputs, expected, got and branch of a failure, a few lines for the terminal."""
    v = failure.vector
    inputs = {k: x for k, x in v.items() if k not in ("out", "steps", "column", "scope", "id")}
    lines = [
        f"{failure.file}:{failure.line}: {failure.policy} ({v['column']} {v['scope']} id {v.get('id')}) differs in "
        + ", ".join(failure.fields),
        f"  inputs   {json.dumps(inputs)}",
        f"  expected {json.dumps(failure.expected)}",
        f"  got      {json.dumps(failure.got)}",
    ]
    if "exit" in failure.got:
        lines.append(f"  branch   {failure.got['exit']} (kernel: {failure.expected.get('exit')})")
    return "\n".join(lines)


def read_vectors(path: Path) -> bytes:
    """The text of a vector file, decompressed if need be. Raises RewakeError."""
    try:
        data = path.read_bytes()
    except OSError as e:
        raise RewakeError(f"{path}: {e.strerror}") from None
    return _zstd(path, data) if data.startswith(_ZSTD_MAGIC) else data


def _vectors(path: Path) -> Iterator[tuple[int, Vector]]:
    for number, row in enumerate(read_vectors(path).splitlines(), 1):
        try:
            vector = json.loads(row)
        except ValueError as e:  # also undecodable bytes
            raise RewakeError(f"{path}:{number}: not JSON: {e}") from None
        if not isinstance(vector, dict):
            raise RewakeError(f"{path}:{number}: not a conformance vector: a JSON object is expected")
        yield number, vector


def _load_oracle(path: Path) -> Any:
    try:
        return _engine.Oracle(json.loads(path.read_text()))
    except OSError as e:
        raise RewakeError(f"{path}: {e.strerror}; put topologies.json beside the vectors") from None
    except (ValueError, TypeError) as e:
        raise RewakeError(f"{path}: not a list of topologies: {e}") from None


def vector_at(decision: int) -> tuple[int, int]:
    """(index of the file, line) of the vector that a policy was asked as `decision`."""
    return decision >> 32, decision & 0xFFFFFFFF


def _run(
    report: Report, oracle: Any, policy: str, file: str, at: tuple[int, int], vector: Vector, max_failures: int
) -> None:
    column, scope = vector["column"], vector["scope"]
    try:
        got = oracle.run(policy, vector, id=at[0] << 32 | at[1])
    except _engine.Unsupported as e:
        report.errors[f"{e} (column {column}, scope {scope})"] += 1
        return
    expected = _expected(vector)
    fields = _differences(expected, got)
    key = (column, scope, str(expected.get("exit", vector.get("what", ""))))
    if not fields:
        report.passed[key] += 1
        return
    report.failed[key] += 1
    if len(report.failures) < max_failures:
        report.failures.append(Failure(file, at[1], policy, vector, expected, got, tuple(fields)))


def _expected(vector: Vector) -> dict[str, Any]:
    """What the kernel did, in the shape of Oracle.run's answer."""
    what = vector.get("what")
    if what is None:
        out: dict[str, Any] = vector["out"]
        return out
    if what not in _STEP_FIELDS:
        return {what: vector[what]}
    return {"steps": [{k: s[k] for k in _STEP_FIELDS[what] if k in s} for s in vector["steps"]]}


def _differences(expected: dict[str, Any], got: dict[str, Any]) -> list[str]:
    fields = []
    for name, value in expected.items():
        if name == _SKIP or (name == "cpu" and "widened" in expected):
            continue
        if name == "widened":
            same = bool(got.get(name))  # how far it was widened is the cpuset's matter
        elif name == "steps":
            fields += [f"steps[{i}]" for i, (a, b) in enumerate(zip(value, got[name], strict=True)) if a != b]
            continue
        else:
            same = got.get(name) == value
        if not same:
            fields.append(name)
    if got.get("widened") and "widened" not in expected:
        fields.append("widened")
    if "class_cpu" in got and "class_cpu" not in expected:
        fields.append("class_cpu")  # the class was asked, but should not have been
    return fields


class _Buffer(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer."""

    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


def _zstd(path: Path, data: bytes) -> bytes:
    """Decompresses with the system's libzstd, which decode needs anyway."""
    try:
        lib = ctypes.CDLL("libzstd.so.1")
    except OSError:
        raise RewakeError(f"{path}: libzstd.so.1 is missing: apt-get install libzstd1") from None
    lib.ZSTD_createDStream.restype = ctypes.c_void_p
    lib.ZSTD_freeDStream.argtypes = (ctypes.c_void_p,)
    lib.ZSTD_decompressStream.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer))
    lib.ZSTD_decompressStream.restype = ctypes.c_size_t
    lib.ZSTD_isError.argtypes = (ctypes.c_size_t,)
    stream = lib.ZSTD_createDStream()
    block = ctypes.create_string_buffer(1 << 20)
    source = _Buffer(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), 0)
    text = bytearray()
    try:
        while True:
            out = _Buffer(ctypes.addressof(block), len(block), 0)
            left = lib.ZSTD_decompressStream(stream, ctypes.byref(out), ctypes.byref(source))
            if lib.ZSTD_isError(left):
                raise RewakeError(f"{path}: damaged zstd data at byte {source.pos}")
            text += block.raw[: out.pos]
            if source.pos == source.size and out.pos < out.size:
                if left:
                    raise RewakeError(f"{path}: the zstd data end too early")
                return bytes(text)
    finally:
        lib.ZSTD_freeDStream(stream)
