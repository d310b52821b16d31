# SPDX-License-Identifier: GPL-2.0-or-later
"""What the script of `rewake record --emit-script` leaves, made here."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import tracedat

DEMO = Path(__file__).parents[1] / "fixtures" / "demo-split-llc-schbench" / "trace.dat"


def capture(path: Path) -> None:
    """A tar as the script of --emit-script leaves it, of raw pages."""
    m = tracedat.Machine(3)
    members = {"capture": b"tool=raw\nmode=raw\nbyte_order=little\n", "uname": b"Linux box 6.1.0 x86_64\n",
               "formats/header_page": m.header_page(), "formats/header_event": b"# header\n"}  # fmt: skip
    for f in tracedat.FORMATS:
        members[f"formats/{f.system}/{f.name}/format"] = f.text(8).encode()
    for cpu, data in enumerate(tracedat.pages(tracedat.schedule(4000, 3), tracedat.FORMATS, m)):
        members[f"raw/cpu{cpu}"] = data
    with tarfile.open(DEMO.with_name("topology.tar.gz")) as topology:
        for member in topology:
            if member.isreg() and "/devices/system/" in member.name:
                source = topology.extractfile(member)
                assert source is not None
                members[member.name.removeprefix("./")] = source.read()
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
