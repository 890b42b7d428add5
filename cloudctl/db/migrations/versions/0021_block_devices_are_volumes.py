"""A server's block device names its volume: so it was in every row, and now the schema says so."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("block_devices") as batch:
        batch.alter_column("volume_id", existing_type=sa.String(64), nullable=False)
