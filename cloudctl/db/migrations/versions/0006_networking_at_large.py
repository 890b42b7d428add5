"""What networking has beside networks, ports and routers; and shares as rows, where they were flags."""

import uuid

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

    _write_shares(op.get_bind())
    with op.batch_alter_table("networks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_networks_everybodys"), sqlite_where=sa.text("shared IS 1 OR external IS 1"))
        batch_op.drop_column("shared")

    with op.batch_alter_table("qos_policies", schema=None) as batch_op:
        batch_op.drop_column("shared")

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
