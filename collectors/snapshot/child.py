# SPDX-License-Identifier: GPL-2.0-or-later
"""Child process that lets hwloc parse foreign input under limits: `child.py EXTENSION KIND [FILE]`, JSON on stdout.

Run by path, isolated and without the package around it, so that it starts fast and imports nothing it does not need.
KIND is `fsroot` (HWLOC_FSROOT names the directory), `xml` or `synthetic` (FILE holds the text).
"""

from __future__ import annotations

import importlib.util
import json
import re
import resource
import sys

MEMORY_BYTES = 2 << 30
CPU_SECONDS = 20
OUTPUT_BYTES = 64 << 20
OPEN_FILES = 64
MOST_NUMBERS = 1 << 20
"""Far above those of any machine. hwloc has sets of all numbers up to the highest, one for each object."""


def main(extension: str, kind: str, file: str = "") -> int:
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))
    text = ""
    if file:
        with open(file, encoding="utf-8", errors="replace") as f:
            text = f.read(OUTPUT_BYTES)
    if kind == "xml":
        # hwloc 3 writes what hwloc 2 reads, under a number that hwloc 2 refuses; objects and CPU sets are the same.
        text = re.sub(r'(<topology\s+version=")3\.\d+"', r'\g<1>2.0"', text, count=1)
        if (number := highest_index(text)) >= MOST_NUMBERS:
            print(f"a CPU or NUMA node with the number {number}: the file is damaged", file=sys.stderr)
            return 1
    spec = importlib.util.spec_from_file_location("_hwloc", extension)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        result = module.read_topology(kind, text)
    except RuntimeError as e:
        print(e, file=sys.stderr)
        return 1
    result["xml"] = result["xml"].decode("utf-8", "replace")
    json.dump(result, sys.stdout)
    return 0


def highest_index(xml: str) -> int:
    """The highest number of a CPU or NUMA node; -1 without any."""
    objects = re.findall(r"<object\s[^<>]*\btype=[\"'](?:PU|NUMANode)[\"'][^<>]*", xml)
    found = (re.search(r"\bos_index=[\"'](\d{1,20})\b", tag) for tag in objects)
    return max((int(m[1]) for m in found if m is not None), default=-1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
