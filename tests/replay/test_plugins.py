# SPDX-License-Identifier: GPL-2.0-or-later
"""Plugins: the template is linux-6.1; whatever a plugin does, it is told by name and decision and harms nobody else."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plugin_source as made
import pytest
from world import World

from rewake.errors import PluginError, RewakeError, UsageError
from rewake.forms import Recording, Run, RunWriter
from rewake.importing import import_trace
from rewake.replay import _engine, conformance, driver, plugins
from rewake.replay.spec import parse

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
SHARED = ROOT.parent / "shared" / "traces"
ORACLE = FIXTURES / "oracle"
TRACES = [
    *sorted(FIXTURES.glob("*/trace.dat")),
    *(
        p
        for n in ("bigl-pipe", "numa-llc-hackbench", "2x10x2-schbench-t18")
        if (p := SHARED / n / "trace.dat").exists()
    ),
]
NOT_THE_SAME = parse("linux-6.1:WA_IDLE=1")[0]
"""Stands for the recorded kernel, whose private state follows the record; that of the others is their own."""
SMALL = FIXTURES / "12cpu-buddy-hackbench" / "trace.dat"


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made.template(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="module")
def small() -> Recording:
    return import_trace(SMALL, None)


def replay(
    recording: Recording, folder: Path, names: Sequence[str], **options: Any
) -> tuple[dict[str, dict[str, list[Any]]], list[dict[str, Any]]]:
    """Ledgers by policy as plain lists (NULL: None), and the manifest's policies."""
    with RunWriter(folder / "x.run", recording) as writer:
        summary = driver.replay(recording, [parse(n)[0] for n in names], writer, **options)
        writer.commit()
    run = Run(folder / "x.run")
    ledgers: dict[str, dict[str, list[Any]]] = {}
    for name in names:
        columns = {
            k: v if isinstance(v, tuple) else (v, np.zeros(len(v), bool)) for k, v in run.read_ledger(name).items()
        }
        ledgers[name] = {
            k: [None if n else x for x, n in zip(v.tolist(), null.tolist(), strict=True)]
            for k, (v, null) in columns.items()
        }
    assert sorted(p.name for p in run.path.iterdir() if p.suffix != ".parquet") == ["manifest.json"]
    return ledgers, summary["policies"]


def problem(recording: Recording, folder: Path, plugin: str, **options: Any) -> str:
    """The one problem that the plugin has."""
    _, policies = replay(recording, folder, [plugin], **options)
    (told,) = policies[0]["problems"]
    assert isinstance(told, str)
    return told


@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.parent.name)
def test_template_is_linux_61(trace: Path, template: str, tmp_path: Path) -> None:
    recording = import_trace(trace, None)
    sync = {"12cpu-buddy-hackbench": "1", "demo-split-llc-schbench": "auto"}.get(trace.parent.name, "0")
    names = ["linux-6.1", template]
    ledgers, policies = replay(recording, tmp_path, names, sync=sync, auto=NOT_THE_SAME)
    builtin, plugin = (ledgers[n] for n in names)
    assert sum(c is not None for c in builtin["cpu"]) > 600
    assert plugin == builtin
    assert policies[1]["problems"] == []
    assert policies[1]["label"] == "plugin" and policies[1]["plugin"]["base"] == "linux-6.1"
    for figure in ("decided", "exposure", "self_collision"):
        assert policies[1][figure] == policies[0][figure]


def test_a_parameter_changes_the_template(small: Recording, template: str, tmp_path: Path) -> None:
    ledgers, _ = replay(small, tmp_path, ["linux-6.1", f"{template}:no_affine=1"])
    assert len({str(rows["cpu"]) for rows in ledgers.values()}) == 2
    with pytest.raises(PluginError, match=r"no_affine=5: .*refuses: no_affine=5: 0 or 1 expected"):
        replay(small, tmp_path, [f"{template}:no_affine=5"])
    with pytest.raises(UsageError, match="no parameter 'greed'; it has no_affine"):
        replay(small, tmp_path, [f"{template}:greed=5"])


