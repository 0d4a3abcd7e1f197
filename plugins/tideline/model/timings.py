"""When a run got how far, and what each of its phases took."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from datetime import datetime
from itertools import accumulate, pairwise

from tideline.model.wording import duration_text

PHASES = (
    "planning",
    "waiting for its next task",
    "waiting for Spark",
    "reading",
    "committing",
    "verifying",
)
"""What lies between two instants of `Timings`, in their order."""
_SHOWN_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class SparkTimes:
    """Of the attempt that made a commit, in milliseconds since 1970, UTC.

    Args:
        asked_ms: When Spark was given the job.
        began_ms: When its application began with it, by the clock of the driver's machine.
        ended_ms: When it had written all files, by that clock.
        committed_ms: When the table's log had the commit.
    """

    asked_ms: int
    began_ms: int
    ended_ms: int
    committed_ms: int


@dataclass(frozen=True, slots=True)
class RunSeconds:
    """What each phase of the live run took that landed last; together, all from begin to end."""

    run_id: str
    planning: float
    waiting_for_task: float
    waiting_for_spark: float
    reading: float
    committing: float
    verifying: float

    def __str__(self) -> str:
        run_id, *seconds = astuple(self)
        phases = zip(PHASES, seconds, strict=True)
        parts = (f"{name} {duration_text(s)}" for name, s in phases if s >= _SHOWN_SECONDS)
        return f"run {run_id} took {duration_text(sum(seconds))}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Timings:
    """When the run that landed last got how far.

    Args:
        run_id: That run.
        begun_at: When it first planned, UTC-aware as all of these.
        frozen_at: When its plan was frozen.
        spark: Of its commit.
        closed_at: When the head had moved.
    """

    run_id: str
    begun_at: datetime
    frozen_at: datetime
    spark: SparkTimes
    closed_at: datetime

    @property
    def seconds(self) -> tuple[float, ...]:
        """What each of `PHASES` took; together, all between the beginning and the end.

        Clocks of two machines may differ: what seems to be before an earlier instant is taken for
        that instant.
        """
        spark, last = self.spark, self.closed_at.timestamp()
        instants = (
            self.begun_at.timestamp(),
            self.frozen_at.timestamp(),
            *(ms / 1000 for ms in (spark.asked_ms, spark.began_ms, spark.ended_ms)),
            spark.committed_ms / 1000,
            last,
        )
        ordered = accumulate((min(at, last) for at in instants), max)
        return tuple(later - earlier for earlier, later in pairwise(ordered))

    @property
    def by_phase(self) -> RunSeconds:
        """The same, each phase with its name."""
        return RunSeconds(self.run_id, *self.seconds)
