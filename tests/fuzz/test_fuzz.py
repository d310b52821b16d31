# SPDX-License-Identifier: GPL-2.0-or-later
"""A bounded run of every libFuzzer target: the seeds, every finding so far, and some hundred inputs made of them.

Hours are for tests/fuzz/run.sh; this keeps the targets building and the findings mended. Skips without clang.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "fixtures" / "fuzz"
TARGETS = re.findall(r"^rewake_fuzz\((\w+)\)", (ROOT / "tests/fuzz/CMakeLists.txt").read_text(), re.M)
RUNS = 500


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """build/fuzz, where one build after the other is quick."""
    compiler = next((c for c in ("clang++", "clang++-14") if shutil.which(c)), None)
    if compiler is None or shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("no clang++, cmake and ninja: the libFuzzer targets cannot be built")
    # clang without its sanitizer libraries compiles, and fails to link.
    probe = tmp_path_factory.mktemp("probe")
    (probe / "p.cpp").write_text('extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n')
    flags = ["-fsanitize=fuzzer,address,undefined", "p.cpp", "-o", "p"]
    if subprocess.run([compiler, *flags], cwd=probe, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{compiler} has no libFuzzer or sanitizers")
    build = ROOT / "build" / "fuzz"
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pytest-xdist: one worker builds, the others find it built
        done = subprocess.run([ROOT / "tests/fuzz/build.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return build / "tests" / "fuzz"


def test_every_target_has_seeds() -> None:
    assert {p.name for p in SEEDS.iterdir() if p.is_dir()} - {"heads"} == set(TARGETS)
    assert all(any((SEEDS / t).iterdir()) for t in TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_bounded_run(built: Path, tmp_path: Path, target: str) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    done = subprocess.run(
        [built / f"fuzz_{target}", f"-runs={RUNS}", "-seed=1", "-rss_limit_mb=2048", "-timeout=10", "-max_len=20000",
         "-artifact_prefix=" + str(tmp_path) + os.sep, corpus, SEEDS / target],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    ran = re.search(r"Done (\d+) runs", done.stderr)
    assert ran is not None and int(ran[1]) >= RUNS
