"""One fold in this process: the changes are read and sorted, then bucket after bucket is written.

What each bucket held is known when its new file is written. So sums are held against the ledger's
before anything is committed, and not before anything is written (ADR 89).
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileSystem

from tideline.documents import dump
from tideline.errors import VerificationFailed
from tideline.folding.arrow.buckets import (
    FoldedBucket,
    NotInOrder,
    Sum,
    Writer,
    fold_bucket,
    sum_found_rows,
)
from tideline.folding.arrow.changes import (
    CountedChanges,
    as_one_batch,
    buckets,
    hashes_of_places,
    of_rows,
)
from tideline.folding.arrow.merged_rows import flags, is_filled
from tideline.folding.arrow.row_shape import TOPIC_ID, RowShape, hashes_of, read_rows
from tideline.folding.arrow.spilling import SortedRun, kept, portions, sorted_runs, spilled
from tideline.folding.arrow.total_order import Wanted, last_truncate
from tideline.folding.arrow.untold import Suspects
from tideline.folding.barriers import later_of, unplaced
from tideline.launch.progress import Stage
from tideline.launch.runtime import free_bytes, spill_folders
from tideline.model.current import BUCKET, COORDINATES, Barrier, BucketState, FoldRefusal, differing
from tideline.model.decoding import UNAVAILABLE
from tideline.model.fold_job import FoldJob, FoldResult
from tideline.model.offsets import CoordinateRange
from tideline.model.places import Places
from tideline.model.spark_job import SparkResult
from tideline.model.wording import how_many
from tideline.table.table_port import Stores
from tideline.table.written_files import MANIFEST, Manifest

log = logging.getLogger("tideline")
_THREAD_BYTES = 250 * 1024 * 1024
"""Memory that a thread may take."""
_MOST_NAMED = 5
_Part = TypeVar("_Part")


def fold(job: FoldJob, stores: Stores, stage: Stage) -> FoldResult:
    """Fold a plan's changes into files of the current table.

    Args:
        job: What is to be folded.
        stores: Opens the store of the typed table, and of the current one.
        stage: Is told how far the fold is, by the thread that called.

    Returns:
        What was written and counted; or what keeps it from being committed: the caller discards
        what was written then.

    Raises:
        OSError: A store does not answer, or a disk is full.
    """
    with ExitStack() as ended:
        ended.callback(pa.default_memory_pool().release_unused)
        return _Fold(job, stores, RowShape(job.plan), ended, stage).result()


@dataclass(frozen=True)
class _Work:
    """What the buckets of a fold have in common.

    Args:
        runs: The changes.
        barrier: The last one that says that all rows are gone.
        says_all: Whether something is said of rows without a change, too.
        is_stopped: Whether a bucket has failed, or the run is ended.
    """

    runs: Sequence[SortedRun]
    barrier: Barrier | None
    says_all: bool
    is_stopped: threading.Event = field(default_factory=threading.Event)

    def until_stopped(self, parts: Iterable[_Part]) -> Iterator[_Part]:
        """What is read, until a bucket has failed or the run is ended."""
        for part in parts:
            if self.is_stopped.is_set():
                raise InterruptedError
            yield part


@dataclass
class _Fold:
    """One fold.

    Args:
        ended: Takes what is to be done when it has ended.
        stage: Is told how far it is.
    """

    job: FoldJob
    stores: Stores
    shape: RowShape
    ended: ExitStack
    stage: Stage
    _again: list[np.ndarray] = field(default_factory=list)
    _foreign: dict[int, int] = field(default_factory=dict)  # of each bucket: rows of others

    def result(self) -> FoldResult:
        """What came of it."""
        job, plan, suspects = self.job, self.job.plan, self._suspects
        counted = CountedChanges() if suspects is None else CountedChanges(hears=suspects.note)
        anew = {*range(plan.layout.buckets)} if plan.is_anew else {*job.anew}
        runs = [*self._runs(counted)]
        report = _report(job, counted)
        if suspects is not None:
            report = suspects.judged(report, job, self._read, lambda: self._spills)
        if report.refused or report.needs_all:
            return report
        touched = {n for run in runs for n in _buckets_in(run)}
        if job.is_recompute:
            return self._looked(report, sorted(touched), runs)
        if orphaned := self._orphaned() - anew:
            return replace(report, anew=tuple(sorted(orphaned)))
        says_all = bool(counted.truncates) or plan.is_sweep or plan.is_drop
        touched |= {*range(plan.layout.buckets)} if says_all else anew
        made = self._buckets(sorted(touched), _Work(runs, report.barrier, says_all))
        report = replace(
            report,
            touched=tuple(sorted(touched)),
            found=_states({n: folded.found for n, folded in made.items()}),
            left=_states({n: folded.left for n, folded in made.items()}),
            refused=_moved(made),
        )
        if report.refused or differing(job.before_in(touched), report.found):
            return report
        if doubted := tuple(n for n, folded in made.items() if folded.doubted):
            return replace(report, anew=doubted)
        return replace(report, written=SparkResult(rows=sum(b.rows for b in report.left)))

    @cached_property
    def _suspects(self) -> Suspects | None:
        """What notes deletes that may lack a column of the key, where there may be such."""
        return Suspects(self.job) if self.job.plan.deletes.told else None

    def _looked(
        self, report: FoldResult, touched: Sequence[int], runs: Sequence[SortedRun]
    ) -> FoldResult:
        """What stands in every bucket, and what its changes alone would make of it."""
        made, found = dict[int, FoldedBucket](), dict[int, Sum]()
        for number, bucket in enumerate(touched):
            self.stage(f"changes of {number:,} of {how_many(len(touched), 'bucket')} folded")
            changes = [run.parts(self.shape, bucket) for run in runs]
            made[bucket] = fold_bucket(
                self.shape, (), changes, report.barrier, lambda rows: None, says_all=False
            )
        if refused := _moved(made):
            return replace(report, refused=refused)
        for bucket, rows in self._all_standing(self.shape.schema):
            found.setdefault(bucket, Sum()).add(hashes_of(self.shape, rows), flags(rows))
        for bucket, count in self._foreign.items():
            found.setdefault(bucket, Sum()).live += count
        left = {n: folded.left for n, folded in made.items()}
        return replace(report, found=_states(found), left=_states(left))

    def _orphaned(self) -> set[int]:
        """Buckets with rows that changes which are no more may have made.

        These are rows of such changes, where another change of the key counts now; and rows that
        were filled with values of earlier changes: nobody knows of which.
        """
        plan, found = self.job.plan, set[int]()
        if not plan.again or plan.is_anew:
            return found
        known = np.concatenate([np.empty(0, np.uint64), *self._again])
        wanted = Wanted(Places.of(plan.again))
        own = (*COORDINATES[:-1], *(c.name for c in plan.sequence))
        names = (*plan.layout.key, *own, *([UNAVAILABLE] if plan.has_unavailable else ()))
        schema = pa.schema([self.shape.schema.field(name) for name in names])
        for bucket, rows in self._all_standing(schema):
            there = rows.filter(pa.array(wanted.mask(rows)))
            is_lost = not np.isin(hashes_of_places(self.shape, there), known).all()
            if is_lost or (plan.has_unavailable and is_filled(rows).any()):
                found.add(bucket)
        return found

    def _all_standing(self, schema: pa.Schema) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of the table as it stands, or of the buckets that are looked at."""
        store, only = self.stores(self.job.current.uri), self.job.only
        wanted = [of for of in self.job.current_files if not only or of.bucket in only]
        for number, of in enumerate(wanted):
            self.stage(f"rows of {number:,} of {how_many(len(wanted), 'bucket')} read")
            for path in of.files:
                for rows in self._current_rows(store, of.bucket, path, schema):
                    yield of.bucket, rows

    def _current_rows(
        self, store: FileSystem, bucket: int, path: str, schema: pa.Schema
    ) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a file of the current table; those of others are counted, and no more."""

        def foreign(count: int) -> None:
            self._foreign[bucket] = self._foreign.get(bucket, 0) + count

        key = self.job.plan.layout.key
        return read_rows(store, path, schema, self.shape.topics, key=key, foreign=foreign)

    def _runs(self, counted: CountedChanges) -> Iterator[SortedRun]:
        """The changes; in memory if they are few."""
        run, is_first = self._kept([]), True
        for number, held in enumerate(portions(self._changes(counted))):
            if number:
                yield self._spilled(run)
                is_first = False
            run = self._kept(held)
        yield run if is_first else self._spilled(run)

    def _kept(self, held: Sequence[pa.RecordBatch]) -> SortedRun:
        rows = as_one_batch(self.shape, held)
        return kept(self.shape, rows, buckets(self.shape, rows))

    def _spilled(self, run: SortedRun) -> SortedRun:
        return spilled(run, self._spills / f"{uuid.uuid4().hex}.arrow")

    @cached_property
    def _spills(self) -> Path:
        """A private folder for runs, where there is most space."""
        *others, first = sorted(spill_folders(), key=lambda f: shutil.disk_usage(f.path).free)
        for other in others:
            other.remove()
        return self.ended.enter_context(first)

    def _changes(self, counted: CountedChanges) -> Iterator[pa.RecordBatch]:
        """The changes of the plan; of buckets that are folded anew, all that are decoded."""
        job, plan = self.job, self.job.plan
        anew = () if plan.is_anew else job.anew
        again = Wanted(Places.of(plan.again))
        for rows in self._read(job.typed_files, plan.ranges, counted):
            if plan.again:
                there = rows.filter(pa.array(again.mask(rows)))
                self._again.append(hashes_of_places(self.shape, there))
            if job.only:
                yield self._of_buckets(rows, job.only)
            else:
                yield self._of_buckets(rows, anew, others=True) if anew else rows
        for rows in self._read(job.every_file, plan.covered, CountedChanges()) if anew else ():
            yield self._of_buckets(rows, anew)

    def _of_buckets(
        self, rows: pa.RecordBatch, wanted: Sequence[int], *, others: bool = False
    ) -> pa.RecordBatch:
        """The changes of some buckets, or of all others."""
        return rows.filter(pa.array(np.isin(buckets(self.shape, rows), wanted, invert=others)))

    def _read(
        self,
        files: Sequence[str],
        ranges: Sequence[CoordinateRange],
        counted: CountedChanges,
        shape: RowShape | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The changes at coordinates; in all columns if no shape is given."""
        shape, wanted = shape or self.shape, Wanted(Places.of(ranges))
        store = self.stores(self.job.typed_uri)
        for number, path in enumerate(files if ranges else ()):
            self.stage(f"changes of {number:,} of {how_many(len(files), 'file')} read")
            for typed in read_rows(store, path, shape.typed, shape.topics):
                mask = wanted.mask(typed)
                if mask.any():
                    some = typed if mask.all() else typed.filter(pa.array(mask))
                    yield of_rows(shape, counted, some)

    def _buckets(self, touched: Sequence[int], work: _Work) -> Mapping[int, FoldedBucket]:
        """What becomes of each bucket; some at a time, in threads that have ended afterwards."""
        files = dict[int, str]()

        def one(bucket: int) -> FoldedBucket:
            try:
                found, path = self._folded(bucket, work)
            except NotInOrder:
                log.info("bucket %s is in another order: others have written it", bucket)
                found, path = self._sorted(bucket, work)
            found.found.live += self._foreign.pop(bucket, 0)
            if path is not None:
                files[bucket] = path
            return found

        with _workers(len(touched)) as count, ThreadPoolExecutor(count, "fold") as pool:
            # logs of a fleet name the stream, which a context has
            futures = {n: pool.submit(copy_context().run, one, n) for n in touched}
            try:
                for done, future in enumerate(as_completed(futures.values()), 1):
                    future.result()
                    self.stage(f"{done:,} of {how_many(len(touched), 'bucket')} folded")
            except BaseException:
                work.is_stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
        self._name([files[n] for n in sorted(files)])
        return {n: future.result() for n, future in futures.items()}

    def _folded(
        self,
        bucket: int,
        work: _Work,
        standing: Sequence[Iterator[pa.RecordBatch]] | None = None,
    ) -> tuple[FoldedBucket, str | None]:
        """What becomes of a bucket, and its new file; None where it has no rows.

        Args:
            standing: Its rows; those of its files if not given.
        """
        writer = Writer(self.stores(self.job.current.uri), self._path(bucket))

        with ExitStack() as opened:
            opened.callback(writer.drop)
            rows = self._rows_of(bucket, opened) if standing is None else standing
            read = [work.until_stopped(part) for part in rows]
            changes = [work.until_stopped(run.parts(self.shape, bucket)) for run in work.runs]
            found = fold_bucket(
                self.shape, read, changes, work.barrier, writer.add, says_all=work.says_all
            )
            writer.close()
        return found, writer.path if writer.is_made else None

    def _sorted(self, bucket: int, work: _Work) -> tuple[FoldedBucket, str | None]:
        """The same of a bucket whose files others have written, in another order.

        Its rows are held against the ledger first: where these are others, nothing is folded.

        Raises:
            VerificationFailed: A key stands twice there, also by the ledger.
        """
        found = FoldedBucket()
        with ExitStack() as opened:
            batches = work.until_stopped(chain.from_iterable(self._rows_of(bucket, opened)))
            folder = self._spills / f"{bucket}"
            folder.mkdir()
            opened.callback(shutil.rmtree, folder)  # a table in another order is more than a disk
            standing = sorted_runs(self.shape, sum_found_rows(self.shape, batches, found), folder)
            found.found.live += self._foreign.pop(bucket, 0)
            state = _states({bucket: found.found})
            if differing(self.job.before_in([bucket]), state):
                return found, None
            try:
                return self._folded(bucket, work, standing)
            except NotInOrder as error:
                raise VerificationFailed(
                    f"current table {self.job.current.uri}: a key stands twice in bucket {bucket};"
                    " nothing was committed. Next: tideline fold FILE --anew"
                ) from error

    def _rows_of(self, bucket: int, opened: ExitStack) -> list[Iterator[pa.RecordBatch]]:
        """The rows of each of a bucket's files, which are closed in the end."""
        store = self.stores(self.job.current.uri)
        self._foreign[bucket] = 0
        schema, files = self.shape.schema, self._standing(bucket)
        read = [self._current_rows(store, bucket, path, schema) for path in files]
        for rows in read:
            opened.callback(rows.close)
        return [*read]

    def _standing(self, bucket: int) -> tuple[str, ...]:
        """The files whose rows count."""
        if self.job.plan.is_anew or bucket in self.job.anew:
            return ()
        return next((b.files for b in self.job.current_files if b.bucket == bucket), ())

    def _path(self, bucket: int) -> str:
        return f"{self.job.current.folder}/{BUCKET}={bucket}/part-{uuid.uuid4().hex}.parquet"

    def _name(self, files: Sequence[str]) -> None:
        """Write which files there are: no other one is part of anything."""
        folder = f"{self.job.current.folder}/"
        manifest = Manifest(tuple(path.removeprefix(folder) for path in files))
        store = self.stores(self.job.current.uri)
        with (
            store.open_output_stream(f"{folder}{MANIFEST}") as out,
            # delta-rs' file takes nothing but bytes, which Arrow makes of what it has gathered
            pa.BufferedOutputStream(out, 1024 * 1024) as text,
        ):
            text.write(dump(manifest).encode())


