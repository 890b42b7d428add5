"""Which stores have the data of an image; metadata definitions."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("images", schema=None) as batch_op:
        batch_op.add_column(sa.Column("stores", JSON, server_default="[]", nullable=False))
        batch_op.add_column(sa.Column("importing_to", sa.Text(), nullable=True))
        batch_op.add_column(sa.Column("failed_import", sa.Text(), nullable=True))
    op.execute("""UPDATE images SET stores = '["default"]' WHERE status IN ('active', 'deactivated')""")
    op.create_table(
        "metadef_associations",
        sa.Column("namespace_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("prefix", sa.String(length=80), nullable=True),
        sa.Column("properties_target", sa.String(length=80), nullable=True),
        sa.PrimaryKeyConstraint("namespace_id", "name", name=op.f("pk_metadef_associations")),
    )
    with op.batch_alter_table("metadef_associations", schema=None) as batch_op:
        batch_op.create_index("ix_metadef_associations_name", ["name"], unique=False)

    op.create_table(
        "metadef_namespaces",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("namespace", sa.String(length=80), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("display_name", sa.String(length=80), nullable=True),
        sa.Column("description", sa.String(length=500), nullable=True),
        sa.Column("visibility", sa.String(length=16), nullable=False),
        sa.Column("protected", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metadef_namespaces")),
        sa.UniqueConstraint("namespace", name=op.f("uq_metadef_namespaces_namespace")),
    )
    with op.batch_alter_table("metadef_namespaces", schema=None) as batch_op:
        batch_op.create_index("ix_metadef_namespaces_owner", ["owner"], unique=False)

    op.create_table(
        "metadef_objects",
        sa.Column("namespace_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("required", JSON, nullable=False),
        sa.Column("properties", JSON, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "name", name=op.f("pk_metadef_objects")),
    )
    op.create_table(
        "metadef_properties",
        sa.Column("namespace_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("definition", JSON, nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "name", name=op.f("pk_metadef_properties")),
    )
    op.create_table(
        "metadef_resource_types",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_metadef_resource_types")),
    )
    op.create_table(
        "metadef_tags",
        sa.Column("namespace_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("namespace_id", "name", name=op.f("pk_metadef_tags")),
    )
