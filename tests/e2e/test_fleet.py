"""A fleet under a real Airflow: one Dag finds its topics and lands them, shard by shard."""

import json
from collections import Counter

import pytest
import yaml

from devstack.airflow_client import TaskInstanceApi
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


def test_shards_land_all_topics_but_those_that_halt(harness, client):
    """What halts is named by a red task; a clear of it lands only what is left to land."""
    names = [harness.create(f"t{n}", partitions=1) for n in range(6)]
    for n in range(6):
        harness.send(10 + n, f"t{n}")
    fleet = {
        "fleet": "herd",
        "topic_pattern": f"{harness.name}-.*",
        "topics_file": str(harness.folder / "herd.topics.json"),
        "shards": 2,
        "threads": 2,
        "stream": {
            "stream": "{topic}",
            "kafka": {"connection": harness.connection},
            "table": {"uri": f"{harness.lake}/{{topic}}"},
            "airflow": {"retries": 0},
        },
    }
    path = harness.streams / "herd.yaml"
    path.write_text(yaml.safe_dump(fleet))
    client.wait_for_dag("herd")
    client.pause("herd", False)
    client.trigger("herd", "first")
    assert client.wait_for_run("herd", "first") == "success"
    assert shards(client, "first") == {0: "success", 1: "success"}
    streams = {name: read_stream(path, name) for name in names}
    assert [len(table_rows(stream)) for stream in streams.values()] == [10, 11, 12, 13, 14, 15]
    events = Counter(event["name"] for event in client.asset_events("herd"))
    assert events == {f"tideline/{name}": 1 for name in names}
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
    assert json.loads((harness.folder / "herd.topics.json").read_text())["fleet"] == "herd"