def test_template_passes_the_vectors(template: str) -> None:
    (spec,) = parse(template)
    files = [ORACLE / f"v6.1.{scope}.jsonl.zst" for scope in ("wake", "fork_exec", "sis")]
    found, _ = conformance.check_plugin(spec, "v6.1", files)
    lines = [len(conformance.read_vectors(f).splitlines()) for f in files]
    assert found["ok"] and found["passed"] == lines[0] + lines[1]
    assert found["left_out"] == [{"column": "v6.1", "scope": "sis", "vectors": lines[2]}]
    found, explained = conformance.check_plugin(spec, "v4.5", [ORACLE / "v4.5.wake.jsonl.zst"])
    assert not found["ok"] and found["failed"] > 0 and "shell" not in explained[0] and template in explained[0]


def test_a_crash_among_vectors_says_which(tmp_path: Path) -> None:
    plugin = made.shell(tmp_path, "if (id >> 32 == 1 && (id & 0xffffffff) == 7) abort(); return prev;")
    files = [ORACLE / "v6.1.wake.jsonl.zst", ORACLE / "v6.0.wake.jsonl.zst"]
    with pytest.raises(PluginError, match=r"shell\.so: crashed \(SIGABRT\) in decide at .*v6\.1\.wake\.jsonl\.zst:7$"):
        conformance.check_plugin(parse(plugin)[0], "v6.1", files[::-1])


CRASHES = {
    "crashed (SIGSEGV) in decide": "*(volatile int *)0 = 1;",
    "crashed (SIGABRT) in decide": "abort();",
    "called exit(3) in decide": "exit(3);",
    "called exit(0) in decide": "_Exit(0);",
    "did not return within 1 s in decide": "for (;;) raise(0);",
}


@pytest.mark.parametrize("told", CRASHES)
def test_a_plugin_that_ends_keeps_what_it_decided(told: str, small: Recording, tmp_path: Path) -> None:
    plugin = made.shell(tmp_path, f"if (id >= 1000) {{ {CRASHES[told]} }} return prev;", KINDS="7")
    names = ["recorded", plugin, "linux-6.1", "prev"]
    ledgers, policies = replay(small, tmp_path, names, plugin_timeout=1 if "return" in told else 60)
    (text,) = policies[1]["problems"]
    assert text.startswith(told + " at decision ") and text.endswith(": undecided from there on")
    first = int(text.split(" at decision ")[1].split(":")[0])
    assert first >= 1000
    mine, prev = ledgers[plugin], ledgers["prev"]
    for column in ("cpu", "outcome", "known", "lo_ns", "hi_ns"):
        kinds = [(a, b) for a, b, c in zip(mine[column], prev[column], mine["cpu"], strict=True) if c is not None]
        assert len(kinds) > 100 and all(a == b for a, b in kinds)
    assert all(c is None for column in mine.values() for c in column[first:])
    assert all((a is None) == (b is None) for a, b in zip(mine["cpu"][:first], prev["cpu"][:first], strict=True)
               if b is None)  # fmt: skip
    branch = len(_engine.BRANCHES)
    assert {b for b in mine["branch"] if b is not None} == {branch}
    assert policies[1]["branches"][branch] == "OWN"
    alone, without = replay(small, tmp_path, [n for n in names if n != plugin])
    assert alone == {n: ledgers[n] for n in names if n != plugin}
    assert without == [p for p in policies if p["name"] != plugin]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("return id % 2 ? 9999 : prev;", "chose CPU 9999 in decision"),
        ("return id % 2 ? -7 : prev;", "chose CPU -7 in decision"),
        ("if (id % 2) { h->pick(d, 4711, -1); h->run(d, REWAKE_CHECK); return h->chosen(d); } return prev;",
         "chose CPU 4711 in decision"),
        ("if (id % 2) { h->set_target(d, 70000); return h->chosen(d); } return prev;", "chose CPU 70000 in decision"),
    ],
)  # fmt: skip
def test_a_cpu_that_is_none_costs_its_decision(answer: str, told: str, small: Recording, tmp_path: Path) -> None:
    plugin = made.shell(tmp_path, answer, KINDS="7")
    ledgers, policies = replay(small, tmp_path, [plugin, "prev"])
    mine, prev = (ledgers[n]["cpu"] for n in (plugin, "prev"))
    asked = [i for i, c in enumerate(prev) if c is not None]
    (text,) = policies[0]["problems"]
    odd = [i for i in asked if i % 2]
    counted = int(text.split()[-5])  # pinned wakeups among them, which have no row
    assert (
        text
        == f"{told} {odd[0]}, which does not exist, is offline or not allowed: {counted} such answers left undecided"
    )
    assert len(odd) <= counted <= len(odd) + 10
    assert all(mine[i] is None for i in odd)
    assert all(mine[i] == prev[i] for i in asked if not i % 2 and mine[i] is not None)
    assert sum(mine[i] is not None for i in asked) > 100


