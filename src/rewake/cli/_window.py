# SPDX-License-Identifier: GPL-2.0-or-later
"""--window 2s..5s: a part of a recording, counted from its start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rewake.window import Window as Window
from rewake.window import parse

_F = TypeVar("_F", bound=Callable[..., Any])


def window_option(function: _F) -> _F:
    """--window, for commands that take a part of a recording."""
    return click.option(
        "--window",
        metavar="FROM..UNTIL",
        callback=lambda _, __, value: None if value is None else parse(value),
        help="Only this part, counted from the start: 2s..5s, 300ms.. or ..1s.",
    )(function)
