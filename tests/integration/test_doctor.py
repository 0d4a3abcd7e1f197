"""What `tideline doctor` says when all is well, and when each service in turn is not."""

import json
import os
from dataclasses import replace

import pytest

from tideline.cli.main import main
from tideline.wiring import open_ledger


@pytest.fixture
def healthy(harness, monkeypatch):
    """A stream on a real broker; connections of this test."""
    harness.create(partitions=2)
    harness.send(3)
    return harness.stream_file()


def diagnosis(capsys, *files):
    status = main(["doctor", *map(str, files), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["healthy"] == (status == 0)
    assert all(line["seconds"] < 20 for line in found["checks"])
    return status, {line["what"]: line for line in found["checks"]}


def test_all_is_well(harness, healthy, capsys):
    """A line for each service, with what was found; what two streams share is asked once."""
    other = harness.stream_file(name="other")
    status, found = diagnosis(capsys, healthy, other)
    assert status == 0
    assert {what: line["state"] for what, line in found.items()} == dict.fromkeys(
        ("versions", "spark", "store", "ledger", "kafka", "raw table"), "ok"
    )
    assert "1 topic with 2 partitions, read from 1 of them" in found["kafka"]["text"]
    assert "the first run creates it" in found["ledger"]["text"]
    assert main(["doctor", str(healthy), str(other)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("ok      store") for line in lines) == 1
    assert lines[-1].endswith("checks of 2 streams: 0 failed, 0 warnings")
    assert not [name for name in os.listdir(harness.folder) if name.startswith(".tideline")]


def broken_topic(harness, path, patch):
    harness.delete()


def broken_brokers(harness, path, patch):
    harness.connect("127.0.0.1:1")


def broken_connection(harness, path, patch):
    patch.delenv(f"AIRFLOW_CONN_{harness.connection.upper()}")


def broken_folder(harness, path, patch):
    path.write_text(path.read_text().replace(f"{harness.lake}/orders", "/proc/lake/orders"))


def broken_registry(harness, path, patch):
    text = "registry: {connection: regi}\ndecode: {value: {format: avro, subject: s}}\n"
    path.write_text(path.read_text() + text)
    patch.setenv("AIRFLOW_CONN_REGI", json.dumps({"conn_type": "http", "host": "127.0.0.1:1"}))


def broken_ledger(harness, path, patch):
    path.write_text(path.read_text() + "ledger: airflow\nledger_connection: nowhere\n")
    where = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "schema": "x"}
    patch.setenv("AIRFLOW_CONN_NOWHERE", json.dumps(where))


def broken_table(harness, path, patch):
    log = harness.folder / "lake" / "orders" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{garbage")


@pytest.mark.parametrize(
    ("breaks", "what", "status", "said"),
    [
        (broken_topic, "kafka", 2, "not there, or hidden. Grant"),
        (broken_brokers, "kafka", 4, "does not answer"),
        (broken_connection, "kafka", 2, "AIRFLOW_CONN"),
        (broken_folder, "store", 2, "cannot be written to"),
        (broken_registry, "registry", 4, "127.0.0.1:1"),
        (broken_ledger, "ledger", 4, "nowhere"),
        (broken_table, "raw table", 2, "Cure: "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_broken_is_named(harness, healthy, capsys, monkeypatch, breaks, what, status, said):
    """With a cure, within seconds; the others are asked all the same."""
    breaks(harness, healthy, monkeypatch)
    code, found = diagnosis(capsys, healthy)
    line = found[what]
    with capsys.disabled():
        print(f"\n{what}: {line['seconds']} s: {line['text'][:250]}")
    assert (code, line["state"]) == (status, "failed"), line
    assert said in line["text"]
    assert line["runbook"]
    assert found["versions"]["state"] == "ok"


def test_a_table_that_the_ledger_knows_and_nobody_finds_is_a_warning(harness, healthy, capsys):
    """No run makes it anew at the same address."""
    stream = harness.stream(decode={"value": {"format": "json"}})
    status, found = diagnosis(capsys, healthy)
    tables = ("raw table", "decoded table", "quarantine table")
    assert {found[what]["state"] for what in tables} == {"ok"}

    def knows(state):
        decoding = replace(state.decoding, table_ids=("of typed", "of quarantine"))
        return replace(state.with_head(replace(state.head, table_id="of raw")), decoding=decoding)

    open_ledger(stream).update(knows)
    status, found = diagnosis(capsys, healthy)
    assert status == 0
    for what, known in zip(tables, ("of raw", "of typed", "of quarantine"), strict=True):
        assert found[what]["state"] == "warning"
        assert f"no table is there, and the ledger knows table {known}" in found[what]["text"]
