"""Ledgers, their documents and their history.

Written out as they were in this revision: `tideline.ledger.sql_store` says what they are now, and a
test holds the sum of all revisions against it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "tideline_ledger",
        sa.Column("name", sa.String(250), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "tideline_document",
        sa.Column("ledger", sa.String(250), sa.ForeignKey("tideline_ledger.name")),
        sa.Column("slot", sa.String(1000)),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("ledger", "slot"),
    )
    op.create_table(
        "tideline_history",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("ledger", sa.String(250), sa.ForeignKey("tideline_ledger.name"), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(100), nullable=False),
        sa.Column("key", sa.String(1000), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index(
        "tideline_history_by_key", "tideline_history", ["ledger", "kind", "key", "version"]
    )
