"""The steps in a row, as `tideline run` does them: six land, two decode, two fold.

Airflow runs the same functions, one a task; `steps_without_work` says which need no process.
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.decoding.decode_rules import has_to_decode
from tideline.folding.fold_rules import has_to_fold as folding_has_work
from tideline.folding.fold_rules import share_now
from tideline.landing.context import RunContext, hold_lane, log, now
from tideline.ledger.state import LedgerState
from tideline.model.current import FoldRequest
from tideline.model.decoding import Decoding
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.run import RunRecord
from tideline.model.wording import how_many
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)
from tideline.stream.stream import Stream

AFTER_DETECTION = ("resolve_reset", "ingest_ranges", "verify_ranges", "advance_offsets")
"""The steps that follow and land, in their order."""


DECODING_STEPS = ("decode_rows", "verify_decoded")
"""The steps that follow where the stream has typed tables."""
FOLDING_STEPS = ("fold_changes", "verify_current")
"""The steps that follow where the stream has a current table."""


def run_batch(run: RunContext) -> RunRecord:
    """Land, then decode where the stream has typed tables, then fold where it has a current one.

    Returns:
        The run's closed record; what was decoded is in `run.decoded`, what was folded in
        `run.folded`.

    Raises:
        TidelineError: The first step that fails; nothing after it has happened.
    """
    record = land_batch(run)
    decode_batch(run)
    fold_batch(run)
    return record


def decode_batch(run: RunContext) -> None:
    """Decode and verify what is landed; it holds no lane, so landing goes on beside it."""
    if run.typed is None:
        return
    # Imported here: most streams have no typed tables.
    from tideline.decoding.decode_steps import decode_rows, verify_decoded

    log.info("decoding")
    if decode_rows(run) is not None:
        log.info("verifying the decoded rows")
        run.decoded = verify_decoded(run)


def fold_batch(run: RunContext, asked: FoldRequest | None = None) -> None:
    """Fold and verify what is decoded; neither landing nor decoding waits for it.

    Args:
        asked: What somebody has asked for: then it is time, whatever `current.every` says.
    """
    if run.current is None:
        return
    # Imported here: most streams have no current table.
    from tideline.folding.fold_steps import fold_changes, verify_current

    log.info("folding")
    if fold_changes(run, asked) is not None:
        log.info("verifying the current table")
        run.folded = verify_current(run)


def land_batch(run: RunContext) -> RunRecord:
    """Plan, detect, resolve, ingest, verify, advance."""
    with hold_lane(run):
        log.info("planning")
        plan_offset_ranges(run)
        log.info("detecting")
        record = detect_earliest_reset(run)
        incidents = run.ledger.read().control.incidents if record.is_to_execute else ()
        needless = steps_without_work(record, incidents)
        if "ingest_ranges" in needless:
            return record
        if "resolve_reset" not in needless:
            resolve_reset(run)
            record = run.frozen()[1]
        plan = record.plan
        if plan is None or not record.is_to_execute:
            return record
        partitions, offsets = len(plan.ranges), plan.estimated_records
        what = (how_many(offsets, "offset"), how_many(partitions, "partition"))
        log.info("ingesting %s of %s", *what)
        ingest_ranges(run)
        log.info("verifying")
        verify_ranges(run)
        return advance_offsets(run)


def steps_without_work(record: RunRecord, incidents: Collection[Incident]) -> tuple[str, ...]:
    """The steps that can be left out; in Airflow each one would be a process.

    An incident that comes up later needs no `resolve_reset` of this run: the step that meets it
    halts the run, and a later run, or this one cleared, carries the decision out.

    Args:
        record: The run's, as detection left it.
        incidents: All that are open.
    """
    if record.status == "proposed" or record.is_to_replan or record.resolved:
        return ()
    if not record.is_to_execute:
        return AFTER_DETECTION
    return () if incidents else ("resolve_reset",)


def decodes_nothing(record: RunRecord, head: Head, decoding: Decoding) -> bool:
    """Whether the steps that decode can be left out as well.

    A run that lands something has something to decode.

    Args:
        record: The run's, as detection left it.
        head: What is landed.
        decoding: What is decoded.
    """
    return (
        not record.is_to_execute
        and record.status != "proposed"
        and not has_to_decode(head, decoding)
    )


def folds_nothing(record: RunRecord, state: LedgerState, stream: Stream) -> bool:
    """Whether the steps that fold can be left out as well: nothing is due, or not yet.

    Args:
        record: The run's, as detection left it: what it lands is due once it is decoded.
        state: The ledger.
        stream: Whose; it has a current table.
    """
    assert stream.current is not None
    if record.status == "proposed":
        return False
    plan = record.plan if record.is_to_execute else None
    coming = plan.estimated_records if plan is not None else 0
    waiting = coming + (state.head.coverage - state.decoding.coverage).offsets
    every = share_now(stream.current.every, state.folding, stream.timezone, now())
    return not folding_has_work(state.decoding, state.folding, every, waiting)
