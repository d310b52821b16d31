# SPDX-License-Identifier: GPL-2.0-or-later
"""import, info and check as the user meets them: output, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rewake import cache, cli, forms, importing
from rewake.collectors.snapshot.snapshot import Snapshot
from rewake.errors import QualityVeto, TraceError

Run = Callable[..., tuple[int, str, str]]

TOPOLOGY = "pack:1 l3:2 core:2 pu:1"


def only_line(text: str) -> str:
    assert text.count("\n") == 1 and text.endswith("\n"), text
    return text.strip()


def test_help_lists_what_exists(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for name in ("check", "import", "info"):
        assert f"\n  {name} " in out
    assert "_shared" not in out and "__main__" not in out


def test_help_and_version_load_no_heavy_module() -> None:
    program = (
        "import sys; from rewake.cli import main; main(['--help']); main(['--version']); main(['import', '--help']);"
        "sys.exit(any(m in sys.modules for m in ('numpy', 'duckdb')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "rewake, version" in done.stdout


@pytest.mark.parametrize("arguments", [("nope",), ("info",), ("info", "--nope", "x"), ("info", "x", "--format", "xml")])
def test_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert only_line(err).startswith("rewake: error: ")
    assert "--help)" in err


def test_import_into_a_named_recording(run: Run, script: Any, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.rewake"
    code, out, err = run("import", trace, "--topology", TOPOLOGY, "-o", target)
    assert (code, out, err) == (0, f"{target}\n", "")
    recording = forms.Recording(target)
    assert recording.n_parts == 2 and recording.rows("switch") == 1200
    assert recording.manifest["machine"] == {"cpus": 4, "cores": 4, "llcs": 2, "nodes": 1, "packages": 1}
    assert recording.manifest["topology"] == "snapshot"
    assert (target / "topology.xml").is_file()
    assert recording.manifest["source"]["name"] == "trace.dat"
    states = ("sched_ext", "core_scheduling", "preempt_rt")
    assert [recording.manifest[k] for k in states] == [False, None, False]


@pytest.mark.parametrize(
    ("trace", "snapshot", "known"),
    [
        ("Linux x 6.1.0-1 x86_64", None, None),  # as trace-cmd and perf write it: false was a guess
        ("Linux x 6.1.0-1 x86_64", "Linux x 6.1.0-1 #1 SMP PREEMPT_DYNAMIC Debian x86_64 GNU/Linux", False),
        ("Linux x 6.1.0-1 x86_64", "Linux x 6.1.0-1 #1 SMP PREEMPT_RT Debian x86_64 GNU/Linux", True),
        ("Linux 6.1.0-1 #1 SMP PREEMPT RT x86_64", None, True),
        (None, None, None),
    ],
)
def test_preempt_rt_is_known_by_the_version_alone(trace: str | None, snapshot: str | None, known: bool | None) -> None:
    machine = Snapshot(uname=snapshot)
    assert importing._states("6.1.0-1", trace, machine)["preempt_rt"] is known


def test_without_topology_the_machine_is_null_and_the_card_says_so(run: Run, script: Any, trace: Path) -> None:
    code, out, _ = run("info", trace, "--format", "json")
    assert code == 0
    info = json.loads(out)
    assert (info["cpus"], info["llcs"], info["cores"], info["nodes"]) == (4, None, None, None)
    assert info["topology"] == "4 CPUs, topology unknown"
    assert any("no topology" in n for n in info["notes"])
    assert forms.Recording(info["path"]).rows("cpu") == 4
    code, out, _ = run("check", trace)
    assert code == 0
    assert "give --topology" in out


def test_more_cpus_in_the_trace_than_in_the_topology(run: Run, script: Any, trace: Path, tmp_path: Path) -> None:
    assert run("import", trace, "--topology", "core:2 pu:1", "-o", tmp_path / "a.rewake")[0] == 0
    recording = forms.Recording(tmp_path / "a.rewake")
    assert recording.connect().execute("SELECT cpu, core FROM cpu ORDER BY cpu").fetchall() == [
        (0, 0), (1, 1), (2, None), (3, None)
    ]  # fmt: skip
    assert any("2 of 4 CPUs" in n for n in recording.manifest["notes"])


def test_info_json_has_what_the_contract_names(run: Run, script: Any, trace: Path) -> None:
    code, out, err = run("info", trace, "--topology", TOPOLOGY, "--format", "json")
    assert (code, err) == (0, "")
    info = json.loads(out)
    assert info["events"] == {"sched_switch": 1200, "sched_waking": 1500, "sched_wakeup": 1500}
    assert (info["lost"], info["span_ns"], info["cpus"], info["llcs"]) == (0, 2_000_000_000, 4, 2)
    assert info["kernel"] == "6.1.0-1"
    assert info["decisions"]["stayed"] == 1500
    assert info["schema_version"] == forms.SCHEMA_VERSION


def test_info_table(run: Run, script: Any, trace: Path) -> None:
    code, out, _ = run("info", trace, "--topology", TOPOLOGY)
    assert code == 0
    assert "4 CPUs, 2 LLCs, 4 cores, 1 node" in out
    assert "sched_switch  1,200" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_recording_is_taken_as_it_is_and_has_its_topology(run: Run, script: Any, trace: Path, tmp_path: Path) -> None:
    run("import", trace, "-o", tmp_path / "a.rewake")
    before = script.decoded
    assert run("info", tmp_path / "a.rewake")[0] == 0
    assert script.decoded == before
    code, _, err = run("info", tmp_path / "a.rewake", "--topology", TOPOLOGY)
    assert code == 2
    assert "has its topology already" in only_line(err)


def test_the_cache_finds_the_same_trace_again(run: Run, script: Any, trace: Path, own_cache: Path) -> None:
    path = only_line(run("import", trace)[1])
    assert Path(path).parent == own_cache
    assert only_line(run("import", trace)[1]) == path
    assert run("info", trace)[0] == 0
    copy = trace.with_name("copy.dat")
    copy.write_bytes(trace.read_bytes())
    assert json.loads(run("info", copy, "--format", "json")[1])["source"]["name"] == "copy.dat"
    assert script.decoded == 1
    other = only_line(run("import", trace, "--topology", TOPOLOGY)[1])
    assert other != path and script.decoded == 2
    trace.write_bytes(trace.read_bytes() + b"x")
    run("import", trace)
    assert script.decoded == 3
    assert sorted(p.suffix for p in own_cache.iterdir()) == [".rewake"] * 3


def test_a_damaged_cache_entry_is_made_again(run: Run, script: Any, trace: Path) -> None:
    path = Path(only_line(run("import", trace)[1]))
    (path / "comm.parquet").unlink()
    assert run("info", trace)[0] == 0
    assert script.decoded == 2
    switches = path / "switch" / "000000.parquet"
    for damaged in (b"", switches.read_bytes()[:-1], (path / "switch" / "000001.parquet").read_bytes()[:-99]):
        switches.write_bytes(damaged)
        before = script.decoded
        assert run("check", trace)[0] == 0  # it refused, of a trace that is as it was, and as long as the entry lived
        assert script.decoded == before + 1


def test_info_tells_damage_of_tables_that_it_does_not_print(run: Run, script: Any, trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.rewake"
    run("import", trace, "-o", path)
    file = path / "switch" / "000001.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    code, out, err = run("info", path)
    assert (code, out) == (1, "")
    assert "000001.parquet" in only_line(err) and err.endswith("the file is damaged: import the trace again\n")


def test_damage_that_a_query_finds_is_no_bug(
    run: Run, script: Any, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise duckdb.InvalidInputException('Failed to read file "a.rewake/switch/000000.parquet": ZSTD failure\nmore')

    monkeypatch.setattr("rewake.analysis.summary.summarize", fails)
    code, out, err = run("info", trace)
    assert (code, out) == (1, "")
    assert only_line(err) == (
        'rewake: error: Failed to read file "a.rewake/switch/000000.parquet": ZSTD failure;'
        " a Parquet file is damaged: make the recording or run again"
    )


def test_least_recently_used_goes_first(run: Run, script: Any, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Path(only_line(run("import", trace)[1]))
    second = Path(only_line(run("import", trace, "--topology", TOPOLOGY)[1]))
    os.utime(first / "manifest.json", ns=(1, 1))
    os.utime(second / "manifest.json", ns=(2, 2))
    run("import", trace)  # uses the first again
    monkeypatch.setattr(cache, "LIMIT_BYTES", cache._bytes(first) * 5 // 2)
    third = Path(only_line(run("import", trace, "--topology", "pack:2 core:2 pu:1")[1]))
    assert [p.exists() for p in (first, second, third)] == [True, False, True]


@pytest.mark.parametrize("failure", [TraceError("trace.dat: offset 4096: bad page; record again"), KeyboardInterrupt()])
def test_a_failed_import_leaves_nothing(
    run: Run, script: Any, trace: Path, tmp_path: Path, own_cache: Path, failure: BaseException
) -> None:
    script.fail = failure
    for arguments in (("import", trace), ("import", trace, "-o", tmp_path / "a.rewake")):
        code, out, err = run(*arguments)
        assert (code, out) == ((1, "") if isinstance(failure, TraceError) else (130, ""))
        only_line(err.lstrip("\n"))  # after a Ctrl-C the terminal is in the middle of a line
    assert not (tmp_path / "a.rewake").exists()
    assert list(own_cache.iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "t"]


def test_strict_refuses_degraded_input(run: Run, script: Any, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.rewake"
    assert run("import", "--strict", trace, "-o", target)[0] == 0
    script.finish["problems"] = ["truncated tail of CPU 2: 100 bytes"]
    script.finish["steps_back"] = 2
    script.finish["lost"][1] |= {"lost": 7, "gaps": 1}
    trace.write_bytes(trace.read_bytes() + b"x")
    for arguments in (("-o", tmp_path / "b.rewake"), ()):
        code, _, err = run("import", "--strict", trace, *arguments)
        assert code == 1
        line = only_line(err)
        assert "truncated tail" in line and "7 events lost in 1 gaps" in line and "2 timestamps step back" in line
    assert not (tmp_path / "b.rewake").exists()
    code, out, _ = run("info", trace)
    assert code == 0
    assert "truncated tail" in out


def test_check_prints_every_threshold(run: Run, script: Any, trace: Path) -> None:
    code, out, err = run("check", trace, "--topology", TOPOLOGY, "--format", "json")
    assert (code, err) == (0, "")
    card = json.loads(out)
    assert card["ok"]
    assert {c["name"]: c["limit"] for c in card["checks"]} == {
        "missing_events": 0, "lost": 1, "blind": 10, "steps_back": 0.1, "clock": 0, "resync": 1, "decisions": 1000,
        "steal": 5, "observer": 2,
    }  # fmt: skip
    code, out, _ = run("check", trace, "--topology", TOPOLOGY)
    assert code == 0
    assert sum(line.startswith(("ok", "unknown")) for line in out.splitlines()) == 9
    assert "time stolen from the guest: unknown" in out


def test_check_refuses_with_4_and_prints_the_card_all_the_same(run: Run, script: Any, trace: Path) -> None:
    script.wakeups = 999
    code, out, err = run("check", trace)
    assert code == 4
    assert "REFUSED    999  >=   1000" in out
    assert "decisions: 999, limit 1000 (record for longer); --force overrides" in only_line(err)
    assert run("check", trace, "--force")[0] == 0
    code, out, _ = run("check", trace, "--format", "json")
    assert (code, json.loads(out)["ok"]) == (4, False)


def test_hostile_names_reach_no_output_raw(run: Run, script: Any, trace: Path) -> None:
    evil = "\x1b[2J</script>\u202e"
    script.header["kernel"] = script.finish["problems"] = None
    script.header["kernel"] = "6.1" + evil
    script.finish["problems"] = [evil]
    script.finish["event_counts"] = {evil: 3, "sched_switch": 1200, "sched_waking": 1}
    for arguments in ((), ("--format", "json")):
        code, out, _ = run("info", trace, *arguments)
        assert code == 0
        assert "\x1b" not in out and "\u202e" not in out
    odd = trace.with_name("a\x1b[2Jb")
    odd.write_text("text")
    _, _, err = run("info", odd)
    assert "\x1b" not in only_line(err)


BAD: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b"\x17\x08", "cut off within its first bytes"),
    (b"hello\nworld\n", "a text file, no trace"),
    (b"cpus=2\nnothing\n", "text, but no line of it is an event of ftrace"),
    (b"PERFILE2" + bytes(90), "header of 0 bytes (16 and 104 are known)"),
    (b"\x1f\x8b\x08" + bytes(90), "compressed with gzip; unpack it first: gzip -d"),
    (b"\x28\xb5\x2f\xfd" + bytes(90), "compressed with zstd"),
    (b"\x0a\x06\x40\x01\x50\x02\x58\x03" * 20, "a Perfetto trace without ftrace events"),
    (b'{"traceEvents": []}', "JSON"),
    (b"<html>", "an HTML page without a trace of ftrace"),
    (b"<?xml version='1.0'?>", "HTML or XML, no trace"),
    (b"PAR1" + bytes(90), "Parquet"),
    (b"\x7fELF" + bytes(range(256)), "unknown format"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_what_is_no_trace_is_named(run: Run, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    for command in ("import", "info", "check"):
        code, out, err = run(command, path)
        assert (code, out) == (1, "")
        line = only_line(err)
        assert message in line and str(path) in line


def test_directories_and_missing_files(run: Run, tmp_path: Path) -> None:
    assert "not a recording" in only_line(run("info", tmp_path)[2])
    (tmp_path / "manifest.json").write_text('{"format": "rewake-recording"}')
    assert "a recording, and no trace: nothing to import" in only_line(run("import", tmp_path)[2])
    code, _, err = run("info", tmp_path / "none")
    assert code == 1
    assert "no such file" in only_line(err)
    assert "standard input is not read" in only_line(run("info", "-")[2])


def test_an_unexpected_error_is_one_line_and_debug_shows_the_traceback(run: Run, script: Any, trace: Path) -> None:
    script.fail = RuntimeError("surprise")
    code, _, err = run("import", trace)
    assert code == 1
    assert "RuntimeError: surprise" in only_line(err) and "--debug" in err
    with pytest.raises(RuntimeError, match="surprise"):
        run("--debug", "import", trace)


def test_a_closed_pipe_is_no_error() -> None:
    program = "import sys; from rewake.cli import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        ["sh", "-c", f'{{ "{sys.executable}" -c "$0"; echo "code $?" >&2; }} | true', program],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.stderr.strip() == "code 0"


def test_exit_codes_come_from_the_error(run: Run, script: Any, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def veto(*_: object, **__: object) -> None:
        raise QualityVeto("no")

    monkeypatch.setattr(cli.cli, "main", veto)
    assert run("info", trace)[0] == 4
