# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of the machine that a trace was recorded on."""

from rewake.collectors.snapshot.snapshot import Snapshot, beside, load, of_trace
from rewake.collectors.snapshot.tasks import Cgroup, Thread

__all__ = ["Cgroup", "Snapshot", "Thread", "beside", "load", "of_trace"]
