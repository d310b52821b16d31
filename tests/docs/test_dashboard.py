# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command of docs/dashboard.md runs, as one script. What records is a fixture: no test may trace the machine."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rewake.forms import Store, connect

for _module in ("altair", "vl_convert", "jinja2", "scipy", "otava.analysis"):
    pytest.importorskip(_module)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "dashboard.md").read_text(encoding="utf-8")
FIXTURE = ROOT / "fixtures" / "demo-split-llc-schbench"

REWAKE = """\
import sys
from pathlib import Path
import shutil
arguments = sys.argv[1:]
if arguments[0] == "record":
    assert arguments[1:3] == ["--duration", "10s"] and arguments[-2:] == ["--", "./load.sh"], arguments
    target = Path(arguments[arguments.index("-o") + 1])
    source = Path("fixture")
    # Another recording each time: one more byte in the archive's name field makes another hash.
    packed = (source / "topology.tar").read_bytes()
    import gzip
    number = len(list(Path(".").rglob("*.rewake")))
    Path("made").mkdir(exist_ok=True)
    Path("made/topology.tar.gz").write_bytes(gzip.compress(packed, mtime=number))
    shutil.copy(source / "trace.dat", "made/trace.dat")
    arguments = ["import", "made/trace.dat", "-o", str(target)]
from rewake.cli import main
sys.exit(main(arguments))
"""


def script() -> str:
    """All shell of the page, with one recording on each side."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    assert len(blocks) == 5
    text, changed = re.subn(r'^REPEATS=".*?"', 'REPEATS="1"', "".join(blocks), flags=re.M)
    assert changed == 1
    return text


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    here = tmp_path_factory.mktemp("nightly")
    (here / "fixture").mkdir()
    shutil.copy(FIXTURE / "trace.dat", here / "fixture")
    (here / "fixture" / "topology.tar").write_bytes(gzip.decompress((FIXTURE / "topology.tar.gz").read_bytes()))
    (here / "bin").mkdir()
    program = here / "bin" / "rewake"
    program.write_text(f"#!{sys.executable}\n{REWAKE}", encoding="utf-8")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{here / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"),
           "XDG_CACHE_HOME": str(here / "cache"), "GITHUB_STEP_SUMMARY": str(here / "summary.md")}  # fmt: skip
    done = subprocess.run(
        ["sh", "-eux"], input=script(), cwd=here, env=env, capture_output=True, text=True, check=False
    )
    return here, done


def test_every_command_of_the_page_runs(ran: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    here, done = ran
    assert done.returncode == 0, done.stderr[-3000:]
    assert (here / "site" / "index.html").is_file() and len(list((here / "site" / "runs").iterdir())) == 1
    assert "nothing judged yet in" in done.stdout and "UNPAIRED" in done.stdout
    assert "n = 1 is too small" in done.stdout.replace("\n  ", " ")
    assert "<testsuite" in (here / "kernels.xml").read_text() and "UNPAIRED" in (here / "summary.md").read_text()
    comment = (here / "comment.md").read_text()
    assert comment.startswith("**no regression found by p99+3%") and "39 same, 4 inconclusive" in comment
    assert "WITHIN" in comment


def test_the_query_of_the_page_runs(ran: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    here, _ = ran
    (query,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.M | re.S)
    (row,) = connect().execute(query.replace("history/", f"{here}/history/")).fetchall()
    assert row[0] == "2026-11-21T00:00:00Z" and 1e5 < row[1] < 1e7
    assert len(Store(here / "history").shards()) == 1


def test_the_page_names_what_exists() -> None:
    from rewake.analysis.measures import MEASURES

    assert ", ".join(MEASURES) in PAGE.replace("\n  ", " ").replace("\n", " ")
