"""The object store."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def name(length: int) -> sa.String:
    return sa.String(length=length).with_variant(postgresql.VARCHAR(length=length, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "object_accounts",
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("headers", JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_object_accounts")),
    )
    op.create_table(
        "object_containers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("name", name(256), nullable=False),
        sa.Column("headers", JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_object_containers")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_object_containers_project_id_name")),
    )
    op.create_table(
        "objects",
        sa.Column("container_id", sa.String(length=64), nullable=False),
        sa.Column("name", name(1024), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("etag", sa.String(length=32), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("headers", JSON, nullable=False),
        sa.Column("large_size", sa.BigInteger(), nullable=True),
        sa.Column("large_etag", sa.String(length=32), nullable=True),
        sa.Column("delete_at", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("container_id", "name", name=op.f("pk_objects")),
    )
    with op.batch_alter_table("objects", schema=None) as batch_op:
        batch_op.create_index("ix_objects_expiring", ["delete_at"], unique=False)
        batch_op.create_index("ix_objects_file", ["file_id"], unique=False)
