"""Indexes by which instance HA finds an event that comes from a bus, and reports that nobody has taken up.

It looks for the one at each message and for the other all the time, and went through all of them.
"""

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_events_id", "events", ["id"])
    op.create_index("ix_ha_notifications_status", "ha_notifications", ["status", "created_at"])
