# SPDX-License-Identifier: GPL-2.0-or-later
"""Row 2: a trace.dat to Parquet, nothing else: `python decode_parquet.py TRACE OUT.rewake`."""

from __future__ import annotations

import sys

from rewake.collectors._decode import TraceDat
from rewake.forms import BATCH_EVENTS, RecordingWriter

reader = TraceDat(sys.argv[1], BATCH_EVENTS)
with RecordingWriter(sys.argv[2], keep=0) as writer:
    part = 0
    while batch := reader.next_batch():
        for table, columns in batch.items():
            writer.write_part(table, part, columns)
        part += 1
        batch = None  # before the next one is made: never two in memory
    writer.commit()