def test_a_cpu_that_is_not_allowed_is_not_an_answer(tmp_path: Path) -> None:
    """Task 8 may use CPUs 0 and 1 only; the answers are those that a plugin could have given."""
    answer = np.dtype([("cpu", "i4"), ("looked", "u4"), ("scanned", "u2"), ("branch", "u1"), ("flags", "u1")])
    w = World(4, 12, masks=["0-1"])
    w.tasks["allowed"][8] = 1
    w.runs(1000, 1, 8, 1)
    for k in range(3):
        t = 1_000_000 * (k + 1)
        w.waking(t, 0, 8, 1, curr=10).wakeup(t + 200, 1, 8, 1).runs(t + 1000, 1, 1, 8, "R").runs(t + 2000, 1, 8, 1)
    np.array([(2, 0, 0, 0, 1), (0, 0, 5, 255, 1), (1, 0, 0, 0, 0)], answer).tofile(tmp_path / "answers")
    source = _engine.Answers(str(tmp_path / "answers"), 3, 30)
    (rows,) = w.decisions(at=[6]).replay(source).ledgers  # in two parts
    assert [r["cpu"] for r in rows] == [None, 0, None]
    assert (rows[1]["branch"], rows[1]["cpus_scanned"]) == (29, 5)
    assert source.invalid == (1, 0, 2)
    short = _engine.Answers(str(tmp_path / "few"), 2, 30)
    with pytest.raises(ValueError, match="decision 2 of 2"):
        w.decisions().replay(short)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"VERSION": "2"}, "it has ABI version 2, this rewake calls version 1: compile it against"),
        ({"SIZE": "16"}, "its struct rewake_policy has 16 bytes, not "),
        ({"RESULT": "(&p, NULL)"}, "rewake_policy_v1 returns NULL"),
        ({"FUNCTION": "NULL"}, "no function decide"),
        ({"BASE": "NULL"}, "it has no name, summary or base"),
        ({"BASE": '"prev"'}, "its base is 'prev'; one of linux-3.8, "),
        ({"BASE": '"./other.so"'}, "its base is './other.so'; one of "),
        ({"KINDS": "0"}, "its kinds are 0"),
        ({"KINDS": "9"}, "its kinds are 9"),
        ({"RESULT": "(abort(), &p)"}, r"crashed \(SIGABRT\) while it was loaded$"),
        ({"RESULT": "(exit(4), &p)"}, r"called exit\(4\) while it was loaded$"),
        ({"GLOBAL": "__attribute__((constructor)) static void early(void) { for (;;) raise(0); }"},
         "did not return within 0.5 s while it was loaded$"),
    ],
)  # fmt: skip
def test_no_plugin(parts: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=told) as error:
        plugins.describe(made.shell(tmp_path, **parts), 0.5)
    assert str(error.value).startswith(str(tmp_path))


