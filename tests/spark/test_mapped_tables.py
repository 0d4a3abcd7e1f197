"""Typed and current tables whose files alone do not say what they hold, or that are others."""

import shutil

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.worlds.current_streams import Changing
from tests.worlds.lake import map_columns
from tideline.errors import BadInput
from tideline.folding.current_checking import check_current
from tideline.folding.explaining import explain_key
from tideline.model.request import RunRequest
from tideline.operations.questions import audit_stream
from tideline.wiring import open_run

pytestmark = pytest.mark.slow


@pytest.fixture
def orders(harness, spark):
    """Two rows that are folded."""
    found = Changing(harness, spark, every="0 3 * * *")
    found.sends(("c", 1, "a", 1), ("c", 2, "b", 2))
    found.run("one")
    found.fold("night-1")
    return found


def looks(orders, look):
    """What a look at the stream finds."""
    with open_run(orders.stream, "look", RunRequest(), orders.spark) as run:
        return look(run)


@pytest.mark.parametrize("renamed", [None, "total"])
def test_a_typed_table_with_column_mapping_is_not_folded(orders, renamed):
    """A column that was renamed has another name in the files: each row would have null there."""
    orders.sends(("u", 1, "new", 10))
    orders.run("two")
    map_columns(orders.tables["decoded"], renamed)
    for asked in ("due", "anew"):
        with pytest.raises(BadInput, match=r"decode.table.uri.*columnMapping.*Nothing was folded"):
            orders.fold("night-2", asked)
    assert orders.rows() == {1: ("a", 1), 2: ("b", 2)}
    for look in (check_current, audit_stream):
        with pytest.raises(BadInput, match="columnMapping"):
            looks(orders, look)


def test_a_current_table_with_column_mapping_is_not_called_clean(orders):
    """Whoever reads it finds no total, and the files still have it."""
    map_columns(orders.tables["current"], "total")
    audit, _ = looks(orders, audit_stream)
    assert not audit.clean
    assert "columnMapping" in str(audit)
    for look in (check_current, lambda run: explain_key(run, {"key_id": "1"})):
        with pytest.raises(BadInput, match="columnMapping"):
            looks(orders, look)


def test_another_current_table_is_not_called_clean(orders):
    """It has as many rows in each bucket, and nobody of this stream has made it."""
    uri = orders.tables["current"]
    rows = DeltaTable(uri).to_pyarrow_table()
    shutil.rmtree(uri)
    write_deltalake(uri, rows, partition_by=["bucket"])
    audit, _ = looks(orders, audit_stream)
    assert not audit.clean
    assert "was not created by Tideline" in str(audit)
