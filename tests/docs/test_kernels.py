# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/kernels.md: written from its prose and jobs, and what it says of a recording is what rewake says."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "docs/kernels"
DEMO = ROOT / "fixtures/demo-split-llc-schbench/trace.dat"


@pytest.fixture(scope="module")
def make() -> Any:
    spec = importlib.util.spec_from_file_location("kernels_make", KERNELS / "make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_of_the_jobs_and_of_its_prose() -> None:
    page = (ROOT / "docs/kernels.md").read_text(encoding="utf-8")
    lines = (KERNELS / "jobs").read_text(encoding="utf-8").splitlines()
    jobs = {line.split("|")[0].strip() for line in lines if not line.startswith("#")}
    table = page.split("\n## Agreement\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)` ", table, re.MULTILINE)) == jobs
    prose = tomllib.loads((KERNELS / "page.toml").read_text(encoding="utf-8"))
    for text in [prose["intro"], *(part["text"] for part in prose.values() if isinstance(part, dict))]:
        assert text.strip() in page


def test_what_it_says_is_what_is_asked(make: Any) -> None:
    found = make.ask("demo", DEMO)
    assert (found.kernel.startswith("6.1"), list(found.fidelity), found.inputs) == (True, ["events"], {})
    f = found.fidelity["events"]
    row = next(make.agreement([found]))
    assert row[:4] == ["`demo`", found.kernel, "`linux-6.1`", "events"]
    assert row[5:8] == [f"{100 * f['agreement']:.1f} %", f"{100 * f['prev_agreement']:.1f} %", f"{f['skill']:.2f}"]
    kinds = [r[1] for r in make.closed([found])]
    assert kinds == ["V3", "V4"]
    assert re.fullmatch(r"V3 holds on [01] of 1, V4 holds on [01] of 1\.", make.tally([found]))
    page = make.page(tomllib.loads((KERNELS / "page.toml").read_text(encoding="utf-8")), [found])
    assert " | ".join(row) in page


def test_what_is_refused_is_said(make: Any) -> None:
    refused = make.Asked("x", "5.10.0", {}, {}, [], "rewake fidelity: error: the quality card refuses this recording")
    prose = tomllib.loads((KERNELS / "page.toml").read_text(encoding="utf-8"))
    assert "`x` is refused: rewake fidelity: error: the quality card" in make.page(prose, [refused])
