"""Databases with the ledger's tables."""

import itertools

import pytest
from sqlalchemy.engine import URL

from tests.ledger_database import create_tables

_numbers = itertools.count(1)


@pytest.fixture
def sqlite_tables(tmp_path):
    """A new SQLite file."""
    return create_tables(URL.create("sqlite", database=str(tmp_path / "ledgers.db")))


@pytest.fixture(scope="session")
def postgres_tables(postgres):
    """A database on the PostgreSQL that all tests share."""
    return create_tables(postgres.create_database(f"ledgers-{next(_numbers)}"))
