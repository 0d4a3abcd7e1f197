"""The table in memory, as the contract test of the table wants it (`tests.worlds.tables`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.simulation.table import Row, SimulatedTable, TableState

STREAM, LEDGER = "orders", "l"


@dataclass(frozen=True)
class Attempted:
    """What stands for Spark's report, with the files that the manifest names.

    Args:
        rows: As many as Spark counted.
        files: Paths relative to the table.
    """

    rows: int
    files: tuple[str, ...]


class SimulatedWorld:
    """One table in memory and what happens around it.

    Args:
        folder: Not used; a real table would lie there.
        partition_by: The table's partition columns.
    """

    def __init__(self, folder: Path, partition_by: Sequence[str] = ("topic_id",)) -> None:
        self.state = TableState()
        self.port: Any = SimulatedTable(self.state)
        self.port.create(STREAM, LEDGER, partition_by)
        self._plans: list[str] = []

    def write(self, change: Any, *rows: Any) -> Attempted:
        """Each of them in a file of its own."""
        files = []
        for number, item in enumerate(rows):
            path = f"{change.folder}/part-{number:05d}.parquet"
            self.state.files[path] = self._as_rows(item)
            files.append(path)
        self.name(change, files)
        return Attempted(sum(len(self.state.files[f]) for f in files), tuple(files))

    def name(self, change: Any, files: Sequence[str]) -> None:
        """The attempt's manifest names other files."""
        self.state.manifests[change.folder] = tuple(files)

    def lose(self, path: str) -> None:
        """A written data file vanishes."""
        del self.state.files[path]

    def plant(self, like: str, path: str) -> None:
        """A copy of a data file appears."""
        self.state.files[path] = self.state.files[like]

    def keep_house(self) -> None:
        """Somebody else commits, and changes no row."""
        self.state.add_foreign(self.state.rows(), "OPTIMIZE", removes_rows=False)

    def append(self, *rows: Any) -> None:
        """Somebody else adds rows."""
        added = [row for item in rows for row in self._as_rows(item)]
        self.state.add_foreign([*self.state.rows(), *added], "WRITE", removes_rows=False)

    def rows(self) -> list[tuple[str, int, int, int, str]]:
        """Topic id, generation, partition, offset and plan of each row, sorted."""
        return sorted(
            (r.identity.topic_id, r.identity.generation, r.identity.partition, r.offset, plan)
            for r in self.state.rows()
            for plan in [self._plans[r.serial]]
        )

    def _as_rows(self, item: Any) -> tuple[Row, ...]:
        offsets = item.offsets
        if offsets is None:
            offsets = range(item.at.start_offset, item.at.end_offset)
        self._plans.append(item.plan_id)
        return tuple(Row(item.at.identity, offset, len(self._plans) - 1) for offset in offsets)
