"""A cloud in memory whose image API several projects use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import insert, select

from cloudctl.db import Connection
from cloudctl.db.columns import new_hex_id
from cloudctl.identity.tables import Assignment, Project, Role, User
from cloudctl.testing.cloud import PASSWORDS, Client, MemoryCloud


@pytest.fixture
def demo(cloud: MemoryCloud) -> Client:
    return cloud.client("demo")


@pytest.fixture
def admin(cloud: MemoryCloud) -> Client:
    return cloud.client("admin")


Persona = Callable[[str, str, str], Client]


@pytest.fixture
def persona(cloud: MemoryCloud) -> Persona:
    """`persona(user, project, role)`: a client of a user who is made with a role in a project that is made."""

    def make(user: str, project: str, role: str) -> Client:
        cloud.transact(_join, user, project, role)
        scope = {"project": {"name": project, "domain": {"id": "default"}}}
        return Client(cloud, cloud.token(user, PASSWORDS["demo"], scope))

    return make


@pytest.fixture
def alt(persona: Persona) -> Client:
    """A member of another project."""
    return persona("alt", "alt", "member")


@pytest.fixture
def reader(persona: Persona) -> Client:
    """One who may only read in demo's project."""
    return persona("rita", "demo", "reader")


def _join(conn: Connection, user: str, project: str, role: str) -> None:
    demo = conn.execute(select(User).where(User.name == "demo")).one()._asdict()
    made = {**demo, "id": new_hex_id(), "name": user, "name_key": user}
    conn.execute(insert(User).values(made))
    model = conn.execute(select(Project).where(Project.name == "demo")).one()._asdict()
    project_id = conn.execute(select(Project.id).where(Project.name == project)).scalar()
    if project_id is None:
        project_id = new_hex_id()
        conn.execute(insert(Project).values({**model, "id": project_id, "name": project, "name_key": project}))
    role_id = conn.execute(select(Role.id).where(Role.name == role)).scalar_one()
    conn.execute(
        insert(Assignment).values(
            actor_kind="user",
            actor_id=made["id"],
            target_kind="project",
            target_id=project_id,
            role_id=role_id,
            inherited=0,
        )
    )
