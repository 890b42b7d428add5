"""Policies of endpoints, of services, and of services in a region."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "identity_policy_associations",
        sa.Column("endpoint_id", sa.String(length=64), nullable=False),
        sa.Column("service_id", sa.String(length=64), nullable=False),
        sa.Column("region_id", sa.String(length=255), nullable=False),
        sa.Column("policy_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("endpoint_id", "service_id", "region_id", name=op.f("pk_identity_policy_associations")),
    )
    for column in ("policy_id", "service_id", "region_id"):
        op.create_index(f"ix_identity_policy_associations_{column}", "identity_policy_associations", [column])
