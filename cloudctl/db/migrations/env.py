"""What alembic runs; the connection comes from `cloudctl.db.schema`."""

from alembic import context

from cloudctl.db.columns import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter most things in place.
    render_as_batch=True,
    compare_type=True,
)

with context.begin_transaction():
    context.run_migrations()
