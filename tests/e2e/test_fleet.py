"""A fleet under a real Airflow: one Dag finds its topics and lands them, shard by shard."""

import json
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from devstack.airflow_client import TaskInstanceApi
from devstack.airflow_harness import ended
from devstack.process import wait_until
from tests.worlds.streams import decide, head, is_clean, table_rows
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def shards(client, run_id):
    """State of each shard's task, by its number."""
    answer = client.api(TaskInstanceApi).get_task_instances("herd", run_id)
    return {t.map_index: t.state.value for t in answer.task_instances if t.task_id == "land_shard"}


def herd(harness, client, name="herd", **stream):
    """A fleet of two shards of all topics of this test; its file."""
    fleet = {
        "fleet": name,
        "topic_pattern": f"{harness.name}-.*",
        "topics_file": str(harness.folder / f"{name}.topics.json"),
        "shards": 2,
        "threads": 2,
        "stream": {
            "stream": "{topic}",
            "kafka": {"connection": harness.connection},
            "table": {"uri": f"{harness.lake}/{{topic}}"},
            "airflow": {"retries": 0},
            **stream,
        },
    }
    path = harness.streams / f"{name}.yaml"
    path.write_text(yaml.safe_dump(fleet))
    client.wait_for_dag(name)
    client.pause(name, False)
    return path


def told(client, names):
    """How many events the asset of each topic has."""
    events = Counter(event["name"] for event in client.asset_events("herd"))
    return [events[f"tideline/{name}"] for name in names]


