"""Airflow's external database manager for the ledger's tables.

Named in `[database] external_db_managers`, it makes `airflow db migrate` create and upgrade them
beside Airflow's own. `airflow db reset` leaves them alone: what they say is true of tables and
topics, not of Airflow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.utils.db_manager import BaseDBManager

from tideline.errors import BadInput
from tideline.ledger.sql_tables import METADATA, VERSION_TABLE

_MIGRATIONS = Path(__file__).parent / "migrations"


class TidelineDBManager(BaseDBManager):
    """Creates and upgrades the tables that `ledger: airflow` needs."""

    metadata = METADATA
    migration_dir = str(_MIGRATIONS)
    alembic_file = str(_MIGRATIONS / "alembic.ini")
    version_table_name = VERSION_TABLE
    supports_table_dropping = False
    revision_heads_map = {"0.1.0": "0001"}  # noqa: RUF012 - Airflow's base class has it so

    def downgrade(self, *_: Any, **__: Any) -> None:
        """Refused: an older revision could only drop ledgers.

        Raises:
            BadInput: Always.
        """
        raise BadInput(
            f"{VERSION_TABLE}: there is no older revision. To be rid of the tables, move each"
            " ledger away (tideline move-ledger FILE --to delta) and drop the tables tideline_*"
        )
