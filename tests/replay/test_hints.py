# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules files: what they may say, which task has which hint when, and what replay makes of it."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from command import told
from hypothesis import given, settings
from hypothesis import strategies as st

from rewake.errors import UsageError
from rewake.forms import ENUMS, Recording
from rewake.replay.hints import HINTS, Rule, Rules, TaskHints, load

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
FORKS = FIXTURES / "64cpu-8llc-hackbench" / "trace.dat"
CGROUPS = FIXTURES / "cgroup-throttle-split-llc" / "trace.dat"
MOVED = ENUMS["decision_class"].index("moved")
ORIGIN = 1_000_000_000


pytestmark = pytest.mark.usefixtures("own_cache")


def rules(*given: Rule) -> Rules:
    return Rules("rules.toml", "0", given)


def recording(
    tasks: list[tuple[int, int | None]],
    attributes: list[tuple[int, int | None, str | None, str | None]],
    forks: list[tuple[int, int, int]],
    seconds: int = 10,
) -> Recording:
    """Tasks as (tid, tgid), numbered; attributes as (task, from, comm, cgroup); forks as (ts, parent, child)."""

    def column(values: list[Any], kind: Any) -> Any:
        null = np.array([v is None for v in values], np.bool_)
        return np.array([0 if v is None else v for v in values], kind), null

    names = sorted({a[2] for a in attributes if a[2] is not None})
    paths = sorted({a[3] for a in attributes if a[3] is not None})
    tables: dict[str, dict[str, Any]] = {
        "comm": {"id": np.arange(len(names)), "name": np.array(names, object)},
        "cgroup": {"cgroup_id": np.arange(len(paths)), "path": np.array(paths, object)},
        "task": {
            "task_id": np.arange(len(tasks)), "tid": np.array([t[0] for t in tasks], np.uint32),
            "tgid": column([t[1] for t in tasks], np.uint32),
        },
        "task_attr": {
            "task_id": np.array([a[0] for a in attributes], np.uint32),
            "from_ns": column([a[1] for a in attributes], np.int64),
            "comm": column([None if a[2] is None else names.index(a[2]) for a in attributes], np.uint32),
            "cgroup": column([None if a[3] is None else paths.index(a[3]) for a in attributes], np.uint32),
        },
        "fork": {
            name: np.array([f[i] for f in sorted(forks)], np.int64) for i, name in enumerate(("ts_ns", "task", "child"))
        },
    }  # fmt: skip

    class Fake:
        n_parts = 1

        def __init__(self) -> None:
            self.manifest = {"first_ns": ORIGIN, "last_ns": ORIGIN + seconds * 10**9}

        def read(self, table: str, columns: tuple[str, ...]) -> dict[str, Any]:
            return {name: tables[table][name] for name in columns}

        def read_part(self, table: str, index: int, columns: tuple[str, ...]) -> dict[str, Any]:
            return self.read(table, columns)

    return cast(Recording, Fake())


def hints(found: TaskHints, *at: tuple[int, float]) -> list[int]:
    """Hints of (task, seconds from the start)."""
    columns: Any = {
        "task": np.array([t for t, _ in at], np.uint32),
        "ts_ns": np.array([ORIGIN + round(s * 1e9) for _, s in at], np.int64),
        "class": np.full(len(at), MOVED, np.uint8),
    }
    values: list[int] = found.of(columns).tolist()
    return values


FORK_AFFINE, FORK_SPREAD, WAKE_AFFINE, WAKE_HOLD = 1, 2, 4, 8
WEB, JOB = ("nginx", "/service/web"), ("make", "/batch")


