# SPDX-License-Identifier: GPL-2.0-or-later
"""`pytest --slow`: also what takes minutes, over recordings that are not in the repository. A cache of one's own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Else each process that a test starts compiles numpy, scipy and altair anew: seconds of cpu apiece.
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(Path(__file__).parents[1] / "build" / "pycache")
    sys.dont_write_bytecode = False


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell: what tests stop by SIGINT would inherit that, and never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


hypothesis.settings.register_profile("no clock", deadline=None)  # other work on the machine is no fault
hypothesis.settings.load_profile("no clock")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes; runs with --slow only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="runs with --slow only"))


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for the module, not the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
