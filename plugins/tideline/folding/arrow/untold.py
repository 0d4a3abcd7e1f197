"""Deletes that may name another key than their row's, where the table's key has further columns.

A change event that deletes tells the record's key. Of other columns it has null, or a fixed value,
if the database did not tell the row of before; and the record without a value behind it has no
other column at all. Nobody can tell such a value from a real one. But if it was not told, the row
is there still: another key with the same record's key, whose last change before says nothing of an
end. Only then something is wrong.

While the changes are read, the hashes of suspects' records are noted and nothing else. Where there
are any, the files are read once more, few columns of them, for the histories of these records.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from tideline.folding.arrow.changes import ChangeMasks, CountedChanges, texts_of_keys
from tideline.folding.arrow.keys import text_hashes
from tideline.folding.arrow.record_keys import record_keys
from tideline.folding.arrow.row_shape import RowShape
from tideline.folding.arrow.spilling import new_file
from tideline.folding.arrow.total_order import eras, is_truncated, numbers, orders
from tideline.folding.arrow.unset_columns import is_unset
from tideline.model.current import COORDINATES, IS_DELETED, Barrier, FoldPlan, FoldRefusal
from tideline.model.fold_job import FoldJob, FoldResult
from tideline.model.offsets import CoordinateRange
from tideline.model.places import Places

Read = Callable[
    [Sequence[str], Sequence[CoordinateRange], CountedChanges, RowShape], Iterator[object]
]
"""Reads the changes of files at coordinates, in some columns, and tells a `Counted` of them."""
_MOST_NAMED = 5
_HELD, _HELD_BYTES = 2_000_000, 256 * 1024 * 1024
"""So many rows of histories are judged in memory; more go to files, by the record's hash."""
_PARTS = 256
"""So many parts of histories are judged one by one then."""
_RECORD, _HASH, _KEY = "_tideline_record_key", "_tideline_hash", "_tideline_key"
_DELETES, _FOLLOWS, _UNTOLD = "_tideline_deletes", "_tideline_follows", "_tideline_untold"
_TRUNCATES = "_tideline_is_truncate"
_NEVER = (2**63, 0, 0)
_NONE = np.empty(0, np.uint64)


def is_late(plan: FoldPlan) -> bool:
    """Whether changes are folded below others, among which may be a delete that means their row.

    By times, and by a declared order, any change may be: coordinates do not tell.
    """
    if plan.order != "offset":
        return True
    mine, known = Places.of(plan.ranges), Places.of(plan.covered)
    first: dict[int, tuple[int, int, int]] = {}
    for log, intervals in mine.items():
        at = (plan.incarnations.of(log) or 0, log.generation, intervals[0].start_offset)
        first[log.partition] = min(at, first.get(log.partition, at))
    return any(
        (plan.incarnations.of(log) or 0, log.generation, ranges[-1].end_offset)
        > first.get(log.partition, _NEVER)
        for log, ranges in (known - mine).items()
    )


