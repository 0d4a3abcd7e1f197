"""Airflow's external database manager for the ledger's tables.

`[database] external_db_managers` names it; then `airflow db migrate` creates and upgrades the
ledger's tables beside Airflow's own. `airflow db reset` keeps them: they describe topics and
Delta tables, not Airflow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.utils.db_manager import BaseDBManager

from tideline.errors import BadInput
from tideline.ledger.sql_store import METADATA, VERSION_TABLE

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
        """Refuse: there is no older revision, so a downgrade could only drop ledgers.

        Raises:
            BadInput: Always.
        """
        raise BadInput(
            f"{VERSION_TABLE}: there is no older revision. To remove the tables, move each"
            " ledger away (tideline move-ledger FILE --to delta), then drop the tables tideline_*"
        )
