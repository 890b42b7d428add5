"""What alembic runs; the connection and the tables come from `cloudctl.db.schema`."""

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext
from sqlalchemy import JSON
from sqlalchemy.sql.elements import False_, True_


def render_item(kind: str, item: Any, autogen: AutogenContext) -> str | Literal[False]:
    """What alembic would write for one database alone.

    JSON with its variant for PostgreSQL has a name that it does not import; true and false would be SQLite's numbers.
    """
    if kind == "type" and isinstance(item, JSON):
        autogen.imports.add("from sqlalchemy.dialects import postgresql")
        return 'sa.JSON().with_variant(postgresql.JSONB(), "postgresql")'
    if kind == "server_default" and isinstance(getattr(item, "arg", None), True_ | False_):
        return "sa.true()" if isinstance(item.arg, True_) else "sa.false()"
    return False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["tables"],
    # SQLite cannot alter most things in place.
    render_as_batch=True,
    compare_type=True,
    render_item=render_item,
)

with context.begin_transaction():
    context.run_migrations()
