"""Databases with the ledger's tables."""

import itertools

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from tideline.adapters.ledger_tables import METADATA

_numbers = itertools.count(1)


@pytest.fixture
def sqlite_tables(tmp_path):
    """A new SQLite file."""
    return _with_tables(URL.create("sqlite", database=str(tmp_path / "ledgers.db")))


@pytest.fixture(scope="session")
def postgres_tables(postgres):
    """A database on the PostgreSQL that all tests share."""
    return _with_tables(postgres.create_database(f"ledgers-{next(_numbers)}"))


def _with_tables(url):
    METADATA.create_all(create_engine(url, poolclass=NullPool))
    return url
