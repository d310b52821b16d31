# SPDX-License-Identifier: GPL-2.0-or-later
"""Running rewake where tracefs is mounted, and a load to record."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
MOUNT = "mount -t tracefs nodev /sys/kernel/tracing"

# Two processes that wake each other through pipes for SECONDS.
PING_PONG = """
import os, sys, time
a, b = os.pipe(), os.pipe()
end = time.monotonic() + float(sys.argv[1])
if os.fork() == 0:
    os.close(a[1])
    while os.read(a[0], 1): os.write(b[1], b"x")
    os._exit(0)
os.close(a[0])
while time.monotonic() < end:
    os.write(a[1], b"x"); os.read(b[0], 1)
os.close(a[1]); os.wait()
"""


class Machine:
    """A machine on which tracing works: `prefix` brings a command where tracefs is mounted."""

    def __init__(self, prefix: Sequence[str]) -> None:
        self.prefix = list(prefix)

    def argv(self, *args: str | Path) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "rewake.cli", *map(str, args)]

    def rewake(self, *args: str | Path, ok: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs rewake to its end; whatever came of it, no instance of its process may be left."""
        with subprocess.Popen(self.argv(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            out, err = child.communicate(timeout=timeout)
        assert not list((TRACING / "instances").glob(f"rewake-{child.pid}*"))
        assert not ok or child.returncode == 0, err
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def sh(self, script: str, *args: str | Path) -> str:
        command = [*self.prefix, "sh", "-c", script, "sh", *map(str, args)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    def settings(self) -> str:
        """The main buffer's settings, which no recording may change. Without rewake's probes: a test beside this one
        makes some, and sees itself that they go."""
        files = "tracing_on current_tracer trace_clock buffer_size_kb set_event options/function-trace tracing_cpumask"
        return self.sh(f"cd /sys/kernel/tracing; cat {files} dynamic_events 2>/dev/null | grep -v :rewake/")
