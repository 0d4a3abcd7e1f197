"""Databases with the ledger's tables."""

import itertools
import shutil

import pytest
from sqlalchemy.engine import URL

from tests.worlds.lake import Lake
from tests.worlds.ledgers import create_tables

_numbers = itertools.count(1)


@pytest.fixture
def sqlite_tables(tmp_path):
    """A new SQLite file."""
    return create_tables(URL.create("sqlite", database=str(tmp_path / "ledgers.db")))


@pytest.fixture(scope="session")
def postgres_tables(postgres):
    """A database on the PostgreSQL that all tests share."""
    return create_tables(postgres.create_database(f"ledgers-{next(_numbers)}"))


@pytest.fixture(scope="session")
def healthy_lake(tmp_path_factory):
    """Built once, copied for each test."""
    folder = tmp_path_factory.mktemp("healthy")
    Lake(folder).build()
    return folder


@pytest.fixture
def lake(healthy_lake, tmp_path):
    """A stream with two landed runs, about to be damaged."""
    shutil.copytree(healthy_lake, tmp_path, dirs_exist_ok=True)
    return Lake(tmp_path)
