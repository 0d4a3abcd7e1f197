"""The current table held against the ledger, and against everything that is decoded; by Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tideline.folding.execution import look, said
from tideline.folding.planning import plan_look
from tideline.landing.context import RunContext
from tideline.model.current import BucketState, Folding, differing


@dataclass(frozen=True, slots=True)
class BucketFlaw:
    """A bucket that is not as the ledger says.

    Args:
        bucket: Its number.
        place: `table`: its rows are others than the last fold has left there; `changes`: the
            changes that are decoded make other rows of it.
        expected, found: What the ledger says, and what was found, in words.
    """

    bucket: int
    place: Literal["table", "changes"]
    expected: str
    found: str

    def __str__(self) -> str:
        what = "holds" if self.place == "table" else "would hold, by its changes,"
        return f"bucket {self.bucket} {what} {self.found}; the ledger says {self.expected}"


@dataclass(frozen=True, slots=True)
class CurrentCheck:
    """What a look at the current table came to.

    Args:
        folding: The fold's head, by which it was looked at; None where nothing was ever folded.
        changes: Typed rows that were folded once more, to compare.
        flaws: Empty where the table is the fold of its changes.
    """

    folding: Folding | None
    changes: int = 0
    flaws: tuple[BucketFlaw, ...] = ()


def check_current(run: RunContext) -> CurrentCheck:
    """Fold everything once more without writing, and compare every bucket.

    Args:
        run: This run; its stream has a current table.

    Raises:
        BadInput: A fold is under way, or changes are others since they were folded.
        ServiceAway: Spark or a store is away.
        StreamBusy: Somebody else decodes or folds.
    """
    with run.ledger.lease("decoder"):
        state = run.ledger.read()
        plan = plan_look(run, state)
        if plan is None:
            return CurrentCheck(None)
        result = look(run, plan)
    found: tuple[tuple[Literal["table", "changes"], tuple[BucketState, ...]], ...] = (
        ("table", result.found),
        ("changes", result.left),
    )
    flaws = tuple(
        BucketFlaw(n, place, said(is_known), said(is_there))
        for place, states in found
        for n, (is_known, is_there) in differing(state.folding.buckets, states).items()
    )
    return CurrentCheck(state.folding, result.changes, flaws)
