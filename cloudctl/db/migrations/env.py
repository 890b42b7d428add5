"""What alembic runs; the connection comes from `cloudctl.db.schema`."""

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import JSON

from cloudctl.db.columns import metadata


def render_item(kind: str, item: Any, autogen: AutogenContext) -> str | Literal[False]:
    """JSON with its variant for PostgreSQL, which alembic writes with a name that it does not import."""
    if kind == "type" and isinstance(item, JSON):
        autogen.imports.add("from sqlalchemy.dialects import postgresql")
        return 'sa.JSON().with_variant(postgresql.JSONB(), "postgresql")'
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter most things in place.
    render_as_batch=True,
    compare_type=True,
    render_item=render_item,
)

with context.begin_transaction():
    context.run_migrations()