def test_files_that_are_no_plugin(tmp_path: Path) -> None:
    def told(path: Path) -> str:
        with pytest.raises(PluginError) as error:
            plugins.describe(str(path))
        return str(error.value).removeprefix(f"{path}: ")

    assert told(tmp_path / "none.so") == "No such file or directory"
    assert told(tmp_path) == "Is a directory"
    os.mkfifo(tmp_path / "fifo.so")
    assert told(tmp_path / "fifo.so") == told(Path("/dev/zero")) == "not a regular file"
    (tmp_path / "text.so").write_text("#!/bin/sh\n")
    assert told(tmp_path / "text.so").startswith("not a shared object: compile it with")
    whole = Path(made.shell(tmp_path)).read_bytes()
    (tmp_path / "half.so").write_bytes(whole[:200])
    assert "half.so" in told(tmp_path / "half.so")
    (tmp_path / "other.c").write_text("int x;\n")
    assert told(made.compile_c(tmp_path / "other.c")) == "no policy: it exports no rewake_policy_v1"


CREATE = (
    "static void *create(const struct rewake_host *h, const char *const *v, char *e, size_t n) "
    "{ (void)h; (void)v; (void)e; (void)n; @ }"
)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"GLOBAL": CREATE.replace("@", "abort();"), "CREATE": "create"},
         "crashed (SIGABRT) in create: it decided nothing"),
        ({"GLOBAL": "static void idle(void *s, int32_t c, int w) { (void)s; (void)c; (void)w; abort(); }",
          "IDLE": "idle"}, "crashed (SIGABRT) in on_cpu_idle: it decided nothing"),
        ({"GLOBAL": "static void end(void *s) { (void)s; abort(); }", "DESTROY": "end"},
         "crashed (SIGABRT) in destroy, after its last decision"),
        ({"GLOBAL": "static int n; static void idle(void *s, int32_t c, int w) "
          "{ (void)s; (void)c; (void)w; if (++n == 500) abort(); }", "IDLE": "idle"},
         "crashed (SIGABRT) in on_cpu_idle after decision N: undecided from there on"),
    ],
    ids=["create", "on_cpu_idle", "destroy", "later"],
)  # fmt: skip
def test_each_function_is_contained(parts: dict[str, str], told: str, small: Recording, tmp_path: Path) -> None:
    assert re.sub(r"decision [1-9]\d*", "decision N", problem(small, tmp_path, made.shell(tmp_path, **parts))) == told


def test_a_refusal_stops_before_anything_is_decided(small: Recording, tmp_path: Path) -> None:
    code = CREATE.replace("@", 'strcpy(e, "not on this machine"); return NULL;')
    plugin = made.shell(tmp_path, GLOBAL=code, CREATE="create")
    with pytest.raises(PluginError, match=r"shell\.so: it refuses: not on this machine"):
        replay(small, tmp_path, [plugin])


def test_memory_is_bounded(small: Recording, tmp_path: Path) -> None:
    grab = "for (;;) { char *p = malloc((size_t)1 << 30); *p = 1; }"
    assert problem(small, tmp_path, made.shell(tmp_path, grab)).startswith("crashed (SIGSEGV) in decide at decision ")


