"""Backups say where their objects are; those that are there stay in the directory."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("volume_backups", sa.Column("kept_at", sa.String(700), nullable=True))
    op.add_column("volume_backups", sa.Column("kept_digest", sa.String(64), nullable=True))
