"""A cloud that is there gets the services that are new into its catalog; a new one writes all of them by itself."""

import uuid
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# (type, name, URL of its endpoints)
NEW = (
    ("object-store", "swift", "{base_url}/object-store/v1/AUTH_$(project_id)s"),
    ("placement", "placement", "{base_url}/placement"),
)


def upgrade() -> None:
    conn = op.get_bind()
    if conn.execute(sa.text("SELECT id FROM bootstrapped")).first() is None:
        return
    services, endpoints = (
        sa.table(
            name,
            *(sa.column(each) for each in columns),
            sa.column("enabled", sa.Boolean),
            sa.column("extra", sa.JSON().with_variant(JSONB(), "postgresql")),
            sa.column("created_at", sa.DateTime),
        )
        for name, columns in (
            ("identity_services", ("id", "type", "name")),
            ("identity_endpoints", ("id", "service_id", "interface", "region_id", "url")),
        )
    )
    now = datetime.now(UTC).replace(tzinfo=None)
    both = {"enabled": True, "extra": {}, "created_at": now}
    # Wherever images are offered.
    of_images = sa.select(endpoints.c.interface, endpoints.c.region_id).where(
        endpoints.c.service_id.in_(sa.select(services.c.id).where(services.c.type == "image")),
        endpoints.c.url == "{base_url}/image",
    )
    places = conn.execute(of_images.distinct()).all()
    for type_, name, url in NEW:
        if conn.execute(sa.select(services.c.id).where(services.c.type == type_)).first() is not None:
            continue
        service_id = uuid.uuid4().hex
        conn.execute(services.insert().values(id=service_id, type=type_, name=name, **both))
        for interface, region_id in places:
            row = {"id": uuid.uuid4().hex, "service_id": service_id, "interface": interface, "region_id": region_id}
            conn.execute(endpoints.insert().values(**row, url=url, **both))
