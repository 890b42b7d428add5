"""The service catalog of a token. Reference: discovery.md, section 3.

An endpoint's URL is a template: `{base_url}` and `{instance_ha_url}` are where this request reached the cloud, so that
a catalog is right under any host name; `$(project_id)s` and `$(user_id)s` come from the token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen
from sqlalchemy import select
from twisted.logger import Logger

from cloudctl.db import Connection
from cloudctl.identity import endpoint_filters
from cloudctl.identity.tables import Endpoint, Service

log = Logger()

# Where the instance-HA API is, unless the configuration says otherwise.
INSTANCE_HA = "{scheme}://{host}:15868"
INTERFACES = ("public", "internal", "admin")
SUBSTITUTION = re.compile(r"[$%]\(([^)]*)\)s|\{([a-z_]*)\}")
PROJECT_NAMES = ("project_id", "tenant_id")
NAMES = (*PROJECT_NAMES, "user_id", "base_url", "instance_ha_url")


class Malformed(ValueError):
    """A template names something that no token and no request has."""


class NeedsProject(ValueError):
    """A template names the project, and the token has none."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """The URL. Raises Malformed or NeedsProject."""

    def value(match: re.Match[str]) -> str:
        name = match[1] if match[1] is not None else match[2]
        if name not in NAMES:
            raise Malformed(f"{template!r} names {name!r}")
        if name in PROJECT_NAMES and not values.get(name):
            raise NeedsProject
        return values.get(name, "")

    filled = SUBSTITUTION.sub(value, template)
    if re.search(r"[$%]\(|[{}]", filled):
        raise Malformed(f"{template!r} contains an incomplete substitution")
    return filled


def shown(template: str, base_url: str, ha_url: str) -> str:
    """As the administrator's list shows it: with this cloud's address, but without the values of a token."""
    return template.replace("{base_url}", base_url).replace("{instance_ha_url}", ha_url)


def check(template: str) -> None:
    """Raises Malformed if no URL can be made from it."""
    fill(template, dict.fromkeys(NAMES, "x"))


def instance_ha_url(base_url: str, template: str) -> str:
    """Where the instance-HA API is: `{scheme}` and `{host}` are those of `base_url`; without a template, below that."""
    if not template:
        return f"{base_url}/instance-ha"
    parts = urlsplit(base_url)
    host = parts.hostname or "localhost"
    values = {"{scheme}": parts.scheme, "{host}": f"[{host}]" if ":" in host else host}
    return reduce(lambda url, name: url.replace(name, values[name]), values, template)


@frozen
class Viewer:
    """Whose catalog it is, and where the cloud was reached. `project_id` is empty for a token without a project."""

    user_id: str
    project_id: str
    base_url: str
    ha_url: str


# Built once: building a query costs more than running it.
_endpoints = select(Endpoint).where(Endpoint.enabled).order_by(Endpoint.created_at, Endpoint.id)
_services = select(Service).where(Service.enabled).order_by(Service.created_at, Service.id)
_urls = select(Endpoint.url).where(Endpoint.enabled).distinct()


def names(conn: Connection) -> set[str]:
    """The names in the templates; tenant_id counts as project_id."""
    found: set[str] = set()
    for url in conn.scalars(_urls):
        found.update(match[1] if match[1] is not None else match[2] for match in SUBSTITUTION.finditer(url))
    return {"project_id" if name in PROJECT_NAMES else name for name in found}


def read(conn: Connection, viewer: Viewer) -> list[dict[str, Any]]:
    """As `token.catalog` shows it: enabled services in the order of their creation, endpoints by interface.

    A service without endpoints is listed, too, unless the project sees only chosen endpoints.
    """
    project_id = viewer.project_id
    values = {
        "base_url": viewer.base_url,
        "instance_ha_url": viewer.ha_url,
        "project_id": project_id,
        "tenant_id": project_id,
        "user_id": viewer.user_id,
    }
    found: dict[str, list[dict[str, Any]]] = {}
    query = _endpoints
    chosen = endpoint_filters.of_project(conn, project_id) if project_id else None
    if chosen is not None:
        query = query.where(chosen)
    for row in sorted(conn.execute(query), key=lambda row: INTERFACES.index(row.interface)):
        try:
            url = fill(row.url, values)
        except NeedsProject:
            continue
        except Malformed as error:
            log.warn("endpoint {id} is left out of the catalog: {error}", id=row.id, error=error)
            continue
        found.setdefault(row.service_id, []).append(
            {
                "id": row.id,
                "interface": row.interface,
                "region": row.region_id,
                "region_id": row.region_id,
                "url": url,
            }
        )
    return [
        {"id": row.id, "type": row.type, "name": row.name, "endpoints": found.get(row.id, [])}
        for row in conn.execute(_services)
        if row.id in found or chosen is None
    ]
