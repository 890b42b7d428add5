"""What networking has beside networks, ports and routers; and shares as rows, where they were flags."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0003"
branch_labels = None
depends_on = None

KEPT = ("project_id", "created_at", "updated_at")
COLUMNS = ("id", *KEPT, "description", "revision", "object_type", "object_id", "action", "target")


def upgrade() -> None:
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

    _write_shares(op.get_bind())
    with op.batch_alter_table("networks", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_networks_everybodys"), sqlite_where=sa.text("shared IS 1 OR external IS 1"))
        batch_op.drop_column("shared")

    with op.batch_alter_table("qos_policies", schema=None) as batch_op:
        batch_op.drop_column("shared")


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
