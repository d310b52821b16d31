# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line in this process."""

from __future__ import annotations

import pytest

from rewake.cli import main


def told(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Standard output of a command, or what it says on standard error when there is none."""
    assert main([str(a) for a in arguments]) == code
    out, err = capsys.readouterr()
    return out or err
