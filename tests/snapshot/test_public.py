# SPDX-License-Identifier: GPL-2.0-or-later
"""Every published topology imports, or is refused with the right reason. Skipped where the files are absent.

The table has what is expected of each file: CPUs online, cores, LLCs, nodes and packages. Cores, nodes, packages and
L3 caches are also counted by a witness: lstopo's output beside an hwloc archive, the objects of an XML, the files of
sysfs in a dump for lscpu.
"""

from __future__ import annotations

import re
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from rewake.analysis import topology
from rewake.collectors import snapshot
from rewake.collectors.snapshot.cpulist import parse_list, parse_mask
from rewake.errors import TraceError

PUBLIC = Path(__file__).parents[2].parent / "shared" / "public" / "topologies"
Counts = tuple[int, int | None, int, int | None, int | None]

EXPECTED: dict[str, Counts | str] = {
    "hwloc-linux/128arm-2pa2n8cluster4co.tar.bz2": (128, 128, 4, 4, 2),
    "hwloc-linux/16amd64-4n4c-cgroup-distance-merge.tar.bz2": (16, 16, 4, 4, 4),
    "hwloc-linux/16amd64-8n2c-cpusets-xml.xml": (10, 10, 10, 3, 6),
    "hwloc-linux/16amd64-8n2c-cpusets.tar.bz2": (15, 15, 15, 8, 8),
    "hwloc-linux/16em64t-4s2c2t-offlines-xml.xml": (12, 7, 4, 1, 4),
    "hwloc-linux/16em64t-4s2c2t-offlines.tar.bz2": (12, 7, 4, 1, 4),
    "hwloc-linux/16em64t-4s2c2t-xml.xml": (16, 8, 4, 1, 4),
    "hwloc-linux/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2": (20, 14, 1, 1, 1),
    "hwloc-linux/256ia64-64n2s2c.tar.bz2": (256, 256, 128, 64, 128),
    "hwloc-linux/2arm-2c.tar.bz2": (2, 2, 1, 1, 1),
    "hwloc-linux/2i386-2t-hugepagesizecount.tar.bz2": (2, 1, 1, 1, 1),
    "hwloc-linux/2i386-2t-hugepagesizecount.xml": (2, 1, 1, 1, 1),
    "hwloc-linux/2ps3-2t.tar.bz2": (2, 1, 1, 1, None),
    "hwloc-linux/32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2": (16, 16, 2, 2, 2),
    "hwloc-linux/32em64t-2n8c+dax+nvme+mic+dimms.xml": (16, 16, 2, 2, 2),
    "hwloc-linux/40intel64-2g2n4c+pcilocality.tar.bz2": (40, 40, 4, 4, 4),
    "hwloc-linux/40intel64-2g2n4c+pcilocality.xml": (40, 40, 4, 4, 4),
    "hwloc-linux/48amd64-4pa2n6c-sparse.tar.bz2": (48, 48, 8, 8, 4),
    "hwloc-linux/64amd64-4s2n4ca2co.tar.bz2": (64, 64, 8, 8, 4),
    "hwloc-linux/8em64t-2s2ca2c-buggynuma.tar.bz2": (8, 8, 4, 1, 2),
    "hwloc-linux/8em64t-2s2ca2c.tar.bz2": (8, 8, 4, 1, 2),
    "hwloc-linux/8em64t-2s4c-asymcaches.tar.bz2": (8, 8, 4, 1, 2),
    "hwloc-linux/8ia64-2s2c2t.tar.bz2": (8, 4, 4, 1, 2),
    "hwloc-linux/fakeheterocpunuma.tar.bz2": (24, 12, 2, 3, 2),
    "hwloc-linux/fakeheterocpunuma.xml": (24, 12, 2, 5, 2),
    "hwloc-linux/fakememinitiators-1np2c+1npp+gi.tar.bz2": (8, 8, 2, 4, 2),
    "hwloc-linux/memorysidecaches.tar.bz2": (80, 40, 2, 4, 2),
    "hwloc-linux/nvidia-dgx-gb10-nomidr.xml": (20, 20, 2, 1, 1),
    "hwloc-linux/test1.fsroot.tar.bz2": 'no sys/devices/system/cpu in it; it must hold copies of /sys and /proc',
    "hwloc-linux/test1.xml": (10, 7, 7, 2, None),
    "hwloc-xml/16-2gr2gr2n2c+misc.xml": (16, 16, 16, 8, None),
    "hwloc-xml/16amd64-8n2c-cpusets.xml": (10, 10, 10, 3, 6),
    "hwloc-xml/16em64t-4s2c2t-offlines.xml": (7, 6, 4, 1, 4),
    "hwloc-xml/192em64t-12gr2n8c2t.xml": (384, 192, 24, 24, 24),
    "hwloc-xml/24em64t-2n6c2t-pci.xml": (24, 12, 2, 2, 2),
    "hwloc-xml/32em64t-2n8c2t-pci-normalio.xml": (32, 16, 2, 2, 2),
    "hwloc-xml/64intel64-heteromem.xml": (64, 16, 4, 4, 1),
    "hwloc-xml/96em64t-4n4d3ca2co-pci.xml": (96, 96, 16, 4, 16),
    "hwloc-xml/cxlmem+dax.v3.xml": (4, 4, 1, 1, 1),
    "hwloc-xml/fakeheterodistances.xml": (8, 8, 8, 8, 4),
    "hwloc-xml/memorysidecaches.xml": (80, 40, 2, 4, 2),
    "hwloc-xml/power8gpudistances.xml": (16, 8, 8, 2, 2),
    "hwloc-xml-v2/16-2gr2gr2n2c+misc.xml": (16, 16, 16, 8, None),
    "hwloc-xml-v2/16amd64-4distances.v1tov2.xml": (16, 16, 16, 8, 8),
    "hwloc-xml-v2/16em64t-4s2c2t-offlines.xml": (7, 6, 4, 1, 4),
    "hwloc-xml-v2/16em64t-4s2c2t.xml": (16, 8, 4, 1, 4),
    "hwloc-xml-v2/16intel64-manyVFs.xml": (16, 16, 2, 2, 2),
    "hwloc-xml-v2/192em64t-24n8c2t.xml": (384, 192, 24, 24, 24),
    "hwloc-xml-v2/28intel64-2p2g7c-CoD.nogroups.v1tov2.xml": (28, 28, 2, 2, 2),
    "hwloc-xml-v2/2intel64-1n2c-numaroot.v1tov2.xml": (2, 2, 2, 1, 2),
    "hwloc-xml-v2/32em64t-2n8c2t-pci-normalio.xml": (32, 16, 2, 2, 2),
    "hwloc-xml-v2/64intel64-3g2n+2n-irregulargroups+pci.xml": (64, 64, 8, 8, 8),
    "hwloc-xml-v2/64intel64-fakeKNL-SNC4-hybrid.v1tov2.xml": (64, 16, 4, 4, 1),
    "hwloc-xml-v2/8ia64-2n2s2c+1n.v1tov2.xml": (8, 8, 4, 2, 4),
    "hwloc-xml-v2/8intel64-fakeKNL-A2A-hybrid.rootattachednumas.v1tov2.xml": (8, 4, 2, 1, None),
    "hwloc-xml-v2/8intel64-fakeKNL-A2A-hybrid.rootattachednumas.xml": (8, 4, 2, 1, None),
    "hwloc-xml-v2/96em64t-4n4d3ca2co-pci.xml": (96, 96, 16, 4, 16),
    "hwloc-xml-v2/cxlmem+dax.v3tov2.xml": (4, 4, 1, 1, 1),
    "hwloc-xml-v2/fakeheterodistances.xml": (8, 8, 8, 8, 4),
    "hwloc-xml-v2/nvidiaDGX2.xml": (4, 4, 2, 2, 2),
    "lscpu-dumps/arm-A510-A710-A715-X3.tar.gz": (8, 8, 1, 1, 3),
    "lscpu-dumps/loongarch-kvm_on_loongson_3c6000.tar.gz": (32, 32, 1, 1, 32),
    "lscpu-dumps/ppc-qemu.tar.gz": (1, 1, 1, 1, 1),
    "lscpu-dumps/ppc64-POWER7-64cpu.tar.gz": (64, 16, 16, 1, 16),
    "lscpu-dumps/rv64-milkvpioneer.tar.gz": (64, 64, 1, 4, 1),
    "lscpu-dumps/s390-kvm.tar.gz": (3, 3, 3, 1, 3),
    "lscpu-dumps/s390-lpar-drawer.tar.gz": (8, 8, 8, 1, 2),
    "lscpu-dumps/s390-zvm.tar.gz": (4, 4, 4, 1, 4),
    "lscpu-dumps/vbox-win.tar.gz": (2, 2, 1, 1, 1),
    "lscpu-dumps/x86_64-64cpu-linux6.2.tar.gz": (8, 4, 1, 1, 1),
    "lscpu-dumps/x86_64-64cpu.tar.gz": (64, 32, 4, 3, 4),
    "lscpu-dumps/x86_64-dell_e4310.tar.gz": (4, 2, 1, 1, 1),
}  # fmt: skip
OTHERWISE_SHOWN = {
    # lstopo leaves out what a cgroup kept from the one who took the snapshot; a trace has all CPUs.
    "16amd64-4n4c-cgroup-distance-merge.tar.bz2", "16amd64-8n2c-cpusets.tar.bz2",
    # Two nodes have the same CPUs: the lower one is theirs.
    "fakememinitiators-1np2c+1npp+gi.tar.bz2",
}  # fmt: skip
FILES = sorted(p for p in PUBLIC.glob("*/*") if p.name.endswith((".xml", ".tar.gz", ".tar.bz2")))


