"""The tables of ledgers in a database; `sql_store` and the migrations use these definitions.

Column names are stored and stay: `slot` is what the code calls a document key.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData()
VERSION_TABLE = "tideline_alembic_version"
MANAGER = "tideline.airflow.db_manager.TidelineDBManager"
"""Airflow's external database manager; it creates the tables."""

# SQLite only counts up an INTEGER by itself.
_Counter = BigInteger().with_variant(Integer(), "sqlite")

LEDGERS = Table(
    "tideline_ledger",
    METADATA,
    Column("name", String(250), primary_key=True),
    Column("version", BigInteger, nullable=False),
)
DOCUMENTS = Table(
    "tideline_document",
    METADATA,
    Column("ledger", String(250), ForeignKey(LEDGERS.c.name), primary_key=True),
    Column("slot", String(1000), primary_key=True),
    Column("body", Text, nullable=False),
)
HISTORY = Table(
    "tideline_history",
    METADATA,
    Column("id", _Counter, primary_key=True),
    Column("ledger", String(250), ForeignKey(LEDGERS.c.name), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("kind", String(100), nullable=False),
    Column("key", String(1000), nullable=False),
    Column("recorded_at", DateTime(timezone=True), nullable=False),
    Column("body", Text, nullable=False),
)
Index("tideline_history_by_key", HISTORY.c.ledger, HISTORY.c.kind, HISTORY.c.key, HISTORY.c.version)
