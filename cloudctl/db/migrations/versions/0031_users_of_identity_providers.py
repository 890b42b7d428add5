"""What users are called by identity providers, and the attribute by which a protocol tells its provider.

The rows end with the user, the protocol or the provider, also where an earlier release, which does not know of them,
deletes those.
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "identity_federated_users",
        sa.Column("provider_id", sa.String(length=64), nullable=False),
        sa.Column("protocol_id", sa.String(length=64), nullable=False),
        sa.Column("unique_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_id", "protocol_id"],
            ["identity_protocols.provider_id", "identity_protocols.id"],
            name=op.f("fk_identity_federated_users_provider_id_protocol_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["identity_users.id"], name=op.f("fk_identity_federated_users_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("provider_id", "protocol_id", "unique_id", name=op.f("pk_identity_federated_users")),
    )
    for column in ("protocol_id", "unique_id", "user_id"):
        op.create_index(f"ix_identity_federated_users_{column}", "identity_federated_users", [column])
    op.add_column("identity_protocols", sa.Column("remote_id_attribute", sa.String(length=64), nullable=True))
