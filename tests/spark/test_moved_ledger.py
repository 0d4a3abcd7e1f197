"""A stream goes on where it was after its ledger has changed its home."""

import pytest
from sqlalchemy.engine import URL

from devstack.airflow_services import connection_to
from tests.worlds.ledgers import create_tables
from tests.worlds.streams import commit_only, head, spans, table_rows, table_version
from tideline.errors import LedgerElsewhere
from tideline.ledger.move import move_ledger
from tideline.wiring import open_store


@pytest.fixture
def in_database(harness, landed, monkeypatch):
    """The landed stream's file, changed to `ledger: airflow`."""
    file = harness.folder / "ledgers.db"
    url = create_tables(URL.create("sqlite", database=str(file)))
    monkeypatch.setenv("AIRFLOW_CONN_TIDELINE_LEDGER", connection_to(url))
    return harness.stream(ledger="airflow")


def test_runs_replays_and_open_plans_go_on_in_the_new_home(harness, landed, in_database, spark):
    """Same positions, same plans, same fence; the old home lets nobody in."""
    harness.send(20)
    commit_only(landed, "cut off", spark)  # in the table, not in the head
    submits = spark.submits
    move_ledger(landed.ledger_location, in_database.ledger_location, open_store)
    assert spans(harness.run(in_database, "cut off", spark)) == [(0, 100, 120)]
    assert spark.submits == submits  # the table proves the rows
    harness.send(30)
    assert spans(harness.run(in_database, "next", spark)) == [(0, 120, 150)]
    version = table_version(in_database)
    with pytest.raises(LedgerElsewhere, match="ledger: airflow"):
        harness.run(landed, "with the old file", spark)
    assert table_version(in_database) == version
    move_ledger(in_database.ledger_location, landed.ledger_location, open_store)
    harness.send(5)
    harness.run(landed, "back", spark)
    assert head(landed) == {(harness.topic(), 0): 155}
    assert len(set(table_rows(landed))) == len(table_rows(landed)) == 155
    assert harness.audit(landed)[0].clean
