"""What projects have is summed by the database itself, so the index that it was counted by goes."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "totals",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", "project_id", name=op.f("pk_totals")),
    )
    op.drop_index("ix_servers_usage", table_name="servers")
