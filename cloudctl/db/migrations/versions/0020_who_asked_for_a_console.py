"""Who asked for a console, so that it opens no longer than he may."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("console_tokens") as batch:
        batch.add_column(sa.Column("asker", sa.Text(), nullable=True))