def counts(path: Path | str) -> Counts:
    s = snapshot.load(path)
    d = topology.document(topology.cpus_of(s.cpu, s.cpu_state))
    return d["online"], d["cores"], d["llcs"], d["nodes"], d["packages"]


def test_the_table_has_every_file() -> None:
    if not FILES:
        pytest.skip("no published topologies here")
    assert {str(p.relative_to(PUBLIC)) for p in FILES} == set(EXPECTED)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_published(path: Path) -> None:
    expected = EXPECTED[str(path.relative_to(PUBLIC))]
    if isinstance(expected, str):
        with pytest.raises(TraceError, match=expected):
            counts(path)
        return
    assert counts(path) == expected
    for got, said in zip(expected, WITNESSES[path.parent.name](path), strict=True):
        assert said is None or (got or 0) == said


def by_lstopo(path: Path) -> list[int | None]:
    """`depth 6: 12 PU (type #4)` and its like, from the expected output beside the archive."""
    if path.suffix == ".xml":
        return by_xml(path)
    console = path.with_name(path.name.replace(".tar.bz2", ".console"))
    if not console.exists() or path.name in OTHERWISE_SHOWN:
        return [None] * 5
    found = {kind: int(n) for n, kind in re.findall(r"epth -?\d+:\s+(\d+) (\w+) \(type", console.read_text())}
    l3 = found.get("L3Cache")
    return [found["PU"], found.get("Core"), l3, found.get("NUMANode"), found.get("Package")]