def test_all_that_a_rule_names_must_match_and_the_first_rule_wins() -> None:
    machine = recording(
        [(10, 10), (11, 10), (20, 20), (30, None)],
        [(0, None, *WEB), (1, None, "nginx: log", "/service/web"), (2, None, *JOB), (3, None, None, None)],
        [],
    )

    def having(*given: Rule) -> list[int]:
        return hints(TaskHints(machine, rules(*given)), (0, 1), (1, 1), (2, 1), (3, 1))

    hold = ("WAKE_HOLD",)
    assert having(Rule(hold, comm=("nginx",))) == [8, 0, 0, 0]
    assert having(Rule(hold, comm=("nginx*",))) == [8, 8, 0, 0]
    assert having(Rule(hold, comm=("make", "nginx"))) == [8, 0, 8, 0]
    assert having(Rule(hold, cgroup=("/service/*",))) == [8, 8, 0, 0]
    assert having(Rule(hold, cgroup=("/*",))) == [8, 8, 8, 0], "of unknown cgroup: no path matches"
    assert having(Rule(hold, tgid=(10,))) == [8, 8, 0, 0]
    assert having(Rule(hold, tid=(11, 30))) == [0, 8, 0, 8]
    assert having(Rule(hold, tgid=(10,), comm=("nginx",))) == [8, 0, 0, 0]
    assert having(Rule(("WAKE_AFFINE", "FORK_SPREAD"), tid=(11,)), Rule(hold, tgid=(10,))) == [8, 6, 0, 0]
    assert having(Rule((), tid=(11,)), Rule(hold, tgid=(10,))) == [8, 0, 0, 0], "an empty list exempts"


def test_windows_and_changes_of_name() -> None:
    machine = recording([(10, 10)], [(0, None, "sh", "/a"), (0, ORIGIN + 4 * 10**9, "make", None)], [])
    found = TaskHints(
        machine,
        rules(
            Rule(("WAKE_HOLD",), tid=(10,), from_ns=10**9, to_ns=2 * 10**9),
            Rule(("WAKE_AFFINE",), comm=("make",), cgroup=("/a",), to_ns=6 * 10**9),
        ),
    )
    at = [0.0, 0.999, 1.0, 1.999, 2.0, 3.999, 4.0, 5.999, 6.0]
    assert hints(found, *((0, s) for s in at)) == [0, 0, 8, 8, 0, 0, 4, 4, 0]
    assert hints(found) == [], "a part without decisions"
    assert found.summary()["rules"] == [
        {"hints": ["WAKE_HOLD"], "tasks": 1, "inherited": 0, "decisions": 2},
        {"hints": ["WAKE_AFFINE"], "tasks": 1, "inherited": 0, "decisions": 2},
    ]


def test_children_have_what_their_parent_had_when_it_forked_them() -> None:
    s = 10**9
    machine = recording(
        [(10, 10), (11, None), (12, None), (13, None), (14, None)],
        [(task, None, "make" if task < 4 else "cc", None) for task in range(5)],
        [(ORIGIN + 1 * s, 0, 1), (ORIGIN + 3 * s, 0, 2), (ORIGIN + 5 * s, 1, 3), (ORIGIN + 5 * s, 1, 4)],
    )
    found = TaskHints(
        machine,
        rules(
            Rule(("WAKE_HOLD",), tid=(10,), from_ns=0, to_ns=2 * s), Rule(("FORK_AFFINE",), comm=("cc",), from_ns=6 * s)
        ),
    )
    assert hints(found, (0, 1.5), (0, 2.5)) == [8, 0]
    assert hints(found, (1, 1.5), (1, 9)) == [8, 8], "for good"
    assert hints(found, (2, 3.5)) == [0], "its parent no longer had it"
    assert hints(found, (3, 5.5)) == [8], "of its grandparent"
    assert hints(found, (4, 5.5), (4, 7)) == [8, 1], "until a rule of its own matches"
    assert found.summary()["rules"] == [
        {"hints": ["WAKE_HOLD"], "tasks": 1, "inherited": 3, "decisions": 5},
        {"hints": ["FORK_AFFINE"], "tasks": 1, "inherited": 0, "decisions": 1},
    ]


