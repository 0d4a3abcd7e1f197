"""Row 23, the table: taken back to an older version, by Delta or by a copy of its files."""

import shutil

import pytest
from deltalake import DeltaTable

from tests.faults.crash import SENT
from tests.worlds.streams import decide, folder_of, head

pytestmark = pytest.mark.slow


def by_spark(crash):
    crash.spark.session.sql(f"RESTORE delta.`{crash.stream.table.uri}` TO VERSION AS OF 1")


def by_delta_rs(crash):
    DeltaTable(crash.stream.table.uri).restore(1)


def by_an_older_copy(crash):
    table = folder_of(crash.stream.table.uri)
    shutil.rmtree(table)
    table.with_suffix(".copy").rename(table)


@pytest.fixture
def older(crash):
    """A table of two landings; a copy of its files from between them lies beside it."""
    crash.waits()
    crash.repeat("one")
    table = folder_of(crash.stream.table.uri)
    shutil.copytree(table, table.with_suffix(".copy"))
    crash.send(50)
    crash.repeat("two")
    return crash


@pytest.mark.parametrize("restored", [by_spark, by_delta_rs, by_an_older_copy])
def test_the_table_is_taken_back(older, restored):
    """R13: the next run halts before it reads; approved, the missing rows are on record.

    The run that landed them, run again, lands them once more while Kafka has them.
    """
    restored(older)
    assert len(older.rows()) == SENT
    older.send(20)
    older.attempts = 1
    incident = older.halts("table_changed", run_id="three")
    assert len(older.rows()) == SENT
    assert head(older.stream)[older.topic, 0] == SENT + 50
    assert f"tideline resolve FILE --incident {incident.incident_id}" in older.said
    decide(older.stream, "approve")
    record = older.repeat("three")
    assert "50 verified offsets" in record.resolved[0].outcome
    assert len(older.rows()) == SENT + 20
    older.repeat("two")
    older.verdict = "halted: table_changed, then one copy"
    older.judge_crash(f"table restored {restored.__name__.replace('_', ' ')}")
