"""Versions of objects with ids, and objects that come in parts."""

import uuid
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def name(length: int) -> sa.String:
    return sa.String(length=length).with_variant(postgresql.VARCHAR(length=length, collation="C"), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("objects", schema=None) as batch_op:
        batch_op.alter_column(
            "etag", existing_type=sa.String(length=32), type_=sa.String(length=40), existing_nullable=False
        )
        batch_op.add_column(sa.Column("parts_id", sa.String(length=64), nullable=True))
        batch_op.add_column(sa.Column("version", sa.String(length=32), nullable=False, server_default=""))
    with op.batch_alter_table("objects", schema=None) as batch_op:
        batch_op.alter_column("version", existing_type=sa.String(length=32), server_default=None)
    op.create_table(
        "object_versions",
        sa.Column("container_id", sa.String(length=64), nullable=False),
        sa.Column("name", name(1024), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("etag", sa.String(length=40), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("headers", JSON, nullable=False),
        sa.Column("large_size", sa.BigInteger(), nullable=True),
        sa.Column("large_etag", sa.String(length=32), nullable=True),
        sa.Column("parts_id", sa.String(length=64), nullable=True),
        sa.Column("delete_at", sa.BigInteger(), nullable=True),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("is_null", sa.Boolean(), nullable=False),
        sa.Column("is_marker", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("container_id", "name", "version", name=op.f("pk_object_versions")),
    )
    op.create_index("ix_object_versions_file", "object_versions", ["file_id"], unique=False)
    op.create_table(
        "object_uploads",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("container_id", sa.String(length=64), nullable=False),
        sa.Column("name", name(1024), nullable=False),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("headers", JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_object_uploads")),
    )
    op.create_index("ix_object_uploads_name", "object_uploads", ["container_id", "name", "id"], unique=False)
    op.create_index("ix_object_uploads_project", "object_uploads", ["project_id"], unique=False)
    op.create_table(
        "object_parts",
        sa.Column("upload_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("file_id", sa.String(length=64), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("etag", sa.String(length=32), nullable=False),
        sa.Column("headers", JSON, nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("upload_id", "number", name=op.f("pk_object_parts")),
    )
    op.create_index("ix_object_parts_file", "object_parts", ["file_id"], unique=False)
    _catalog()


def _catalog() -> None:
    """A cloud that is there gets S3 into its catalog, wherever objects are offered."""
    conn = op.get_bind()
    if conn.execute(sa.text("SELECT id FROM bootstrapped")).first() is None:
        return
    services, endpoints = (
        sa.table(
            name,
            *(sa.column(each) for each in columns),
            sa.column("enabled", sa.Boolean),
            sa.column("extra", JSON),
            sa.column("created_at", sa.DateTime),
        )
        for name, columns in (
            ("identity_services", ("id", "type", "name")),
            ("identity_endpoints", ("id", "service_id", "interface", "region_id", "url")),
        )
    )
    if conn.execute(sa.select(services.c.id).where(services.c.type == "s3")).first() is not None:
        return
    swift = sa.select(endpoints.c.interface, endpoints.c.region_id).where(
        endpoints.c.service_id.in_(sa.select(services.c.id).where(services.c.type == "object-store")),
        endpoints.c.url == "{base_url}/object-store/v1/AUTH_$(project_id)s",
    )
    places = conn.execute(swift.distinct()).all()
    both = {"enabled": True, "extra": {}, "created_at": datetime.now(UTC).replace(tzinfo=None)}
    service_id = uuid.uuid4().hex
    conn.execute(services.insert().values(id=service_id, type="s3", name="s3", **both))
    for interface, region_id in places:
        row = {"id": uuid.uuid4().hex, "service_id": service_id, "interface": interface, "region_id": region_id}
        conn.execute(endpoints.insert().values(**row, url="{base_url}/s3", **both))