def _buckets_in(run: SortedRun) -> Iterator[int]:
    starts = np.concatenate(([0], run.ends[:-1]))
    yield from np.flatnonzero(run.ends > starts).tolist()


_at_work: list[int] = []
"""How many threads each fold of this process has: those of a fleet share cores and memory."""
_counting = threading.Lock()


@contextmanager
def _workers(buckets: int) -> Iterator[int]:
    """How many buckets are folded at once, until the block ends; one at least."""
    with _counting:
        most = min(len(os.sched_getaffinity(0)), free_bytes() // _THREAD_BYTES) - sum(_at_work)
        _at_work.append(max(1, min(most, buckets)))
        count = _at_work[-1]
    try:
        yield count
    finally:
        with _counting:
            _at_work.remove(count)


def _report(job: FoldJob, counted: CountedChanges) -> FoldResult:
    """What is to be said before anything is written."""
    plan, refused, barrier = job.plan, [*counted.refused], job.plan.barrier
    if barrier is not None:
        refused += unplaced(plan, [barrier.topic_id])
    if counted.truncates:
        rows = pa.concat_batches(counted.truncates)
        topics = rows.column(TOPIC_ID).dictionary_decode().unique().to_pylist()
        if found := unplaced(plan, topics):
            refused += found
        else:
            barrier = later_of(plan, last_truncate(plan, rows), barrier)
    return FoldResult(
        changes=counted.rows, keyless=counted.keyless, barrier=barrier, refused=tuple(refused)
    )


def _states(sums: Mapping[int, Sum]) -> tuple[BucketState, ...]:
    """The buckets that hold rows."""
    states = (sums[n].state(n) for n in sorted(sums))
    return tuple(state for state in states if state.rows)


def _moved(made: Mapping[int, FoldedBucket]) -> tuple[FoldRefusal, ...]:
    """The first few keys that stand in two partitions."""
    moved = [FoldRefusal("moved", f.moved) for f in made.values() if f.moved is not None]
    return tuple(moved[:_MOST_NAMED])