class Suspects:
    """Records with a delete that may name another key than its row's, by their keys' hashes."""

    def __init__(self, job: FoldJob) -> None:
        self._shape, self._is_late = RowShape(job.plan), is_late(job.plan)
        # where the changes are all that is decoded, nothing is to be picked out of it
        self._is_all = self._is_late and _is_whole(job)
        self._sure, self._maybe, self._has_any = _Hashes(), _Hashes(), False

    def note(self, masks: ChangeMasks) -> None:
        """Take notice of changes that are folded."""
        self._has_any |= len(masks.rows) > 0
        if self._is_all:
            return
        if self._is_late:
            self._sure.add(text_hashes(_records(self._shape.plan, masks.typed)))
            return
        for found, mask in (
            (self._sure, _untold(self._shape, masks)),
            (self._maybe, masks.follows & ~masks.truncates),
        ):
            if mask.any():
                found.add(
                    text_hashes(_records(self._shape.plan, masks.typed.filter(pa.array(mask))))
                )

    def judged(
        self, report: FoldResult, job: FoldJob, read: Read, folder: Callable[[], Path]
    ) -> FoldResult:
        """With a delete that may name another key than its row's, or what has to be read to know.

        Args:
            report: Of these changes.
            read: Reads them once more.
            folder: Gives a private one for histories.
        """
        plan, shape = job.plan, _narrow(job.plan)

        def histories(
            files: Sequence[str], ranges: Sequence[CoordinateRange], wanted: np.ndarray | None
        ) -> _Histories:
            found = _Histories(shape, wanted, folder)
            for _ in read(files, ranges, CountedChanges(hears=found.add), shape):
                pass
            return found

        wanted, whole = None if self._is_all else self._sure.values, None
        more = np.setdiff1d(self._maybe.values, self._sure.values)
        can_read = _is_whole(job) or bool(job.every_file)
        if wanted is not None and len(more) and (can_read or not len(wanted)):
            whole = histories(job.typed_files, plan.ranges, np.union1d(wanted, more))
            wanted = np.union1d(wanted, whole.suspects())
        if not self._has_any or (wanted is not None and not len(wanted)):
            return report
        if not can_read:
            return replace(report, needs_all=True)
        if _is_whole(job):
            history = whole or histories(job.typed_files, plan.ranges, wanted)
        else:
            history = histories(job.every_file, plan.covered, wanted)
        refused = tuple(
            FoldRefusal("untold", what) for what in history.left(report.barrier, wanted)
        )
        return replace(report, refused=(*report.refused, *refused))


def _is_whole(job: FoldJob) -> bool:
    """Whether the changes of a fold are all that is decoded."""
    return job.plan.is_anew or job.is_recompute


class _Hashes:
    """Hashes, each once; where they are many, those that came twice are forgotten now and then."""

    def __init__(self) -> None:
        self._held, self._count, self._limit = [_NONE], 0, 1_000_000

    def add(self, hashes: np.ndarray) -> None:
        self._held.append(hashes)
        self._count += len(hashes)
        if self._count > self._limit:
            found = self.values
            self._count, self._limit = len(found), max(self._limit, 2 * len(found))

    @property
    def values(self) -> np.ndarray:
        """Sorted."""
        self._held = [np.unique(np.concatenate(self._held))]
        return self._held[0]


def _narrow(plan: FoldPlan) -> RowShape:
    """The columns that tell of a delete which key it means."""
    named = {*plan.deletes.told, *plan.deletes.untold, *(name for name, _ in plan.marks)}
    columns = (c for c in plan.columns if c.name in plan.layout.key or c.source in named)
    return RowShape(replace(plan, columns=tuple(columns), has_unavailable=False))


def _records(plan: FoldPlan, typed: pa.RecordBatch) -> pa.Array:
    """The texts of the records' keys."""
    kinds, names = {c.source: c.type for c in plan.columns}, plan.deletes.told
    return record_keys([typed.column(n) for n in names], names, [kinds[n] for n in names])


def _untold(shape: RowShape, masks: ChangeMasks) -> np.ndarray:
    """Which changes delete, and may lack a column of the key."""
    kinds = {c.source: c.type for c in shape.plan.columns}
    found = np.zeros(len(masks.rows), bool)
    which = np.flatnonzero(masks.deletes)
    if len(which):
        some = masks.typed.take(pa.array(which))
        for name in shape.plan.deletes.untold:
            found[which] |= is_unset(some.column(name), kinds[name])
    return found


def _among(hashes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which hashes are among known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(hashes), bool)
    return np.asarray(known[np.searchsorted(known, hashes).clip(max=len(known) - 1)] == hashes)


