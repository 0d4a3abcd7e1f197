"""Whoever wants to see how far Spark is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol


class Watcher(Protocol):
    """Shows a person how far a job is; `cli.progress.ProgressLine` does."""

    def begin(self, partitions: int, offsets: int) -> None:
        """A job is handed over.

        Args:
            partitions: How many ranges it reads.
            offsets: How many offsets they have: an upper bound of the records.
        """

    def update(self, tasks: int, of_tasks: int, records: int) -> None:
        """It is as far as this.

        Args:
            tasks: How many tasks have ended.
            of_tasks: How many there are.
            records: How many records were read.
        """

    def end(self) -> None:
        """It has ended, in whatever way."""


def planned_work(job_path: str) -> tuple[int, int]:
    """How many ranges a job file reads, and how many offsets they have."""
    job: dict[str, Any] = json.loads(Path(job_path).read_text())
    ranges = job["plan"]["ranges"] if "plan" in job else job["ranges"]
    return len(ranges), sum(r["end_offset"] - r["start_offset"] for r in ranges)


def told(line: str) -> tuple[int, int, int] | None:
    """Tasks, all tasks and records, if a driver's line is about progress; None if it is not."""
    word, _, facts = line.partition(" ")
    if word != "progress":
        return None
    found = json.loads(facts)
    return found["tasks"], found["of_tasks"], found["records"]