def test_nothing_is_left_running(small: Recording, tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    write = f'FILE *f = fopen("{marker}", "w"); fprintf(f, "%d", p); fclose(f);'
    code = f"{{ int p = fork(); if (!p) for (;;) pause(); {write} abort(); }}"
    plugin = made.shell(tmp_path, code, GLOBAL="int fork(void); int pause(void);")
    assert problem(small, tmp_path, plugin).startswith("crashed (SIGABRT) in decide")
    state = Path(f"/proc/{marker.read_text() or 0}/stat")
    for _ in range(500):
        if not state.exists() or ") Z " in state.read_text():
            return
        time.sleep(0.01)
    pytest.fail("it still runs")


def test_a_copy_of_its_process_does_not_speak_for_it(small: Recording, tmp_path: Path) -> None:
    """The copy went on to decide, and where it was counted as where the process is that crashes."""
    code = "static int n; int status; if (!n++) { const int p = fork(); if (p) { waitpid(p, &status, 0); abort(); } }"
    declared = "int fork(void); int waitpid(int, int *, int);"
    plugin = made.shell(tmp_path, f"{code} return prev;", GLOBAL=declared)
    ledgers, policies = replay(small, tmp_path, [plugin])
    (text,) = policies[0]["problems"]
    assert text.startswith("crashed (SIGABRT) in decide at decision ")
    first = int(text.split(" at decision ")[1].split(":")[0])
    assert all(cpu is None for cpu in ledgers[plugin]["cpu"][first:])


def test_a_copy_of_its_process_does_not_hide_that_it_hangs(small: Recording, tmp_path: Path) -> None:
    """It was waited for without end, as the copy had come back from its last call."""
    code = "static int n; if (!n++ && fork()) sleep(15); return prev;"
    plugin = made.shell(tmp_path, code, GLOBAL="int fork(void); unsigned sleep(unsigned);")
    told = problem(small, tmp_path, plugin, plugin_timeout=1)
    assert told.startswith("did not return within 1 s in decide at decision ")


def test_a_cpp_exception_is_contained(small: Recording, tmp_path: Path) -> None:
    source = tmp_path / "thrower.cpp"
    source.write_text(
        '#include <stdexcept>\n#include "rewake_policy.h"\n'
        "static int32_t decide(void *, const rewake_host *h, rewake_decision *d) {\n"
        '    if (h->wakeup(d)->id > 500) throw std::invalid_argument("no idea");\n'
        "    return h->wakeup(d)->prev_cpu;\n}\n"
        "const rewake_policy *rewake_policy_v1() {\n"
        '    static const rewake_policy p = {sizeof p, REWAKE_POLICY_ABI, "t", nullptr, "s", nullptr, "linux-6.1", 1,\n'
        "        nullptr, nullptr, nullptr, decide, nullptr, nullptr, nullptr};\n    return &p;\n}\n"
    )
    built = str(source.with_suffix(".so"))
    command = ["c++", "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-I", plugins.HEADER.parent, "-o", built, source], check=True)
    assert problem(small, tmp_path, built).startswith("let out a C++ exception (no idea) in decide at decision ")


NONSENSE = """
    static const int32_t cpus[] = {-1, -2147483647, 12, 1024, 65536, 2147483647};
    struct rewake_domain dom = {.size = sizeof dom};
    struct rewake_step step = {.size = 4};
    unsigned i;
    for (i = 0; i < sizeof cpus / sizeof *cpus; ++i) {
        const int32_t c = cpus[i];
        if (h->core_cpus(h, c) || h->cluster_cpus(h, c) || h->llc_cpus(h, c) || h->node_cpus(h, c)) abort();
        if (h->capacity_orig(h, c) || h->domain(h, c, 0, &dom) || h->domain(h, 0, c, &dom)) abort();
        if (h->idle(d, c) || h->usable(d, c) || h->scan(d, c) || h->nr(d, c) || h->load(d, c)) abort();
        if (h->capacity(d, c) || h->idle_cores(d, c) || h->nr_idle_scan(d, c)) abort();
        if (c != 12 && (h->run(d, (uint32_t)c) != -1 || h->run_step(d, c) != -1 || h->step(d, c, &step))) abort();
        h->flips(d, (uint32_t)c);
    }
    if (h->chosen(d) != -1 || h->idlest_cpu(d, NULL) != -1 || h->size != sizeof *h || h->n_cpus != 12) abort();
    if (!h->step(d, 0, &step) || step.size != 4 || step.text || h->target(d) != prev) abort();
    if (!h->domain(h, 3, 0, &dom) || !rewake_test(dom.span, 3) || dom.size != sizeof dom) abort();
    if (!rewake_test(h->core_cpus(h, 5), 5) || !rewake_test(h->llc_cpus(h, 5), 5)) abort();
    h->task_load(d), h->waker_load(d), h->sync(d), h->recent_cpu(d), h->wake_wide(d), h->wake_affine(d);
    return rewake_test(h->allowed(d), prev) ? prev : REWAKE_UNDECIDED;
"""


def test_no_argument_can_hurt_the_host(small: Recording, tmp_path: Path) -> None:
    _, policies = replay(small, tmp_path, [made.shell(tmp_path, NONSENSE)])
    assert policies[0]["problems"] == [] and policies[0]["decided"] > 600


