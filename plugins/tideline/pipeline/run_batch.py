"""The steps in a row, as `tideline run` does them: six that land, and two that decode.

Airflow runs the same functions, one a task; `steps_without_work` says which need no process.
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.decoding.rules import has_work
from tideline.landing.context import RunContext, hold_lane, log
from tideline.model.decoding import Decoding
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.run import RunRecord
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)

AFTER_DETECTION = ("resolve_reset", "ingest_ranges", "verify_ranges", "advance_offsets")
"""The steps that follow and land, in their order."""


DECODING_STEPS = ("decode_rows", "verify_decoded")
"""The steps that follow where the stream has typed tables."""


def run_batch(run: RunContext) -> RunRecord:
    """Land, then decode where the stream has typed tables.

    Returns:
        The run's closed record; what was decoded is in `run.decoded`.

    Raises:
        TidelineError: The first step that fails; nothing after it has happened.
    """
    record = land_batch(run)
    decode_batch(run)
    return record


def decode_batch(run: RunContext) -> None:
    """Decode and verify what is landed; it holds no lane, so landing goes on beside it."""
    if run.typed is None:
        return
    # Imported here: most streams have no typed tables.
    from tideline.decoding.steps import decode_rows, verify_decoded

    log.info("decoding")
    if decode_rows(run) is not None:
        log.info("verifying what was decoded")
        run.decoded = verify_decoded(run)


def land_batch(run: RunContext) -> RunRecord:
    """Plan, detect, resolve, ingest, verify, advance."""
    with hold_lane(run):
        log.info("planning")
        plan_offset_ranges(run)
        log.info("detecting")
        record = detect_earliest_reset(run)
        needless = steps_without_work(record, run.ledger.read().control.incidents)
        if "ingest_ranges" in needless:
            return record
        if "resolve_reset" not in needless:
            resolve_reset(run)
        _, record, plan = run.frozen()
        if plan is None:
            return record
        partitions, offsets = len(plan.ranges), plan.estimated_records
        log.info("ingesting %s offsets of %s partitions", f"{offsets:,}", partitions)
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
    return not record.is_to_execute and record.status != "proposed" and not has_work(head, decoding)