def test_a_rule_that_never_applies_counts_no_task() -> None:
    machine = recording([(10, 10)], [(0, None, "sh", None)], [], seconds=5)
    shadowed = rules(
        Rule(("WAKE_HOLD",), comm=("sh",)), Rule(("WAKE_AFFINE",), tid=(10,)), Rule((), tid=(10,), from_ns=6 * 10**9)
    )
    found = TaskHints(machine, shadowed)
    assert hints(found, (0, 1)) == [8]
    assert [r["tasks"] for r in found.summary()["rules"]] == [1, 0, 0]
    late = TaskHints(machine, rules(Rule(("WAKE_HOLD",), tid=(10,), from_ns=6 * 10**9)))
    assert late.summary()["rules"][0]["tasks"] == 0, "the window begins after the recording"


@st.composite
def machines(draw: st.DrawFn) -> tuple[Any, ...]:
    n = draw(st.integers(1, 6))
    comms, times = st.sampled_from(["a", "ab", "b"]), st.integers(0, 9)
    attributes = [(t, None, draw(st.none() | comms), None) for t in range(n)]
    attributes += [(t, ORIGIN + draw(times) * 10**9, draw(comms), None) for t in range(n) if draw(st.booleans())]
    forks: list[tuple[int, int, int]] = []
    born = [ORIGIN]
    for child in range(1, n):
        parent = draw(st.integers(0, child - 1))
        born.append(max(born[parent], ORIGIN + draw(times) * 10**9))
        forks.append((born[child], parent, child))
    bounds = st.none() | times
    given = []
    for _ in range(draw(st.integers(1, 4))):
        low, high = draw(bounds), draw(bounds)
        if low is not None and high is not None and high <= low:
            high = low + 1
        names = draw(st.sets(st.sampled_from(list(HINTS)), max_size=1))
        comm = draw(st.sampled_from([(), ("a",), ("a*",), ("b", "ab")]))
        tid = () if comm else (100 + draw(st.integers(0, n - 1)),)
        ends = [None if x is None else x * 10**9 for x in (low, high)]
        given.append(Rule(tuple(names), comm=comm, tid=tid, from_ns=ends[0], to_ns=ends[1]))
    return n, attributes, forks, rules(*given)


