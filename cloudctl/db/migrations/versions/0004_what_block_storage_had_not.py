"""What block storage had not: transfers, QoS specs, encryption of types, groups and their snapshots."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "volume_group_types",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("is_public", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("group_specs", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_group_types")),
        sa.UniqueConstraint("name", name=op.f("uq_volume_group_types_name")),
    )
    with op.batch_alter_table("volume_group_types", schema=None) as batch_op:
        batch_op.create_index("ix_volume_group_types_order", ["created_at", "id"], unique=False)

    op.create_table(
        "volume_qos_specs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("consumer", sa.String(length=16), nullable=False),
        sa.Column("specs", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_qos_specs")),
        sa.UniqueConstraint("name", name=op.f("uq_volume_qos_specs_name")),
    )
    op.create_table(
        "volume_groups",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("group_type_id", sa.String(length=64), nullable=False),
        sa.Column("volume_types", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("availability_zone", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("group_snapshot_id", sa.String(length=64), nullable=True),
        sa.Column("source_group_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["group_type_id"], ["volume_group_types.id"], name=op.f("fk_volume_groups_group_type_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_groups")),
    )
    with op.batch_alter_table("volume_groups", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_volume_groups_group_type_id"), ["group_type_id"], unique=False)
        batch_op.create_index("ix_volume_groups_order", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_volume_groups_project", ["project_id", "created_at", "id"], unique=False)

    op.create_table(
        "volume_group_snapshots",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("group_id", sa.String(length=64), nullable=False),
        sa.Column("group_type_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(["group_id"], ["volume_groups.id"], name=op.f("fk_volume_group_snapshots_group_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_group_snapshots")),
    )
    with op.batch_alter_table("volume_group_snapshots", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_volume_group_snapshots_group_id"), ["group_id"], unique=False)
        batch_op.create_index("ix_volume_group_snapshots_order", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_volume_group_snapshots_project", ["project_id", "created_at", "id"], unique=False)

    op.create_table(
        "volume_type_encryptions",
        sa.Column("volume_type_id", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=255), nullable=False),
        sa.Column("control_location", sa.String(length=16), nullable=False),
        sa.Column("cipher", sa.String(length=255), nullable=True),
        sa.Column("key_size", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["volume_type_id"],
            ["volume_types.id"],
            name=op.f("fk_volume_type_encryptions_volume_type_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("volume_type_id", name=op.f("pk_volume_type_encryptions")),
        sa.UniqueConstraint("id", name=op.f("uq_volume_type_encryptions_id")),
    )
    op.create_table(
        "volume_transfers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("volume_id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("salt", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("no_snapshots", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["volume_id"], ["volumes.id"], name=op.f("fk_volume_transfers_volume_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_transfers")),
        sa.UniqueConstraint("volume_id", name=op.f("uq_volume_transfers_volume_id")),
    )
    with op.batch_alter_table("volume_transfers", schema=None) as batch_op:
        batch_op.create_index("ix_volume_transfers_order", ["created_at", "id"], unique=False)
        batch_op.create_index("ix_volume_transfers_project", ["project_id", "created_at", "id"], unique=False)

    with op.batch_alter_table("volume_backups", schema=None) as batch_op:
        batch_op.add_column(sa.Column("volume_name", sa.String(length=255), nullable=True))
        batch_op.add_column(
            sa.Column(
                "volume_metadata",
                sa.JSON().with_variant(postgresql.JSONB(), "postgresql"),
                server_default="{}",
                nullable=False,
            )
        )
        batch_op.add_column(sa.Column("kept_as", sa.String(length=64), nullable=True))

    with op.batch_alter_table("volume_services", schema=None) as batch_op:
        batch_op.add_column(sa.Column("frozen", sa.Boolean(), server_default=sa.false(), nullable=False))

    with op.batch_alter_table("volume_snapshots", schema=None) as batch_op:
        batch_op.add_column(sa.Column("group_snapshot_id", sa.String(length=64), nullable=True))
        batch_op.create_index(batch_op.f("ix_volume_snapshots_group_snapshot_id"), ["group_snapshot_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_volume_snapshots_group_snapshot_id"), "volume_group_snapshots", ["group_snapshot_id"], ["id"]
        )

    with op.batch_alter_table("volume_types", schema=None) as batch_op:
        batch_op.add_column(sa.Column("qos_specs_id", sa.String(length=64), nullable=True))
        batch_op.create_index(batch_op.f("ix_volume_types_qos_specs_id"), ["qos_specs_id"], unique=False)
        batch_op.create_foreign_key(
            batch_op.f("fk_volume_types_qos_specs_id"), "volume_qos_specs", ["qos_specs_id"], ["id"]
        )

    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("group_id", sa.String(length=64), nullable=True))
        batch_op.create_index(batch_op.f("ix_volumes_group_id"), ["group_id"], unique=False)
        batch_op.create_foreign_key(batch_op.f("fk_volumes_group_id"), "volume_groups", ["group_id"], ["id"])
