"""What only the real parts show together: a replay, a loss, a rewind, Delta's own writer.

What the steps decide is shown over memory (`tests/steps`).
"""

import json

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.worlds.streams import (
    closed_incidents,
    commit_only,
    decide,
    gap_reasons,
    halts,
    head,
    is_clean,
    spans,
    table_rows,
    table_version,
)
from tideline.cli.main import main
from tideline.errors import ResetDetected
from tideline.model.request import RunRequest
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges, verify_ranges
from tideline.table.schema import COLUMNS
from tideline.wiring import open_ledger, open_run

CONTENT = tuple(name for name in COLUMNS if name != "plan_id")


def copies(stream):
    """(generation, offset) of every row; a second copy would show."""
    found = table_rows(stream, "topic_id", "generation", "partition", "offset")
    assert len(set(found)) == len(found)
    return found


def test_the_same_run_id_replays_its_plan(harness, spark):
    """Same ranges although more is there, same rows, one copy, the head where it was."""
    harness.create(partitions=2)
    harness.send(100)
    stream = harness.stream()
    first = harness.run(stream, "again", spark)
    harness.send(50, partition=1)
    before, submits, version = head(stream), spark.submits, table_version(stream)
    second = harness.run(stream, "again", spark)
    assert second.plan == first.plan
    assert [v.rows for v in second.verified] == [v.rows for v in first.verified]
    assert (spark.submits - submits, table_version(stream) - version) == (1, 1)
    assert head(stream) == before
    assert len(copies(stream)) == 100
    assert is_clean(harness, stream)


def test_the_same_run_finishes_what_it_committed_without_reading(harness, spark):
    """The table proves the rows."""
    harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream()
    commit_only(stream, "a", spark)
    submits, version = spark.submits, table_version(stream)
    assert harness.run(stream, "a", spark).status == "done"
    assert (spark.submits, table_version(stream)) == (submits, version)
    assert len(table_rows(stream)) == 100


def test_markers_and_aborted_records_are_shown_by_the_log(harness, spark):
    """gaps: explain, the default, needs no policy for transactions."""
    name = harness.create(partitions=1)
    harness.transactions(
        (b"kept", 10, True), (b"aborted", 10, False), (b"kept", 10, True), (b"no", 10, False)
    )
    stream = harness.stream()
    record = harness.run(stream, "run", spark)
    assert gap_reasons(record) == {"marker": 4, "aborted": 20}
    assert head(stream) == {(name, 0): 44}
    assert {value for (value,) in table_rows(stream, "value")} == {b"kept"}
    assert is_clean(harness, stream)


def test_an_accepted_loss_goes_on_at_the_log_start(harness, landed, spark):
    """Between which times the lost records were written is told by table and log."""
    harness.send(50)
    harness.delete_records(before=130)
    assert halts(harness, landed, spark) == ["retention_loss"]
    decide(landed, "accept_loss")
    record = harness.run(landed, "halted", spark)
    assert spans(record) == [(0, 130, 150)]
    assert head(landed) == {(harness.topic(), 0): 150}
    (incident,) = closed_incidents(landed)
    assert "lost: [100, 130): 30 offsets" in incident.outcome
    assert incident.finding.lost_until >= incident.finding.lost_from
    assert is_clean(harness, landed)


