"""What networking has beside networks, ports and routers; and shares as rows, where they were flags."""

import uuid
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEPT = ("project_id", "created_at", "updated_at")
COLUMNS = ("id", *KEPT, "description", "revision", "object_type", "object_id", "action", "target")


def upgrade() -> None:
    op.create_table(
        "address_groups",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("addresses", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_address_groups")),
    )
    with op.batch_alter_table("address_groups", schema=None) as batch_op:
        batch_op.create_index("ix_address_groups_project", ["project_id", "id"], unique=False)

    op.create_table(
        "address_scopes",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_address_scopes")),
    )
    with op.batch_alter_table("address_scopes", schema=None) as batch_op:
        batch_op.create_index("ix_address_scopes_project", ["project_id", "id"], unique=False)

    op.create_table(
        "auto_topologies",
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("network_id", sa.String(length=64), nullable=False),
        sa.Column("router_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_auto_topologies")),
    )
    op.create_table(
        "network_agents",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("agent_type", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_network_agents")),
        sa.UniqueConstraint("agent_type", "host", name="uq_network_agents_place"),
    )
    op.create_table(
        "rbac_policies",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("object_type", sa.String(length=32), nullable=False),
        sa.Column("object_id", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rbac_policies")),
        sa.UniqueConstraint("object_id", "action", "target", name="uq_rbac_policies_share"),
    )
    with op.batch_alter_table("rbac_policies", schema=None) as batch_op:
        batch_op.create_index("ix_rbac_policies_project", ["project_id", "id"], unique=False)
        batch_op.create_index("ix_rbac_policies_target", ["target", "object_type", "object_id"], unique=False)

    op.create_table(
        "default_security_group_rules",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("direction", sa.String(length=8), nullable=False),
        sa.Column("ethertype", sa.String(length=4), nullable=False),
        sa.Column("protocol", sa.String(length=32), nullable=True),
        sa.Column("port_range_min", sa.Integer(), nullable=True),
        sa.Column("port_range_max", sa.Integer(), nullable=True),
        sa.Column("remote_ip_prefix", sa.String(length=64), nullable=True),
        sa.Column("remote_group_id", sa.String(length=64), nullable=True),
        sa.Column("remote_address_group_id", sa.String(length=64), nullable=True),
        sa.Column("meaning", sa.String(length=255), nullable=False),
        sa.Column("used_in_default_sg", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("used_in_non_default_sg", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.ForeignKeyConstraint(
            ["remote_address_group_id"],
            ["address_groups.id"],
            name=op.f("fk_default_security_group_rules_remote_address_group_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_default_security_group_rules")),
    )
    with op.batch_alter_table("default_security_group_rules", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_default_security_group_rules_remote_address_group_id"),
            ["remote_address_group_id"],
            unique=False,
        )

    op.create_table(
        "qos_rules",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("policy_id", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("direction", sa.String(length=8), nullable=False),
        sa.Column("value", sa.Integer(), nullable=False),
        sa.Column("burst", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["policy_id"], ["qos_policies.id"], name=op.f("fk_qos_rules_policy_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_qos_rules")),
        sa.UniqueConstraint("policy_id", "type", "direction", name="uq_qos_rules_direction"),
    )
    op.create_table(
        "subnet_pools",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("ip_version", sa.Integer(), nullable=False),
        sa.Column("prefixes", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("min_prefixlen", sa.Integer(), nullable=False),
        sa.Column("max_prefixlen", sa.Integer(), nullable=False),
        sa.Column("default_prefixlen", sa.Integer(), nullable=False),
        sa.Column("default_quota", sa.Integer(), nullable=True),
        sa.Column("address_scope_id", sa.String(length=64), nullable=True),
        sa.Column("is_default", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["address_scope_id"], ["address_scopes.id"], name=op.f("fk_subnet_pools_address_scope_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subnet_pools")),
    )
    with op.batch_alter_table("subnet_pools", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_subnet_pools_address_scope_id"), ["address_scope_id"], unique=False)
        batch_op.create_index("ix_subnet_pools_project", ["project_id", "id"], unique=False)
        batch_op.create_index(
            "uq_subnet_pools_default",
            ["ip_version"],
            unique=True,
            sqlite_where=sa.text("is_default IS 1"),
            postgresql_where=sa.text("is_default IS true"),
        )

    op.create_table(
        "network_agent_absences",
        sa.Column("network_id", sa.String(length=64), nullable=False),
        sa.Column("agent_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["network_agents.id"], name=op.f("fk_network_agent_absences_agent_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["network_id"], ["networks.id"], name=op.f("fk_network_agent_absences_network_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("network_id", "agent_id", name=op.f("pk_network_agent_absences")),
    )
    with op.batch_alter_table("network_agent_absences", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_network_agent_absences_agent_id"), ["agent_id"], unique=False)

    op.create_table(
        "trunks",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("port_id", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("admin_state_up", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_trunks_port_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trunks")),
        sa.UniqueConstraint("port_id", name=op.f("uq_trunks_port_id")),
    )
    with op.batch_alter_table("trunks", schema=None) as batch_op:
        batch_op.create_index("ix_trunks_project", ["project_id", "id"], unique=False)

    op.create_table(
        "port_forwardings",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("floatingip_id", sa.String(length=64), nullable=False),
        sa.Column("internal_port_id", sa.String(length=64), nullable=False),
        sa.Column("internal_ip_address", sa.String(length=64), nullable=False),
        sa.Column("protocol", sa.String(length=8), nullable=False),
        sa.Column("internal", sa.Integer(), nullable=False),
        sa.Column("external", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["floatingip_id"], ["floating_ips.id"], name=op.f("fk_port_forwardings_floatingip_id")),
        sa.ForeignKeyConstraint(["internal_port_id"], ["ports.id"], name=op.f("fk_port_forwardings_internal_port_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_port_forwardings")),
    )
    with op.batch_alter_table("port_forwardings", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_port_forwardings_floatingip_id"), ["floatingip_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_port_forwardings_internal_port_id"), ["internal_port_id"], unique=False)

    op.create_table(
        "trunk_subports",
        sa.Column("port_id", sa.String(length=64), nullable=False),
        sa.Column("trunk_id", sa.String(length=64), nullable=False),
        sa.Column("segmentation_type", sa.String(length=16), nullable=False),
        sa.Column("segmentation_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["port_id"], ["ports.id"], name=op.f("fk_trunk_subports_port_id")),
        sa.ForeignKeyConstraint(["trunk_id"], ["trunks.id"], name=op.f("fk_trunk_subports_trunk_id")),
        sa.PrimaryKeyConstraint("port_id", name=op.f("pk_trunk_subports")),
        sa.UniqueConstraint("trunk_id", "segmentation_id", name="uq_trunk_subports_segmentation"),
    )
    _write_shares(op.get_bind())
    op.execute(
        "INSERT INTO qos_rules (id, policy_id, type, direction, value, burst)"
        " SELECT id, policy_id, 'bandwidth_limit', direction, max_kbps, max_burst_kbps FROM qos_bandwidth_limits"
    )
    _write_templates(op.get_bind())
    op.drop_table("qos_bandwidth_limits")
    with op.batch_alter_table("networks", schema=None) as batch_op:
        batch_op.add_column(sa.Column("dns_domain", sa.String(length=255), server_default="", nullable=False))
        batch_op.drop_index(batch_op.f("ix_networks_everybodys"), sqlite_where=sa.text("shared IS 1 OR external IS 1"))
        batch_op.drop_column("shared")

    with op.batch_alter_table("ports", schema=None) as batch_op:
        batch_op.add_column(sa.Column("vnic_type", sa.String(length=32), server_default="normal", nullable=False))
        batch_op.add_column(
            sa.Column(
                "dhcp_options",
                sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
                server_default="[]",
                nullable=False,
            )
        )
        batch_op.add_column(sa.Column("dns_name", sa.String(length=255), server_default="", nullable=False))
        batch_op.add_column(sa.Column("dns_domain", sa.String(length=255), server_default="", nullable=False))
        batch_op.add_column(sa.Column("data_plane_status", sa.String(length=16), nullable=True))
        batch_op.add_column(
            sa.Column("propagate_uplink_status", sa.Boolean(), server_default=sa.true(), nullable=False)
        )
        batch_op.add_column(sa.Column("numa_affinity_policy", sa.String(length=16), nullable=True))
        batch_op.add_column(sa.Column("hints", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=True))
        batch_op.add_column(sa.Column("device_profile", sa.String(length=255), nullable=True))
        batch_op.add_column(sa.Column("trusted", sa.Boolean(), nullable=True))

    with op.batch_alter_table("qos_policies", schema=None) as batch_op:
        batch_op.drop_column("shared")

    with op.batch_alter_table("routers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("host", sa.String(length=255), server_default="", nullable=False))
        batch_op.create_index("ix_routers_host", ["host"], unique=False)

    with op.batch_alter_table("security_group_rules", schema=None) as batch_op:
        batch_op.add_column(sa.Column("remote_address_group_id", sa.String(length=64), nullable=True))
        batch_op.create_index(
            batch_op.f("ix_security_group_rules_remote_address_group_id"), ["remote_address_group_id"], unique=False
        )
        batch_op.create_foreign_key(
            batch_op.f("fk_security_group_rules_remote_address_group_id"),
            "address_groups",
            ["remote_address_group_id"],
            ["id"],
        )

    with op.batch_alter_table("subnets", schema=None) as batch_op:
        batch_op.add_column(sa.Column("subnetpool_id", sa.String(length=64), nullable=True))
        batch_op.add_column(
            sa.Column(
                "service_types",
                sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
                server_default="[]",
                nullable=False,
            )
        )
        batch_op.create_index(batch_op.f("ix_subnets_subnetpool_id"), ["subnetpool_id"], unique=False)
        batch_op.create_foreign_key(batch_op.f("fk_subnets_subnetpool_id"), "subnet_pools", ["subnetpool_id"], ["id"])


def _write_shares(conn: sa.Connection) -> None:
    """What the columns `shared` and `external` said is said by rows."""
    policies = sa.table("rbac_policies", *map(sa.column, COLUMNS))
    flags = (
        ("networks", "network", "shared", "access_as_shared"),
        ("networks", "network", "external", "access_as_external"),
        ("qos_policies", "qos_policy", "shared", "access_as_shared"),
    )
    for name, object_type, flag, action in flags:
        table = sa.table(name, sa.column(flag, sa.Boolean), *(sa.column(each) for each in ("id", *KEPT)))
        for row in conn.execute(sa.select(table).where(table.c[flag].is_(True))).mappings().all():
            share = {"object_type": object_type, "object_id": row["id"], "action": action, "target": "*"}
            kept = {each: row[each] for each in KEPT}
            conn.execute(policies.insert().values(id=str(uuid.uuid4()), description="", revision=0, **kept, **share))


def _write_templates(conn: sa.Connection) -> None:
    """What new groups have had, as an administrator could have said it: a new cloud writes that by itself."""
    if conn.execute(sa.text("SELECT id FROM bootstrapped")).first() is None:
        return
    columns = ("direction", "ethertype", "remote_group_id", "meaning", "description")
    flags = ("used_in_default_sg", "used_in_non_default_sg")
    times = tuple(sa.column(name, sa.DateTime) for name in ("created_at", "updated_at"))
    table = sa.table(
        "default_security_group_rules",
        *(sa.column(name) for name in ("id", "project_id", "revision", *columns)),
        *(sa.column(name, sa.Boolean) for name in flags),
        *times,
    )
    now = datetime.now(UTC).replace(tzinfo=None)
    for direction, remote, in_others in (("egress", None, True), ("ingress", "PARENT", False)):
        for family in ("IPv4", "IPv6"):
            said = (direction, family, remote, f"{direction} {family} * * * {remote or '*'}")
            described = (*said, f"Legacy default SG rule for {direction} traffic")
            row = dict(zip(columns, described, strict=True)) | dict(zip(flags, (True, in_others), strict=True))
            ids = {"id": str(uuid.uuid4()), "project_id": "", "revision": 0, "created_at": now, "updated_at": now}
            conn.execute(table.insert().values(**ids, **row))
