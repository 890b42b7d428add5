"""Networks of several wires, ports that are given addresses with their host, and more of what ports are looked for by."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("more_segments", "routed"):
        op.add_column("networks", sa.Column(name, sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("segments", sa.Column("position", sa.Integer(), server_default="0", nullable=False))
    op.create_index("ix_ports_status", "ports", ["project_id", "status", "id"])
    op.create_index("ix_ports_device_owner", "ports", ["project_id", "device_owner", "id"])
    op.create_index("ix_ports_host", "ports", ["host", "id"])
    op.add_column("ports", sa.Column("ip_allocation", sa.String(length=16), server_default="immediate", nullable=False))
