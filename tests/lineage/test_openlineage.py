"""Topics, table and ranges, as OpenLineage's own classes and its provider for Airflow say them."""

import json
from dataclasses import replace

import pytest

from devstack.airflow_harness import started
from devstack.process import wait_until
from tests.worlds.build import ID, planned
from tests.worlds.contract_objects import DONE
from tideline.airflow.lineage import dataset_name, landed_lineage
from tideline.model.plan import VerifiedRange
from tideline.stream.stream import Stream


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/data/lake/orders", ("file", "/data/lake/orders")),
        ("file:///data/lake/orders/", ("file", "/data/lake/orders")),
        ("s3a://lake/raw/orders", ("s3://lake", "raw/orders")),
    ],
)
def test_a_table_is_named_as_others_name_it(uri, name):
    """OpenLineage joins events of several systems by these names; S3 has one scheme there."""
    assert dataset_name(uri) == name


def test_each_topic_has_its_own_ranges(monkeypatch):
    """Two topics, one of them in two partitions: rows and ends as in the asset event."""
    extra = {"bootstrap.servers": "broker-1:9092,broker-2:9092"}
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra})
    )
    stream = Stream.model_validate(
        {"stream": "orders", "kafka": {"topics": ["orders", "clicks"]}, "table": {"uri": "/lake"}}
    )
    read = (planned(0, 5), planned(3, 9, partition=1), planned(7, 8, name="clicks"))
    record = replace(DONE, verified=tuple(VerifiedRange(r, len(r.offsets)) for r in read))
    found = landed_lineage(stream, record)
    clicks, orders = found.inputs
    assert (clicks.namespace, clicks.name) == ("kafka://broker-1:9092", "clicks")
    assert [r["partition"] for r in orders.inputFacets["tideline_ranges"].ranges] == [0, 1]
    assert clicks.inputFacets["tideline_ranges"].ranges == [
        {
            "topic": "clicks",
            "topic_id": ID,
            "generation": 0,
            "partition": 0,
            "start_offset": 7,
            "end_offset": 8,
            "rows": 1,
        }
    ]


def test_a_run_of_a_real_airflow_tells_what_it_has_landed(airflow_harness, client, stack, events):
    """The provider's event of the last task: topic -> table, version, rows and ranges."""
    airflow_harness.create(partitions=1)
    airflow_harness.send(40)
    stream = started(airflow_harness, client, "traced")
    client.trigger("traced", "first")
    assert client.wait_for_run("traced", "first") == "success"
    wait_until(lambda: completed(events, "advance_offsets"), "no event of the last task", 60)
    (event,) = completed(events, "advance_offsets")
    (topic,), (table,) = event["inputs"], event["outputs"]
    brokers = stack.broker.bootstrap_servers.partition(",")[0]
    assert (topic["namespace"], topic["name"]) == (f"kafka://{brokers}", airflow_harness.topic())
    (read,) = topic["inputFacets"]["tideline_ranges"]["ranges"]
    assert (read["start_offset"], read["end_offset"], read["rows"]) == (0, 40, 40)
    assert (table["namespace"], table["name"]) == ("file", stream.table.uri)
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 40
    assert table["outputFacets"]["outputStatistics"]["size"] > 100
    assert int(table["facets"]["version"]["datasetVersion"]) >= 0
    assert event["run"]["facets"]["tideline_run"]["run_id"] == "first"
    assert event["run"]["facets"]["tideline_run"]["stream"] == "traced"


def test_each_step_has_a_span_below_its_task_s(airflow_harness, client, traces):
    """One trace for the run; the step says what it planned and what it landed."""
    airflow_harness.create(partitions=1)
    airflow_harness.send(25)
    started(airflow_harness, client, "spanned")
    client.trigger("spanned", "first")
    assert client.wait_for_run("spanned", "first") == "success"
    wait_until(lambda: "tideline.advance_offsets" in named(traces, "spanned"), "no span", 60)
    steps = named(traces, "spanned")
    assert {name.removeprefix("tideline.") for name in steps} == {
        "plan_offset_ranges",
        "detect_earliest_reset",
        "ingest_ranges",
        "verify_ranges",
        "advance_offsets",
    }
    assert len({span.trace_id for span in steps.values()}) == 1
    told = attributes(steps["tideline.advance_offsets"])
    assert (told["tideline.rows"], told["tideline.offsets"]) == (25, 25)
    assert told["tideline.run_id"] == "first"
    by_id = {span.span_id: span.name for span in traces[1]}
    parents = {name: by_id.get(span.parent_span_id) for name, span in steps.items()}
    assert parents == {name: f"worker.{name.removeprefix('tideline.')}" for name in steps}


def named(traces, stream):
    """The spans of a stream's steps by name."""
    ours = (span for span in list(traces[1]) if span.name.startswith("tideline."))
    return {s.name: s for s in ours if attributes(s)["tideline.stream"] == stream}


def attributes(span):
    """Its attributes as Python has them."""
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


def completed(events, task):
    """Events of a task's good end."""
    lines = events.read_text().splitlines() if events.exists() else []
    found = (json.loads(line) for line in lines)
    return [
        e for e in found if e["eventType"] == "COMPLETE" and e["job"]["name"].endswith(f".{task}")
    ]
