"""Tables, with what stands around them: Spark's writer, other programs, a store that loses files.

The contract test of the table runs over each kind of world (`WORLDS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.simulation.table_world import Attempted, SimulatedWorld
from tests.worlds.object_stores import Bucket
from tests.worlds.rows import name_files, raw_rows
from tideline.model.offsets import CoordinateRange
from tideline.table.delta_table import TargetTable
from tideline.table.maintained_table import MaintainedTable
from tideline.table.schema import TableChange
from tideline.table.table_port import TablePort

STREAM, LEDGER = "orders", "l"
BY = ("topic_id", "generation", "topic", "partition")


@dataclass(frozen=True)
class Rows:
    """Rows of one log: one per offset.

    Args:
        at: Topic, id, generation, partition; its offsets unless others are given.
        offsets: Other offsets than the range's.
        plan_id: What the rows say about who landed them.
        key, value: Of each record.
    """

    at: CoordinateRange
    offsets: Sequence[int] | None = None
    plan_id: str = "p"
    key: bytes | None = None
    value: bytes | None = b"x"
    header: bytes | None = None

    @property
    def table(self) -> pa.Table:
        """The rows in the table's columns."""
        offsets = self.offsets
        if offsets is None:
            offsets = range(self.at.start_offset, self.at.end_offset)
        at = {name: getattr(self.at, name) for name in BY}
        headers = None if self.header is None else [{"key": "h", "value": self.header}]
        of = {"key": self.key, "value": self.value, "headers": headers, "plan_id": self.plan_id}
        return raw_rows(offsets, **at, **of)


class TableWorld(Protocol):
    """One table and what happens around it; `port` is what is tested."""

    port: TablePort

    def write(self, change: TableChange, *rows: Rows) -> Attempted:
        """Write an attempt's files as Spark would, each `Rows` in a file of its own."""

    def name(self, change: TableChange, files: Sequence[str]) -> None:
        """The attempt's manifest names other files, by their paths relative to the table."""

    def lose(self, path: str) -> None:
        """A written data file vanishes."""

    def plant(self, like: str, path: str) -> None:
        """A copy of a data file appears under another path."""

    def keep_house(self) -> None:
        """Somebody else commits, and changes no row."""

    def append(self, *rows: Rows) -> None:
        """Somebody else adds rows, all in one file where partitioning allows it."""

    def rows(self) -> list[tuple[str, int, int, int, str]]:
        """Topic id, generation, partition, offset and plan of each row, sorted."""


class DeltaWorld:
    """A real Delta table in a folder; pyarrow writes the files.

    Args:
        folder: For the table.
        partition_by: The table's partition columns.
    """

    def __init__(self, folder: Path, partition_by: Sequence[str] = ("topic_id",)) -> None:
        self.folder, self.partition_by = folder, tuple(partition_by)
        self.port: TablePort = TargetTable(str(folder))
        self.port.create(STREAM, LEDGER, partition_by)

    def write(self, change: TableChange, *rows: Rows) -> Attempted:
        files = []
        for number, item in enumerate(rows):
            table = item.table
            values = {name: str(table.column(name)[0]) for name in self.partition_by if len(table)}
            folders = [f"{name}={quote(value, safe=' ')}" for name, value in values.items()]
            path = "/".join([change.folder, *folders, f"part-{number:05d}.parquet"])
            self._target(path).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table.drop(self.partition_by), self._target(path))
            files.append(path)
        self.name(change, files)
        return Attempted(sum(len(item.table) for item in rows), tuple(files))

    def name(self, change: TableChange, files: Sequence[str]) -> None:
        name_files(self.folder, change.folder, files)

    def lose(self, path: str) -> None:
        self._target(path).unlink()

    def plant(self, like: str, path: str) -> None:
        self._target(path).parent.mkdir(parents=True, exist_ok=True)
        self._target(path).write_bytes(self._target(like).read_bytes())

    def keep_house(self) -> None:
        DeltaTable(self.folder).alter.set_table_properties(
            {"delta.logRetentionDuration": f"interval {DeltaTable(self.folder).version()} days"}
        )

    def append(self, *rows: Rows) -> None:
        write_deltalake(self.folder, pa.concat_tables([r.table for r in rows]), mode="append")

    def rows(self) -> list[tuple[str, int, int, int, str]]:
        names = ["topic_id", "generation", "partition", "offset", "plan_id"]
        found: Mapping[str, list[object]] = (
            DeltaTable(self.folder).to_pyarrow_table(columns=names).to_pydict()
        )
        return sorted(zip(*(found[n] for n in names), strict=True))  # type: ignore[arg-type]

    def _target(self, path: str) -> Path:
        return self.folder / path


class StoreWorld(DeltaWorld):
    """Spark's files and other programs get there beside the proxy, through the server's folder.

    Args:
        bucket: Where the table is.
        partition_by: The table's partition columns.
    """

    def __init__(self, bucket: Bucket, partition_by: Sequence[str] = ("topic_id",)) -> None:
        self.bucket = bucket
        self.folder, self.partition_by = bucket.path(), tuple(partition_by)
        self.port: TargetTable = MaintainedTable(bucket.uri(), bucket.options)
        self.port.create(STREAM, LEDGER, partition_by)


WORLDS = {"delta": DeltaWorld, "simulated": SimulatedWorld}
"""Every kind of table; called with an empty folder and the partition columns."""


def change(
    *ranges: CoordinateRange, commit_id: str = "p", token: int = 1, run_id: str = "r"
) -> TableChange:
    """A change of the rows at ranges."""
    return TableChange(LEDGER, commit_id, run_id, token, tuple(r.as_coordinates for r in ranges))


def coordinates(rows: Iterable[Rows]) -> list[tuple[str, int, int, int, str]]:
    """What `TableWorld.rows` shows of rows."""
    return sorted(
        (r.at.topic_id, r.at.generation, r.at.partition, offset, r.plan_id)
        for r in rows
        for offset in (r.offsets if r.offsets is not None else range(*_bounds(r.at)))
    )


def moved(rows: Rows, **changes: object) -> Rows:
    """The same rows in another log."""
    return replace(rows, at=replace(rows.at, **changes))  # type: ignore[arg-type]


def _bounds(at: CoordinateRange) -> tuple[int, int]:
    return at.start_offset, at.end_offset
