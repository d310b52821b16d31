# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """oracle.c, compiled: what libtracecmd reads from a file."""
    program = tmp_path_factory.mktemp("oracle") / "oracle"
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "libtracecmd", "libtracefs", "libtraceevent"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    subprocess.run(["cc", "-O1", "-o", program, Path(__file__).with_name("oracle.c"), *flags], check=True)
    return program
