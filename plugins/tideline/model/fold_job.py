"""A fold to be done, and what has come of it.

FoldJob     changes of keys     ->  FoldResult
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tideline.model.current import Barrier, BucketState, FoldPlan, FoldRefusal
from tideline.model.spark_job import Output, SparkResult


@dataclass(frozen=True, slots=True)
class BucketFiles:
    """The data files of one bucket of the current table."""

    bucket: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoldJob:
    """One fold of changes into files of the current table.

    Args:
        typed_uri: The typed table's address.
        typed_files: Those that may hold the plan's changes: relative to the table, not URL-encoded.
        every_file: The same of all that is decoded, where buckets are folded anew.
        current_files: Of the current table, in the version that is folded into.
        anew: Buckets that are folded anew; what stands there counts for nothing.
        before: What the ledger knows of each bucket.
        is_recompute: Whether nothing is written: what stands there is summed up, and what the
            plan's changes alone would make.
        only: Of a recompute: the buckets that are read; none for all.
    """

    typed_uri: str
    typed_files: tuple[str, ...]
    current_files: tuple[BucketFiles, ...]
    plan: FoldPlan
    current: Output
    every_file: tuple[str, ...] = ()
    anew: tuple[int, ...] = ()
    before: tuple[BucketState, ...] = ()
    is_recompute: bool = False
    only: tuple[int, ...] = ()

    def before_in(self, touched: Iterable[int]) -> tuple[BucketState, ...]:
        """What the ledger knows of buckets whose rows count."""
        wanted = {*touched} - {*self.anew}
        return tuple(state for state in self.before if state.bucket in wanted)


@dataclass(frozen=True, slots=True)
class FoldResult:
    """What has come of a fold.

    Args:
        written: Rows of the current table's new files.
        changes: Typed rows that were folded, those without a key among them.
        keyless: Changes without a key.
        touched: Buckets that the new files replace.
        found: What the touched buckets held before, but for those folded anew.
        left: What they hold after.
        refused: Changes that have no place in the table; then nothing was written.
        needs_all: Whether a delete can only be judged by all that is decoded; then nothing was
            written either, and the job is to be given again with all files.
        anew: Buckets that have to be folded anew; then nothing was written either, and the job is
            to be given again with them.
        barrier: The last change that said that all rows are gone, those before it included.
    """

    written: SparkResult = field(default_factory=SparkResult)
    changes: int = 0
    keyless: int = 0
    touched: tuple[int, ...] = ()
    found: tuple[BucketState, ...] = ()
    left: tuple[BucketState, ...] = ()
    refused: tuple[FoldRefusal, ...] = ()
    needs_all: bool = False
    anew: tuple[int, ...] = ()
    barrier: Barrier | None = None
