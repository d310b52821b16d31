# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracing import MOUNT, TRACING, Machine


@pytest.fixture(scope="session")
def tracing() -> Machine:
    """Skips, with the reason, where this kernel or these rights do not let anybody trace."""
    if os.geteuid() != 0:
        pytest.skip("tracing needs root")
    if (TRACING / "events").is_dir():
        return Machine([])
    prefix = ["unshare", "-m", "sh", "-c", f'{MOUNT}; exec "$@"', "sh"]
    done = subprocess.run([*prefix, "ls", TRACING / "events/sched"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"tracefs is not mounted and cannot be: {(done.stderr or done.stdout).strip()[:200]}")
    return Machine(prefix)


@pytest.fixture(scope="session")
def trace_cmd(tracing: Machine) -> Machine:
    if shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    return tracing


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def hangups_end() -> Iterator[None]:
    """SIGHUP ends what the test starts, under nohup, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
