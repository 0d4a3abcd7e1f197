"""The target table, through delta-rs: marks, commits, and which coordinates it holds.

Spark alone writes this table's data files. Where the statistics of a file prove what it holds (one
partition, as many rows as its offsets span), they are enough; otherwise its coordinate columns are
read. Values never are.
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
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.plan import PlannedRange
from tideline.model.run import TableCommit
from tideline.model.verification import LandedRange
from tideline.rules.audit import Stored
from tideline.table.append import commit_files, partitions_of_plain
from tideline.table.create import TableFolder
from tideline.table.file_statistics import IDENTITY, DataFile, copies, may_hold, proven_span, runs
from tideline.table.history import find_commit, newer_commits
from tideline.table.schema import LEDGER_PROPERTY, STREAM_PROPERTY

_TRIES = 10
"""How often others may commit to the table between a look and our commit."""


class TargetTable:
    """One table.

    Args:
        uri: Address, as in the stream file.
        storage_options: delta-rs options of the object store.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = uri
        self._options = dict(storage_options or {})

    def observe(self, known_version: int | None = None) -> TableObservation:
        """Marks, id and version, or that there is no table; with commits after a known version."""
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
        """The newest commit with the plan's mark, among those after a version."""
        table = self._open(None)
        if table is None:
            return None
        return find_commit(table, plan_id, after_version)

    def newest_token(self, app_id: str) -> int | None:
        """The transaction version that the table holds of an application; None where none is."""
        table = self._open(None)
        return None if table is None else table.transaction_version(app_id)

    def landed(
        self, ranges: Iterable[PlannedRange], version: int
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
        """What every data file of the newest version holds; reads coordinates, no values."""
        table = self._open(None)
        if table is not None:
            for file in self.files(table):
                for identity, offsets in self.coordinates(table, file):
                    yield Stored(identity, len(offsets), runs(offsets), copies(offsets))

    def create(self, stream: str, ledger_id: str, partition_by: Sequence[str]) -> None:
        """Create the table with Tideline's marks and no rows; one that is there is left alone."""
        with self._reachable():
            TableFolder(self.uri, self._options).create(stream, ledger_id, partition_by)

    def add_files(self, job: SparkJob, checked_version: int) -> None:
        """Commit the data files that an attempt has written, unless it is too late."""
        for _ in range(_TRIES):
            table = self._open(None)
            if table is None or not self._may_add(table, job, checked_version):
                return
            reach("ingest:adding")
            with self._reachable(), suppress(delta_errors.CommitFailedError):
                commit_files(table, job, self._options)
                return
        raise self._away(RuntimeError(f"others have committed first, {_TRIES} times"))

    def _may_add(self, table: DeltaTable, job: SparkJob, checked_version: int) -> bool:
        newest = table.transaction_version(job.app_id)
        if newest is not None and newest >= job.token:
            return False
        if partitions_of_plain(table) != job.partition_by:
            return False
        version = table.version()
        return version == checked_version or not self.landed(job.ranges, version)

    def remove_staging(self, token: int) -> None:
        """Remove the rows that an attempt and older ones have staged."""
        with self._reachable():
            TableFolder(self.uri, self._options).remove_staging(token)

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (delta_errors.DeltaError, OSError) as error:
            raise self._away(error) from error

    def files(self, table: DeltaTable) -> Iterator[DataFile]:
        """Active data files with what the log says about them."""
        actions = from_delta(table.get_add_actions(flatten=True))
        # A producer that counts otherwise writes years that no datetime holds.
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
        """Offsets in one file, by identity; reads coordinate columns only."""
        columns = [n for n in IDENTITY if n not in file.constants]
        with self._reachable():
            data = read_parquet(table, file.path, [*columns, "offset"], self._options)
        if not columns:
            identity = file.identity
            assert identity is not None
            yield identity, data.column("offset").to_numpy()
            return
        # Here: its import takes a tenth of a second, and most files hold one partition each.
        import pyarrow.compute as pc

        for group in data.select(columns).group_by(columns).aggregate([]).to_pylist():
            mask = None
            for name in columns:
                equal = pc.equal(data.column(name), group[name])
                mask = equal if mask is None else pc.and_(mask, equal)
            found = {**file.constants, **group}
            identity = PartitionIdentity(
                str(found["topic_id"]), int(found["generation"]), int(found["partition"])
            )
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
            f"table {self.uri} cannot be used: {type(error).__name__}: {error};"
            " nothing moved, try again when its store is back",
            table=self.uri,
        )


def _instant(since_1970: int | None) -> datetime | None:
    if since_1970 is None:
        return None
    try:
        return datetime.fromtimestamp(since_1970 / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return None
