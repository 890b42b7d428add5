"""Processes without a shared directory: their secrets, who works on tasks, and the cloud that a directory is of."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("purpose", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("purpose", "number", name=op.f("pk_secrets")),
    )
    op.create_table(
        "task_processes",
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("release", sa.String(length=64), nullable=False),
        sa.Column("started_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_task_processes")),
    )
    op.add_column("bootstrapped", sa.Column("cloud_id", sa.String(length=64), nullable=True))