def test_unverified_rows_do_not_stay(harness, landed, spark):
    """R6: the topic was re-created while it was read, by its name; the old rows are removed."""
    harness.send(10)
    with open_run(landed, "doubtful", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        harness.delete()
        harness.create(partitions=1)
        harness.send(30)
        with pytest.raises(ResetDetected, match=r"topic_recreated.*unverified rows of plan"):
            verify_ranges(run)
    assert len(table_rows(landed)) == 110
    decide(landed, "restart")
    record = harness.run(landed, "decided", spark)
    assert spans(record) == [(0, 0, 30)]
    (incident,) = record.resolved
    assert incident.removed_in_version == table_version(landed) - 1
    assert len(copies(landed)) == 130
    assert harness.run(landed, "doubtful", spark).status == "superseded"
    assert is_clean(harness, landed)


def test_somebody_else_s_delete_halts_and_can_be_approved(harness, landed, spark):
    """R13: a legitimate delete is recorded; audit knows about it afterwards."""
    spark.session.sql(f"DELETE FROM delta.`{landed.table.uri}` WHERE offset < 40")
    harness.send(10)
    version = table_version(landed)
    assert halts(harness, landed, spark) == ["table_changed"]
    (incident,) = open_ledger(landed).read().control.incidents
    assert f"version {version}: DELETE" in incident.finding.actual
    assert table_version(landed) == version
    decide(landed, "approve")
    record = harness.run(landed, "approved", spark)
    assert "it no longer holds 40 verified offsets" in record.resolved[0].outcome
    assert spans(record) == [(0, 100, 110)]
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_a_restored_table_halts_and_upkeep_by_others_does_not(harness, landed, spark):
    """OPTIMIZE and properties move no row; a restored version has lost some."""
    table = f"delta.`{landed.table.uri}`"
    harness.send(10)
    harness.run(landed, "second", spark)
    spark.session.sql(f"OPTIMIZE {table}")
    spark.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('kept.by' = 'ann')")
    harness.send(10)
    assert harness.run(landed, "third", spark).status == "done"
    spark.session.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    assert halts(harness, landed, spark) == ["table_changed"]
    assert len(table_rows(landed)) == 100


def test_a_replay_of_rows_that_others_have_compacted(harness, landed, spark):
    """One file holds rows of several plans: those of the others stay as they are."""
    harness.send(50)
    harness.run(landed, "second", spark)
    harness.send(50)
    harness.run(landed, "third", spark)
    spark.session.sql(f"OPTIMIZE delta.`{landed.table.uri}`")
    columns = ("offset", "timestamp", "key", "value", "headers", "plan_id")
    before = table_rows(landed, *columns)
    assert len(DeltaTable(landed.table.uri).file_uris()) == 1
    assert harness.run(landed, "second", spark).status == "done"
    assert (table_rows(landed, *columns), len(copies(landed))) == (before, 200)
    seen = spark.session.read.format("delta").load(landed.table.uri)
    assert seen.where("offset >= 100 and offset < 150").count() == 50
    assert is_clean(harness, landed)


def test_a_backfill_of_landed_rows_replaces_them_in_one_copy(landed, harness, spark):
    """R2, R4: read again, counted, and put in place."""
    version, at = table_version(landed), {"topic": harness.topic(), "partition": 0}
    ranges = [{**at, "start_offset": 30, "end_offset": 70}]
    again = harness.run(landed, "again", spark, ranges=ranges)
    assert [v.rows for v in again.verified] == [40]
    assert table_version(landed) == version + 1
    assert len(copies(landed)) == 100
    assert (head(landed), is_clean(harness, landed)) == ({(harness.topic(), 0): 100}, True)


def test_an_audit_names_rows_that_were_written_twice(harness, landed, capsys):
    """By somebody's append, which no version check stops; the exit status is 6."""
    table = DeltaTable(landed.table.uri)
    twice = table.to_pyarrow_table(filters=[("offset", "in", [7, 8])])
    write_deltalake(table, twice, mode="append")
    capsys.readouterr()
    assert main(["audit", str(harness.folder / "orders.yaml"), "--json"]) == 6
    answer = json.loads(capsys.readouterr().out)
    assert (answer["clean"], answer["findings"]) == (False, [])
    (flaw,) = answer["duplicates"]
    names = ("topic", "generation", "partition", "start_offset", "end_offset", "offsets")
    assert [flaw[name] for name in names] == [harness.topic(), 0, 0, 7, 9, 2]
    assert not any(answer[kind] for kind in ("gaps", "overlaps", "missing", "foreign"))


def lands(harness, stream, spark, *run_ids):
    """Runs of 50 new records each, in two partitions."""
    for number, run_id in enumerate(run_ids):
        harness.send(50, partition=number % 2, value=run_id.encode())
        harness.run(stream, run_id, spark)


def rewind(stream, spark, to_run):
    """As `tideline rewind` does."""
    with open_run(stream, "rewind", RunRequest(), spark) as run:
        return rewind_stream(run, RewindRequest(to_run, "wrong filter", "ann"))


def test_three_runs_back_and_forward_again_is_the_same_table(harness, spark):
    """Row by row in every column but the plan's id; the audit is clean at every stage."""
    harness.create(partitions=2)
    stream = harness.stream()
    lands(harness, stream, spark, "one", "two", "three", "four")
    before, positions = table_rows(stream, *CONTENT), head(stream)
    assert is_clean(harness, stream)
    done = rewind(stream, spark, "one")
    assert (done.rows, done.undone_runs, done.lost) == (150, ("two", "three", "four"), ())
    assert done.removed_in_version == table_version(stream)
    assert table_rows(stream, *CONTENT) == [r for r in before if r[8] == b"one"]
    assert is_clean(harness, stream)
    assert harness.run(stream, "again", spark).status == "done"
    assert (table_rows(stream, *CONTENT), head(stream)) == (before, positions)
    assert is_clean(harness, stream)
    assert harness.run(stream, "idle", spark).status == "nothing_to_do"


@pytest.mark.slow
def test_a_rewind_minds_no_file_that_vacuum_and_optimize_left(harness, spark):
    """Rows are removed, no old version is restored (0012)."""
    harness.create(partitions=2)
    stream = harness.stream()
    lands(harness, stream, spark, "one", "two")
    before = table_rows(stream, *CONTENT)
    spark.session.sql(f"OPTIMIZE delta.`{stream.table.uri}`")
    DeltaTable(stream.table.uri).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert rewind(stream, spark, "one").rows == 50
    harness.run(stream, "again", spark)
    assert table_rows(stream, *CONTENT) == before
    assert is_clean(harness, stream)