@dataclass
class _Histories:
    """Changes of some records; in files of this machine where they are many.

    Args:
        shape: Their columns.
        wanted: The hashes of these records' keys, sorted; None for all.
        folder: Gives a private one for the files.
    """

    shape: RowShape
    wanted: np.ndarray | None
    folder: Callable[[], Path]
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _count: int = 0
    _size: int = 0
    _files: list[Path] = field(default_factory=list)

    def add(self, masks: ChangeMasks) -> None:
        """Keep what is to be known of changes."""
        plan = self.shape.plan
        records = _records(plan, masks.typed)
        hashes = text_hashes(records)
        flags = {
            _DELETES: masks.deletes,
            _FOLLOWS: masks.follows,
            _UNTOLD: _untold(self.shape, masks),
            _TRUNCATES: masks.truncates,
        }
        columns = {n: masks.rows.column(n) for n in (*self._own, IS_DELETED, *plan.layout.key)}
        columns |= {_RECORD: records, _HASH: pa.array(hashes)}
        columns |= {name: pa.array(mask) for name, mask in flags.items()}
        rows = pa.RecordBatch.from_pydict(columns)
        if self.wanted is not None:
            rows = rows.filter(pa.array(_among(hashes, self.wanted)))
        if not len(rows):
            return
        texts = texts_of_keys(self.shape, rows)
        rows = rows.select([*self._own, IS_DELETED, _RECORD, _HASH, *flags])
        rows = rows.append_column(_KEY, texts)
        self._held.append(rows)
        self._count, self._size = self._count + len(rows), self._size + rows.nbytes
        if self._count >= _HELD or self._size >= _HELD_BYTES:
            self._spill()

    @cached_property
    def _own(self) -> tuple[str, ...]:
        """The columns that say where a change is in the order."""
        return (*COORDINATES, *(c.name for c in self.shape.plan.sequence))

    def suspects(self) -> np.ndarray:
        """The hashes of records with a suspect among these changes, sorted."""
        found = _Hashes()
        for rows in self._parts():
            sorted_rows = _Sorted.of(self.shape.plan, rows)
            mask = sorted_rows.suspects
            found.add(np.asarray(sorted_rows.rows.column(_HASH))[mask])
        return found.values

    def left(self, barrier: Barrier | None, wanted: np.ndarray | None) -> list[str]:
        """The first few records' keys of which a delete left a row that it meant.

        Args:
            barrier: The last change that said that all rows are gone: those before it stay nowhere.
            wanted: The hashes of these records' keys, sorted; None for all.
        """
        found = list[str]()
        for rows in self._parts():
            if wanted is not None:
                rows = rows.filter(pa.array(_among(np.asarray(rows.column(_HASH)), wanted)))
            rows = rows.filter(pa.array(~is_truncated(self.shape.plan, barrier, rows)))
            found = sorted([*found, *_left(self.shape.plan, rows)])[:_MOST_NAMED]
        return found

    def _parts(self) -> Iterator[pa.RecordBatch]:
        """All changes of a record are in one part."""
        if not self._files:
            if self._held:
                yield pa.concat_batches(self._held)
            return
        if self._held:
            self._spill()
        for n in range(_PARTS):
            batches = []
            for file in self._files:
                with pa.OSFile(str(file)) as source:
                    batches.append(pa.ipc.open_file(source).get_batch(n))
            yield pa.concat_batches(batches)

    def _spill(self) -> None:
        """Write what is held to a file, a batch for each part."""
        rows = pa.concat_batches(self._held)
        part = (np.asarray(rows.column(_HASH)) % np.uint64(_PARTS)).astype(np.int64)
        rows = rows.take(pa.array(np.argsort(part, kind="stable")))
        ends = np.cumsum(np.bincount(part, minlength=_PARTS)).tolist()
        file = self.folder() / f"{uuid.uuid4().hex}.arrow"
        with new_file(file, rows.schema) as to:
            for start, end in pairwise([0, *ends]):
                to.write_batch(rows.slice(start, end - start))
        self._files.append(file)
        self._held, self._count, self._size = [], 0, 0


