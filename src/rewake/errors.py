# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that reach the user, and the exit codes of the command line (the only list)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_REGRESSION = 3
EXIT_QUALITY = 4
EXIT_FIDELITY = 5
EXIT_INCONCLUSIVE = 6
EXIT_INTERRUPTED = 130


NOT_UTF8 = "a name that is not UTF-8: rename it, or give a link to it"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(where: str | os.PathLike[str]) -> Iterator[None]:
    """Where a disk is full, says which file was written there: a write knows no name."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _FULL:
            error.filename = os.fspath(where)
        raise


class RewakeError(Exception):
    """Something the user can act on: says what failed, where (file, offset, CPU, event) and what to do next.

    `exit_code` is what the command line returns for it.
    """

    exit_code = EXIT_ERROR


class TraceError(RewakeError):
    """A trace or recording that cannot be read."""


class UsageError(RewakeError):
    """A request that cannot be met as it was put."""

    exit_code = EXIT_USAGE


class PluginError(RewakeError):
    """A policy from a shared object that cannot be loaded, or that failed."""


class MissingExtra(RewakeError):
    """Something needs packages that only an extra of the package brings."""

    def __init__(self, extra: str, what: str) -> None:
        super().__init__(f"{what} needs packages that are not installed: pip install 'rewake[{extra}]'")


class QualityVeto(RewakeError):
    """The quality card refuses; --force overrides."""

    exit_code = EXIT_QUALITY


class FidelityError(RewakeError):
    """Fidelity below the asked threshold, or no column for the recorded kernel."""

    exit_code = EXIT_FIDELITY
