# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots and topologies that do not travel with the repository; skipped where they are absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewake.collectors.snapshot import archive, domains, hwloc, load, sessions
from rewake.collectors.snapshot.cpulist import parse_list
from rewake.collectors.snapshot.files import Files
from rewake.errors import TraceError

SHARED = Path(__file__).parents[2].parent / "shared"
BALANCER_ONLY = {"SD_PREFER_SIBLING", "SD_OVERLAP"}
"""Flags that depend on neighbouring levels and on the release; nothing on the wake path reads them."""


def one_per_machine() -> list[Path]:
    """Recordings share machines; one snapshot of each kernel on each machine."""
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(SHARED.glob("traces/*/topology.tar.gz")):
        meta = json.loads(path.with_name("meta.json").read_text())
        found.setdefault((meta["kernel"], meta["topology"]), path)
    return list(found.values())


def comparable(d: domains.Domain) -> tuple[str, frozenset[int], set[str], int | None]:
    return d.name, d.span, set(d.flags) - BALANCER_ONLY, d.imbalance_pct


SNAPSHOTS = one_per_machine()
TARS = sorted(SHARED.glob("public/topologies/hwloc-linux/*.tar.bz2"))
XMLS = sorted(SHARED.glob("public/topologies/hwloc-xml-v2/*.xml"))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda p: p.parent.name)
def test_kernel_and_default_stack_agree(path: Path, tmp_path: Path) -> None:
    """What is derived without the kernel's own report is what the kernel reports."""
    with archive.opened(path) as contents:
        contents.unpack(tmp_path, lambda _: True)
    s = load(tmp_path)
    assert s.kernel is not None and s.hz == 250 and s.threads and s.features
    assert len(s.notes) == sessions.untold(s.threads, s.sysctl), "they are older than what tells of sessions"
    stacks = domains.from_schedstat(Files(tmp_path))
    assert stacks is not None and domains.add_names(Files(tmp_path), stacks)
    capacity = dict(zip(s.cpu["cpu"], s.cpu["capacity"][0], strict=True))
    release = tuple(int(x) for x in s.kernel.split(".")[:2])
    derived = domains.default_stack(hwloc.read_fsroot(tmp_path, path.name), capacity, frozenset(stacks), release)
    for cpu, stack in stacks.items():
        assert [comparable(d) for d in derived[cpu]] == [comparable(d) for d in stack]


@pytest.mark.parametrize("path", TARS + XMLS, ids=lambda p: p.name)
def test_published_topologies(path: Path) -> None:
    """Big, sparse, partly offline or odd machines: a consistent table, or one clear line."""
    try:
        s = load(path)
    except TraceError as e:
        assert "\n" not in str(e)
        assert "v3" in path.name or "hwloc" in str(e) or "no sys" in str(e), str(e)
        return
    cpus = s.cpu["cpu"].tolist()
    assert cpus == sorted(set(cpus)) and cpus
    llc = dict(zip(cpus, s.cpu["llc"][0].tolist(), strict=True))
    assert all(llc[c] <= c and llc[llc[c]] == llc[c] for c in cpus)
    for cpu, span in zip(s.domain["cpu"].tolist(), s.domain["span"].tolist(), strict=True):
        assert cpu in parse_list(span)