def by_xml(path: Path) -> list[int | None]:
    """Objects of an lstopo XML that have CPUs; of nodes that share CPUs (HBM beside DRAM) the lowest counts."""
    objects = [(o.attrib["type"], int(o.attrib.get("os_index", -1)), mask(o.attrib.get("cpuset", "0x0")))
               for o in ElementTree.parse(path).iter("object")]  # fmt: skip

    def n(kind: str) -> int:
        return sum(k == kind and cpus > 0 for k, _, cpus in objects)

    nodes = sorted((number, cpus) for kind, number, cpus in objects if kind == "NUMANode")
    lowest = {next((k for k, cpus in nodes if cpus & pu), None) for kind, _, pu in objects if kind == "PU"}
    return [n("PU"), n("Core") or None, n("L3Cache") or None, len(lowest - {None}), n("Package")]


def mask(text: str) -> int:
    """hwloc's masks: words of 32 bits, or 64 where they are that long, highest first; an empty one is zero."""
    words = text.replace("0x", "").split(",")
    width = 64 if any(len(w) > 8 for w in words) else 32
    return sum(int(w or "0", 16) << width * i for i, w in enumerate(reversed(words)))


def by_sysfs(path: Path) -> list[int | None]:
    """Distinct (package, core) and last-level maps of the online CPUs, straight from the members of the archive."""
    files: dict[str, str] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isreg() and (at := member.name.find("sys/devices/system/")) >= 0:
                source = tar.extractfile(member)
                assert source is not None
                files[member.name[at + 19 :]] = source.read(1 << 16).decode("utf-8", "replace").strip()
    online = sorted(parse_list(files["cpu/online"]))

    def distinct(name: str) -> int | None:
        maps = {files.get(f"cpu/cpu{c}/topology/{name}") for c in online}
        return None if None in maps else len(maps)

    last: set[Any] = set()
    for c in online:
        caches = [i for i in range(8) if files.get(f"cpu/cpu{c}/cache/index{i}/type") in ("Unified", "Data")]
        level = max(caches, key=lambda i: files[f"cpu/cpu{c}/cache/index{i}/level"], default=None)
        shared = files.get(f"cpu/cpu{c}/cache/index{level}/shared_cpu_map")
        last.add(parse_mask(shared) if shared and len(parse_mask(shared)) > 1 else None)
    nodes = {k: parse_mask(v) for k, v in files.items() if re.fullmatch(r"node/node\d+/cpumap", k)}
    return [
        len(online), distinct("thread_siblings"), None if None in last else len(last),
        sum(bool(v) for v in nodes.values()) or None, None,
    ]  # fmt: skip


WITNESSES = {"hwloc-linux": by_lstopo, "hwloc-xml": by_xml, "hwloc-xml-v2": by_xml, "lscpu-dumps": by_sysfs}
