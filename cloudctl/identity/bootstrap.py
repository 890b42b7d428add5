"""The records that a new cloud begins with: the default domain, roles, projects, users, and the catalog.

Repeating it adds what is missing and changes nothing that exists.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from attrs import frozen
from sqlalchemy import ColumnElement, insert, select, update

from cloudctl.composition import CatalogEntry
from cloudctl.db import Connection, Record
from cloudctl.db.columns import new_hex_id
from cloudctl.identity import epoch, records, revocation
from cloudctl.identity.catalog import INTERFACES
from cloudctl.identity.effective import SYSTEM_TARGET
from cloudctl.identity.tables import Assignment, Endpoint, ImpliedRole, Project, Region, Role, Service, User

DEFAULT_DOMAIN = "default"
ROLES = ("admin", "manager", "member", "reader", "service")
IMMUTABLE = ("admin", "manager", "member", "reader")
IMPLICATIONS = (("admin", "manager"), ("manager", "member"), ("member", "reader"))


@frozen
class Seed:
    """Hashes of the first passwords (see `passwords.Hashing.hash`), which are of use only once."""

    admin_password_hash: str
    demo_password_hash: str | None = None  # None: no project and user `demo`
    region: str = "RegionOne"
    catalog: tuple[CatalogEntry, ...] = ()


@frozen
class Bootstrapped:
    """The ids of the records; those of `demo` are empty if there is none."""

    domain_id: str
    admin_project_id: str
    admin_user_id: str
    demo_project_id: str
    demo_user_id: str
    role_ids: dict[str, str]  # by name


def bootstrap(conn: Connection, seed: Seed, now: datetime) -> Bootstrapped:
    """In one transaction. `now`: naive UTC."""
    epoch.changed(conn)
    _domain(conn, now)
    role_ids = {name: _role(conn, name, now + timedelta(microseconds=n)) for n, name in enumerate(ROLES)}
    for prior, implied in IMPLICATIONS:
        records.put(conn, ImpliedRole, prior_id=role_ids[prior], implied_id=role_ids[implied])
    admin, admin_project = _admin(conn, seed.admin_password_hash, role_ids["admin"], now)
    demo_project = demo = ""
    if seed.demo_password_hash is not None:
        later = now + timedelta(microseconds=1)
        demo_project = _project(conn, "demo", "A project to try things in", later)
        demo = _user(conn, "demo", seed.demo_password_hash, later)
        _assign(conn, demo, "project", demo_project, role_ids["member"])
    _catalog(conn, seed, now)
    return Bootstrapped(DEFAULT_DOMAIN, admin_project, admin, demo_project, demo, role_ids)


def reset_admin(conn: Connection, password_hash: str, now: datetime) -> None:
    """The first administrator can log in with a password that the operator knows, whatever became of the account."""
    epoch.changed(conn)
    _domain(conn, now)
    admin, project = _admin(conn, password_hash, _role(conn, "admin", now), now)
    conn.execute(update(Project).where(Project.id.in_((DEFAULT_DOMAIN, project))).values(enabled=True))
    _reset(conn, admin, password_hash, now)


def first_project(conn: Connection, name: str) -> str:
    """The id of the project of this name that `bootstrap` made."""
    where = (Project.name_key == name) & (Project.domain_id == DEFAULT_DOMAIN)
    return str(conn.execute(select(Project.id).where(where)).scalar_one())


def _admin(conn: Connection, password_hash: str, role_id: str, now: datetime) -> tuple[str, str]:
    """The ids of the user and of its project."""
    project = _project(conn, "admin", "The administrator's project", now)
    admin = _user(conn, "admin", password_hash, now)
    for kind, target in (("project", project), ("system", SYSTEM_TARGET), ("domain", DEFAULT_DOMAIN)):
        _assign(conn, admin, kind, target, role_id)
    return admin, project


def _domain(conn: Connection, now: datetime) -> None:
    _ensure(
        conn,
        Project,
        Project.id == DEFAULT_DOMAIN,
        id=DEFAULT_DOMAIN,
        name="Default",
        name_key="default",
        is_domain=True,
        description="The default domain",
        created_at=now,
    )


def _role(conn: Connection, name: str, now: datetime) -> str:
    where = (Role.name_key == name) & (Role.domain_id == "")
    options = {"immutable": True} if name in IMMUTABLE else {}
    return _ensure(conn, Role, where, name=name, name_key=name, options=options, created_at=now)


def _project(conn: Connection, name: str, description: str, now: datetime) -> str:
    return _ensure(
        conn,
        Project,
        (Project.name_key == name) & (Project.domain_id == DEFAULT_DOMAIN),
        name=name,
        name_key=name,
        domain_id=DEFAULT_DOMAIN,
        parent_id=DEFAULT_DOMAIN,
        description=description,
        created_at=now,
    )


def _user(conn: Connection, name: str, password_hash: str, now: datetime) -> str:
    return _ensure(
        conn,
        User,
        (User.name_key == name) & (User.domain_id == DEFAULT_DOMAIN),
        name=name,
        name_key=name,
        domain_id=DEFAULT_DOMAIN,
        password_hash=password_hash,
        password_changed_at=now,
        created_at=now,
    )


def _reset(conn: Connection, user_id: str, password_hash: str, now: datetime) -> None:
    conn.execute(
        update(User)
        .where(User.id == user_id)
        .values(
            password_hash=password_hash,
            password_changed_at=now,
            password_expires_at=None,
            enabled=True,
            failures=0,
            failed_at=None,
            active_at=now,
        )
    )
    revocation.revoke_user(conn, user_id, now)


def _assign(conn: Connection, user_id: str, kind: str, target_id: str, role_id: str) -> None:
    records.put(
        conn,
        Assignment,
        actor_kind="user",
        actor_id=user_id,
        target_kind=kind,
        target_id=target_id,
        role_id=role_id,
        inherited=0,
    )


def _catalog(conn: Connection, seed: Seed, now: datetime) -> None:
    _ensure(conn, Region, Region.id == seed.region, id=seed.region, created_at=now)
    for position, entry in enumerate(seed.catalog):
        # Lists are in the order of creation, so the times must differ.
        now += timedelta(microseconds=position)
        where = Service.type == entry.type
        service_id = _ensure(conn, Service, where, type=entry.type, name=entry.name, created_at=now)
        for interface in INTERFACES:
            _ensure(
                conn,
                Endpoint,
                (Endpoint.service_id == service_id)
                & (Endpoint.interface == interface)
                & (Endpoint.region_id == seed.region),
                service_id=service_id,
                interface=interface,
                region_id=seed.region,
                url=entry.url,
                created_at=now,
            )


def _ensure(conn: Connection, record: type[Record], where: ColumnElement[bool], **values: Any) -> str:
    """The id of the existing row, or of a new one."""
    found = conn.execute(select(record.table.c.id).where(where)).scalar()
    if found is not None:
        return str(found)
    values = {"id": new_hex_id(), **values}
    conn.execute(insert(record).values(values))
    return str(values["id"])
