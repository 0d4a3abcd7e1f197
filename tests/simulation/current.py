"""The current table in memory, and how Spark folds: by the rules of docs/current.md, one by one.

What a record says follows from its number: whose row, whether the row is gone, whether the long
value came. So everybody who looks at a row knows what should stand there.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tests.simulation.table import (
    Row,
    SimulatedTable,
    TableState,
    Version,
    intervals,
    is_inside,
)
from tideline.errors import ServiceAway, VerificationFailed
from tideline.model.current import BucketState, FoldPlan, FoldRefusal, differing, is_below
from tideline.model.fold_job import FoldJob, FoldResult
from tideline.model.maintenance import TableFile
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.plan import LandedRange
from tideline.table.schema import Field, PartitionFiles

Place = tuple[Any, ...]
COLUMNS: tuple[Field, ...] = tuple(
    {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("k", "essay")
)
"""Of the typed table's rows; the first one is the key."""


class Change(NamedTuple):
    """What a typed row says.

    Args:
        lacks: Whether the long value did not come.
    """

    key: str
    identity: PartitionIdentity
    offset: int
    time: int
    serial: int
    is_deleted: bool
    lacks: bool


class CurrentRow(NamedTuple):
    """A key's row: its last change, and the record that has brought the long value."""

    bucket: int
    change: Change
    essay: int | None

    @property
    def identity(self) -> PartitionIdentity:
        """Of the last change."""
        return self.change.identity


Changes = Callable[[Row], Change]
"""What a typed row says."""


class CurrentState(TableState):
    """What stands at the current table's address; a version's rows are by the file they are in."""

    def add_foreign(self, rows: Iterable[Any], operation: str, removes_rows: bool) -> None:
        """A commit of another program: one file a bucket."""
        assert self.newest is not None
        by_bucket: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            by_bucket[f"theirs-{len(self.versions)}/{row.bucket}.parquet"].append(row)
        files: Any = {path: tuple(found) for path, found in by_bucket.items()}
        self.versions.append(Version(files, operation, removes_rows, tokens=self.newest.tokens))


