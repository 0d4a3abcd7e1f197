"""Runs through a warm Spark Connect server; `make test-connect` runs the whole suite like this."""

import json

import pytest

from devstack.process import free_ports
from tests.harness import ConnectSpark, head, table_rows
from tests.spark.test_creation import test_a_table_s_creation_that_was_cut_off_is_begun_again
from tests.spark.test_landing import (
    test_everything_about_a_record_is_kept,
    test_the_same_run_id_replays_its_plan,
    test_two_topics_and_a_pattern_that_begins_to_match_a_third,
)
from tests.spark.test_settling import stream, test_an_older_attempt_publishes_nothing
from tideline.errors import ServiceAway
from tideline.launch.connect import SparkConnect

__all__ = [
    "stream",
    "test_a_table_s_creation_that_was_cut_off_is_begun_again",
    "test_an_older_attempt_publishes_nothing",
    "test_everything_about_a_record_is_kept",
    "test_the_same_run_id_replays_its_plan",
    "test_two_topics_and_a_pattern_that_begins_to_match_a_third",
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    found = ConnectSpark(tmp_path_factory.mktemp("connect"))
    yield found
    found.stop()


def test_a_server_that_is_away_may_be_tried_again(harness, spark):
    """Said at once, and nothing moved."""
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream()
    away = SparkConnect(f"sc://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(ServiceAway, match="no Spark Connect server"):
        harness.run(stream, "one", away)
    assert harness.run(stream, "one", spark).status == "done"
    assert len(table_rows(stream)) == 10


def test_the_connection_s_type_chooses_the_server(harness, spark, monkeypatch):
    """No spark-submit is started for a connection of type spark_connect."""
    monkeypatch.setenv("AIRFLOW_CONN_WARM", json.dumps(spark.server.connection))
    monkeypatch.setattr("tideline.launch.launcher.SparkSubmit", None)
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream(spark={"connection": "warm"})
    assert harness.run(stream, "one", None).status == "done"
    assert list(head(stream).values()) == [10]
