"""Timings and tables on disk, so that a bench that was cut off goes on where it was."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.tables import Table


@dataclass(frozen=True, slots=True)
class Timing:
    """One pair.

    Args:
        name: The comparison's, or of a side against itself.
        ours: Seconds.
        others: Seconds.
    """

    name: str
    ours: float
    others: float


class Results:
    """What was timed so far.

    Args:
        folder: Holds a file of JSON lines with the timings, and one with the tables.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._file = folder / "timings.jsonl"
        self._found: dict[str, list[Timing]] = defaultdict(list)
        if self._file.exists():
            for line in self._file.read_text().splitlines():
                timing = Timing(**json.loads(line))
                self._found[timing.name].append(timing)

    def add(self, timing: Timing) -> None:
        """Keep one pair."""
        self._found[timing.name].append(timing)
        with open(self._file, "a") as file:
            file.write(json.dumps(asdict(timing)) + "\n")

    def keep(self, name: str, table: Table) -> None:
        """Keep a table, in the place of an earlier one of that name."""
        found = {**self._tables(), name: {"date": f"{datetime.now(UTC):%Y-%m-%d}", **asdict(table)}}
        (self._folder / "tables.json").write_text(json.dumps(found, indent=1))

    def tables(self) -> dict[str, tuple[str, Table]]:
        """Date and table by name."""
        found = {}
        for name, kept in self._tables().items():
            date = kept.pop("date")
            found[name] = (date, Table(**kept))
        return found

    def _tables(self) -> dict[str, dict[str, Any]]:
        file = self._folder / "tables.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def pairs(self, name: str) -> int:
        """How many pairs of it there are."""
        return len(self._found[name])

    def seconds(self, name: str) -> tuple[list[float], list[float]]:
        """Ours and others', pair by pair."""
        timings = self._found[name]
        return [t.ours for t in timings], [t.others for t in timings]