class SimulatedCurrent(SimulatedTable):
    """The part of `TablePort` that a fold asks for."""

    _state: CurrentState

    def _described(self, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
        self._tick("table.rows")
        rows: Any = self._state.rows()
        return [
            {
                "topic_id": row.identity.topic_id,
                "generation": row.identity.generation,
                "partition": row.identity.partition,
                "offset": row.change.offset,
                "is_deleted": row.change.is_deleted,
                "k": row.change.key,
            }
            for row in rows
        ]

    def _held(self, version: int) -> Any:
        """What a version has, by file; nothing where there is no table."""
        if not self._state.versions:
            return {}
        if version >= len(self._state.versions):
            raise ServiceAway(f"no version {version} in the table's log")
        return self._state.versions[version].rows

    def files_by(self, column: str, version: int) -> dict[str | None, PartitionFiles]:
        """The data files of each bucket."""
        self._tick("table.files_by")
        found: dict[str | None, list[str]] = defaultdict(list)
        held: Any = self._held(version)
        for path, rows in held.items():
            found[str(rows[0].bucket)].append(path)
        return {
            bucket: PartitionFiles(tuple(paths), sum(len(held[path]) for path in paths))
            for bucket, paths in found.items()
        }

    def files(self, version: int | None = None) -> tuple[TableFile, ...]:
        """The data files of one version, by what they hold."""
        held: Any = self._held(len(self._state.versions) - 1 if version is None else version)
        return tuple(TableFile(path, len(rows), len(rows)) for path, rows in held.items())

    def landed(
        self, ranges: Iterable[CoordinateRange], version: int
    ) -> dict[PartitionIdentity, LandedRange]:
        """Rows whose last change is there."""
        held: Any = self._held(version)
        wanted = [*ranges]
        changes = [r.change for rows in held.values() for r in rows]
        inside = [c for c in changes if is_inside(wanted, c)]
        return {
            i: LandedRange(i, len(at), intervals(at))
            for i in {c.identity for c in inside}
            if (at := [c.offset for c in inside if c.identity == i])
        }

    def rewritten(self, change: Any, result: Any) -> tuple[str, ...]:
        """An attempt's files, held against Spark's report."""
        self._tick("table.rewritten")
        files = self._state.manifests.get(change.folder)
        if files is None and result.rows:
            raise VerificationFailed(f"manifest {change.folder} is missing")
        if (rows := len(self._rows_of(change, files or ()))) != result.rows:
            raise VerificationFailed(f"Spark counted {result.rows} rows, its files hold {rows}")
        return files or ()

    def _append(self, change: Any, rows: Sequence[Any]) -> None:
        newest = self._state.newest
        assert newest is not None
        left = {
            p: tuple(r for r in rows if not is_inside(change.ranges, r.change))
            if change.commit_id.startswith("erase-")
            else rows
            for p, rows in newest.rows.items()
        }
        held: Any = {p: r for p, r in left.items() if r and p not in change.takes_out}
        if {*change.takes_out} - {*newest.rows}:
            raise AssertionError(f"{change.takes_out} are not all there: {[*newest.rows]}")
        held |= {p: self._state.files[p] for p in self._state.manifests.get(change.folder, ())}
        self._state.versions.append(
            Version(
                held,
                "WRITE",
                ledger_id=change.ledger_id,
                plan_id=change.commit_id,
                run_id=change.run_id,
                token=change.token,
                written=len(rows),
                erasure=change.erasure,
                fold=change.fold,
                tokens={**newest.tokens, change.app_id: change.token},
            )
        )


@dataclass(frozen=True)
class Folder:
    """One application that folds.

    Args:
        job: What it is given.
        typed, current: Both tables.
        said: What a typed row says.
    """

    job: FoldJob
    typed: TableState
    current: CurrentState
    said: Changes

    def fold(self) -> tuple[FoldResult, dict[str, tuple[CurrentRow, ...]]]:
        """What it reports, and the files that it writes."""
        plan, anew = self.job.plan, {*self.job.anew}
        if plan.is_anew:
            anew = {*range(plan.layout.buckets)}
        changes = self._changes(self.job.typed_files, plan.ranges)
        report = FoldResult(changes=len(changes))
        if orphaned := self._orphaned(changes) - anew:
            return replace(report, anew=tuple(sorted(orphaned))), {}
        touched = {bucket_of(plan, c.key) for c in changes} | anew
        if plan.is_sweep or plan.is_drop:
            touched = {*range(plan.layout.buckets)}
        if anew and not plan.is_anew:
            every = self._changes(self.job.every_file, plan.covered)
            changes = [c for c in changes if bucket_of(plan, c.key) not in anew]
            changes += [c for c in every if bucket_of(plan, c.key) in anew]
        rows = self._standing(touched - anew)
        report = replace(report, touched=tuple(sorted(touched)), found=states(rows))
        if plan.order == "offset" and (moved := self._moved(rows, changes)):
            return replace(report, refused=tuple(FoldRefusal("moved", key) for key in moved)), {}
        if differing(self.job.before_in(touched), report.found):
            return report, {}
        by_key = {row.change.key: row for row in rows}
        if doubted := {
            row.bucket
            for c in changes
            if (row := by_key.get(c.key)) is not None and row.change.lacks
            if place(plan, c) < place(plan, row.change)
        }:
            return replace(report, anew=tuple(sorted(doubted))), {}
        left = folded(plan, rows, changes)
        files = {
            f"{self.job.current.folder}/{n}.parquet": tuple(r for r in left if r.bucket == n)
            for n in sorted({row.bucket for row in left})
        }
        written = replace(report.written, rows=len(left))
        return replace(report, left=states(left), written=written), files

    def _changes(self, files: Sequence[str], ranges: Iterable[CoordinateRange]) -> list[Change]:
        wanted = [*ranges]
        if not wanted:
            return []
        (version,) = map(int, files)
        if not self.typed.files_from <= version < len(self.typed.versions):
            raise ServiceAway(f"files of version {version} of the typed table are gone")
        return [
            swept(self.job.plan, self.said(row))
            for rows in self.typed.versions[version].rows.values()
            for row in rows
            if _is_at(wanted, row)
        ]

    def _standing(self, buckets: Collection[int]) -> list[CurrentRow]:
        known: dict[str, Any] = {}
        for version in self.current.versions[self.current.files_from :]:
            known |= {str(path): rows for path, rows in version.rows.items()}
        wanted = [f for b in self.job.current_files if b.bucket in buckets for f in b.files]
        if missing := [f for f in wanted if f not in known]:
            raise ServiceAway(f"{missing[0]} of the current table is gone")
        return [row for path in wanted for row in known[path]]

    def _orphaned(self, changes: Iterable[Change]) -> set[int]:
        """Buckets whose rows may stand for changes, or have values of changes, that are no more."""
        plan = self.job.plan
        if not plan.again or plan.is_anew:
            return set()
        there = {(c.key, c.identity, c.offset) for c in changes}
        rows = self._standing({b.bucket for b in self.job.current_files})
        return {
            row.bucket
            for row in rows
            if row.change.lacks
            or (
                _is_at(plan.again, row.change)
                and (row.change.key, row.identity, row.change.offset) not in there
            )
        }

    def _moved(self, rows: Iterable[CurrentRow], changes: Iterable[Change]) -> tuple[str, ...]:
        """Keys of one incarnation in two partitions."""
        partitions: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        changed = {c.key for c in changes}
        for c in (*changes, *(row.change for row in rows if row.change.key in changed)):
            era = self.job.plan.incarnations.of(c.identity)
            assert era is not None
            partitions[c.key][era].add(c.identity.partition)
        return tuple(k for k, known in sorted(partitions.items()) if len(known[max(known)]) > 1)


def folded(
    plan: FoldPlan, rows: Iterable[CurrentRow], changes: Iterable[Change]
) -> list[CurrentRow]:
    """Rows after changes: one after the other, in the one total order."""
    found = {row.change.key: _swept_row(plan, row) for row in rows}
    for c in sorted(changes, key=lambda c: place(plan, c)):
        before = found.get(c.key)
        if before is not None and place(plan, c) < place(plan, before.change):
            continue
        kept = None if before is None or before.change.is_deleted else before.essay
        essay = None if c.is_deleted else kept if c.lacks else c.serial
        found[c.key] = CurrentRow(bucket_of(plan, c.key), c, essay)
    return [found[key] for key in sorted(found)]


def swept(plan: FoldPlan, c: Change) -> Change:
    """A change as the plan's floors have it: below them it is a delete."""
    if not is_below(c.identity.at(c.offset), plan.floors, plan.incarnations):
        return c
    return c._replace(is_deleted=True, lacks=False)


def _swept_row(plan: FoldPlan, row: CurrentRow) -> CurrentRow:
    change = swept(plan, row.change)
    return row if change == row.change else CurrentRow(row.bucket, change, None)


def place(plan: FoldPlan, c: Change) -> Place:
    """A change's place in the order."""
    at = c.identity
    era = plan.incarnations.of(at)
    if plan.order == "time":
        return (era, c.time, at.generation, at.partition, c.offset)
    return (era, at.generation, c.offset, at.partition)


def bucket_of(plan: FoldPlan, key: str) -> int:
    """The bucket of a key."""
    return zlib.crc32(key.encode()) % plan.layout.buckets


def states(rows: Iterable[CurrentRow]) -> tuple[BucketState, ...]:
    """What buckets hold."""
    by_bucket: dict[int, list[CurrentRow]] = defaultdict(list)
    for row in rows:
        by_bucket[row.bucket].append(row)
    return tuple(
        BucketState(
            bucket,
            sum(not row.change.is_deleted for row in found),
            sum(row.change.is_deleted for row in found),
            sum(zlib.crc32(repr(row).encode()) for row in found),
        )
        for bucket, found in sorted(by_bucket.items())
    )


def _is_at(ranges: Iterable[CoordinateRange], row: Row | Change) -> bool:
    return any(
        r.identity == row.identity and r.start_offset <= row.offset < r.end_offset for r in ranges
    )
