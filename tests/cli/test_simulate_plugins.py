# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake simulate` with plugins in charge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plugin_source as made
import pytest

from rewake.cli import main
from rewake.forms import Run

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "trace.dat"


def simulated(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[dict[str, Any], str]:
    """What it prints as JSON, and on stderr."""
    command = ["simulate", str(DEMO), "--windows", "100ms", "--format", "json", *map(str, arguments)]
    assert main(command) == code
    out, err = capfd.readouterr()
    return json.loads(out), err


def policies(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {p["policy"]: p for p in found["policies"]}


def test_the_template_in_charge_is_the_kernel_that_it_calls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin, out = made.template(tmp_path / "mine"), tmp_path / "x.run"
    found, _ = simulated(capfd, "--policy", plugin, "--replicas", 2, "-o", out)
    rows = policies(found)
    kernel, mine = rows["linux-6.1"], rows[plugin]
    assert {k for k in kernel if kernel[k] != mine[k]} == {"policy", "kind"}
    run = Run(out)
    assert run.manifest["plugins"][0]["problems"] == [] and len(run.manifest["plugins"][0]["sha256"]) == 64
    con = run.connect()
    same = "SELECT count(*), count(DISTINCT arm) FROM woken JOIN arm USING (arm) WHERE policy = ?"
    assert con.execute(same, [plugin]).fetchall() == con.execute(same, ["linux-6.1"]).fetchall()
    differ = """
        SELECT count(*) FROM (
            SELECT window_id, replica, ts_ns, task, cpu, latency_ns FROM woken JOIN arm USING (arm) WHERE policy = ?
            EXCEPT ALL
            SELECT window_id, replica, ts_ns, task, cpu, latency_ns FROM woken JOIN arm USING (arm) WHERE policy = ?
        )
    """
    assert con.execute(differ, [plugin, "linux-6.1"]).fetchall() == [(0,)]
    con.close()


def test_who_stays_at_prev_is_prev(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin = made.shell(tmp_path, KINDS="7")
    found, _ = simulated(capfd, "--policy", plugin, "--policy", "prev", "--force")
    rows = policies(found)
    assert {k for k in rows["prev"] if rows["prev"][k] != rows[plugin][k]} == {"policy"}


@pytest.mark.parametrize(
    ("decide", "told"),
    [
        ("abort();", "crashed (SIGABRT) in decide"),
        ("exit(3);", "called exit(3) in decide"),
        ("for (;;) raise(0);", "did not return within 0.5 s in decide"),
    ],
)
def test_what_fails_is_told_and_the_others_are_shown(
    decide: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plugin, out = made.shell(tmp_path, f"if (id == 500) {decide} return prev;"), tmp_path / "x.run"
    told += " while it was in charge"
    found, err = simulated(
        capfd, "--policy", plugin, "--policy", "prev", "--plugin-timeout", "0.5", "--force", "-o", out, code=1
    )
    assert {"linux-6.1", "prev"} <= set(policies(found)) and plugin not in policies(found)
    assert any(told in note for note in found["notes"])
    assert err.endswith(f"rewake: error: plugin {plugin}: {told}: nothing of it is shown\n")
    assert not [p for p in out.iterdir() if p.name.startswith("plugin-")]


def test_answers_that_no_policy_may_give_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin = made.shell(tmp_path, "return id % 1000 == 7 ? 99 : prev;")
    found, err = simulated(capfd, "--policy", plugin, "--force", code=1)
    assert plugin in policies(found)
    assert "chose CPU 99 in decision" in err and "after which the wakee stayed at prev" in err


def test_it_is_refused_before_anything_is_simulated(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(DEMO), "--policy", "./none.so"]) == 1
    assert "No such file" in capfd.readouterr().err
    assert main(["simulate", str(DEMO), "--policy", f"{made.shell(tmp_path)}:x=1"]) == 2
    assert "no parameter 'x'" in capfd.readouterr().err