@settings(max_examples=150)
@given(machines())
def test_hints_over_time_against_the_definition(machine: tuple[Any, ...]) -> None:
    n, attributes, forks, given = machine

    def own(task: int, ts: int) -> int | None:
        comm = None
        for t, since, name, _ in attributes:
            if t == task and (since is None or since <= ts) and name is not None:
                comm = name
        for rule in given.rules:
            named = (not rule.tid or 100 + task in rule.tid) and (
                not rule.comm or (comm is not None and any(fnmatchcase(comm, p) for p in rule.comm))
            )
            after = rule.from_ns is None or ts >= ORIGIN + rule.from_ns
            if named and after and (rule.to_ns is None or ts < ORIGIN + rule.to_ns):
                return rule.mask
        return None

    def expected(task: int, ts: int) -> int:
        mask = own(task, ts)
        if mask is not None:
            return mask
        born = next(((parent, at) for at, parent, child in forks if child == task), None)
        return 0 if born is None else expected(*born)

    found = TaskHints(recording([(100 + t, None) for t in range(n)], attributes, forks), given)
    at = [(task, half / 2) for half in range(20) for task in range(n)]
    assert hints(found, *at) == [expected(task, ORIGIN + round(s * 1e9)) for task, s in at]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"\[\[rule\]\] tables expected"),
        ("rule = 3", r"\[\[rule\]\] tables expected"),
        ("rule = []", r"\[\[rule\]\] tables expected"),
        ("rule = [3]", "rule 1: a table"),
        ("version = 1\n[[rule]]\ntid=1\nhints=[]", r"\[\[rule\]\] tables expected"),
        ("[[rule]\n", "not TOML: "),
        ("\x00", "not TOML: "),
        (f"a = {'9' * 5000}\n", "not TOML: "),
        ('[[rule]]\ntid = 1\nhints = []\n[[rule]]\ncom = "x"', "rule 2: unknown key 'com'; allowed are comm, cgroup"),
        ("[[rule]]\nhints = []", "rule 1: names no task; at least one of comm, cgroup, tgid, tid"),
        ("[[rule]]\nfrom = 1\nhints = []", "names no task"),
        (
            "[[rule]]\ntid = 1",
            "rule 1: no hints: a list of FORK_AFFINE, FORK_SPREAD, WAKE_AFFINE, WAKE_HOLD, WAKE_WIDE",
        ),
        ('[[rule]]\ntid = 1\nhints = "WAKE_HOLD"', "a list of"),
        ('[[rule]]\ntid = 1\nhints = ["WAKE_UP"]', "a list of"),
        ("[[rule]]\ntid = 1\nhints = [8]", "a list of"),
        ('[[rule]]\ntid = 1\nhints = ["WAKE_HOLD", "WAKE_AFFINE"]', "WAKE_AFFINE and WAKE_HOLD exclude each other"),
        ('[[rule]]\ntid = 1\nhints = ["FORK_SPREAD", "FORK_AFFINE"]', "FORK_AFFINE and FORK_SPREAD exclude"),
        ('[[rule]]\ntid = "1"\nhints = []', "tid='1': a whole number expected, or a list"),
        ("[[rule]]\ntid = true\nhints = []", "tid=True: a whole number"),
        ("[[rule]]\ntid = -1\nhints = []", "tid=-1: a whole number"),
        ("[[rule]]\ntgid = []\nhints = []", "tgid="),
        ("[[rule]]\ncomm = 3\nhints = []", "comm=3: a text"),
        ('[[rule]]\ncomm = ""\nhints = []', "comm='': a text"),
        ('[[rule]]\ncgroup = ["/a", 1]\nhints = []', "cgroup="),
        ('[[rule]]\ntid = 1\nfrom = "1s"\nhints = []', "from='1s': seconds since the start"),
        ("[[rule]]\ntid = 1\nfrom = -1\nhints = []", "from=-1: seconds"),
        ("[[rule]]\ntid = 1\nto = nan\nhints = []", "to=nan: seconds"),
        ("[[rule]]\ntid = 1\nto = inf\nhints = []", "to=inf: seconds"),
        ("[[rule]]\ntid = 1\nto = true\nhints = []", "to=True: seconds"),
        ("[[rule]]\ntid = 1\nto = 0\nhints = []", "to=0 is not after from=0"),
        ("[[rule]]\ntid = 1\nfrom = 2\nto = 2\nhints = []", "to=2 is not after from=2"),
        ("a = " + "[" * 5000, ""),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_rule(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"^{re.escape(str(path))}: .*{message}"):
        load(path)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load(tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="directory"):
        load(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not TOML"):
        load(tmp_path / "bytes")


def test_the_content_is_what_the_digest_is_of(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        (tmp_path / "r.toml").write_text(text)
        return load(tmp_path / "r.toml").digest

    one = digest('[[rule]]\ntid = 1\nhints = ["WAKE_HOLD"]')
    assert digest('# why\n[[rule]]\nhints = ["WAKE_HOLD"]\ntid = [1]\n') == one
    assert digest('[[rule]]\ntid = 1\nhints = ["WAKE_AFFINE"]') != one
    assert digest('[[rule]]\ntid = 1\nto = 1\nhints = ["WAKE_HOLD"]') != one


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def figures(capsys: pytest.CaptureFixture[str], trace: Path, *more: object) -> dict[str, dict[str, Any]]:
    data = json.loads(told(capsys, "replay", trace, *more, "--format", "json"))
    return {p["policy"]: {k: v for k, v in p.items() if k not in ("policy", "base")} for p in data["policies"]}


def test_the_worked_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```(?:toml)?\n(.*?)```", (ROOT / "docs" / "hints.md").read_text(), re.DOTALL)
    file = write(tmp_path / "rules.toml", blocks[1])
    text = told(capsys, "replay", FORKS, "--policy", "userspace-hints", "--hints", file)
    assert blocks[2].startswith("Hints of rules.toml")
    assert blocks[2] in text
    data = json.loads(told(capsys, "replay", FORKS, "--policy", "userspace-hints", "--hints", file, "--format", "json"))
    assert [r["hints"] for r in data["run"]["hints"]["rules"]][1] == ["FORK_SPREAD", "WAKE_AFFINE"]


def test_a_hint_for_every_task_by_rule_is_the_one_by_parameter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also on a column with three passes, and with rules that split the tasks."""
    policies = ("--policy", "userspace-hints", "--policy", "userspace-hints@linux-5.10")
    file = write(
        tmp_path / "all.toml",
        '[[rule]]\ncgroup = "/service*"\nhints = ["WAKE_AFFINE"]\n[[rule]]\ncomm = "*"\nhints = ["WAKE_AFFINE"]\n',
    )
    by_rule = figures(capsys, CGROUPS, *policies, "--hints", file)
    by_parameter = figures(
        capsys, CGROUPS, *policies, *(f"{p}:hint=4" if p.startswith("user") else p for p in policies)
    )
    for name in policies[1::2]:
        assert by_rule[name] == by_parameter[f"{name}:hint=4"]
        assert by_rule[name] != by_parameter[name], "one run must not be taken for the other"
    exempt = write(tmp_path / "none.toml", '[[rule]]\ncomm = "*"\nhints = []\n')
    without = figures(capsys, CGROUPS, *policies, "--hints", exempt)
    assert all(without[name] == by_parameter[name] for name in policies[1::2])
    assert "Hints of none.toml" in told(capsys, "replay", CGROUPS, *policies, "--hints", exempt)


def test_wake_wide_is_a_proposal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = write(tmp_path / "wide.toml", '[[rule]]\ncomm = "*"\nhints = ["WAKE_WIDE"]\n')
    names = ("--policy", "userspace-hints", "--policy", "userspace-hints@linux-6.1", "--policy", "linux-6.0")
    by_rule = figures(capsys, CGROUPS, *names, "--policy", "userspace-hints:hint=16", "--hints", wide)
    assert [by_rule[n]["label"] for n in names[1::2]] == ["proposal", "proposal", "faithful"]
    assert by_rule["userspace-hints:hint=16"] == by_rule["userspace-hints"]
    assert by_rule["userspace-hints"]["idle_missed_machine"] < by_rule["linux-6.0"]["idle_missed_machine"]
    assert "proposal (follows WAKE_WIDE" in told(
        capsys, "replay", CGROUPS, *names, "--policy", "userspace-hints:hint=16", "--hints", wide
    )


def test_hints_that_nobody_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hold = write(tmp_path / "hold.toml", '[[rule]]\ncomm = "*"\nhints = ["WAKE_HOLD"]\n')
    fork = write(tmp_path / "fork.toml", '[[rule]]\ncomm = "*"\nhints = ["FORK_AFFINE"]\n')
    text = told(capsys, "replay", CGROUPS, "--policy", "linux-6.0", "--hints", hold, code=2)
    assert "hold.toml: none of these policies follows hints: userspace-hints does" in text
    text = told(capsys, "replay", CGROUPS, "--policy", "userspace-hints@linux-5.4", "--hints", fork, code=2)
    assert "fork.toml: userspace-hints@linux-5.4 cannot follow FORK_AFFINE" in text
    told(capsys, "replay", CGROUPS, "--policy", "userspace-hints@linux-5.4", "--hints", hold)
    text = told(capsys, "fidelity", CGROUPS, "--as", "userspace-hints@linux-6.12", "--hints", hold)
    assert "fidelity of userspace-hints@linux-6.12 (by --as)" in text
    assert "none of these policies" in told(capsys, "fidelity", CGROUPS, "--hints", hold, code=2)


def test_the_budget_is_of_the_replay_with_hints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hold = write(tmp_path / "hold.toml", '[[rule]]\ncomm = "*"\nhints = ["WAKE_HOLD"]\n')
    misses = []
    for hints in ([], ["--hints", hold]):
        asked = ("fidelity", CGROUPS, "--as", "userspace-hints@linux-6.12", "--budget", "--format", "json", *hints)
        found = json.loads(told(capsys, *asked))
        misses.append(found["budget"]["misses"])
        assert misses[-1] == round(found["decisions"] * (1 - found["agreement"]))
    assert misses[0] != misses[1]
