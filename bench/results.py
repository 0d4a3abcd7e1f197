"""Timings on disk, so that a bench that was cut off goes on where it was."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Timing:
    """One pair.

    Args:
        name: The comparison's; `<name>.aa<n>` for a side against itself.
        ours: Seconds.
        others: Seconds.
    """

    name: str
    ours: float
    others: float


class Results:
    """What was timed so far.

    Args:
        folder: Holds one file of JSON lines.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
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

    def pairs(self, name: str) -> int:
        """How many pairs of it there are."""
        return len(self._found[name])

    def seconds(self, name: str) -> tuple[list[float], list[float]]:
        """Ours and others', pair by pair."""
        timings = self._found[name]
        return [t.ours for t in timings], [t.others for t in timings]
