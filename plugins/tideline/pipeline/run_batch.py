"""The steps in a row, as `tideline run` does them: six that land, and two that decode."""

from __future__ import annotations

from tideline.landing.context import RunContext, hold_lane, log
from tideline.model.run import RunRecord
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    steps_without_work,
    verify_ranges,
)


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
        detect_earliest_reset(run)
        state, record = run.snapshot()
        assert record is not None
        needless = steps_without_work(record, state.control.incidents)
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
