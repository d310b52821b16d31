# SPDX-License-Identifier: GPL-2.0-or-later
"""The seeds and every finding so far through the decoders, and a bounded run of the libFuzzer targets over them.

Hours are for tests/fuzz/run.sh; this keeps the targets building and the findings mended. One target is built in the
ordinary suite, the others with --slow. Skips without clang.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rewake.collectors._decode import PerfData, Pftrace, Text, TraceDat
from rewake.errors import TraceError

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "fixtures" / "fuzz"
TARGETS = re.findall(r"^rewake_fuzz\((\w+) ", (ROOT / "tests/fuzz/CMakeLists.txt").read_text(), re.M)
QUICK = "text"
READERS = {"tracedat": TraceDat, "perfdata": PerfData, "text": Text, "pftrace": Pftrace}
RUNS = 500


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds a target in build/fuzz, where one build after the other is quick."""
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

    def built(target: str) -> Path:
        with (build / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # pytest-xdist: one worker builds at a time
            done = subprocess.run([ROOT / "tests/fuzz/build.sh", target], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return build / "tests" / "fuzz" / f"fuzz_{target}"

    return built


def test_every_target_has_seeds() -> None:
    assert {p.name for p in SEEDS.iterdir() if p.is_dir()} - {"heads"} == set(TARGETS)
    assert all(any((SEEDS / t).iterdir()) for t in TARGETS)


@pytest.mark.parametrize("target", READERS)
def test_seeds(target: str) -> None:
    """Read or refused, without sanitizers."""
    read = 0
    for path in sorted((SEEDS / target).iterdir()):
        try:
            reader = READERS[target](str(path), 200)
            while reader.next_batch() is not None:
                pass
            reader.finish()
            read += 1
        except TraceError as error:
            assert "\n" not in str(error) and path.name.startswith("found-")
    assert read >= 3


@pytest.mark.parametrize("target", [QUICK, *(pytest.param(t, marks=pytest.mark.slow) for t in TARGETS if t != QUICK)])
def test_bounded_run(builder: Callable[[str], Path], tmp_path: Path, target: str) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    done = subprocess.run(
        [builder(target), f"-runs={RUNS}", "-seed=1", "-rss_limit_mb=2048", "-timeout=60", "-max_len=20000",
         "-artifact_prefix=" + str(tmp_path) + os.sep, corpus, SEEDS / target],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    ran = re.search(r"Done (\d+) runs", done.stderr)
    assert ran is not None and int(ran[1]) >= RUNS
