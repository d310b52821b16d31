# SPDX-License-Identifier: GPL-2.0-or-later
"""The generators of docs/ pages as modules: they are scripts, in no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(folder: Path) -> ModuleType:
    """make.py of a page's folder."""
    spec = importlib.util.spec_from_file_location(f"make_{folder.name}", folder / "make.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
