# SPDX-License-Identifier: GPL-2.0-or-later
"""Policy instances at the command line: hybrids, variants and sweeps, told apart wherever they are shown."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from command import told

from rewake.replay import _engine

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "trace.dat"
ASKED = (
    "irq-aware@linux-6.12", "userspace-hints@linux-6.0", "userspace-hints", "linux-6.0", "irq-aware:threshold=1000",
    "wakeup-buddy@linux-6.1:ref=1..3", "asym-prefer-prev@linux-6.0", "idle-thread-scan@linux-5.10",
)  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_cache")


def replayed(capsys: pytest.CaptureFixture[str], form: str) -> str:
    return told(capsys, "replay", DEMO, *(word for p in ASKED for word in ("--policy", p)), "--format", form)


def figures(policy: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in policy.items() if k not in ("policy", "base", "label", "inputs_assumed_pct")}


def test_labels_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(replayed(capsys, "json"))
    labels = {p["policy"]: p["label"] for p in data["policies"]}
    assert labels == {
        "recorded": "reference", "prev": "reference", "linux-6.1": "faithful", "irq-aware@linux-6.12": "hybrid",
        "userspace-hints@linux-6.0": "faithful", "userspace-hints": "faithful", "linux-6.0": "faithful",
        "irq-aware:threshold=1000": "variant", "wakeup-buddy@linux-6.1:ref=1": "hybrid",
        "wakeup-buddy@linux-6.1:ref=2": "hybrid", "wakeup-buddy@linux-6.1:ref=3": "hybrid",
        "asym-prefer-prev@linux-6.0": "hybrid", "idle-thread-scan@linux-5.10": "hybrid",
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(replayed(capsys, "csv"))))
    assert {r["policy"]: r["label"] for r in rows} == labels
    text = " ".join(replayed(capsys, "table").split())
    assert "hybrid (a seed on a kernel that it was not posted for; no vectors prove it): irq-aware@linux-6.12, " in text
    assert "wakeup-buddy@linux-6.1 (3 instances), " in text
    assert "variant (a constant of the kernel or the posting is changed): irq-aware:threshold=1000." in text
    assert "Hardirq time: irq_vectors only, a lower bound" in text
    assert "all CPUs have one capacity: asym-prefer-prev decides as its column." in text
    assert data["run"]["hardirq"].startswith("irq_vectors only")


def test_what_is_the_same_has_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed on its own column is the seed; without a hint it is the column; one capacity leaves nothing to seed 4.

    The recorded kernel's own column is no part of it: its private state follows the record.
    """
    by_name = {p["policy"]: p for p in json.loads(replayed(capsys, "json"))["policies"]}
    same = [("userspace-hints@linux-6.0", "userspace-hints"), ("userspace-hints", "linux-6.0")]
    for one, other in [*same, ("asym-prefer-prev@linux-6.0", "linux-6.0")]:
        assert figures(by_name[one]) == figures(by_name[other])
    for hybrid in ("wakeup-buddy@linux-6.1:ref=1", "idle-thread-scan@linux-5.10"):
        assert figures(by_name[hybrid]) != figures(by_name["linux-6.1"])


def test_every_seed_on_its_own_column_is_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = {p["name"]: p["base"] for p in _engine.policies() if p["base"]}
    assert len(seeds) == 5
    asked = [word for s, base in seeds.items() for word in ("--policy", s, "--policy", f"{s}@{base}")]
    data = json.loads(told(capsys, "replay", DEMO, *asked, "--format", "json"))
    by_name = {p["policy"]: p for p in data["policies"]}
    for seed, base in seeds.items():
        assert figures(by_name[seed]) == figures(by_name[f"{seed}@{base}"])
        assert by_name[f"{seed}@{base}"]["label"] == "faithful"


def test_the_run_says_what_each_instance_is_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "replay", DEMO, "--policy", "irq-aware@linux-6.12:decay=2", "-o", tmp_path / "x.run")
    manifest = json.loads((tmp_path / "x.run" / "manifest.json").read_text())
    (one,) = [p for p in manifest["policies"] if p["base"] == "irq-aware"]
    assert (one["column"], one["params"], one["label"]) == ("linux-6.12", {"decay": "2"}, "hybrid")
    assert one["name"] == "irq-aware@linux-6.12:decay=2"
    assert manifest["hints"] is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("irq-aware@linux-4.5", "irq-aware has no meaning on linux-4.5: the patch changes the core, CPU and sibling"),
        ("idle-thread-scan@linux-4.12", "idle-thread-scan has no meaning on linux-4.12"),
        ("userspace-hints@linux-3.8", "userspace-hints has no meaning on linux-3.8"),
        ("oracle-idle@linux-6.1", "oracle-idle is no seed; those that a column takes are idle-thread-scan, "),
        ("irq-aware@linux-6.3", "no mainline column 'linux-6.3'; there are linux-3.8, "),
        ("irq-aware@auto", "no mainline column 'auto'"),
        ("nothing@linux-6.1", "no policy 'nothing'; there are recorded, prev, "),
        ("auto@linux-6.1", "auto takes no column and no parameters"),
        ("irq-aware@linux-6.12:ref=3", "irq-aware@linux-6.12 has no parameter 'ref'; it has WA_IDLE, "),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], asked: str, message: str) -> None:
    assert message in told(capsys, "replay", DEMO, "--policy", asked, code=2)


def test_show_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "policies", "show", "irq-aware@linux-6.12")
    assert "kind     hybrid" in text
    assert "no vectors exist: nothing proves it but its two halves" in text
    assert "hybrid: the posting is for Linux 4.12; no vectors prove it on Linux 6.12" in " ".join(text.split())
    about = json.loads(told(capsys, "policies", "show", "irq-aware@linux-6.12", "--format", "json"))
    assert about["hybrid"] is True and about["base"] == "linux-4.12"
    assert "kind     seed" in told(capsys, "policies", "show", "irq-aware")
    assert "irq-aware has no meaning on linux-3.8" in told(capsys, "policies", "show", "irq-aware@linux-3.8", code=2)
    listed = json.loads(told(capsys, "policies", "list", "--format", "json"))["policies"]
    assert [p["name"] for p in listed if p["base"]] == [
        "idle-thread-scan", "wakeup-buddy", "irq-aware", "asym-prefer-prev", "userspace-hints",
    ]  # fmt: skip
    assert not any(p["hybrid"] for p in listed)
    assert "SEED@COLUMN puts a seed on another kernel" in told(capsys, "policies", "list")
