# SPDX-License-Identifier: GPL-2.0-or-later
"""`python -m rewake.cli`: the command line where the console script is not installed."""

import sys

from rewake.cli import main

if __name__ == "__main__":
    sys.exit(main())
