"""The ledger's tables are created and upgraded by Airflow's own commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from tideline.ledger.ledger import Ledger
from tideline.ledger.sql_store import MANAGER, METADATA, VERSION_TABLE, SqlLedgerStore

ROOT = Path(__file__).parents[2]

# As `airflow`, but without the checkout on the path: only Airflow's plugins folder leads to it.
AIRFLOW = """
import sys
sys.path[:] = [p for p in sys.path if not p.endswith("/plugins")]
sys.argv[0] = "airflow"
from airflow.__main__ import main
main()
"""


def airflow(url, home, *command):
    """Run Airflow's command line on a metadata database; what it printed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url.render_as_string(hide_password=False),
        "AIRFLOW__DATABASE__EXTERNAL_DB_MANAGERS": MANAGER,
    }
    done = subprocess.run(
        [sys.executable, "-c", AIRFLOW, *command],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def is_usable(url):
    store = SqlLedgerStore(url, "s", "db: s")
    ledger = Ledger(store, "s")
    return ledger.update(lambda s: s.with_next_token()).control.token > 0


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """The address of an empty database."""
    if request.param == "sqlite":
        return URL.create("sqlite", database=str(tmp_path / "airflow.db"))
    postgres = request.getfixturevalue("postgres")
    return postgres.create_database(f"airflow-{tmp_path.name}")


@pytest.fixture(scope="module")
def migrated(postgres, tmp_path_factory):
    """A database after Airflow's one command, with the manager named in the configuration."""
    database = postgres.create_database("airflow-migrated")
    airflow(database, tmp_path_factory.mktemp("home"), "db", "migrate")
    return database


def test_airflow_db_migrate_creates_the_tables(migrated, tmp_path):
    """They are there after one command, and again without harm."""
    database = migrated
    assert is_usable(database)
    airflow(database, tmp_path, "db", "migrate")
    airflow(database, tmp_path, "db", "check-migrations", "-t", "1")
    assert is_usable(database)
    tables = inspect(create_engine(database, poolclass=NullPool)).get_table_names()
    assert {*METADATA.tables, VERSION_TABLE, "dag_run"} <= set(tables)


def test_the_revisions_lead_to_the_tables_that_the_store_expects(database, tmp_path):
    """Who upgrades has what a newcomer gets; a changed table needs a revision."""
    airflow(database, tmp_path, "db-manager", "migrate", MANAGER, "--use-migration-files")
    engine = create_engine(database, poolclass=NullPool)
    with engine.connect() as connection:
        ours = {"include_object": lambda _, name, kind, *__: kind != "table" or _is_ours(name)}
        context = MigrationContext.configure(connection, opts={**ours, "compare_type": True})
        assert compare_metadata(context, METADATA) == []
        revision = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    assert revision == "0001"
    assert is_usable(database)


def _is_ours(name):
    return name.startswith("tideline_") and name != VERSION_TABLE


@pytest.mark.slow  # Airflow's own command, half a minute
def test_resetting_airflow_leaves_the_ledgers(tmp_path):
    """What they say is true of tables and topics, not of Airflow."""
    database = URL.create("sqlite", database=str(tmp_path / "airflow.db"))
    airflow(database, tmp_path, "db", "migrate")
    assert is_usable(database)
    airflow(database, tmp_path, "db", "reset", "--yes")
    token = Ledger(SqlLedgerStore(database, "s", "s"), "s").read().control.token
    assert token == 1


KNOWN = """
from tideline.ledger.connection import ledger_url
print("found", ledger_url("tideline_ledger").render_as_string(hide_password=False))
"""


@pytest.mark.slow  # Airflow's own command, half a minute
def test_the_connection_is_found_wherever_airflow_keeps_it(migrated, tmp_path):
    """In Airflow's database, and in the environment as an address."""
    shown = migrated.render_as_string(hide_password=False)
    uri = shown.replace("postgresql+psycopg2", "postgres")
    airflow(migrated, tmp_path, "connections", "add", "tideline_ledger", "--conn-uri", uri)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "plugins"),
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": shown,
    }
    for more in ({}, {"AIRFLOW_CONN_TIDELINE_LEDGER": uri.replace("/airflow-", "/other-")}):
        done = subprocess.run(
            [sys.executable, "-c", KNOWN],
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        expected = shown.replace("/airflow-", "/other-") if more else shown
        assert f"found {expected}" in done.stdout, done.stderr[-2000:]
