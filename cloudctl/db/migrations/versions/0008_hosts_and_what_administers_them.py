"""When hosts were started and where they are, their aggregates, and what schedules and conducts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("hosts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("up_since", sa.DateTime(), nullable=True))
        batch_op.add_column(sa.Column("home_zone", sa.String(length=255), server_default="nova", nullable=False))
    op.execute("UPDATE hosts SET home_zone = zone")
    op.create_table(
        "control_services",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("binary", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("seen_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_control_services")),
        sa.UniqueConstraint("binary", "host", name=op.f("uq_control_services_binary_host")),
        sa.UniqueConstraint("id", name=op.f("uq_control_services_id")),
    )
    op.create_table(
        "aggregates",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("id", name=op.f("uq_aggregates_id")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
    )
    op.create_table(
        "provider_aggregates",
        sa.Column("provider_id", sa.String(length=64), nullable=False),
        sa.Column("aggregate_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("provider_id", "aggregate_id", name=op.f("pk_provider_aggregates")),
    )
    op.create_index("ix_provider_aggregates_aggregate", "provider_aggregates", ["aggregate_id"])
    op.create_table(
        "user_quota_limits",
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "user_id", "resource", name=op.f("pk_user_quota_limits")),
    )
