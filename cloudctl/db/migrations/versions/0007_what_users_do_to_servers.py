"""Files for new guests, and what is known of shelved servers."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("servers", schema=None) as batch_op:
        batch_op.add_column(sa.Column("personality", JSON, server_default="[]", nullable=False))
        batch_op.add_column(sa.Column("shelved_image_id", sa.String(64), nullable=True))
        batch_op.add_column(sa.Column("waiting_since", sa.DateTime(), nullable=True))
