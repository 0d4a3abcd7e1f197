"""The judge of the other rows is not blind: each kind of damage shows up in its count."""

from dataclasses import astuple, replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.faults.fault_case import LANDED, FaultCase
from tests.faults.report import Report
from tideline.wiring import open_ledger

pytestmark = pytest.mark.slow


@pytest.fixture
def landed(harness, spark):
    """A stream whose table is exactly the producer's log; these tests have no row."""
    fault_case = FaultCase(harness, spark, Report([], ""))
    fault_case.follow()
    fault_case.lands()
    return fault_case


def counts(fault_case):
    """Lost, duplicate, silent."""
    return astuple(fault_case.counts())


def skip(fault_case, next_offset):
    """What a silent jump would do to the ledger."""

    def jump(state):
        positions = tuple(replace(p, next_offset=next_offset) for p in state.head.positions)
        return replace(state, head=replace(state.head, positions=positions))

    open_ledger(fault_case.stream).update(jump)


def append(fault_case, like, **changes):
    """A row more, as somebody else might write it: like that of an offset, with changes."""
    table = DeltaTable(fault_case.stream.table.uri)
    rows = [r for r in table.to_pyarrow_table().to_pylist() if r["offset"] == like]
    schema = table.to_pyarrow_table().schema
    write_deltalake(
        table, pa.Table.from_pylist([{**rows[0], **changes}], schema=schema), mode="append"
    )


def test_all_is_well(landed):
    """What has not been read yet is not lost."""
    landed.send(20)
    assert counts(landed) == (0, 0, 0)


def test_a_jump_over_readable_records_is_a_silent_loss(landed):
    """Nobody will ever read them."""
    landed.send(20)
    skip(landed, 110)
    assert counts(landed) == (10, 0, 1)


def test_a_jump_to_the_log_start_is_a_silent_loss(landed):
    """As auto.offset.reset=earliest makes it; an incident that names the loss makes it none."""
    landed.send(50)
    landed.harness.delete_records(before=130)
    assert counts(landed) == (30, 0, 0)
    skip(landed, 130)
    assert counts(landed) == (30, 0, 1)
    skip(landed, 100)
    landed.halts("retention_loss")
    assert counts(landed) == (0, 0, 0)


def test_second_copies_are_counted(landed):
    """Of a coordinate, or of a record at another coordinate."""
    append(landed, 7)
    assert counts(landed) == (0, 1, 0)
    append(landed, 8, offset=1000)
    assert counts(landed)[1] == 2


def test_rows_that_nobody_wrote_are_silent_damage(landed):
    """The log has no such record."""
    append(landed, 7, offset=1000, value=b"foreign")
    assert counts(landed) == (0, 0, 1)


def test_a_position_that_moves_on_after_a_reset_is_silent_damage(landed):
    """All old rows had landed; the offsets of the new topic are other records."""
    landed.harness.delete()
    landed.harness.create(partitions=1)
    landed.send(LANDED * 2)
    assert counts(landed) == (0, 0, 0)
    skip(landed, LANDED * 2)
    assert counts(landed) == (0, 0, 1)
