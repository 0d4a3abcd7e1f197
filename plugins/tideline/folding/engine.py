"""What folds: this process, over Arrow; or Spark, where that does not cover a fold. One decides."""

from __future__ import annotations

from collections.abc import Iterator

from tideline.errors import ServiceAway
from tideline.landing.context import RunContext
from tideline.model.spark_job import FoldJob, FoldResult
from tideline.texts import told


def why_spark(run: RunContext, job: FoldJob) -> str | None:
    """Why Spark folds, in words; None where this process does.

    `fold_here` may find out more, in the files.

    Args:
        run: Says where Spark is, and how the tables' files are opened here.
        job: What is to be folded.
    """
    if run.stores is None:
        return "no store is opened here"
    if not run.spark.is_here:
        return "Spark is on other machines"
    return next(uncovered(job), None)


def fold_here(run: RunContext, job: FoldJob) -> FoldResult:
    """Fold in this process, in threads that have ended afterwards.

    What was written is to be discarded where this raises; where that is `NotCovered`, Spark folds.

    Raises:
        ServiceAway: A store is away, or a disk is full.
    """
    from tideline.folding.arrow.folding import fold

    assert run.stores is not None
    try:
        return fold(job, run.stores)
    except OSError as error:
        raise ServiceAway(
            f"the changes could not be folded: {type(error).__name__}: {told(str(error))}; nothing"
            " was committed, run again when the store is back and disks have space"
        ) from error


def uncovered(job: FoldJob) -> Iterator[str]:
    """What of a fold only Spark's knows how to do, in words."""
    yield from ()
