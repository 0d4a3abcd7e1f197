"""Runs under a real Airflow: its scheduler, its API, its clearing; cold Spark and warm."""

import pytest

from devstack.airflow_harness import started, states
from tests.texts import STAYS
from tests.worlds.streams import commit_only, head, spans, table_rows, table_version
from tideline.errors import ServiceAway
from tideline.wiring import open_ledger


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def test_a_dag_run_lands_halts_and_is_cleared(harness, client):
    """One stream's life: land, find nothing, clear, plan only, halt."""
    harness.create(partitions=2)
    harness.send(100)
    harness.send(60, partition=1)
    stream = started(harness, client, "life", spark={"connection": "cold_spark"})

    client.trigger("life", "first")
    assert client.wait_for_run("life", "first") == "success"
    assert states(client, "life", "first") == {
        "plan_offset_ranges": "success",
        "detect_earliest_reset": "success",
        "resolve_reset": "skipped",
        "ingest_ranges": "success",
        "verify_ranges": "success",
        "advance_offsets": "success",
    }
    record = open_ledger(stream).find_run("first")
    assert spans(record) == [(0, 0, 100), (1, 0, 60)]
    assert "the Spark driver at" in client.log("life", "first", "ingest_ranges")
    harness.stream(name="life")  # from now on through the warm server

    (event,) = client.asset_events("life")
    assert event["extra"]["rows"] == 160
    assert event["extra"]["table_version"] == record.table_commit.version
    assert [r["end_offset"] for r in event["extra"]["ranges"]] == [100, 60]

    version = table_version(stream)
    client.trigger("life", "idle")
    assert client.wait_for_run("life", "idle") == "success"
    assert states(client, "life", "idle")["ingest_ranges"] == "skipped"
    assert states(client, "life", "idle")["advance_offsets"] == "skipped"
    assert table_version(stream) == version

    before = head(stream)
    harness.send(5)
    client.clear("life", "first", ["ingest_ranges"])
    assert client.wait_for_run("life", "first") == "success"
    assert client.tasks("life", "first")["ingest_ranges"]["try_number"] == 2
    assert head(stream) == before
    assert table_version(stream) == version + 1
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 160
    assert "Spark driver" not in client.log("life", "first", "ingest_ranges", 2)

    client.trigger("life", "asks", {"plan_only": True, "reason": "what would you do?"})
    assert client.wait_for_run("life", "asks") == "success"
    assert states(client, "life", "asks")["ingest_ranges"] == "skipped"
    assert "[100, 105)" in client.log("life", "asks", "plan_offset_ranges")
    assert open_ledger(stream).find_run("asks") is None

    harness.delete_records(before=103)
    client.trigger("life", "halted")
    assert client.wait_for_run("life", "halted") == "failed"
    found = states(client, "life", "halted")
    assert found["detect_earliest_reset"] == "failed"
    assert found["ingest_ranges"] == "upstream_failed"
    log = client.log("life", "halted", "detect_earliest_reset")
    for part in (f"{harness.topic()}-0: retention_loss", "[100, 103)", "Next:"):
        assert part in log
    assert head(stream) == before


@pytest.mark.slow
def test_an_event_tells_of_rows_that_another_run_had_landed(harness, client, spark):
    """A run that died after its commit: the next one recovers it and says so."""
    harness.create(partitions=1)
    harness.send(30)
    stream = started(harness, client, "settles")
    commit_only(stream, "died", spark)
    client.trigger("settles", "next")
    assert client.wait_for_run("settles", "next") == "success"
    assert states(client, "settles", "next")["ingest_ranges"] == "skipped"
    (event,) = client.asset_events("settles")
    assert (event["source_task_id"], event["extra"]["rows"]) == ("plan_offset_ranges", 30)
    assert head(stream) == {(harness.topic(), 0): 30}


def test_what_the_form_does_not_know_is_refused(harness, client):
    """Airflow itself accepts any key; a wrong type it refuses at the trigger."""
    harness.create(partitions=1)
    stream = started(harness, client, "form")
    client.trigger("form", "typo", {"plan_olny": True})
    assert client.wait_for_run("form", "typo") == "failed"
    log = client.log("form", "typo", "plan_offset_ranges")
    assert "plan_olny: unknown key; allowed: from, to, ranges, plan_only, reason" in log
    with pytest.raises(ServiceAway, match="400"):
        client.trigger("form", "type", {"plan_only": "maybe"})
    assert open_ledger(stream).read().version == -1


@pytest.mark.slow
def test_clearing_the_last_task_reads_nothing_again(harness, client):
    """advance_offsets alone moves nothing and writes nothing; the warm server needs no JVM."""
    harness.create(partitions=1)
    harness.send(50)
    stream = started(harness, client, "retried")
    client.trigger("retried", "one")
    assert client.wait_for_run("retried", "one") == "success"
    version = table_version(stream)
    assert "Spark driver" not in client.log("retried", "one", "ingest_ranges")
    client.clear("retried", "one", ["advance_offsets"])
    assert client.wait_for_run("retried", "one") == "success"
    assert table_version(stream) == version
    assert head(stream) == {(harness.topic(), 0): 50}


@pytest.mark.slow
def test_clearing_a_run_half_of_which_has_expired_is_refused(harness, client):
    """What is still there is named, and the rows of the first read stay."""
    harness.create(partitions=1)
    harness.send(100)
    stream = started(harness, client, "expired")
    client.trigger("expired", "one")
    assert client.wait_for_run("expired", "one") == "success"
    before, version, position = table_rows(stream), table_version(stream), head(stream)
    harness.delete_records(before=50)
    for cleared in (["ingest_ranges"], ["plan_offset_ranges"]):
        client.clear("expired", "one", cleared)
        assert client.wait_for_run("expired", "one") == "failed"
        tries = client.tasks("expired", "one")["ingest_ranges"]["try_number"]
        log = client.log("expired", "one", "ingest_ranges", tries)
        assert "replay_unavailable" in log
        assert "[0, 100): the log starts at 50; still there: [50, 100)" in log
        assert STAYS in log
        rows = len(table_rows(stream))
        print(f"clear of {cleared[0]}: refused; {len(before)} rows before, {rows} after")
        assert (table_rows(stream), table_version(stream)) == (before, version)
        assert head(stream) == position
    client.trigger("expired", "next")
    assert client.wait_for_run("expired", "next") == "success"
    audit, findings = harness.audit(stream)
    assert (audit.clean, findings) == (True, ())