def test_the_host_gives_what_the_parts_of_linux_61_give(small: Recording, tmp_path: Path) -> None:
    """The same decisions from the parts: wake_wide, wake_affine, select-idle-sibling."""
    body = """
    const struct rewake_wakeup *w = h->wakeup(d);
    if (h->run(d, REWAKE_ADMISSION) == 0) {
        int pull, target = prev;
        h->run(d, REWAKE_GATE);
        pull = !h->wake_wide(d) && rewake_test(h->allowed(d), w->waker_cpu);
        if (pull != h->want_affine(d)) abort();
        if (pull && h->wake_affine(d) >= 0) target = h->wake_affine(d);
        rewake_select_idle_sibling(h, d, target);
    }
    h->run(d, REWAKE_CHECK);
    return h->chosen(d);
    """
    plugin = made.shell(tmp_path, body)
    ledgers, policies = replay(small, tmp_path, [plugin, "linux-6.1"])
    assert policies[0]["problems"] == []
    wakes = [i for i, cpu in enumerate(ledgers[plugin]["cpu"]) if cpu is not None]  # it leaves out forks and execs
    assert len(wakes) > 600
    for column in ("cpu", "branch", "cpus_scanned"):
        mine, builtin = (ledgers[n][column] for n in (plugin, "linux-6.1"))
        assert [mine[i] for i in wakes] == [builtin[i] for i in wakes]


def test_idle_entries_and_forks_reach_the_plugin(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Counted in the plugin, which prints them at its end, against what the events say."""
    recording = import_trace(FIXTURES / "demo-split-llc-schbench" / "trace.dat", None)
    con = recording.connect(("switch", "fork"))
    idle = con.execute("SELECT count(*) FROM switch WHERE next_task < 16").fetchall()[0][0]
    forks = con.execute("SELECT count(*) FROM fork").fetchall()[0][0]
    con.close()
    parts = {
        "GLOBAL": """static int idle, whole, forks;
            static void on_idle(void *s, int32_t c, int w) { (void)s; (void)c; ++idle; whole += w; }
            static void on_fork(void *s, uint32_t p, uint32_t c, int32_t cpu) { (void)s; (void)cpu; forks += p != c; }
            static void end(void *s) { (void)s; printf("%d %d %d\\n", idle, whole, forks); fflush(stdout); }""",
        "IDLE": "on_idle", "FORK": "on_fork", "DESTROY": "end",
    }  # fmt: skip
    capfd.readouterr()
    _, policies = replay(recording, tmp_path, [made.shell(tmp_path, **parts)])
    out, err = capfd.readouterr()
    assert out == "" and policies[0]["problems"] == []
    seen, whole, forked = map(int, err.split())
    assert idle <= seen <= idle + 16 and 0 < whole <= seen  # and those idle at the start
    assert forked == forks


def test_scaffold(tmp_path: Path) -> None:
    source, header = plugins.scaffold("mine", tmp_path / "new")
    assert header.read_text() == plugins.HEADER.read_text()
    made.compile_c(source, "-O2", "-Wconversion", "-Wno-sign-conversion", *made.WARNINGS)
    with pytest.raises(PluginError, match=r"mine\.c: File exists"):
        plugins.scaffold("mine", tmp_path / "new")
    assert plugins.scaffold("other", tmp_path / "new")[0].name == "other.c"
    header.write_text("changed")
    with pytest.raises(PluginError, match=r"rewake_policy\.h: File exists"):
        plugins.scaffold("third", tmp_path / "new")
    for name in ("", "../x", "A", "a b", "x" * 65):
        with pytest.raises(UsageError, match="small letters"):
            plugins.scaffold(name, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RewakeError):
        plugins.scaffold("mine", tmp_path / "file")


@pytest.mark.parametrize("compiler", [["cc", "-std=c99", "-Wstrict-prototypes"], ["c++", "-x", "c++", "-std=c++11"]])
def test_header_compiles(compiler: list[str], tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text('#include "rewake_policy.h"\n#include "rewake_policy.h"\nint main(void) { return 0; }\n')
    command = [*compiler, "-Wall", "-Wextra", "-pedantic", "-Werror", "-I", plugins.HEADER.parent, "-c", source]
    subprocess.run([*command, "-o", tmp_path / "user.o"], check=True)
