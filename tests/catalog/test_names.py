"""A stream's tables by their names: real broker, Spark and metastore; Glue as moto has it.

moto keeps upper case and has no races: it is no proof for either.
"""

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from moto import mock_aws

from tests.worlds.catalogs import behaves
from tests.worlds.streams import is_clean
from tests.worlds.typed_streams import V1, Typed
from tideline.catalog.catalog_connection import catalog_of
from tideline.catalog.hive import HiveMetastore
from tideline.cli.main import main
from tideline.landing import naming
from tideline.model.catalog import TableName
from tideline.wiring import open_ledger

ROOT = Path(__file__).parents[2]


@pytest.fixture
def typed(harness, registry, spark, request):
    """A stream with typed tables and names in schema `raw` of the metastore."""

    class Named(Typed):
        @property
        def catalog(self):
            return {"connection": "hive", "name": f"raw.{request.node.name[:40]}"}

        @property
        def stream(self):
            return super().stream.model_validate(
                {**super().stream.model_dump(by_alias=True), "catalog": self.catalog}
            )

    return Named(harness, registry, spark, request.node.name.removeprefix("test_")[:40])


def schema(metastore, name):
    from hive_metastore.ttypes import AlreadyExistsException, Database

    with HiveMetastore("127.0.0.1", metastore.port)._client() as client:
        try:
            client.create_database(Database(name=name, locationUri=f"{metastore.folder}/{name}"))
        except AlreadyExistsException:
            return


def asked(metastore, *statements):
    """What a Spark of its own answers to each statement."""
    program = str(Path(__file__).parent / "read_by_name.py")
    path = os.pathsep.join(str(ROOT / part) for part in ("plugins", "spark_jobs", ""))
    done = subprocess.run(
        [sys.executable, program, str(metastore.port), *statements],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    found = [json.loads(x.removeprefix("answer ")) for x in lines if x.startswith("answer ")]
    assert len(found) == len(statements), done.stderr[-3000:]
    return found


def names(at):
    return [(t.role, t.finding) for t in open_ledger(at.stream).read().head.names]


def test_a_metastore_behaves(hive, tmp_path):
    catalog = HiveMetastore("127.0.0.1", hive.port)
    behaves(catalog, str(tmp_path), "lent.orders", lambda name: schema(hive, name))


def test_spark_reads_all_tables_by_their_names(typed, hive):
    """Also columns that came later; a schema that is missing is told, and made by nobody."""
    typed.register(V1)
    typed.send(V1, {"id": 1, "note": "a"})
    typed.send_bytes(b"nonsense")
    name = typed.catalog["name"]
    typed.run("one")
    assert names(typed)[0] == ("raw", "catalog_missing_schema")
    schema(hive, "raw")
    forget(typed)
    typed.send(V1, {"id": 2, "note": "b"})
    typed.run("two")
    assert names(typed) == [("raw", None), ("decoded", None), ("quarantine", None)]
    wider = V1 | {"fields": [*V1["fields"], {"name": "total", "type": "double", "default": 0}]}
    typed.register(wider)
    typed.send(wider, {"id": 3, "note": "c", "total": 1.5})
    typed.run("three")
    raw, rows, bad = asked(
        hive,
        f"SELECT count(*) FROM {name}",
        f"SELECT id, total FROM {name}_decoded ORDER BY id",
        f"SELECT error_class FROM {name}_quarantine",
    )
    assert raw == [[4]]
    assert rows == [[1, None], [2, None], [3, 1.5]]
    assert bad == [["framing"]]
    assert is_clean(typed.harness, typed.stream)


def forget(at):
    """As if minutes had passed since a name was looked at."""
    open_ledger(at.stream).update(lambda s: s.with_head(replace(s.head, names=())))


def test_names_of_somebody_elses_are_left(typed, hive, tmp_path):
    """A view, a managed table, another place; the run lands, and says which is which."""
    schema(hive, "raw")
    name = typed.catalog["name"]
    asked(
        hive,
        f"CREATE TABLE {name} USING DELTA LOCATION '{tmp_path}/other' AS SELECT 1 AS x",
        f"CREATE VIEW {name}_decoded AS SELECT 1 AS x",
        f"CREATE TABLE {name}_quarantine (x int) USING parquet",
    )
    typed.register(V1)
    typed.send(V1, {"id": 1, "note": "a"})
    typed.run("one")
    assert names(typed) == [
        ("raw", "catalog_elsewhere"),
        ("decoded", "catalog_not_ours"),
        ("quarantine", "catalog_not_ours"),
    ]
    (rows,) = asked(hive, f"SELECT * FROM {name}")
    assert rows == [[1]]


def test_a_catalog_that_hangs_costs_seconds(typed, monkeypatch):
    """It takes connections and says nothing; the typed tables' step does not wait once more."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kept = []
        Thread(target=lambda: kept.append(silent.accept()), daemon=True).start()
        port = silent.getsockname()[1]
        given = {"conn_type": "hive_metastore", "host": "127.0.0.1", "port": port}
        monkeypatch.setenv("AIRFLOW_CONN_HIVE", json.dumps(given))
        typed.register(V1)
        typed.send(V1, {"id": 1, "note": "a"})
        typed.run("warm")
        naming._silent.clear()
        forget(typed)
        typed.send(V1, {"id": 2, "note": "b"})
        began = time.monotonic()
        typed.run("one")
        assert names(typed) == [("raw", "catalog_away")]
        assert len(typed.rows("id")) == 2
        assert time.monotonic() - began < 5 + 10  # the run itself takes some seconds


def test_doctor_says_what_a_name_is(typed, hive, capsys, tmp_path):
    schema(hive, "raw")
    file = tmp_path / "orders.yaml"
    file.write_text(
        f"stream: orders\nkafka: {{connection: {typed.stream.kafka.connection}, topics: [t]}}\n"
        f"table: {{uri: {tmp_path}/orders}}\ncatalog: {{connection: hive, name: raw.fresh}}\n"
    )
    main(["doctor", str(file)])
    assert "catalog hive raw.fresh: no table has that name yet" in capsys.readouterr().out


@mock_aws
def test_glue_behaves(monkeypatch):
    """Addresses of S3 are written as Athena knows them."""
    import boto3

    extra = {"region_name": "eu-central-1"}
    given = {"conn_type": "aws", "login": "k", "password": "s", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_GLUE", json.dumps(given))
    catalog = catalog_of("glue", "lake.orders")
    glue = boto3.client("glue", "eu-central-1")
    behaves(
        catalog,
        "s3a://bucket",
        "lake.orders",
        lambda name: glue.create_database(DatabaseInput={"Name": name}),
    )
    table = glue.get_table(DatabaseName="lake", Name="orders")["Table"]
    assert table["StorageDescriptor"]["Location"] == "s3://bucket/orders"
    assert table["Parameters"]["table_type"] == "DELTA"
    glue.create_table(
        DatabaseName="lake",
        TableInput={"Name": "viewed", "TableType": "VIRTUAL_VIEW", "ViewOriginalText": "SELECT 1"},
    )
    view = catalog.find(TableName.of("lake.viewed"))
    assert (view.kind, view.location) == ("view", None)
