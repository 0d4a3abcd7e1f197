"""Typed and current tables under a real Airflow: ten tasks; decoding fails without the landing."""

import io
import json

import fastavro
import pytest
from airflow_client.client.api.connection_api import ConnectionApi
from airflow_client.client.models.connection_body import ConnectionBody
from deltalake import DeltaTable
from kafka import KafkaProducer

from devstack.airflow_harness import started, states
from devstack.process import free_ports
from tests.worlds.streams import STEPS, head, is_clean, table_rows
from tideline.wiring import open_ledger

FOLDS = ("fold_changes", "verify_current")
TEN = (*STEPS, "decode_rows", "verify_decoded", *FOLDS)
CONNECTION = "registry_of_airflow"
V1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
V2 = V1 | {"fields": [*V1["fields"], {"name": "total", "type": "double"}]}


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


@pytest.fixture
def connect(registry, client):
    """Put the registry's connection into Airflow, there or elsewhere, and take it away again."""
    api = client.api(ConnectionApi)

    def body(port):
        settings = registry.connection | {"extra": json.dumps(registry.connection["extra"])}
        return ConnectionBody(connection_id=CONNECTION, **(settings | {"port": port}))

    api.post_connection(body(registry.port))
    yield lambda port: api.patch_connection(CONNECTION, body(port))
    api.delete_connection(CONNECTION)


def avro(schema_id, schema, record):
    """A record in Confluent's framing."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def send(harness, *values):
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    for value in values:
        producer.send(harness.topic(), key=b"k", value=value, partition=0)
    producer.close()


def rows(uri, *columns):
    found = DeltaTable(uri).to_pyarrow_table(columns=["offset", *columns]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def ran(client, dag_id, run_id, conf=None):
    client.trigger(dag_id, run_id, conf)
    return client.wait_for_run(dag_id, run_id)


@pytest.mark.slow
def test_decoding_follows_the_landing_and_never_holds_it_up(harness, client, registry, connect):
    """A run, one cleared, one idle, one without a registry, one that catches up, a redrive.

    What is decoded is folded into one row a key, in the same run or in the next one.
    """
    name, subject = "typed-in-airflow", f"{harness.name}-value"
    harness.create(partitions=1)
    first_id = registry.register(subject, json.dumps(V1))
    later = avro(first_id + 1, V2, {"id": 3, "note": "c", "total": 0.5})  # ids come in turn
    send(harness, *(avro(first_id, V1, {"id": n, "note": "a"}) for n in (1, 2)), None, later)
    lake = harness.folder / "lake"
    good, bad = str(lake / "typed"), str(lake / "bad")
    decode = {
        "value": {"format": "avro", "subject": subject},
        "table": {"uri": good},
        "quarantine": {"uri": bad, "max_share": 0.5},
    }
    current = {"table": {"uri": str(lake / "current"), "buckets": 2}, "key": ["id"]}
    current["deletes"] = {"tombstone": False}
    more = {"registry": {"connection": CONNECTION}, "decode": decode, "current": current}
    stream = started(harness, client, name, **more)

    assert ran(client, name, "one") == "success"
    done = dict.fromkeys(TEN, "success") | {"resolve_reset": "skipped"}
    assert states(client, name, "one") == done
    first = [(0, 1, "a", False), (1, 2, "a", False), (2, None, None, True)]
    assert rows(good, "id", "note", "is_tombstone") == first
    assert rows(bad, "error_class") == [(3, "unknown_schema")]
    (event,) = (e for e in client.asset_events(name) if e["name"] == f"tideline/{name}/decoded")
    assert (event["uri"], event["source_task_id"]) == (f"file://{good}", "verify_decoded")
    counts = ("decoded", "quarantined", "tombstones")
    assert tuple(event["extra"][key] for key in counts) == (2, 1, 1)

    assert rows(str(lake / "current"), "id", "note") == [(0, 1, "a"), (1, 2, "a")]
    (event,) = (e for e in client.asset_events(name) if e["name"] == f"tideline/{name}/current")
    assert event["source_task_id"] == "verify_current"
    assert [event["extra"][key] for key in ("changes", "keyless", "rows")] == [3, 1, 2]

    before = rows(good, "id", "schema_id", "decode_plan_id"), rows(bad, "error", "decode_plan_id")
    client.clear(name, "one", ["decode_rows"])
    assert client.wait_for_run(name, "one") == "success"
    assert client.tasks(name, "one")["decode_rows"]["try_number"] == 2
    assert before == (
        rows(good, "id", "schema_id", "decode_plan_id"),
        rows(bad, "error", "decode_plan_id"),
    )

    assert ran(client, name, "idle") == "success"
    tasks = client.tasks(name, "idle")
    assert {task for task in TEN if tasks[task]["pid"] is not None} == set(STEPS[:2])
    assert {tasks[task]["state"] for task in TEN[2:]} == {"skipped"}

    assert registry.register(subject, json.dumps(V2)) == first_id + 1
    send(harness, avro(first_id + 1, V2, {"id": 5, "note": "e", "total": 1.5}))
    connect(free_ports(1)[0])
    assert ran(client, name, "away") == "failed"
    assert states(client, name, "away") == done | {
        "decode_rows": "failed",
        **dict.fromkeys(("verify_decoded", *FOLDS), "upstream_failed"),
    }
    assert "RegistryAway" in client.log(name, "away", "decode_rows")
    assert (head(stream), len(table_rows(stream))) == ({(harness.topic(), 0): 5}, 5)
    assert len(rows(good)) == 3

    connect(registry.port)
    assert ran(client, name, "catches-up") == "success"
    landing = dict.fromkeys(STEPS[2:], "skipped")
    assert states(client, name, "catches-up") == dict.fromkeys(TEN, "success") | landing
    assert rows(good, "id", "total")[-1] == (4, 5, 1.5)

    client.wait_for_dag("tideline_redrive")
    client.pause("tideline_redrive", False)
    form = {"stream": name, "class": ["unknown_schema"]}
    assert ran(client, "tideline_redrive", "again", form) == "success"
    assert rows(good, "id", "total")[3] == (3, 3, 0.5)
    assert rows(bad) == []
    assert ran(client, name, "folds") == "success"
    tasks = client.tasks(name, "folds")
    assert {task for task in TEN if tasks[task]["state"] == "success"} == {*STEPS[:2], *FOLDS}
    assert [row[1] for row in rows(str(lake / "current"), "id")] == [1, 2, 3, 5]
    state = open_ledger(stream).read()
    assert state.folding.coverage == state.decoding.coverage
    assert state.decoding.coverage == state.head.coverage
    assert is_clean(harness, stream)
