"""What routers, ports and addresses can have beside; and segments as records, where they were rows of networks."""

import uuid
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "metering_labels",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("shared", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metering_labels")),
    )
    with op.batch_alter_table("metering_labels", schema=None) as batch_op:
        batch_op.create_index("ix_metering_labels_project", ["project_id", "id"], unique=False)

    op.create_table(
        "network_flavors",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("service_type", sa.String(length=64), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_flavors")),
    )
    op.create_table(
        "network_segment_ranges",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("default", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("shared", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("network_type", sa.String(length=16), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=False),
        sa.Column("minimum", sa.Integer(), nullable=False),
        sa.Column("maximum", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_segment_ranges")),
    )
    with op.batch_alter_table("network_segment_ranges", schema=None) as batch_op:
        batch_op.create_index("ix_network_segment_ranges_type", ["network_type", "default"], unique=False)

    op.create_table(
        "segments",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("network_id", sa.String(length=64), nullable=False),
        sa.Column("network_type", sa.String(length=16), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=False),
        sa.Column("segmentation_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segments")),
        sa.UniqueConstraint("network_type", "physical_network", "segmentation_id", name="uq_segments_wire"),
    )
    with op.batch_alter_table("segments", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_segments_network_id"), ["network_id"], unique=False)

    op.create_table(
        "service_profiles",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("driver", sa.String(length=1024), nullable=False),
        sa.Column("metainfo", sa.String(length=4096), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_profiles")),
    )
    op.create_table(
        "flavor_service_profiles",
        sa.Column("flavor_id", sa.String(length=64), nullable=False),
        sa.Column("service_profile_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["flavor_id"], ["network_flavors.id"], name=op.f("fk_flavor_service_profiles_flavor_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["service_profile_id"], ["service_profiles.id"], name=op.f("fk_flavor_service_profiles_service_profile_id")
        ),
        sa.PrimaryKeyConstraint("flavor_id", "service_profile_id", name=op.f("pk_flavor_service_profiles")),
    )
    with op.batch_alter_table("flavor_service_profiles", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_flavor_service_profiles_service_profile_id"), ["service_profile_id"], unique=False
        )

    op.create_table(
        "metering_label_rules",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("metering_label_id", sa.String(length=64), nullable=False),
        sa.Column("direction", sa.String(length=8), nullable=False),
        sa.Column("remote_ip_prefix", sa.String(length=64), nullable=True),
        sa.Column("source_ip_prefix", sa.String(length=64), nullable=True),
        sa.Column("destination_ip_prefix", sa.String(length=64), nullable=True),
        sa.Column("excluded", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["metering_label_id"], ["metering_labels.id"], name=op.f("fk_metering_label_rules_metering_label_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metering_label_rules")),
    )
    with op.batch_alter_table("metering_label_rules", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_metering_label_rules_metering_label_id"), ["metering_label_id"], unique=False
        )

    op.create_table(
        "conntrack_helpers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("router_id", sa.String(length=64), nullable=False),
        sa.Column("protocol", sa.String(length=16), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("helper", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["router_id"], ["routers.id"], name=op.f("fk_conntrack_helpers_router_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conntrack_helpers")),
        sa.UniqueConstraint("router_id", "protocol", "port", name="uq_conntrack_helpers_port"),
    )
    op.create_table(
        "local_ips",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("network_id", sa.String(length=64), nullable=False),
        sa.Column("local_port_id", sa.String(length=64), nullable=False),
        sa.Column("local_ip_address", sa.String(length=64), nullable=False),
        sa.Column("ip_mode", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(
            ["local_port_id"], ["ports.id"], name=op.f("fk_local_ips_local_port_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["network_id"], ["networks.id"], name=op.f("fk_local_ips_network_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_local_ips")),
        sa.UniqueConstraint("local_port_id", "local_ip_address", name="uq_local_ips_address"),
    )
    with op.batch_alter_table("local_ips", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_local_ips_local_port_id"), ["local_port_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_local_ips_network_id"), ["network_id"], unique=False)
        batch_op.create_index("ix_local_ips_project", ["project_id", "id"], unique=False)

    op.create_table(
        "ndp_proxies",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("router_id", sa.String(length=64), nullable=False),
        sa.Column("port_id", sa.String(length=64), nullable=False),
        sa.Column("ip_address", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_ndp_proxies_port_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["router_id"], ["routers.id"], name=op.f("fk_ndp_proxies_router_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ndp_proxies")),
        sa.UniqueConstraint("port_id", "ip_address", name="uq_ndp_proxies_address"),
    )
    with op.batch_alter_table("ndp_proxies", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ndp_proxies_port_id"), ["port_id"], unique=False)
        batch_op.create_index("ix_ndp_proxies_project", ["project_id", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_ndp_proxies_router_id"), ["router_id"], unique=False)

    op.create_table(
        "network_logs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("resource_type", sa.String(length=64), nullable=False),
        sa.Column("resource_id", sa.String(length=64), nullable=True),
        sa.Column("target_id", sa.String(length=64), nullable=True),
        sa.Column("event", sa.String(length=8), nullable=False),
        sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.ForeignKeyConstraint(
            ["resource_id"], ["security_groups.id"], name=op.f("fk_network_logs_resource_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["target_id"], ["ports.id"], name=op.f("fk_network_logs_target_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_logs")),
    )
    with op.batch_alter_table("network_logs", schema=None) as batch_op:
        batch_op.create_index("ix_network_logs_project", ["project_id", "id"], unique=False)
        batch_op.create_index(batch_op.f("ix_network_logs_resource_id"), ["resource_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_network_logs_target_id"), ["target_id"], unique=False)

    op.create_table(
        "port_bindings",
        sa.Column("port_id", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("vnic_type", sa.String(length=32), nullable=False),
        sa.Column("profile", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("vif_type", sa.String(length=64), nullable=False),
        sa.Column("vif_details", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_port_bindings_port_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("port_id", "host", name=op.f("pk_port_bindings")),
    )
    op.create_table(
        "local_ip_associations",
        sa.Column("local_ip_id", sa.String(length=64), nullable=False),
        sa.Column("fixed_port_id", sa.String(length=64), nullable=False),
        sa.Column("fixed_ip", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["fixed_port_id"], ["ports.id"], name=op.f("fk_local_ip_associations_fixed_port_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["local_ip_id"], ["local_ips.id"], name=op.f("fk_local_ip_associations_local_ip_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("local_ip_id", "fixed_port_id", name=op.f("pk_local_ip_associations")),
    )
    with op.batch_alter_table("local_ip_associations", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_local_ip_associations_fixed_port_id"), ["fixed_port_id"], unique=False)

    _write_segments(op.get_bind())
    with op.batch_alter_table("network_segments", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_network_segments_network_id"))

    op.drop_table("network_segments")
    with op.batch_alter_table("floating_ips", schema=None) as batch_op:
        batch_op.add_column(sa.Column("qos_policy_id", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("dns_name", sa.String(length=255), server_default="", nullable=False))
        batch_op.add_column(sa.Column("dns_domain", sa.String(length=255), server_default="", nullable=False))
        batch_op.create_index(batch_op.f("ix_floating_ips_qos_policy_id"), ["qos_policy_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_floating_ips_qos_policy_id"), "qos_policies", ["qos_policy_id"], ["id"]
        )

    with op.batch_alter_table("router_ports", schema=None) as batch_op:
        batch_op.add_column(sa.Column("position", sa.Integer(), server_default="0", nullable=False))

    with op.batch_alter_table("routers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("flavor_id", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("distributed", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("ha", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.add_column(sa.Column("enable_ndp_proxy", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.create_index(batch_op.f("ix_routers_flavor_id"), ["flavor_id"], unique=False)
        batch_op.create_foreign_key(batch_op.f("fk_routers_flavor_id"), "network_flavors", ["flavor_id"], ["id"])

    with op.batch_alter_table("subnets", schema=None) as batch_op:
        batch_op.add_column(sa.Column("segment_id", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("dns_publish_fixed_ip", sa.Boolean(), server_default=sa.false(), nullable=False))
        batch_op.create_index(batch_op.f("ix_subnets_segment_id"), ["segment_id"], unique=False)
        batch_op.create_foreign_key(batch_op.f("fk_subnets_segment_id"), "segments", ["segment_id"], ["id"])


def _write_segments(conn: sa.Connection) -> None:
    """Each network is on the segment that it was on."""
    wire = ("network_type", "physical_network", "segmentation_id", "network_id")
    before = sa.table("network_segments", *(sa.column(name) for name in wire))
    now = datetime.now(UTC).replace(tzinfo=None)
    common = {"project_id": "", "description": "", "created_at": now, "updated_at": now, "revision": 0}
    after = sa.table("segments", *(sa.column(name) for name in ("id", *common, *wire)))
    for row in conn.execute(sa.select(before)).mappings().all():
        conn.execute(after.insert().values(id=str(uuid.uuid4()), **common, **row))