def test_shards_land_all_topics_but_those_that_halt(harness, client):
    """What halts is named by a red task, all others are told; a clear lands only what is left."""
    names = [harness.create(f"t{n}", partitions=1) for n in range(6)]
    for n in range(6):
        harness.send(10 + n, f"t{n}")
    path = herd(harness, client)
    client.trigger("herd", "first")
    assert client.wait_for_run("herd", "first") == "success"
    assert shards(client, "first") == {0: "success", 1: "success"}
    streams = {name: read_stream(path, name) for name in names}
    assert [len(table_rows(stream)) for stream in streams.values()] == [10, 11, 12, 13, 14, 15]
    assert told(client, names) == [1] * 6
    (event,) = [e for e in client.asset_events("herd") if e["name"].endswith("t0")]
    assert event["extra"]["rows"] == 10

    harness.delete_records(before=10, suffix="t0")
    for n in range(6):
        harness.send(5, f"t{n}")
    harness.delete_records(before=12, suffix="t0")
    client.trigger("herd", "second")
    assert client.wait_for_run("herd", "second") == "failed"
    assert sorted(shards(client, "second").values()) == ["failed", "success"]
    assert [head(s)[name, 0] for name, s in streams.items()] == [10, 16, 17, 18, 19, 20]
    assert told(client, names) == [1, 2, 2, 2, 2, 2]  # also those in the shard of what has halted
    versions = {name: open_ledger(s).read().version for name, s in streams.items()}

    decide(streams[names[0]], "accept_loss")
    client.clear("herd", "second", ["land_shard"])
    assert client.wait_for_run("herd", "second") == "success"
    assert [head(s)[name, 0] for name, s in streams.items()] == [15, 16, 17, 18, 19, 20]
    for name in names[1:]:
        assert open_ledger(streams[name]).read().version == versions[name]
    for stream in streams.values():
        assert len(set(table_rows(stream))) == len(table_rows(stream))
        assert is_clean(harness, stream)
    assert told(client, names)[0] == 2
    harness.send(1, "t1")
    client.trigger("herd", "looks", {"plan_only": True})
    assert client.wait_for_run("herd", "looks") == "failed"
    assert shards(client, "looks") == {0: "failed", 1: "failed"}
    assert head(streams[names[1]])[names[1], 0] == 16
    assert json.loads((harness.folder / "herd.topics.json").read_text())["fleet"] == "herd"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_windows_at_once_land_each_topic_of_each(harness, client):
    """Airflow's own backfill, three runs at once: what another one holds comes again."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=6)
    hours = [first + timedelta(hours=n) for n in range(5)]
    names = [harness.create(f"t{n}", partitions=1, **{"retention.ms": "-1"}) for n in range(6)]
    for n in range(6):
        harness.send_at(
            *(at + timedelta(minutes=m) for at in hours for m in range(60)), suffix=f"t{n}"
        )
    # its own name: of a Dag that had none, Airflow learns a schedule half a minute later
    path = herd(harness, client, "hourly", schedule="0 * * * *", start="latest")
    client.wait_for_backfill(client.backfill("hourly", hours[0], hours[-1], at_once=3), 1000)
    runs = [r for r in client.runs("hourly") if r["run_type"] == "backfill"]
    assert [r["state"] for r in runs] == ["success"] * 5
    for name in names:
        stream = read_stream(path, name)
        assert len(table_rows(stream)) == len(set(table_rows(stream))) == 300
        for run in runs:
            record = open_ledger(stream).find_run(run["dag_run_id"])
            assert (record.lane, record.status) == ("backfill", "done")
            assert sum(v.rows for v in record.verified) == 60
        assert is_clean(harness, stream)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_another_number_of_shards_and_a_question_leave_no_topic_out(harness, client):
    """A run that was parsed with two shards has two; `approve` halts in a shard, and is decided."""
    names = [harness.create(f"t{n}", partitions=1) for n in range(6)]
    for n in range(6):
        harness.send(10, f"t{n}")
    path = herd(harness, client, on_reset={"retention_loss": "approve"})
    client.trigger("herd", "two-shards")
    assert client.wait_for_run("herd", "two-shards") == "success"
    streams = {name: read_stream(path, name) for name in names}

    for n in range(6):
        harness.send(5, f"t{n}")
    fleet = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**fleet, "shards": 5}))
    client.trigger("herd", "edited")  # nobody waits for the Dag to be parsed
    assert client.wait_for_run("herd", "edited") == "success"
    assert len(shards(client, "edited")) in (2, 5)
    assert {s: head(s_)[s, 0] for s, s_ in streams.items()} == dict.fromkeys(names, 15)

    harness.send(5, "t0")
    harness.delete_records(before=18, suffix="t0")
    harness.send(5, "t1")
    client.trigger("herd", "asks")
    assert client.wait_for_run("herd", "asks") == "failed"
    assert [head(streams[n])[n, 0] for n in names[:2]] == [15, 20]
    (incident,) = open_ledger(streams[names[0]]).read().open_incidents
    assert incident.asked_in is None
    decide(streams[names[0]], "accept_loss")
    client.clear("herd", "asks", ["land_shard"])
    assert client.wait_for_run("herd", "asks") == "success"
    assert head(streams[names[0]])[names[0], 0] == 20
    for stream in streams.values():
        assert len(set(table_rows(stream))) == len(table_rows(stream))
        assert is_clean(harness, stream)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_triggerers_and_a_database_that_is_away_lose_and_double_nothing(
    harness, client, stack, postgres
):
    """One triggerer beside another, one that dies, both without Airflow's database for a while."""
    names = [harness.create(f"t{n}", partitions=1) for n in range(3)]
    lag = {"lag_records": 50, "lag_seconds": 3600, "poll_seconds": 1}
    stack.airflow.start_service("triggerer", 1)
    path = herd(harness, client, schedule="@yearly", trigger=lag)
    client.trigger("herd", "looks-for-topics")
    assert client.wait_for_run("herd", "looks-for-topics") == "success"
    streams = {name: read_stream(path, name) for name in names}

    def heads():
        return [head(s)[name, 0] for name, s in streams.items()]

    harness.send(60, "t0")
    ended(client, "herd", 1)
    assert heads() == [60, 0, 0]
    stack.airflow.servers["triggerer"].signal(signal.SIGKILL)
    harness.send(60, "t1")
    ended(client, "herd", 2)  # the other one, or it once Airflow has given it the trigger
    assert heads() == [60, 60, 0]
    stack.airflow.start_service("triggerer")

    harness.send(60, "t2")
    postgres.stop()
    harness.send(7, "t0")
    wait_until(lambda: not client.is_healthy(), "Airflow to miss it", 90)
    postgres.resume()

    def is_landed():
        for name, server in [*stack.airflow.servers.items()]:  # as a supervisor does
            if not server.is_alive:
                stack.airflow.start_service(name.removesuffix("-2"), name.endswith("-2"))
        return heads()[1:] == [60, 60]

    # A run that was at work has failed, if Airflow could not hear of it: lag is told again.
    wait_until(is_landed, f"{heads()}", 600, every_seconds=1)
    wait_until(client.is_healthy, "Airflow", 180)
    client.trigger("herd", "the-rest")
    assert client.wait_for_run("herd", "the-rest") == "success"
    assert heads() == [67, 60, 60]
    for stream in streams.values():
        assert len(set(table_rows(stream))) == len(table_rows(stream))
        assert is_clean(harness, stream)
