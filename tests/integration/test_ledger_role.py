"""The role of docs/install.md: everything that a ledger does, and nothing of Airflow's."""

import re
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.pool import NullPool

from tests.worlds.ledgers import create_tables
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import HistoryEntry
from tideline.ledger.sql_store import SqlLedgerStore

INSTALL = Path(__file__).parents[2] / "docs" / "install.md"
AIRFLOWS = {"connection": "password", "ab_user": "password", "variable": "val", "dag_run": "conf"}
"""Tables of Airflow's with what is secret there."""


def statements():
    """The SQL of the document."""
    (block,) = re.findall(r"```sql\n(.*?)```", INSTALL.read_text(), re.DOTALL)
    return [line for line in block.split(";\n") if line.strip()]


@pytest.fixture(scope="module")
def as_role(postgres):
    """The database's address as the document's role has it; Airflow's tables are there, too."""
    url = create_tables(postgres.create_database("ledgers-of-a-role"))
    database = str(url.database)
    for table, column in AIRFLOWS.items():
        postgres.execute(f'CREATE TABLE "{table}" ({column} text)', database)
    for statement in statements():
        postgres.execute(statement.replace("change-me", "of-the-role"), database)
    yield url.set(username="tideline_tasks", password="of-the-role")
    postgres.execute("DROP OWNED BY tideline_tasks", database)
    postgres.execute("DROP ROLE tideline_tasks")


def tried(url, statement):
    """Execute a statement as the role."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(statement))


def test_the_role_does_all_that_a_ledger_needs(as_role):
    """Read, compare and swap, replace and drop documents, write history, and read it."""
    store = SqlLedgerStore(as_role, "s", "db: s")
    Ledger(store, "s").update(lambda state: state.with_next_token())
    Ledger(store, "s").update(lambda state: state.with_next_token())
    store.commit(store.read(), put={"a": "1"}, history=[HistoryEntry("run", "x", "entry")])
    store.commit(store.read(), put={"a": "2"}, drop=["control"])
    assert store.read().documents["a"] == "2"
    assert [entry.body for entry in store.history("run", "x")] == ["entry"]


@pytest.mark.parametrize(
    "statement",
    [
        *(f'SELECT * FROM "{table}"' for table in AIRFLOWS),
        *(f'DELETE FROM "{table}"' for table in AIRFLOWS),
        "UPDATE tideline_history SET body = 'another'",
        "DELETE FROM tideline_history",
        "TRUNCATE tideline_document",
        "DELETE FROM tideline_ledger",
        "DROP TABLE tideline_ledger",
        "ALTER TABLE tideline_document ADD COLUMN more text",
        "CREATE TABLE tideline_more (a text)",
        "CREATE ROLE another",
    ],
)
def test_the_role_may_do_nothing_else(as_role, statement):
    """A task's code, or whoever reads its connection, has the ledgers and no more."""
    with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"):
        tried(as_role, statement)
