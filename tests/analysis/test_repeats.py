# SPDX-License-Identifier: GPL-2.0-or-later
"""No alarm on real repeats: recordings of one load on one kernel, which differ by what chance makes of them.

Different recordings cannot be paired, so the unpaired design is what they test. Five repeats allow no p below 0.008 and
few draws; cut in halves they are ten units, of which 126 splits of five against five exist. Every split is a null draw.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from rewake.analysis import subjects
from rewake.analysis.compare import compare
from rewake.analysis.subjects import Subject
from rewake.cli import main
from rewake.forms import Run

TRACES = Path(__file__).parents[3] / "shared" / "traces"
REPEATS = ("A", "A2", "A3", "A4", "A5")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TRACES.is_dir(), reason="the shared recordings are not there"),
    pytest.mark.usefixtures("own_cache"),
]


@pytest.mark.parametrize("load", ["schbench", "hackbench"])
def test_real_repeats_raise_no_alarm(load: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    halves = []
    for name in REPEATS:
        target = tmp_path / f"{name}.run"
        assert main(["replay", str(TRACES / f"split-llc-{load}-{name}" / "trace.dat"), "-o", str(target)]) == 0
        capsys.readouterr()
        run = Run(target)
        ms = run.recording.manifest["span_ns"] // 2_000_000 + 1
        cut = subjects.blocks(run.connect(), run.manifest, ms)
        halves += [Subject(f"{name} {k}", f"{name} {k}", None, "same", cut[k], None, None) for k in (0, 1)]
    assert len(halves) == 10
    first = halves[0]
    alarms = draws = 0
    for chosen in combinations(halves[1:], 4):
        base = [first, *chosen]
        new = [h for h in halves if h not in base]
        draws += 1
        alarms += bool(compare(base, new, unpaired=True, policies=["recorded", "prev"]).failed)
    print(f"{load}: {alarms} alarms in {draws} draws")
    assert draws == 126 and alarms <= 0.05 * draws
