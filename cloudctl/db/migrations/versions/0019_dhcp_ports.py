"""The ports from which networks' addresses are given out, and how routers use several ways out."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "network_dhcp_ports",
        sa.Column("network_id", sa.String(length=64), nullable=False),
        sa.Column("port_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["network_id"],
            ["networks.id"],
            name=op.f("fk_network_dhcp_ports_network_id_networks"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["port_id"],
            ["ports.id"],
            name=op.f("fk_network_dhcp_ports_port_id_ports"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("network_id", name=op.f("pk_network_dhcp_ports")),
        sa.UniqueConstraint("port_id", name=op.f("uq_network_dhcp_ports_port_id")),
    )
    with op.batch_alter_table("routers", schema=None) as batch_op:
        for name in ("enable_default_route_ecmp", "enable_default_route_bfd"):
            batch_op.add_column(sa.Column(name, sa.Boolean(), server_default=sa.false(), nullable=False))
