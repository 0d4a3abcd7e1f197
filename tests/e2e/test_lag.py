"""Runs that are started by lag, under a real Airflow with its triggerer."""

import signal
import time

import pytest

from devstack.airflow_harness import by_lag, ended, started
from devstack.process import wait_until
from tests.worlds.streams import head, is_clean, table_rows

LAG = {"lag_records": 50, "lag_seconds": 3600, "poll_seconds": 1}


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def watched(harness, client, name, **changes):
    """A stream whose clock has had its run: that would land what is sent meanwhile."""
    stream = started(harness, client, name, schedule="@yearly", trigger=LAG, **changes)
    wait_until(lambda: client.runs(name), "the clock's own run", 60)
    assert client.wait_for_run(name, client.runs(name)[0]["dag_run_id"]) == "success"
    return stream


def test_lag_starts_a_run_and_never_one_that_would_halt(harness, client):
    """Produced, landed; below the bound nothing; paused, and the event is not lost for good."""
    topic = harness.create(partitions=2)
    stream = watched(harness, client, "eager")
    began = time.monotonic()
    harness.send(60)
    ended(client, "eager", 1)
    assert time.monotonic() - began < 120
    assert head(stream)[topic, 0] == 60
    harness.send(49)
    harness.send(1, partition=1)
    ended(client, "eager", 2)
    assert head(stream) == {(topic, 0): 109, (topic, 1): 1}
    harness.send(49)  # below the bound: it waits for more, or for the clock

    harness.send(60, partition=1)
    ended(client, "eager", 3)
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 219
    assert is_clean(harness, stream)
    (event, *_) = client.upstream_events("eager", by_lag(client, "eager")[0]["dag_run_id"])
    told = event["extra"]["payload"]["streams"]["eager"]
    assert told == {"lag": 60, "why": "60 offsets are unread, 50 may be"}

    harness.delete_records(before=158)
    harness.send(200)
    harness.delete_records(before=258)
    ended(client, "eager", 1, "failed")  # it finds the loss, and opens an incident
    runs = len(by_lag(client, "eager"))
    harness.send(500)
    other = harness.create("other", partitions=1)
    second = watched(harness, client, "other", topics=["other"])
    harness.send(60, "other")
    ended(client, "other", 1)  # the same poll has seen both
    assert head(second) == {(other, 0): 60}
    assert len(by_lag(client, "eager")) == runs


@pytest.mark.slow
def test_an_event_of_a_paused_dag_and_a_triggerer_that_dies_lose_nothing(harness, client, stack):
    """Airflow forgets what it was told while a Dag was paused; the lag is told again."""
    topic = harness.create(partitions=1)
    stream = watched(harness, client, "paused")
    harness.send(60)
    ended(client, "paused", 1)
    client.pause("paused", True)
    harness.send(60)
    told = "tideline/paused/lag"
    events = len(client.events_of(told))
    wait_until(lambda: len(client.events_of(told)) > events, "an event", 60)
    client.pause("paused", False)
    ended(client, "paused", 2)
    assert head(stream) == {(topic, 0): 120}
    triggerer = stack.airflow.servers["triggerer"]
    triggerer.signal(signal.SIGKILL)
    harness.send(60)
    stack.airflow.start_service("triggerer")
    ended(client, "paused", 3)
    assert head(stream) == {(topic, 0): 180}
    assert is_clean(harness, stream)
