"""A database that holds ledgers, without an Airflow around it."""

from __future__ import annotations

import os

from sqlalchemy import create_engine
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from devstack.airflow_services import connection_to
from tideline.ledger.sql_store import METADATA

_CONNECTION = "AIRFLOW_CONN_TIDELINE_LEDGER"


def create_tables(url: URL) -> URL:
    """What Airflow's commands do; the same address."""
    METADATA.create_all(create_engine(url, poolclass=NullPool))
    return url


def connect(url: URL) -> None:
    """From now on the connection `tideline_ledger` leads to this database."""
    os.environ[_CONNECTION] = connection_to(url)


def disconnect() -> None:
    """The connection is gone."""
    os.environ.pop(_CONNECTION, None)
