"""Runs that end between two steps, as a crash leaves them."""

from __future__ import annotations

from tideline.model.request import RunRequest
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.wiring import open_run


def freeze_only(stream, run_id, spark):
    """A run that died after its plan was frozen."""
    with open_run(stream, run_id, RunRequest(), spark) as run:
        plan_offset_ranges(run)
        return detect_earliest_reset(run)


def commit_only(stream, run_id, spark):
    """A run that died after the table's commit, before the head moved."""
    record = freeze_only(stream, run_id, spark)
    with open_run(stream, run_id, RunRequest(), spark) as run:
        ingest_ranges(run)
    return record
