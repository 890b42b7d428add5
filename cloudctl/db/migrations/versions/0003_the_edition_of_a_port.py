"""The edition of a port: what pages have kept of it is known by that."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("ports", schema=None) as batch_op:
        batch_op.add_column(sa.Column("edition", sa.Integer(), server_default="0", nullable=False))
