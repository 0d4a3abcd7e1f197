"""The six steps in a row, as `tideline run` does them."""

from __future__ import annotations

from tideline.model.run import RunRecord
from tideline.pipeline.advance_offsets import advance_offsets
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.detect_earliest_reset import detect_earliest_reset
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.lane import hold_lane
from tideline.pipeline.plan_offset_ranges import plan_offset_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.verify_ranges import verify_ranges
from tideline.rules.steps import steps_without_work


def run_batch(run: RunContext) -> RunRecord:
    """Plan, detect, resolve, ingest, verify, advance.

    Returns:
        The run's closed record.

    Raises:
        TidelineError: The first step that fails; nothing after it has happened.
    """
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
