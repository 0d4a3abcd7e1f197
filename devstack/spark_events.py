"""What Spark's own event log says about the tasks of an application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_ENDED = "SparkListenerTaskEnd"
_SUCCESS = "Success"


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt of a task.

    Args:
        number: Of the attempt; unique in its application.
        stage: Of the application.
        index: Which of the stage's tasks; all attempts of a task have the same.
        executor: Number of its executor.
        is_speculative: Whether it is a copy of an attempt that was slow.
        end: `Success`, or why it failed; empty while the driver has not heard of its end.
        began_ms: When it was handed to its executor, in milliseconds since 1970.
        ended_ms: When the driver heard of its end; 0 before that.
        records: How many it read.
    """

    number: int
    stage: int
    index: int
    executor: str
    is_speculative: bool
    began_ms: int
    end: str = ""
    ended_ms: int = 0
    records: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether its result counts, or would have."""
        return self.end == _SUCCESS


def logs_events(folder: Path) -> dict[str, str]:
    """Spark properties with which a driver of this machine writes its events as plain text.

    Args:
        folder: For one file per application; created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.absolute().as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def tasks_of(folder: Path) -> list[list[Task]]:
    """The attempts of all tasks of each application, in their order; the oldest one first.

    Args:
        folder: As of `logs_events`.
    """
    files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    return [list(_tasks(file)) for file in files]


def _tasks(file: Path) -> Iterator[Task]:
    found: dict[int, Task] = {}
    for event in _events(file):
        told = event["Task Info"]
        task = Task(
            number=told["Task ID"],
            stage=event["Stage ID"],
            index=told["Index"],
            executor=told["Executor ID"],
            is_speculative=told["Speculative"],
            began_ms=told["Launch Time"],
        )
        if event["Event"] == _ENDED:
            metrics = event.get("Task Metrics") or {}
            task = replace(
                task,
                end=event["Task End Reason"]["Reason"],
                ended_ms=told["Finish Time"],
                records=metrics.get("Input Metrics", {}).get("Records Read", 0),
            )
        found[task.number] = task
    yield from (found[number] for number in sorted(found))


def _events(file: Path) -> Iterator[dict[str, Any]]:
    """What it says of tasks; the last line of a driver that was killed may be half a one."""
    for line in file.read_text().split("\n")[:-1]:
        if line.startswith(('{"Event":"SparkListenerTaskStart"', f'{{"Event":"{_ENDED}"')):
            yield json.loads(line)
