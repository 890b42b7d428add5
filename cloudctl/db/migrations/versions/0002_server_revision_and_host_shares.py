"""A server's revision, and how many servers have a share of a host."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("hosts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("shares", sa.Integer(), server_default="0", nullable=False))
    op.execute("UPDATE hosts SET shares = (SELECT count(*) FROM allocations WHERE allocations.host = hosts.name)")
    with op.batch_alter_table("servers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("revision", sa.Integer(), server_default="0", nullable=False))
