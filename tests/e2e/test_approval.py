"""on_reset: approve, answered through Airflow's REST API."""

import pytest

from devstack.airflow_harness import started, states
from devstack.process import wait_until
from tests.worlds.streams import closed_incidents, decide, head, table_rows
from tideline.wiring import open_ledger

ASK = {"retention_loss": "approve"}


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


@pytest.fixture
def loss(harness, client, request):
    """A stream that lost [0, 30) of 50 before its first position moved, and its parked run."""

    def build(name, **changes):
        harness.create(partitions=1)
        harness.send(10)
        stream = started(harness, client, name, on_reset=ASK, **changes)
        client.trigger(name, "lands")
        assert client.wait_for_run(name, "lands") == "success"
        harness.send(40)
        harness.delete_records(before=30)
        client.trigger(name, "asks")
        return stream, client.wait_for_question(name, "asks")

    return build


def test_an_approval_continues_at_the_log_start(harness, client, loss):
    """Found, at stake, valid choices; then the lost interval with the approver's name."""
    stream, form = loss("approved")
    assert form["options"] == ["accept_loss", "fail"]
    assert "retention_loss" in form["subject"]
    for part in ("[10, 30)", "at most 20 records", "`accept_loss` (retention_loss)"):
        assert part in form["body"]
    assert states(client, "approved", "asks")["detect_earliest_reset"] == "success"
    assert head(stream) == {(harness.topic(), 0): 10}

    client.answer("approved", "asks", ["accept_loss"], "those were tests")
    assert client.wait_for_run("approved", "asks") == "success"
    assert states(client, "approved", "asks")["resolve_reset"] == "success"
    assert head(stream) == {(harness.topic(), 0): 50}
    assert len(table_rows(stream)) == 30
    (incident,) = closed_incidents(stream)
    assert (incident.decision.by, incident.decision.reason) == ("admin", "those were tests")
    assert (incident.finding.lost_start, incident.finding.lost_end) == (10, 30)
    assert "lost: [10, 30): 20 offsets" in incident.outcome


@pytest.mark.slow
def test_a_refusal_fails_the_run_and_clearing_asks_again(harness, client, loss):
    """Nothing moves until somebody accepts."""
    stream, _ = loss("refused")
    client.answer("refused", "asks", ["fail"], "not yet")
    assert client.wait_for_run("refused", "asks") == "failed"
    assert head(stream) == {(harness.topic(), 0): 10}
    (incident,) = open_ledger(stream).read().control.incidents
    assert (incident.decision.choice, incident.decision.by) == ("fail", "admin")

    client.clear("refused", "asks", ["resolve_reset"])
    client.wait_for_question("refused", "asks")
    client.answer("refused", "asks", ["accept_loss"], "now")
    assert client.wait_for_run("refused", "asks") == "success"
    assert head(stream) == {(harness.topic(), 0): 50}


@pytest.mark.slow
def test_nobody_answers_in_time(harness, client, loss):
    """The run fails; a decision from a shell and a clear bring it to its end."""
    settings = {"retries": 0, "approval_timeout_seconds": 10}
    stream, _ = loss("silent", airflow=settings)
    assert client.wait_for_run("silent", "asks") == "failed"
    log = client.log("silent", "asks", "resolve_reset", try_number=1)
    assert "nobody answered" in log
    assert head(stream) == {(harness.topic(), 0): 10}

    decide(stream, "accept_loss", by="bob")
    client.clear("silent", "asks", ["resolve_reset"])
    assert client.wait_for_run("silent", "asks") == "success"
    assert closed_incidents(stream)[0].decision.by == "bob"
    assert head(stream) == {(harness.topic(), 0): 50}


@pytest.mark.slow
def test_healthy_partitions_go_on_while_a_run_waits_for_an_answer(harness, client):
    """on_incident: proceed; the waiting run holds neither lease nor slot."""
    name = harness.create(partitions=2)
    harness.send(10)
    harness.send(10, partition=1)
    stream = started(harness, client, "waiting", on_reset=ASK, on_incident="proceed")
    client.trigger("waiting", "lands")
    assert client.wait_for_run("waiting", "lands") == "success"
    harness.send(40)
    harness.send(5, partition=1)
    harness.delete_records(before=30)
    client.trigger("waiting", "asks")
    client.wait_for_question("waiting", "asks")
    client.trigger("waiting", "healthy")
    assert client.wait_for_run("waiting", "healthy") == "success"
    assert head(stream) == {(name, 0): 10, (name, 1): 15}
    client.answer("waiting", "asks", ["accept_loss"], "")
    assert client.wait_for_run("waiting", "asks") == "success"
    wait_until(lambda: head(stream) == {(name, 0): 50, (name, 1): 15}, "not landed", 1)
