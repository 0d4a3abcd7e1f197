"""A ledger moves between a file system and an object store that only a connection can reach."""

import json

import pytest

from devstack.command_line import finished, tideline
from tests.worlds.ledgers import answers, ledger_in, work
from tideline.errors import LedgerElsewhere
from tideline.stream.files import parse_stream
from tideline.wiring import find_store

FILE = """\
stream: orders
kafka: {{topics: [orders]}}
table: {table}
ledger_uri: {ledger}
"""


@pytest.fixture
def lake(bucket, monkeypatch):
    """The store's Airflow connection; nothing else on this machine knows a key."""
    for name in bucket.options:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    connection = json.dumps(bucket.store.connection(bucket.proxy.endpoint))
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", connection)
    return bucket


@pytest.fixture
def file(tmp_path):
    """Writes a stream's file; the stream, and its path."""

    def write(table, ledger):
        path = tmp_path / "orders.yaml"
        path.write_text(FILE.format(table=json.dumps(table), ledger=ledger))
        return parse_stream(path.read_text(), str(path)), path

    return write


def moves(path, at, *more):
    """The command, to its end."""
    options = ("--to", "delta", "--at", str(at), *more, "--json")
    return finished(tideline("move-ledger", path, *options))


@pytest.mark.parametrize("table", ["files", "store"])
def test_a_ledger_goes_into_the_store_and_back(lake, file, tmp_path, table):
    """The table stays where it is; a file without an s3a:// address names no connection."""
    uri = {"files": str(tmp_path / "orders"), "store": lake.uri()}[table]
    here, there = str(tmp_path / "orders.ledger"), lake.uri("orders.ledger")
    of_files = {"uri": uri} | ({"connection": "lake"} if table == "store" else {})
    old, path = file(of_files, here)
    work(old.ledger_location, 4)
    expected = answers(old.ledger_location)
    named = () if table == "store" else ("--connection", "lake")
    status, answer, errors = moves(path, there, *named)
    assert (status, answer["location"]) == (0, there), errors
    new, path = file({"uri": uri, "connection": "lake"}, there)
    store = find_store(new)
    assert answers(new.ledger_location, store) == expected
    with pytest.raises(LedgerElsewhere, match="was moved to s3a://"):
        ledger_in(old.ledger_location).read()
    work(new.ledger_location, 3, first=50, store=store)
    expected = answers(new.ledger_location, store)
    status, answer, errors = moves(path, here)
    assert (status, answer["location"]) == (0, here), errors
    assert answers(old.ledger_location) == expected
    with pytest.raises(LedgerElsewhere, match="was moved to /"):
        ledger_in(new.ledger_location, store).read()


@pytest.mark.parametrize("direction", ["into the store", "out of it"])
def test_a_killed_move_is_completed_with_the_changed_file(
    lake, file, tmp_path, monkeypatch, direction
):
    """Whoever has changed the file names the connection, if the file may not."""
    table, inside = str(tmp_path / "orders"), direction == "into the store"
    here, there = str(tmp_path / "orders.ledger"), lake.uri("orders.ledger")
    in_files, in_store = ({"uri": table}, here), ({"uri": table, "connection": "lake"}, there)
    before, after = (in_files, in_store) if inside else (in_store, in_files)
    old, path = file(*before)
    work(old.ledger_location, 2, store=find_store(old))
    expected = answers(old.ledger_location, find_store(old))
    named = ("--connection", "lake")
    monkeypatch.setenv("TIDELINE_FAILPOINT", "move:marked:kill")
    assert moves(path, after[1], *named)[0] == -9
    monkeypatch.delenv("TIDELINE_FAILPOINT")
    new, path = file(*after)
    status, answer, errors = moves(path, after[1], *named)
    assert (status, answer["moved"]) == (0, True), errors
    assert answers(new.ledger_location, find_store(new)) == expected


def test_the_command_says_what_to_change(lake, file, tmp_path):
    """A connection goes with the last address in the store, and comes with the first."""
    table, here = str(tmp_path / "orders"), str(tmp_path / "orders.ledger")
    old, path = file({"uri": table}, here)
    work(old.ledger_location, 1)
    there = lake.uri("orders.ledger")
    options = ("--to", "delta", "--at", there, "--connection", "lake")
    status, said, errors = finished(tideline("move-ledger", path, *options))
    assert status == 0, errors
    assert "also set `table.connection: lake`" in said
    _, path = file({"uri": table, "connection": "lake"}, there)
    status, said, errors = finished(tideline("move-ledger", path, "--to", "delta", "--at", here))
    assert status == 0, errors
    assert "also remove `table.connection`" in said
    two = ("--to", "delta", "--at", there, "--connection", "another")
    status, _, errors = finished(tideline("move-ledger", path, *two))
    assert (status, "lake" in errors) == (2, True)
