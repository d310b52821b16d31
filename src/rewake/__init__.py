# SPDX-License-Identifier: GPL-2.0-or-later
"""rewake: for every recorded wakeup, what each other placement policy would have chosen, and what that would cost."""

__version__ = "0.1.0"
