"""Private VLANs, and what the wires below are told of routers and subnets."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("networks", sa.Column("pvlan", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("subnets", sa.Column("leak_routes", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("ports", sa.Column("pvlan_type", sa.String(16), nullable=True))
    op.add_column("ports", sa.Column("pvlan_community", sa.String(255), nullable=True))
    op.add_column("routers", sa.Column("evpn_vni", sa.Integer(), nullable=True))
    op.create_index("uq_routers_evpn_vni", "routers", ["evpn_vni"], unique=True)
