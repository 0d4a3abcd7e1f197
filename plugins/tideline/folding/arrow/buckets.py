"""A bucket's rows and its changes, window by window in the order of keys, become its new file.

A window ends at the smallest last key of what has been read of each run: all rows and changes of
its keys are at hand. So a batch of each file is in memory, and one row group of the new file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from tideline.folding.arrow.changes import Latest, newest, texts_of_keys
from tideline.folding.arrow.hashing import Hashes
from tideline.folding.arrow.keys import comparable
from tideline.folding.arrow.merged_rows import MergedRows, flags, merged, untouched
from tideline.folding.arrow.row_shape import TOPIC_ID, RowShape, hashes_of, written
from tideline.model.current import IS_DELETED, Barrier, BucketState

_GROUP_ROWS, _GROUP_BYTES = 262_144, 64 * 1024 * 1024
"""Of a row group of a new file, at most."""
_FEW_VALUES = (TOPIC_ID, "generation", "partition", IS_DELETED)
"""Columns that are written with a dictionary."""
_MODULUS = 2**64


class NotInOrder(Exception):
    """Rows that do not grow by their keys: others have written them."""


@dataclass
class Sum:
    """Rows that are there, rows of keys that are gone, and the sum of their hashes."""

    live: int = 0
    deleted: int = 0
    checksum: int = 0

    def add(self, hashes: Hashes, gone: np.ndarray, sign: int = 1) -> None:
        """Take rows in, or out with the sign -1."""
        deleted = int(np.count_nonzero(gone))
        self.live += sign * (len(gone) - deleted)
        self.deleted += sign * deleted
        total = int(np.add.reduce(hashes, dtype=np.uint64)) if len(hashes) else 0
        self.checksum = (self.checksum + sign * total) % _MODULUS

    def state(self, bucket: int) -> BucketState:
        """As the ledger has it."""
        return BucketState(bucket, self.live, self.deleted, self.checksum)


@dataclass
class FoldedBucket:
    """What has become of a bucket.

    Args:
        found, left: What it held before, and holds after.
        moved: The largest key that stands in two partitions; None for none.
        doubted: How many of its rows were filled from a change that nobody knows.
    """

    found: Sum = field(default_factory=Sum)
    left: Sum = field(default_factory=Sum)
    moved: str | None = None
    doubted: int = 0


class Writer:
    """A data file that is made when its first row comes.

    Args:
        store: Where.
        path: Its path there.
    """

    def __init__(self, store: FileSystem, path: str) -> None:
        self._store, self.path = store, path
        self._held: list[pa.RecordBatch] = []
        self._rows, self._bytes = 0, 0
        self._file: pq.ParquetWriter | None = None
        self._target: pa.NativeFile | None = None

    @property
    def is_made(self) -> bool:
        """Whether it has rows."""
        return self._file is not None

    def add(self, rows: pa.RecordBatch) -> None:
        """Write some rows, at the latest when the file is closed."""
        if len(rows):
            rows = written(rows)
            self._held.append(rows)
            self._rows, self._bytes = self._rows + len(rows), self._bytes + rows.nbytes
            if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
                self._write()

    def _write(self) -> None:
        if not self._held:
            return
        if self._file is None:
            self._target = self._store.open_output_stream(self.path)
            self._file = pq.ParquetWriter(
                self._target,
                self._held[0].schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=[*_FEW_VALUES],
                store_schema=False,
            )
        rows = pa.Table.from_batches(self._held)
        self._file.write_table(rows, row_group_size=len(rows))
        self._held, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        """Write what is left; the file is whole then."""
        self._write()
        if self._file is not None and self._target is not None:
            self._file.close()
            self._target.close()

    def drop(self) -> None:
        """Let go of a file that is never whole; does nothing to one that is."""
        self._held = []
        with suppress(Exception):  # what broke it counts
            self.close()


class _Run:
    """Rows in the order of their keys, a batch at a time; each key stands once.

    Args:
        batches: Of them.
        found: Is told of all rows.
    """

    def __init__(self, shape: RowShape, batches: Iterator[pa.RecordBatch], found: Sum) -> None:
        self._shape, self._batches, self._found = shape, batches, found
        self._last: np.ndarray | None = None
        self._next()

    def _next(self) -> None:
        key = self._shape.plan.layout.key
        self.rows = next((b for b in self._batches if len(b)), self._shape.none)
        self.keys = comparable([self.rows.column(n) for n in key])
        self.hashes = hashes_of(self._shape, self.rows)
        self._found.add(self.hashes, flags(self.rows))
        before = self.keys if self._last is None else np.append(self._last, self.keys)
        if len(self.rows) and not (before[1:] > before[:-1]).all():
            raise NotInOrder
        self._last = self.keys[-1:]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, cut: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray, Hashes]:
        """The rows up to a key, which go; what is left of the batch has later ones."""
        end = int(np.searchsorted(self.keys, cut, "right")[0])
        taken = (self.rows.slice(0, end), self.keys[:end], self.hashes[:end])
        if end == len(self.rows):
            self._next()
        else:
            self.rows = self.rows.slice(end)
            self.keys, self.hashes = self.keys[end:], self.hashes[end:]
        return taken


class _Coming:
    """Changes in the order of their keys, a part at a time; each key stands once.

    Args:
        parts: Of them.
    """

    def __init__(self, parts: Iterator[Latest]) -> None:
        self._parts = parts
        self._part = next(parts, None)

    def __len__(self) -> int:
        return 0 if self._part is None else len(self._part)

    @property
    def keys(self) -> np.ndarray:
        """Of the changes at hand."""
        assert self._part is not None
        return self._part.keys

    def take(self, cut: np.ndarray) -> Latest:
        """The changes up to a key, which go."""
        assert self._part is not None
        end = int(np.searchsorted(self.keys, cut, "right")[0])
        taken = self._part.part(0, end)
        is_whole = end == len(self._part)
        self._part = next(self._parts, None) if is_whole else self._part.part(end, len(self._part))
        return taken


def sum_found_rows(
    shape: RowShape, batches: Iterable[pa.RecordBatch], folded: FoldedBucket
) -> Iterator[pa.RecordBatch]:
    """Rows that pass, each of them summed as found."""
    for rows in batches:
        folded.found.add(hashes_of(shape, rows), flags(rows))
        yield rows


def fold_bucket(
    shape: RowShape,
    files: Sequence[Iterator[pa.RecordBatch]],
    changes: Sequence[Iterator[Latest]],
    barrier: Barrier | None,
    write: Callable[[pa.RecordBatch], None],
    *,
    says_all: bool,
) -> FoldedBucket:
    """Read a bucket's files beside its changes, and write its new rows in the order of keys.

    Args:
        files: The rows of each; nothing of a key stands twice.
        changes: In runs that are sorted by key.
        barrier: The last change that said that all rows are gone.
        write: Takes new rows.
        says_all: Whether something is said of rows without a change, too.

    Raises:
        NotInOrder: The rows of a file are in another order, or a key stands twice.
    """
    folded = FoldedBucket()
    runs = [_Run(shape, batches, folded.found) for batches in files]
    comings = [_Coming(parts) for parts in changes]
    while True:
        ends = [run.keys[-1:] for run in runs if len(run)]
        ends += [run.keys[-1:] for run in comings if len(run)]
        if not ends:
            return folded
        cut = min(ends, key=lambda last: last[0])
        old = _joined(shape, [run.take(cut) for run in runs if len(run)])
        latest = _united(shape, [run.take(cut) for run in comings if len(run)])
        write(_window(shape, folded, old, latest, barrier, says_all=says_all))


_Rows = tuple[pa.RecordBatch, np.ndarray, Hashes]
"""Rows, their keys and their hashes."""


def _joined(shape: RowShape, parts: Sequence[_Rows]) -> _Rows:
    """The rows of several files in the order of keys."""
    parts = [part for part in parts if len(part[0])]
    if len(parts) < 2:
        return parts[0] if parts else (shape.none, np.empty(0, np.int64), np.empty(0, np.uint64))
    keys = np.concatenate([part[1] for part in parts])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    if not (keys[1:] > keys[:-1]).all():
        raise NotInOrder
    rows = pa.concat_batches([part[0] for part in parts]).take(pa.array(order))
    return rows, keys, np.concatenate([part[2] for part in parts])[order]


def _united(shape: RowShape, parts: Sequence[Latest]) -> Latest | None:
    """The last change of each key of several runs."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else None
    rows = pa.concat_batches([part.every for part in parts])
    low, high = (
        np.concatenate([getattr(p, name)[p.of] for p in parts]) for name in ("low", "high")
    )
    return newest(shape, rows, np.zeros(len(rows), np.int64), (low, high))[0]


