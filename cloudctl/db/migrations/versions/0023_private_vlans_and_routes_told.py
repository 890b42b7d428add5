"""Private VLANs, what the wires below are told of routers and subnets, and what ports are looked for by."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("networks", sa.Column("pvlan", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("subnets", sa.Column("leak_routes", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("ports", sa.Column("pvlan_type", sa.String(16), nullable=True))
    op.add_column("ports", sa.Column("pvlan_community", sa.String(255), nullable=True))
    op.add_column("routers", sa.Column("evpn_vni", sa.Integer(), nullable=True))
    op.create_index("uq_routers_evpn_vni", "routers", ["evpn_vni"], unique=True)
    for table, index, columns in (
        ("ports", "ix_ports_device", ["device_id", "project_id", "id"]),
        ("ip_allocations", "ix_ip_allocations_port", ["port_id", "subnet_id", "position"]),
    ):
        op.drop_index(index, table)
        op.create_index(index, table, columns)
    op.create_index("ix_ports_name", "ports", ["name", "project_id", "id"])
    op.create_index("ix_ports_mac_address", "ports", ["mac_address", "project_id", "id"])
    op.create_index("ix_ports_network", "ports", ["network_id", "project_id", "id"])
