# SPDX-License-Identifier: GPL-2.0-or-later
"""Files written whole: what is there already stays what it is."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import numpy as np
import pytest

from rewake.errors import TraceError, UsageError
from rewake.forms import TABLES
from rewake.forms.parquet import connect, copy_out
from rewake.whole import put, whole


def test_a_file_gets_its_name_when_it_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "a"
    put(file, "old")
    with pytest.raises(RuntimeError), whole(file) as out:
        out.write(b"half")
        raise RuntimeError
    assert file.read_text() == "old"
    with whole(file) as out:
        out.write(b"new")
        assert file.read_text() == "old"
    assert file.read_text() == "new" and os.listdir(tmp_path) == ["a"]


def test_a_link_stays_and_leads_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    (tmp_path / "dangling").symlink_to("new")
    put(tmp_path / "link", "text")
    put(tmp_path / "dangling", "text")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "old").read_text() == (tmp_path / "new").read_text() == "text"


def test_a_fifo_is_written_to(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    put(fifo, "text")
    assert os.read(reader, 9) == b"text" and stat.S_ISFIFO(fifo.stat().st_mode)
    os.close(reader)
    put(Path("/dev/null"), "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": "rewake-run"}')
    for path, message in (
        (tmp_path, "a directory"),
        (tmp_path / "none" / "a", "no such directory"),
        (tmp_path / "manifest.json", "belongs to a run"),
    ):
        with pytest.raises(UsageError, match=message):
            put(path, "text")
    put(tmp_path / "report.html", "beside the tables of a run")


def test_a_full_disk_is_told_in_words_with_the_file(tmp_path: Path) -> None:
    """A limit on the length of files stands for it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    column = {"id": np.arange(99), "name": np.array([f"name {n}" for n in range(99)], object)}
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        with pytest.raises(TraceError, match=r"comm.parquet: cannot be written: File too large$"):
            copy_out(connect(), TABLES["comm"], column, tmp_path / "comm.parquet")
        with pytest.raises(OSError, match=r"\[Errno 27\] File too large: '.*page.html'"):
            put(tmp_path / "page.html", "x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.glob(".*"))
