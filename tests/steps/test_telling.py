"""What a run says of itself: each step ends with a line, and that line has the numbers.

In Airflow each step has a log of its own: one that says nothing proves nothing to its reader.
"""

import logging

import pytest

from tideline.decoding.steps import decode_rows, verify_decoded
from tideline.folding.steps import fold_changes, verify_current
from tideline.landing.context import hold_lane
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)

STEPS = (
    *(plan_offset_ranges, detect_earliest_reset, resolve_reset),
    *(ingest_ranges, verify_ranges, advance_offsets),
    *(decode_rows, verify_decoded, fold_changes, verify_current),
)
IN_LANE = 6


@pytest.fixture
def said(memory, caplog):
    """What each step of a run says, by its name."""
    caplog.set_level(logging.INFO, "tideline")

    def run(run_id):
        found = {}
        for number, step in enumerate(STEPS):
            context = memory.open(run_id)
            caplog.clear()
            if number < IN_LANE:
                with hold_lane(context):
                    step(context)
            else:
                step(context)
            found[step.__name__] = [r.getMessage() for r in caplog.records]
        return found

    return run


@pytest.fixture
def typed(memory):
    memory.configure(
        decode={"value": {"format": "json"}},
        current={"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}},
    )
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.grow(2)
    return memory


def test_each_step_says_what_it_has_done(typed, said):
    typed.send(500, 0)
    typed.send(1, 1)
    found = said("one")
    assert [name for name, lines in found.items() if not lines] == []
    assert found["plan_offset_ranges"][-1] == "to read: 501 offsets of 2 partitions"
    assert found["resolve_reset"] == ["nothing to resolve"]
    assert (
        found["verify_ranges"][-1] == "verified: 501 rows for 501 planned offsets, table version 1"
    )
    assert found["advance_offsets"][-1] == "next offsets: orders-0: 0 -> 500, orders-1: 0 -> 1"
    assert found["verify_decoded"][-1] == "decoded 501, quarantined 0, tombstones 0"


def test_a_run_without_work_says_so_in_each_step_that_runs(typed, said):
    typed.send(5)
    said("one")
    found = said("two")
    assert found["plan_offset_ranges"][-1] == "to read: 0 offsets of 0 partitions"
    assert found["detect_earliest_reset"][-1] == "up to date"
