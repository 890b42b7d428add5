"""The aggregates that a reserve is in for as long as it is one recovery's."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("ha_hosts") as batch:
        batch.add_column(sa.Column("joined", JSON, server_default="[]", nullable=False))
