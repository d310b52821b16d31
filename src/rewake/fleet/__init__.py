# SPDX-License-Identifier: GPL-2.0-or-later
"""Thousands of recordings: tasks (tasks.py), where they come from (plan.py), how one is done (work.py), in which
process (cell.py), by whom (engines.py), and all of them, once each (drive.py)."""
