"""A soft-deleted server counts towards the quota once it is being restored, which is when it waits for nothing.

The sums are counted anew after each migration. Of a restore that has failed, the server waits for its end again.
"""

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "UPDATE servers SET waiting_since = updated_at WHERE vm_state = 'soft-delete' AND task_state IS NULL"
        " AND waiting_since IS NULL AND deleted_at IS NULL"
    )
