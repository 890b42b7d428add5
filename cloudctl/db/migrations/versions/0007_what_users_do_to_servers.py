"""Files for guests, shelved servers, and tokens of consoles."""

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
    op.create_table(
        "console_tokens",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("server_id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("path", sa.String(255), nullable=True),
        sa.Column("expires_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_console_tokens_server", "console_tokens", ["server_id"])
    op.create_index("ix_console_tokens_expires", "console_tokens", ["expires_at"])
