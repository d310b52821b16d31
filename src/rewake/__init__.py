# SPDX-License-Identifier: GPL-2.0-or-later
"""rewake: for every recorded wakeup, what each other placement policy would have chosen, and what that would cost.

`rewake.open(trace)` is the Python interface (rewake.api); what it needs is loaded when it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewake.api import Recording as Recording
    from rewake.api import Run as Run
    from rewake.api import Simulation as Simulation
    from rewake.api import open as open
    from rewake.api import open_run as open_run

__version__ = "0.1.0"
__all__ = ["Recording", "Run", "Simulation", "__version__", "open", "open_run"]


def __getattr__(name: str) -> Any:
    # The command line imports this package for --help: DuckDB and numpy have to wait.
    if name in ("Recording", "Run", "Simulation", "open", "open_run"):
        from rewake import api

        return getattr(api, name)
    raise AttributeError(f"module 'rewake' has no attribute {name!r}")


def __dir__() -> list[str]:
    # What is loaded when it is used has to be found before, by completion and by help().
    return sorted({*globals(), *__all__})
