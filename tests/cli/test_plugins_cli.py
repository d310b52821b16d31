# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands around plugins, and docs/plugins.md as it stands."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import plugin_source as made
import pytest

from rewake.cli import main
from rewake.replay import plugins

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures" / "demo-split-llc-schbench" / "trace.dat"
DOC = (ROOT / "docs" / "plugins.md").read_text()


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """One cache for the module, and a `rewake` on the PATH."""
    folder = tmp_path_factory.mktemp("cli")
    program = folder / "rewake"
    code = f"import sys; sys.path[:] = {sys.path!r}; from rewake.cli import main; sys.exit(main())"
    program.write_text(f"#!{sys.executable}\n{code}\n")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield


@pytest.fixture(autouse=True)
def own_cache() -> None:
    """In place of the folder's: these tests share one."""


def shell(command: str, folder: Path) -> str:
    done = subprocess.run(["sh", "-ec", command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page(tmp_path: Path) -> None:
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    blocks = re.findall(r"```sh\n(.*?)```", DOC, re.S)
    new, compiler, show, replay = blocks[0].splitlines()
    assert compiler.split("-o")[0] in shell(new, tmp_path)
    shell(compiler, tmp_path)
    assert "no_affine=0" in shell(show, tmp_path)
    lines = {line.split()[0]: line.split()[1:] for line in shell(replay, tmp_path).splitlines() if line.strip()}
    assert lines["./mine/mine.so"] == lines["linux-6.1"]
    data = json.loads(shell(replay + " --format json", tmp_path))
    mine, kernel = data["policies"][-1], data["policies"][-2]
    if mine["policy"] == "linux-6.1":
        mine, kernel = kernel, mine
    assert mine["label"] == "plugin" and mine["problems"] == []
    differ = {k for k in kernel if kernel[k] != mine[k]}
    assert differ == {"policy", "base", "label"}
    in_charge = shell(blocks[2], tmp_path)
    assert "./mine/mine.so" in in_charge and "modelled" in in_charge
    check = blocks[3].strip()
    assert " 0 failed, 0 not run" in shell(check, tmp_path)
    (function,) = re.findall(r"```c\n(.*?)```", DOC, re.S)
    source = tmp_path / "mine" / "mine.c"
    old = re.findall(r"/\* Around the target: .*?\n}\n", source.read_text(), re.S)
    source.write_text(source.read_text().replace(old[0], function))
    shell(compiler, tmp_path)
    changed = json.loads(shell(replay + " --format json -o run.run", tmp_path))
    assert changed["policies"] != data["policies"], "a new object is a new run"
    (kept,) = (line.split() for line in shell(blocks[1], tmp_path).splitlines() if line.startswith("KEPT "))
    assert int(kept[1].replace(",", "")) > 100
    failed = subprocess.run(["sh", "-c", check], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "KEPT" not in failed.stderr and "expected" in failed.stdout


def test_a_crash_is_told_after_the_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin = made.shell(tmp_path, 'if (id == 5000) abort(); printf("chatter\\n"); return prev;')
    told = "crashed (SIGABRT) in decide at decision 5000: undecided from there on"
    for _ in range(2):
        assert main(["replay", str(DEMO), "--policy", plugin, "--format", "json"]) == 1
        out, err = capfd.readouterr()
        data = json.loads(out)
        by_name = {p["policy"]: p for p in data["policies"]}
        assert by_name[plugin]["problems"] == [told]
        assert by_name[plugin]["decisions"] < by_name["prev"]["decisions"] == data["recording"]["decisions"]
        assert "chatter" in err, "run again, not taken from the cache"
        assert err.endswith(f"rewake: error: plugin {plugin}: {told}\n")
    run = tmp_path / "x.run"
    assert main(["replay", str(DEMO), "--policy", plugin, "-o", str(run)]) == 1
    out, _ = capfd.readouterr()
    assert told in " ".join(out.split())
    assert main(["report", str(run)]) == 0
    assert told in " ".join(capfd.readouterr().out.split())


def test_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = made.shell(tmp_path)

    def told(*arguments: str, code: int) -> str:
        assert main(list(arguments)) == code
        return capsys.readouterr().err

    vectors = str(ROOT / "fixtures" / "oracle" / "v6.1.wake.jsonl.zst")
    assert "no parameter 'x'; it has none" in told("replay", str(DEMO), "--policy", f"{plugin}:x=1", code=2)
    assert "No such file" in told("replay", str(DEMO), "--policy", "./none.so", code=1)
    assert "no policy 'shell'" in told("policies", "show", "shell", code=2)
    assert "belong together" in told("policies", "check", vectors, "--policy", plugin, code=2)
    assert "path of one plugin" in told("policies", "check", vectors, "--policy", "prev", "--as", "linux-6.1", code=2)
    assert "one of linux-3.8, " in told("policies", "check", vectors, "--policy", plugin, "--as", "prev", code=2)
    assert "small letters" in told("policies", "new", "Mine", "-o", str(tmp_path), code=2)
    assert main(["policies", "show", plugin, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == ["wake: its own code, with the steps of linux-6.1"]


def test_a_template_is_compiled_as_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("mine", "it's mine", str(tmp_path / "a b")):
        assert main(["policies", "new", "mine", "-o", folder]) == 0
        compiled, replayed = capsys.readouterr().out.partition("next: ")[2].splitlines()
        subprocess.run(compiled, shell=True, check=True)
        assert main(["policies", "show", shlex.split(replayed)[-1]]) == 0
        capsys.readouterr()


def test_ctrl_c_ends_the_plugin_too(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    code = f'FILE *f = fopen("{marker}", "w"); fprintf(f, "%d\\n", getpid()); fclose(f); for (;;) raise(0);'
    plugin = made.shell(tmp_path, code, GLOBAL="int getpid(void);")
    command = ["rewake", "replay", str(DEMO), "--policy", plugin, "--plugin-timeout", "600"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (marker.exists() and marker.read_text().endswith("\n")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130 and "interrupted" in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


def test_the_header_is_where_the_package_is() -> None:
    assert plugins.HEADER.is_file() and plugins.HEADER.parent.parent.name == "replay"
    assert plugins.HEADER.read_text().startswith("/* SPDX-License-Identifier: MIT */\n")
