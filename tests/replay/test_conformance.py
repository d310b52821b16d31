# SPDX-License-Identifier: GPL-2.0-or-later
"""Conformance: the bundled vectors, the full set where it is at hand; a wrong engine or bad file is found out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import RewakeError
from rewake.replay import _engine, conformance

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "fixtures" / "oracle"
FULL = ROOT.parent / "shared" / "oracle"
SCOPES = ("wake", "sis", "wake_affine", "fork_exec", "idlest_cpu")
COLUMNS = {p["oracle_column"]: p["name"] for p in _engine.policies() if p["oracle_column"]}


def _files() -> list[Path]:
    files = sorted(BUNDLED.glob("*.jsonl.zst"))
    if FULL.is_dir():
        files += [FULL / f.name for f in files]
    return files


def _first(name: str, exit_branch: str | None = None) -> dict[str, Any]:
    for row in conformance.read_vectors(BUNDLED / name).splitlines():
        vector: dict[str, Any] = json.loads(row)
        if exit_branch is None or vector["out"]["exit"] == exit_branch:
            return vector
    raise AssertionError(f"no {exit_branch} in {name}")


def _write(folder: Path, *vectors: dict[str, Any]) -> Path:
    path = folder / "vectors.jsonl"
    path.write_text("".join(json.dumps(v) + "\n" for v in vectors))
    return path


@pytest.mark.parametrize("path", _files(), ids=lambda p: f"{p.parent.parent.name}/{p.name}")
def test_vectors_pass(path: Path) -> None:
    report = conformance.check([path])
    assert report.ok, "\n".join(map(conformance.explain, report.failures)) + str(report.errors)
    assert report.passed.total() == len(conformance.read_vectors(path).splitlines())


def test_bundle_holds_every_implemented_column_and_scope() -> None:
    names = {f.name.removesuffix(".jsonl.zst") for f in BUNDLED.glob("*.jsonl.zst")}
    assert {f"{c}.{s}" for c in COLUMNS for s in SCOPES} <= names
    assert sum(f.stat().st_size for f in BUNDLED.iterdir()) < 4 << 20


def test_plain_jsonl_equals_zstd(tmp_path: Path) -> None:
    packed = BUNDLED / "v4.5.sis.jsonl.zst"
    plain = tmp_path / "v4.5.sis.jsonl"
    plain.write_bytes(conformance.read_vectors(packed))
    assert conformance.check([plain]).to_json() == conformance.check([packed]).to_json()


@pytest.mark.parametrize(
    ("name", "exit_branch", "field", "value"),
    [
        ("v6.1.wake", "SCAN", "cpu", 0), ("v6.1.wake", "SCAN", "class_cpu", 0), ("v6.1.wake", "X4", "p_recent", 63),
        ("v6.1.wake", "X1", "curr_recent", 63), ("v6.1.wake", "X1", "curr_flips", 99),
        ("v6.1.wake", "X1", "curr_last_wakee", "none"), ("v6.1.wake", "X1", "curr_decay_ts", 1),
        ("v6.1.sis", "SCAN", "hic", [1]), ("v6.1.sis", "SCAN", "unheard_of", 1),
        ("v4.5.wake", "RING", "cpu", 63), ("v4.5+seed1.sis", "LINEAR", "cpu", 63),
        ("v5.9.sis", "CPU", "waker_scan_cost", -1), ("v5.10.7.fork_exec", "SLOW", "cpu", 63),
        ("v4.19.wake", "X4", "p_recent", 63), ("v3.8+seed2.wake", "RING", "p_waker_ref", 77),
    ],
)  # fmt: skip
def test_wrong_decision_fails(tmp_path: Path, name: str, exit_branch: str, field: str, value: Any) -> None:
    right = _first(f"{name}.jsonl.zst", exit_branch)
    wrong = json.loads(json.dumps(right))
    wrong["out"][field] = value
    if right["out"].get(field) == value:
        wrong["out"][field] = value + 1
    report = conformance.check([_write(tmp_path, right, wrong)])
    assert not report.ok
    assert (report.passed.total(), report.failed.total()) == (1, 1)
    failure = report.failures[0]
    assert failure.fields == (field,) and failure.line == 2
    text = conformance.explain(failure)
    assert field in text and "expected" in text and "branch" in text and COLUMNS[right["column"]] in text
    assert report.to_json()["failures"][0]["inputs"]["topo"] == right["topo"]


def test_a_vector_that_asks_the_class_must_say_so(tmp_path: Path) -> None:
    vector = _first("v6.1.wake.jsonl.zst", "X1")
    del vector["out"]["class_cpu"]
    assert conformance.check([_write(tmp_path, vector)]).failures[0].fields == ("class_cpu",)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("v6.1.record_wakee.sequence", "waker_flips", 77), ("v6.1.has_idle_cores.sequence", "hic", [7]),
        ("v3.8+seed2.buddy.sequence", "waker_after", {}), ("v4.12.0+seed3.estimator", "buckets", [1]),
        ("v4.12.0+seed3.estimator", "intrload", 94), ("v4.12.0+seed3.estimator", "threshold", 7),
    ],
)  # fmt: skip
def test_wrong_sequence_fails(tmp_path: Path, name: str, key: str, value: Any) -> None:
    vector = _first(f"{name}.jsonl.zst")
    vector["steps"][3][key] = value
    assert conformance.check([_write(tmp_path, vector)]).failures[0].fields == ("steps[3]",)


def test_wrong_estimate_fails(tmp_path: Path) -> None:
    vector = _first("v4.5+seed1.estimator.jsonl.zst")
    vector["should_scan"] ^= 1
    assert conformance.check([_write(tmp_path, vector)]).failures[0].fields == ("should_scan",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"column": "v9.9"}, "no policy for column 'v9.9'"),
        ({"scope": "smoke"}, "linux-6.1 has no scope smoke"),
        ({"scope": "estimator", "what": "should_scan"}, "linux-6.1 has no scope estimator should_scan"),
    ],
)
def test_what_cannot_be_run_is_an_error_never_a_skip(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    report = conformance.check([_write(tmp_path, _first("v6.1.sis.jsonl.zst") | change)])
    assert not report.ok and report.passed.total() == 0
    assert [reason in text for text in report.errors] == [True]


def test_nothing_checked_is_not_ok() -> None:
    report = conformance.check([BUNDLED / "v4.5.sis.jsonl.zst"], scopes=("wake",))
    assert not report.ok and report.left_out["v4.5", "sis"] == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\x00\xff\xfe", "not JSON"), (b'{"column": "v6.1"', "not JSON"), (b"[1]\n", "JSON object"),
        (b"{}\n", "field 'column' is missing"),
        (b'{"column":"v6.1","scope":"sis"}\n', "field topo is missing"),
        (b'{"column":"v6.1","scope":"sis","topo":"nowhere"}\n', "no topology 'nowhere'"),
        (b'{"column":"v6.1","scope":"sis","topo":"flat8","idle":[8]}\n', "no CPU 8"),
        (b'{"column":"v6.1","scope":"sis","topo":"flat8","idle":[],"nr":[1]}\n', "another length"),
        (b'{"column":"v6.1","scope":"sis","topo":"flat8","idle":"all"}\n', "another type"),
    ],
)  # fmt: skip
def test_malformed_file_names_its_line(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(text)
    with pytest.raises(RewakeError, match=f"^{path}:1: .*{message}"):
        conformance.check([path])


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(RewakeError, match="No such file"):
        conformance.check([tmp_path / "absent.jsonl"])
    packed = (BUNDLED / "v4.5.sis.jsonl.zst").read_bytes()
    cut = tmp_path / "cut.jsonl.zst"
    cut.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(RewakeError, match="end too early"):
        conformance.check([cut])
    cut.write_bytes(packed[:200] + b"\xff" * 64 + packed[264:])
    with pytest.raises(RewakeError, match="damaged zstd data"):
        conformance.check([cut])


def test_machines_come_from_beside_the_vectors(tmp_path: Path) -> None:
    shutil.copyfile(BUNDLED / "v4.5.sis.jsonl.zst", tmp_path / "v.jsonl.zst")
    (tmp_path / "topologies.json").write_text("[]")
    with pytest.raises(RewakeError, match="no topology"):
        conformance.check([tmp_path / "v.jsonl.zst"])
    (tmp_path / "topologies.json").write_text("{")
    with pytest.raises(RewakeError, match="not a list of topologies"):
        conformance.check([tmp_path / "v.jsonl.zst"])


def test_policies_describe_themselves() -> None:
    policies = {p["name"]: p for p in _engine.policies()}
    assert list(policies)[:5] == ["recorded", "prev", "waker", "random-idle", "oracle-idle"]
    without = [p["name"] for p in policies.values() if p["oracle_column"] is None and not p["reference"]]
    assert without == ["linux-3.10"]  # no vectors exist of it: the golden examples stand for them
    assert [name for name, p in policies.items() if p["reads_irq"]] == ["irq-aware"]
    features = [p["name"] for p in policies["linux-6.1"]["params"] if not p["constant"]]
    assert features == ["WA_IDLE", "WA_WEIGHT", "WA_BIAS", "SIS_UTIL"]
    assert policies["idle-thread-scan"]["date"] == "2016-04-08"
    assert all(p["steps"] for p in policies.values())
    assert _engine.branch_names()[0] == "recorded" and len(set(_engine.branch_names())) == 26