def _window(
    shape: RowShape,
    folded: FoldedBucket,
    standing: _Rows,
    latest: Latest | None,
    barrier: Barrier | None,
    *,
    says_all: bool,
) -> pa.RecordBatch:
    """The new rows of a window; what they come to is told."""
    old, keys, hashes = standing
    folded.left.add(hashes, flags(old))
    order, source, rest = np.arange(len(old)), [old], np.ones(len(old), bool)
    size, stays = len(old), np.ones(len(old), bool)
    if latest is not None:
        place = np.searchsorted(keys, latest.keys)
        near = np.minimum(place, max(len(keys) - 1, 0))
        hit = keys[near] == latest.keys if len(keys) else np.zeros(len(latest), bool)
        found = merged(shape, old, np.where(hit, near, -1), latest, barrier)
        rest[near[hit]] = False
        _tell(shape, folded, found, old, hashes, near[hit])
        order[near[hit]] = size + np.flatnonzero(hit)
        stays[near[hit]] = ~found.is_dropped[hit]
        fresh = np.flatnonzero(~hit & ~found.is_dropped)
        order, stays = (
            np.insert(order, place[fresh], size + fresh),
            np.insert(stays, place[fresh], True),
        )
        source.append(found.rows)
        size += len(found.rows)
    if says_all and rest.any():
        which = np.flatnonzero(rest)
        others, found = untouched(shape, old.take(pa.array(which)), barrier)
        which = which[others]
        _tell(shape, folded, found, old, hashes, which)
        at = np.flatnonzero(np.isin(order, which))
        order[at] = size + np.arange(len(which))
        stays[at] = ~found.is_dropped
        source += [found.rows] if len(which) else []
    if len(source) == 1:
        return old
    rows = pa.concat_batches(source)
    return rows.take(pa.array(order[stays]))


def _tell(
    shape: RowShape,
    folded: FoldedBucket,
    found: MergedRows,
    old: pa.RecordBatch,
    hashes: Hashes,
    replaced: np.ndarray,
) -> None:
    """Note what is left where some rows become others.

    Args:
        found: What they become.
        replaced: Which rows are taken out.
    """
    folded.left.add(hashes[replaced], flags(old)[replaced], -1)
    kept = found.rows.filter(pa.array(~found.is_dropped)) if found.is_dropped.any() else found.rows
    folded.left.add(hashes_of(shape, kept), flags(kept))
    folded.doubted += found.doubted
    if found.moved.any():
        keys = texts_of_keys(shape, found.rows.filter(pa.array(found.moved))).to_pylist()
        folded.moved = max(*keys, folded.moved or "")
