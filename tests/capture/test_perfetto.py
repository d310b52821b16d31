# SPDX-License-Identifier: GPL-2.0-or-later
"""The Perfetto back end against a stand-in for the client `perfetto`, and for real where traced is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tracing import PING_PONG, Machine

from rewake.collectors.capture.perfetto import CONNECTED, Perfetto, arguments
from rewake.collectors.capture.session import Request
from rewake.errors import RewakeError, UsageError
from rewake.forms import Recording

EVENTS = ("sched:sched_switch", "sched:sched_waking")


def client(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Request:
    """`perfetto` as a shell script that notes its arguments."""
    program = folder / "bin" / "perfetto"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{folder}/arguments\n{body}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return Request(EVENTS, folder, 4096)


def test_it_records_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f'trap "echo late >>$5; exit 0" INT\necho early >$5\necho "{CONNECTED}" >&2\nwhile :; do sleep 0.05; done'
    request = client(tmp_path, monkeypatch, body)
    back_end = Perfetto(request)
    back_end.start(None, request, "mono")  # type: ignore[arg-type]  # it has buffers of its own
    assert back_end.poll() is None and len(back_end.pids()) == 1
    back_end.finish()
    assert back_end.trace.read_text() == "early\nlate\n"
    assert back_end.written() == len("early\nlate\n") and back_end.poll() == "tool"
    assert (tmp_path / "arguments").read_text().split("\n")[:-1] == arguments(
        tmp_path / "perfetto.cfg", back_end.trace
    )[1:]
    text = (tmp_path / "perfetto.cfg").read_text()
    assert all(f'ftrace_events: "{e.replace(":", "/")}"' in text for e in EVENTS) and "duration_ms" not in text


def test_a_client_without_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = client(tmp_path, monkeypatch, 'echo "Failed to connect to the socket" >&2; exit 1')
    back_end = Perfetto(request)
    with pytest.raises(RewakeError, match="before it recorded anything: Failed to connect"):
        back_end.start(None, request, "mono")  # type: ignore[arg-type]
    back_end.abort()


def test_some_cpus_only_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="traced records all CPUs"):
        Perfetto(Request(EVENTS, tmp_path, 4096, frozenset({0})))


def test_a_load_is_recorded_by_traced(trace_cmd: Machine, work: Path) -> None:
    if not shutil.which("traced") or not shutil.which("perfetto"):
        pytest.skip("traced is not installed (Debian 12 has no package of it): --tool perfetto is not tested for real")
    out = work / "a.rewake"
    trace_cmd.rewake(
        "record", "--tool", "perfetto", "--duration", "1s", "-o", out, "--", "python3", "-c", PING_PONG, "1"
    )
    assert Recording(out).rows("switch") > 100
