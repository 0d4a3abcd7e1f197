"""The target table through delta-rs: its properties, commits and coordinates.

Only Spark writes the data files. The statistics of a file are enough if they prove what it holds:
one partition, and as many rows as its offsets span. Otherwise the coordinate columns of the file
are read. Keys and values are never read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from deltalake import exceptions as delta_errors

from tideline.delta_io.arrow_tables import from_delta, microseconds
from tideline.delta_io.parquet_files import read_parquet
from tideline.errors import ServiceAway
from tideline.failpoints import reach
from tideline.launch.job import SparkJob
from tideline.model.coverage import union
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.run import TableCommit
from tideline.model.verification import LandedRange
from tideline.rules.audit import Stored
from tideline.table.append import commit_data_files, partitions_of_plain
from tideline.table.create import TableFolder
from tideline.table.file_statistics import (
    IDENTITY,
    DataFile,
    copies,
    identity_of,
    may_hold,
    proven_span,
    runs,
)
from tideline.table.history import find_commit, newer_commits
from tideline.table.schema import LEDGER_PROPERTY, STREAM_PROPERTY

_TRIES = 10
"""How many times another program may commit between the check of the table and our commit."""


class TargetTable:
    """One Delta table: implements `TablePort`, which documents the methods.

    Args:
        uri: Address, as in the stream file.
        storage_options: delta-rs options of the object store.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = uri
        self._options = dict(storage_options or {})

    def observe(self, known_version: int | None = None) -> TableObservation:
        """The newest version of the table, with the commits after a known version."""
        table = self._open(None)
        if table is None:
            return TableObservation(exists=False)
        metadata = table.metadata()
        properties = metadata.configuration
        return TableObservation(
            exists=True,
            table_id=str(metadata.id),
            version=table.version(),
            stream=properties.get(STREAM_PROPERTY),
            ledger_id=properties.get(LEDGER_PROPERTY),
            newer=newer_commits(table, known_version),
            partition_by=partitions_of_plain(table),
        )

    def newest_record(self, identity: PartitionIdentity) -> datetime | None:
        """The largest timestamp among a partition's rows, from file statistics."""
        table = self._open(None)
        times = [f.newest for f in self.files(table) if f.identity == identity] if table else []
        return max((t for t in times if t is not None), default=None)

    def find_commit(self, plan_id: str, after_version: int | None) -> TableCommit | None:
        """The newest commit of a plan, among those after a version."""
        table = self._open(None)
        if table is None:
            return None
        return find_commit(table, plan_id, after_version)

    def newest_token(self, app_id: str) -> int | None:
        """The newest fencing token that the table has recorded for an application."""
        table = self._open(None)
        return None if table is None else table.transaction_version(app_id)

    def landed(
        self, ranges: Iterable[CoordinateRange], version: int
    ) -> dict[PartitionIdentity, LandedRange]:
        """Rows and distinct offsets inside the ranges, in one version."""
        wanted = {r.identity: r.offsets for r in ranges}
        table = self._open(version)
        if table is None:
            return {}
        rows: dict[PartitionIdentity, int] = defaultdict(int)
        intervals: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
        loose: dict[PartitionIdentity, list[np.ndarray]] = defaultdict(list)
        for file in self.files(table):
            sole = file.identity
            if sole is not None and not may_hold(file, wanted.get(sole)):
                continue
            span = None if sole is None else proven_span(file, wanted[sole])
            if sole is not None and span is not None:
                rows[sole] += file.rows
                intervals[sole].append(span)
                continue
            for identity, offsets in self.coordinates(table, file):
                bounds = wanted.get(identity)
                if bounds is not None:
                    inside = offsets[
                        (offsets >= bounds.start_offset) & (offsets < bounds.end_offset)
                    ]
                    rows[identity] += len(inside)
                    loose[identity].append(inside)
        for identity, pieces in loose.items():
            intervals[identity] += runs(np.concatenate(pieces))
        return {i: LandedRange(i, rows[i], union(intervals[i])) for i in rows if rows[i]}

    def stored(self) -> Iterator[Stored]:
        """What every data file of the newest version holds, by coordinates."""
        table = self._open(None)
        if table is not None:
            for file in self.files(table):
                for identity, offsets in self.coordinates(table, file):
                    yield Stored(identity, len(offsets), runs(offsets), copies(offsets))

    def create(self, stream: str, ledger_id: str, partition_by: Sequence[str]) -> None:
        """Create the table without rows, with Tideline's properties, unless it exists."""
        with self._reachable():
            TableFolder(self.uri, self._options).create(stream, ledger_id, partition_by)

    def add_files(self, job: SparkJob, checked_version: int) -> None:
        """Commit the data files that an attempt has written, unless they no longer fit."""
        for _ in range(_TRIES):
            table = self._open(None)
            if table is None or not self._may_add(table, job, checked_version):
                return
            reach("ingest:adding")
            with self._reachable(), suppress(delta_errors.CommitFailedError):
                commit_data_files(table, job, self._options)
                return
        raise self._away(RuntimeError(f"other programs have committed first, {_TRIES} times"))

    def _may_add(self, table: DeltaTable, job: SparkJob, checked_version: int) -> bool:
        newest = table.transaction_version(job.app_id)
        if newest is not None and newest >= job.token:
            return False
        if partitions_of_plain(table) != job.partition_by:
            return False
        version = table.version()
        return version == checked_version or not self.landed(job.ranges, version)

    def remove_staging(self, token: int) -> None:
        """Delete the staged rows of an attempt and of all older ones."""
        with self._reachable():
            TableFolder(self.uri, self._options).remove_staging(token)

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (delta_errors.DeltaError, OSError) as error:
            raise self._away(error) from error

    def files(self, table: DeltaTable) -> Iterator[DataFile]:
        """The active data files, with what the log says about them."""
        actions = from_delta(table.get_add_actions(flatten=True))
        # A producer that does not send milliseconds gives years that no datetime holds.
        times = [field.name for field in actions.schema if pa.types.is_timestamp(field.type)]
        newest: list[datetime | None] = [None] * len(actions)
        if "max.timestamp" in times:
            newest = [_instant(us) for us in microseconds(actions.column("max.timestamp"))]
        for action, latest in zip(actions.drop(times).to_pylist(), newest, strict=True):
            constants = {}
            for name in IDENTITY:
                given = action.get(f"partition.{name}")
                low, high = action.get(f"min.{name}"), action.get(f"max.{name}")
                if given is not None:
                    constants[name] = given
                elif low is not None and low == high and name != "topic_id":
                    constants[name] = low
            yield DataFile(
                path=action["path"],
                rows=int(action["num_records"] or 0),
                constants=constants,
                low=action.get("min.offset"),
                high=action.get("max.offset"),
                newest=latest,
            )

    def coordinates(
        self, table: DeltaTable, file: DataFile
    ) -> Iterator[tuple[PartitionIdentity, np.ndarray]]:
        """The offsets in one file, by identity, in the order of the file; reads coordinates only.

        Raises:
            ServiceAway: The store cannot be reached.
        """
        columns = [n for n in IDENTITY if n not in file.constants]
        with self._reachable():
            data = read_parquet(table, file.path, [*columns, "offset"], self._options)
        if not columns:
            identity = file.identity
            assert identity is not None
            yield identity, data.column("offset").to_numpy()
            return
        # Imported lazily: it takes 0.1 s, and most files hold one partition.
        import pyarrow.compute as pc

        for group in data.select(columns).group_by(columns).aggregate([]).to_pylist():
            mask = None
            for name in columns:
                equal = pc.equal(data.column(name), group[name])
                mask = equal if mask is None else pc.and_(mask, equal)
            identity = identity_of({**file.constants, **group})
            yield identity, data.filter(mask).column("offset").to_numpy()

    def _open(self, version: int | None) -> DeltaTable | None:
        try:
            return DeltaTable(self.uri, version=version, storage_options=self._options)
        except delta_errors.TableNotFoundError:
            return None
        except (delta_errors.DeltaError, OSError) as error:
            raise self._away(error) from error

    def _away(self, error: Exception) -> ServiceAway:
        return ServiceAway(
            f"table {self.uri} cannot be used: {type(error).__name__}: {error}; no position has"
            " moved, run again when its store is back",
            table=self.uri,
        )


def _instant(since_1970: int | None) -> datetime | None:
    if since_1970 is None:
        return None
    try:
        return datetime.fromtimestamp(since_1970 / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return None
