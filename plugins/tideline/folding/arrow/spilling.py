"""What is more than memory bears: sorted runs in files of this machine, which are merged later.

A run of changes has the last ones of each key of a portion, bucket after bucket. A run of rows is a
portion of a bucket's rows, which others have written in another order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tideline.folding.arrow.changes import Latest, newest, only
from tideline.folding.arrow.keys import comparable
from tideline.folding.arrow.row_shape import RowShape, in_groups

PORTION, _PORTION_BYTES = 400_000, 256 * 1024 * 1024
"""So many rows are sorted in memory; of more, sorted runs are spilled."""
_LOW, _HIGH = "_tideline_low", "_tideline_high"
_PART, _PART_BYTES = 8192, 1024 * 1024
"""Changes that are read at a time, of each run; and about how large they may be."""


@dataclass(frozen=True)
class SortedRun:
    """Changes that are sorted by bucket and key.

    Args:
        ends: Of each bucket the number of the first part behind its own.
        file: Where the parts are; in memory if None.
        kept: Those in memory.
    """

    ends: np.ndarray
    file: Path | None
    kept: Latest | None

    def parts(self, shape: RowShape, bucket: int) -> Iterator[Latest]:
        """The changes of a bucket, in the order of their keys."""
        start = int(self.ends[bucket - 1]) if bucket else 0
        end = int(self.ends[bucket])
        if self.kept is not None:
            if end > start:
                yield self.kept.part(start, end)
            return
        for n in range(start, end):
            yield _read(shape, _batch(self.file, n))


def _batch(file: Path | None, number: int) -> pa.RecordBatch:
    """A part of a file, which is open no longer: there may be more runs than open files."""
    with pa.OSFile(str(file)) as source:
        return pa.ipc.open_file(source).get_batch(number)


def _part_rows(rows: pa.RecordBatch) -> int:
    """How many rows a part has: of each run one is in memory."""
    return max(1, min(_PART, _PART_BYTES * len(rows) // max(1, int(rows.nbytes))))


def _read(shape: RowShape, batch: pa.RecordBatch) -> Latest:
    rows = batch.select(shape.schema.names)
    low, high = (np.asarray(batch.column(name)) for name in (_LOW, _HIGH))
    if shape.plan.has_unavailable:
        return newest(shape, rows, np.zeros(len(rows), np.int64), (low, high))[0]
    return only(rows, comparable([rows.column(n) for n in shape.plan.layout.key]), low, high)


def kept(shape: RowShape, rows: pa.RecordBatch, buckets: np.ndarray) -> SortedRun:
    """Changes in memory as a run."""
    latest, of = newest(shape, rows, buckets)
    ends = np.searchsorted(of, np.arange(shape.plan.layout.buckets), "right")
    return SortedRun(ends, None, latest)


def spilled(run: SortedRun, file: Path) -> SortedRun:
    """A run that goes to a file, which is new; the changes of a key are in one part."""
    latest = run.kept
    assert latest is not None
    which = latest.telling
    of = latest.of[which]
    rows = latest.every.take(pa.array(which))
    columns = [*rows.columns, pa.array(latest.low[of]), pa.array(latest.high[of])]
    batch = pa.RecordBatch.from_arrays(columns, [*rows.schema.names, _LOW, _HIGH])
    firsts = np.searchsorted(of, np.arange(len(latest) + 1))  # of each key, and the end
    ends, parts, at, size = [], 0, 0, _part_rows(batch)
    with new_file(file, batch.schema) as to:
        for end in firsts[run.ends].tolist():
            while at < end:
                behind = min(end, int(firsts[np.searchsorted(firsts, min(at + size, end))]))
                to.write_batch(batch.slice(at, behind - at))
                parts, at = parts + 1, behind
            ends.append(parts)
    return SortedRun(np.array(ends), file, None)


@contextmanager
def new_file(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatchFileWriter]:
    """A new file to write batches to."""
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with (
        pa.OSFile(str(file), "wb") as sink,
        pa.ipc.new_file(sink, schema, options=options) as to,
    ):
        yield to


def sorted_runs(
    shape: RowShape, batches: Iterable[pa.RecordBatch], folder: Path
) -> list[Iterator[pa.RecordBatch]]:
    """Rows in runs that are sorted by key.

    Args:
        batches: Rows in any order.
        folder: Takes the files.
    """
    return [_rows_in(file) for file in [*_sorted_files(shape, batches, folder)]]


def _sorted_files(
    shape: RowShape, batches: Iterable[pa.RecordBatch], folder: Path
) -> Iterator[Path]:
    for held in portions(batches):
        rows = pa.concat_batches(held)
        keys = comparable([rows.column(n) for n in shape.plan.layout.key])
        rows = rows.take(pa.array(np.argsort(keys, kind="stable")))
        file = folder / f"{uuid.uuid4().hex}.arrow"
        with new_file(file, rows.schema) as to:
            size = _part_rows(rows)
            for at in range(0, len(rows), size):
                to.write_batch(rows.slice(at, size))
        yield file


def _rows_in(file: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(file)) as source:
        count = pa.ipc.open_file(source).num_record_batches
    for n in range(count):
        yield _batch(file, n)


def portions(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches, as many at a time as memory bears; none where there are none."""
    return in_groups(batches, PORTION, _PORTION_BYTES)