@dataclass(frozen=True)
class _Sorted:
    """Changes by their record's key and their place in the order.

    Args:
        rows: The changes.
        starts: Of each the first one of its record.
    """

    rows: pa.RecordBatch
    starts: np.ndarray

    @classmethod
    def of(cls, plan: FoldPlan, rows: pa.RecordBatch) -> _Sorted:
        """Changes in any order."""
        records = _codes(rows, _RECORD)
        (order,) = orders(plan, rows)
        sorted_by = np.lexsort((*reversed(order), records))
        records = records[sorted_by]
        firsts = np.flatnonzero(np.diff(records, prepend=-1))
        starts = np.repeat(firsts, np.diff(firsts, append=len(rows)))
        return cls(rows.take(pa.array(sorted_by)), starts)

    def mask(self, name: str) -> np.ndarray:
        """One of the flags."""
        return np.asarray(self.rows.column(name), bool)

    @cached_property
    def alone(self) -> np.ndarray:
        """Records without a value that follow no delete; one that was sent twice follows the first.

        No change that ends all rows is among them, nor between them.
        """
        which = np.flatnonzero(~self.mask(_TRUNCATES))
        follows = self.mask(_FOLLOWS)[which]
        ends = follows | self.mask(_DELETES)[which]
        found = np.zeros(len(self.rows), bool)
        if len(which):
            is_behind = np.append(False, ends[:-1] & (np.diff(self.starts[which]) == 0))
            found[which] = follows & ~is_behind
        return found

    @cached_property
    def suspects(self) -> np.ndarray:
        """Deletes that lack a value, and records without one that follow no delete in hand."""
        return np.asarray(self.alone | (self.mask(_UNTOLD) & ~self.mask(_TRUNCATES)))

    def again(self, keys: np.ndarray) -> np.ndarray:
        """Which deletes repeat the change before: producers send a record again."""
        says = np.where(~self.mask(_FOLLOWS), np.arange(len(self.rows)), -1)
        last = np.append(-1, np.maximum.accumulate(says)[:-1]) if len(says) else says
        deletes = self.mask(_DELETES)
        is_same = deletes[last] & (keys[last] == keys)
        return np.asarray(deletes & (last >= self.starts) & is_same)


def _codes(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """Texts by numbers, one for each."""
    return np.asarray(rows.column(name).dictionary_encode().indices).astype(np.int64)


def _left(plan: FoldPlan, rows: pa.RecordBatch) -> Iterator[str]:
    """The records' keys of which a delete left a row that it meant.

    Args:
        rows: All changes of each record that count.
    """
    changes = _Sorted.of(plan, rows)
    keys = _codes(changes.rows, _KEY)
    is_suspect = changes.suspects & ~changes.again(keys)
    if not is_suspect.any():
        return
    firsts = np.unique(changes.starts[is_suspect])
    ends = np.append(np.unique(changes.starts)[1:], len(rows))
    ends = ends[np.searchsorted(np.unique(changes.starts), firsts)]
    says = ~changes.mask(_FOLLOWS) & ~changes.mask(_TRUNCATES)
    stays = ~changes.mask(IS_DELETED)
    named = np.where(changes.alone, -1, keys)
    places = np.zeros(len(rows), np.int64)
    era = np.zeros(len(rows), np.int64)
    if plan.order == "offset":  # those of two partitions of one incarnation say no order
        era = eras(plan, changes.rows)
        places = numbers(changes.rows, "partition")
    for start, end in zip(firsts.tolist(), ends.tolist(), strict=True):
        part = slice(start, end)
        columns = (keys, says, stays, is_suspect, named, era, places)
        if _is_left([*zip(*(c[part].tolist() for c in columns), strict=True)]):
            yield changes.rows.column(_RECORD)[start].as_py()


_Change = tuple[int, bool, bool, bool, int, int, int]
"""A change of a record: its key, whether it speaks of a row and that stays, whether it is a suspect
and which key it names (-1 for none), its incarnation and partition."""


def _is_left(history: Sequence[_Change]) -> bool:
    """Whether a suspect left a row that it meant: other rows of its record stay, and not its own.

    Args:
        history: All changes of the record, in order.
    """
    for place in {(era, partition) for *_, is_suspect, _, era, partition in history if is_suspect}:
        last = dict[int, tuple[int, bool]]()  # of each key
        for n, (key, says, stays, _, _, era, partition) in enumerate(history):
            if says and era == place[0] and partition != place[1]:
                last[key] = (n, stays)
        staying = sum(stays for _, stays in last.values())
        for n, (key, says, stays, is_suspect, named, *where) in enumerate(history):
            if is_suspect and (*where,) == place and staying and not last.get(named, (0, False))[1]:
                return True
            known, stayed = last.get(key, (-1, False))
            if says and n > known:
                last[key] = (n, stays)
                staying += stays - stayed
    return False
