"""Providers of resources and who takes them; aggregates of hosts, and what schedules and conducts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


# Resource class → what a host has of it, what may be promised, and what is: its columns until now.
CLASSES = {
    "VCPU": ("vcpus", "most_vcpus", "used_vcpus"),
    "MEMORY_MB": ("memory_mib", "most_memory_mib", "used_memory_mib"),
    "DISK_GB": ("disk_gib", "most_disk_gib", "used_disk_gib"),
}
MOVED = [name for _, most, used in CLASSES.values() for name in (most, used)] + ["shares"]


def upgrade() -> None:
    administration()
    placement()
    promises()


def placement() -> None:
    op.create_table(
        "resource_providers",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.String(length=64), nullable=True),
        sa.Column("root_id", sa.String(length=64), nullable=False),
        sa.Column("shares", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_resource_providers")),
        sa.UniqueConstraint("id", name=op.f("uq_resource_providers_id")),
        sa.UniqueConstraint("name", name=op.f("uq_resource_providers_name")),
    )
    op.create_index("ix_resource_providers_root", "resource_providers", ["root_id"])
    op.create_table(
        "inventories",
        sa.Column("provider_id", sa.String(length=64), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=False),
        sa.Column("min_unit", sa.Integer(), nullable=False),
        sa.Column("max_unit", sa.Integer(), nullable=False),
        sa.Column("step_size", sa.Integer(), nullable=False),
        sa.Column("allocation_ratio", sa.Float(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("provider_id", "resource_class", name=op.f("pk_inventories")),
    )
    op.create_table(
        "consumers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consumers")),
    )
    op.create_index("ix_consumers_project", "consumers", ["project_id", "user_id"])
    for table in ("resource_classes", "traits"):
        op.create_table(
            table,
            sa.Column("name", sa.String(length=255), nullable=False),
            sa.PrimaryKeyConstraint("name", name=op.f(f"pk_{table}")),
        )
    op.create_table(
        "provider_traits",
        sa.Column("provider_id", sa.String(length=64), nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("provider_id", "trait", name=op.f("pk_provider_traits")),
    )
    op.create_index("ix_provider_traits_trait", "provider_traits", ["trait"])


def promises() -> None:
    """What hosts promised moves to their providers, and what servers hold of them to allocations by class."""
    op.execute(
        "INSERT INTO resource_providers (id, name, generation, parent_id, root_id, shares, created_at, updated_at) "
        "SELECT id, name, 0, NULL, id, shares, created_at, seen_at FROM hosts ORDER BY number"
    )
    op.execute("INSERT INTO provider_traits (provider_id, trait) SELECT id, 'COMPUTE_NODE' FROM hosts")
    op.execute(
        "INSERT INTO provider_traits (provider_id, trait) "
        "SELECT id, 'COMPUTE_STATUS_DISABLED' FROM hosts WHERE NOT enabled"
    )
    for name, (has, most, used) in CLASSES.items():
        # The next look at the hosts writes down what is kept back, and the ratio.
        op.execute(
            "INSERT INTO inventories (provider_id, resource_class, total, reserved, min_unit, max_unit, step_size, "
            f"allocation_ratio, used) SELECT id, '{name}', {has}, 0, 1, {has}, 1, 1.0 * {most} / {has}, {used} "
            f"FROM hosts WHERE {has} > 0"
        )
    op.execute("CREATE TABLE held AS SELECT * FROM allocations")
    op.drop_table("allocations")
    op.create_table(
        "allocations",
        sa.Column("consumer_id", sa.String(length=64), nullable=False),
        sa.Column("provider_id", sa.String(length=64), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("amount", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("consumer_id", "provider_id", "resource_class", name=op.f("pk_allocations")),
    )
    op.create_index("ix_allocations_provider", "allocations", ["provider_id"])
    op.execute(
        "INSERT INTO consumers (id, project_id, user_id, type, generation) "
        "SELECT held.consumer_id, min(held.project_id), coalesce(min(servers.user_id), min(migrations.user_id), ''), "
        "CASE WHEN min(migrations.id) IS NULL THEN 'INSTANCE' ELSE 'MIGRATION' END, 0 "
        "FROM held LEFT JOIN servers ON servers.id = held.consumer_id "
        "LEFT JOIN migrations ON migrations.id = held.consumer_id GROUP BY held.consumer_id"
    )
    for name, (amount, _, _) in CLASSES.items():
        op.execute(
            "INSERT INTO allocations (consumer_id, provider_id, resource_class, amount) "
            f"SELECT held.consumer_id, hosts.id, '{name}', held.{amount} "
            f"FROM held JOIN hosts ON hosts.name = held.host WHERE held.{amount} > 0"
        )
    op.drop_table("held")
    with op.batch_alter_table("hosts", schema=None) as batch_op:
        for name in MOVED:
            batch_op.drop_column(name)


def administration() -> None:
    with op.batch_alter_table("hosts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("up_since", sa.DateTime(), nullable=True))
        batch_op.add_column(sa.Column("home_zone", sa.String(length=255), server_default="nova", nullable=False))
    op.execute("UPDATE hosts SET home_zone = zone")
    op.create_table(
        "control_services",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("binary", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("seen_at", sa.DateTime(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_control_services")),
        sa.UniqueConstraint("binary", "host", name=op.f("uq_control_services_binary_host")),
        sa.UniqueConstraint("id", name=op.f("uq_control_services_id")),
    )
    op.create_table(
        "aggregates",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.JSON().with_variant(JSONB(), "postgresql"), nullable=False),
        sa.Column("created_at", sa.DateTime(), nullable=False),
        sa.Column("updated_at", sa.DateTime(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_aggregates")),
        sa.UniqueConstraint("id", name=op.f("uq_aggregates_id")),
        sa.UniqueConstraint("name", name=op.f("uq_aggregates_name")),
    )
    op.create_table(
        "provider_aggregates",
        sa.Column("provider_id", sa.String(length=64), nullable=False),
        sa.Column("aggregate_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("provider_id", "aggregate_id", name=op.f("pk_provider_aggregates")),
    )
    op.create_index("ix_provider_aggregates_aggregate", "provider_aggregates", ["aggregate_id"])
    op.create_table(
        "user_quota_limits",
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("resource", sa.String(length=64), nullable=False),
        sa.Column("limit", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "user_id", "resource", name=op.f("pk_user_quota_limits")),
    )
