"""Runs the revisions in Airflow's database; alembic executes this file."""

from airflow import settings
from alembic import context

from tideline.ledger.sql_store import METADATA, VERSION_TABLE

if context.is_offline_mode():
    context.configure(
        url=settings.SQL_ALCHEMY_CONN,
        target_metadata=METADATA,
        literal_binds=True,
        version_table=VERSION_TABLE,
    )
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = settings.get_engine()  # type: ignore[no-untyped-call]
    with engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=METADATA,
            transaction_per_migration=True,
            render_as_batch=True,
            version_table=VERSION_TABLE,
        )
        with context.begin_transaction():
            context.run_migrations()
