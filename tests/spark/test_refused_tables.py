"""Tables that ask for another writer: refused up front, and the named commands mend them."""

from functools import partial

import pytest

from devstack.process import wait_until
from tests.worlds.streams import decide, halts, is_clean, table_rows
from tideline.wiring import open_ledger


def named_commands(finding, table):
    """The SQL in a finding's next step."""
    text = finding.next_step.removesuffix("; then the next run goes on by itself")
    commands = [c.rpartition("in Spark: ")[2].partition(", again")[0] for c in text.split("; ")]
    return [command.replace(" t ", f" {table} ") for command in commands]


def mend(spark, finding, table):
    """Run the named commands; again where Delta asks for it, which takes a moment."""

    def is_done(command):
        try:
            spark.session.sql(command)
        except Exception as error:
            if "and then run" not in str(error):
                raise
            return False
        return True

    for command in named_commands(finding, table):
        wait_until(partial(is_done, command), f"Delta refuses {command}", 120)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("SET TBLPROPERTIES ('delta.appendOnly' = 'true')", "delta.appendOnly"),
        ("ADD CONSTRAINT positive CHECK (offset >= 0)", "CHECK constraint positive"),
        pytest.param(
            "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
            "delta.enableChangeDataFeed",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
            "inCommitTimestamp",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
            "rowTracking",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            "columnMapping",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_asks_for_another_writer_halts_before_spark_and_goes_by_itself(
    harness, landed, spark, change, name
):
    """Taken away by the commands of the message, it needs no decision."""
    table = f"delta.`{landed.table.uri}`"
    spark.session.sql(f"ALTER TABLE {table} {change}")
    harness.send(10)
    started = spark.submits
    assert halts(harness, landed, spark) == ["table_changed"]
    assert spark.submits == started
    (incident,) = open_ledger(landed).read().control.incidents
    assert name in incident.finding.cause
    mend(spark, incident.finding, table)
    assert harness.run(landed, "goes on", spark).status == "done"
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_hidden_rows_are_refused_until_they_are_purged(harness, landed, spark):
    """An audit that counts by files is never clean over them; the delete itself stays to decide."""
    table = f"delta.`{landed.table.uri}`"
    enable = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.session.sql(f"ALTER TABLE {table} {enable}")
    spark.session.sql(f"DELETE FROM {table} WHERE offset < 20")
    harness.send(10)
    assert halts(harness, landed, spark) == ["table_changed"]
    _, (finding,) = harness.audit(landed)
    assert "deletionVectors" in finding.cause
    mend(spark, finding, table)
    assert halts(harness, landed, spark, "purged") == ["table_changed"]
    decide(landed, "approve", "incident-2")
    assert harness.run(landed, "purged", spark).status == "done"
    assert len(table_rows(landed)) == 90
    assert is_clean(harness, landed)
