# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints docs/columns.md: `python -m rewake.forms > docs/columns.md`."""

from rewake.forms.document import markdown

if __name__ == "__main__":
    print(markdown(), end="")
