"""Changes that are more than memory bears: sorted runs in files of this machine, one bucket a part.

A run is the last change of each key of a portion; a bucket's parts of all runs are merged later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from tideline.folding.arrow.changes import Latest, newest
from tideline.folding.arrow.keys import comparable
from tideline.folding.arrow.rows import Shape

_LOW, _HIGH = "_tideline_low", "_tideline_high"
_PART = 8192
"""Changes that are read at a time."""


@dataclass(frozen=True)
class Run:
    """Changes that are sorted by bucket and key.

    Args:
        ends: Of each bucket the number of the first part behind its own.
        file: Where the parts are; in memory if None.
        kept: Those in memory.
    """

    ends: np.ndarray
    file: Path | None
    kept: Latest | None

    def parts(self, shape: Shape, bucket: int) -> Iterator[Latest]:
        """The changes of a bucket, in the order of their keys."""
        start = int(self.ends[bucket - 1]) if bucket else 0
        end = int(self.ends[bucket])
        if self.kept is not None:
            if end > start:
                yield self.kept.part(start, end)
            return
        with pa.OSFile(str(self.file)) as source:
            opened = pa.ipc.open_file(source)
            for n in range(start, end):
                yield _read(shape, opened.get_batch(n))


def _read(shape: Shape, batch: pa.RecordBatch) -> Latest:
    rows = batch.select(shape.schema.names)
    low, high = (np.asarray(batch.column(name)) for name in (_LOW, _HIGH))
    keys = comparable([rows.column(n) for n in shape.plan.layout.key])
    none = np.full(len(rows), -1)
    return Latest(rows, keys, low, high, rows, np.arange(len(rows)), none, {})


def kept(shape: Shape, rows: pa.RecordBatch, buckets: np.ndarray) -> Run:
    """Changes in memory as a run."""
    latest, of = newest(shape, rows, buckets)
    ends = np.searchsorted(of, np.arange(shape.plan.layout.buckets), "right")
    return Run(ends, None, latest)


def spilled(run: Run, file: Path) -> Run:
    """A run that goes to a file, which is new."""
    latest = run.kept
    assert latest is not None
    columns = [*latest.rows.columns, pa.array(latest.low), pa.array(latest.high)]
    batch = pa.RecordBatch.from_arrays(columns, [*latest.rows.schema.names, _LOW, _HIGH])
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    ends, parts, start = [], 0, 0
    with (
        pa.OSFile(str(file), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=options) as to,
    ):
        for end in run.ends.tolist():
            for at in range(start, end, _PART):
                to.write_batch(batch.slice(at, min(_PART, end - at)))
                parts += 1
            ends.append(parts)
            start = end
    return Run(np.array(ends), file, None)
