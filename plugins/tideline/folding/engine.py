"""The fold as runs have it: in their own process, over Arrow, without Spark."""

from __future__ import annotations

from tideline.errors import ServiceAway
from tideline.launch.progress import Stage, logged_seldom
from tideline.model.fold_job import FoldJob, FoldResult
from tideline.table.table_port import Stores
from tideline.texts import one_line


def fold_here(stores: Stores, stage: Stage | None, job: FoldJob) -> FoldResult:
    """Fold in this process, in threads that have ended afterwards.

    What was written is to be discarded where this raises.

    Args:
        stores: Opens the store of a table.
        stage: Is told how far the fold is; None: the log is, where a fold takes long.
        job: What is to be folded.

    Raises:
        ServiceAway: A store is away, or a disk is full.
    """
    from tideline.folding.arrow.folding import fold  # imports Arrow's functions

    try:
        return fold(job, stores, stage or logged_seldom())
    except OSError as error:
        raise ServiceAway(
            f"the changes could not be folded: {type(error).__name__}: {one_line(str(error))};"
            " nothing was committed, run again when the store is back and disks have space"
        ) from error
