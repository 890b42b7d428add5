"""Lists of role assignments in a cloud with many projects: what they show, and that they do not read all of it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Table, insert

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.identity.tables import Assignment, Project

MANY = 3000


class Work:
    """Counts what SQLite does, in its own instructions: reading a row takes some."""

    def __init__(self, keystone: Any) -> None:
        self.connection = keystone.db.connections.get().driver
        self.done = 0

    def __enter__(self) -> Work:
        self.connection.set_progress_handler(self._count, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.set_progress_handler(None, 0)

    def _count(self) -> int:
        self.done += 1
        return 0


def store(keystone: Any, table: Table, rows: list[dict[str, Any]]) -> None:
    def write(conn: Connection) -> None:
        conn.execute(insert(table), rows)

    keystone.db.transact(False, write)


def give(keystone: Any, actor: str, ids: list[str], role: str, *inherited: int) -> None:
    """A role to a user on projects."""
    key = {"actor_id": actor, "actor_kind": "user", "target_kind": "project", "role_id": role}
    store(keystone, Assignment.table, [{**key, "target_id": id, "inherited": each} for id in ids for each in inherited])


def grow(keystone: Any, count: int, parent_id: str = "default", prefix: str = "p") -> list[str]:
    ids = [f"{prefix}{number:05}" for number in range(count)]
    rows = [
        {
            "id": id,
            "name": id,
            "name_key": id,
            "domain_id": "default",
            "parent_id": parent_id,
            "created_at": utc(keystone.clock.seconds()),
        }
        for id in ids
    ]
    store(keystone, Project.table, rows)
    return ids


def ask(keystone: Any, query: str, token: str = "") -> Any:
    answer = keystone.ask("GET", f"/role_assignments?{query}", token=token or keystone.admin())
    assert answer.status == 200, answer
    return answer.json()


def shown(keystone: Any, query: str) -> set[tuple[str, str]]:
    """(project, role) of each."""
    names = {id: name for name, id in keystone.made.role_ids.items()}
    found = ask(keystone, query)["role_assignments"]
    return {(one["scope"]["project"]["id"], names[one["role"]["id"]]) for one in found if "project" in one["scope"]}


@pytest.fixture
def inheriting(keystone: Any) -> str:
    """A user with an inherited role on the default domain."""
    user_id: str = keystone.make_user("heir")
    role = keystone.made.role_ids["member"]
    path = f"/OS-INHERIT/domains/default/users/{user_id}/roles/{role}/inherited_to_projects"
    assert keystone.ask("PUT", path, token=keystone.admin()).status == 204
    return user_id


def test_an_inherited_role_is_listed_on_every_project_below(keystone: Any, inheriting: str) -> None:
    grow(keystone, 3)
    grow(keystone, 2, "p00001", "q")
    everywhere = {f"p{n:05}" for n in range(3)} | {"q00000", "q00001"}
    everywhere |= {keystone.made.admin_project_id, keystone.made.demo_project_id}
    roles = ("member", "reader")
    found = shown(keystone, f"effective&user.id={inheriting}")
    assert found == {(project, role) for project in everywhere for role in roles}
    below = {(project, role) for project in ("p00001", "q00000", "q00001") for role in roles}
    query = f"effective&user.id={inheriting}&scope.project.id=p00001"
    assert shown(keystone, f"{query}&include_subtree") == below
    assert shown(keystone, query) == {("p00001", "member"), ("p00001", "reader")}
    assert shown(keystone, f"{query}&role.id={keystone.made.role_ids['reader']}") == {("p00001", "reader")}


@pytest.mark.parametrize(
    "query",
    [
        "effective&user.id={user}",
        "effective",
        "effective&include_names",
        "effective&user.id={user}&scope.project.id=p70000001",
        "effective&scope.project.id=default&include_subtree",
        "effective&user.id={user}&scope.domain.id=default",
        "",
        "scope.project.id=default&include_subtree",
    ],
)
def test_a_list_costs_the_same_in_a_cloud_of_many_projects(keystone: Any, inheriting: str, query: str) -> None:
    token = keystone.admin()
    reader = keystone.made.role_ids["reader"]
    counts = []
    for number in (700, MANY):
        give(keystone, inheriting, grow(keystone, number, prefix=f"p{number}"), reader, 0)
        ask(keystone, query.format(user=inheriting), token)
        with Work(keystone) as work:
            ask(keystone, query.format(user=inheriting) + "&limit=400", token)
        counts.append(work.done)
    assert counts[1] <= 1.2 * counts[0]


def test_a_list_that_is_cut_says_so(keystone: Any, inheriting: str) -> None:
    grow(keystone, 600)
    found = ask(keystone, f"effective&user.id={inheriting}")
    assert (len(found["role_assignments"]), found["truncated"]) == (1000, True)
    found = ask(keystone, f"effective&user.id={inheriting}&limit=2")
    assert (len(found["role_assignments"]), "truncated" in found) == (2, False)
    assert "truncated" not in ask(keystone, f"user.id={inheriting}")


def test_a_domains_reader_sees_what_is_in_the_domain(keystone: Any, inheriting: str) -> None:
    admin = keystone.admin()
    other = keystone.make(admin, "domains", "domain", name="other")["id"]
    inside = keystone.make(admin, "projects", "project", name="inside", domain_id=other)["id"]
    user_id = keystone.make_user("guest", "reader", "domains", other)
    keystone.grant(admin, f"/projects/{inside}/users/{user_id}", "member")
    keystone.grant(admin, f"/projects/{keystone.made.demo_project_id}/users/{user_id}", "member")
    token = keystone.login("guest", scope={"domain": {"id": other}})
    for query, count in (("", 2), ("effective", 3), (f"scope.project.id={keystone.made.demo_project_id}", 0)):
        found = ask(keystone, query, token)["role_assignments"]
        assert len(found) == count
        assert {target["id"] for one in found for target in one["scope"].values()} <= {other, inside}


def test_pages_of_assignments_join_without_a_gap(keystone: Any, inheriting: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("cloudctl.identity.assignment_list.PAGE", 7)
    ids = grow(keystone, 30)
    for actor in ("a", "b"):
        give(keystone, actor, ids, "r", 0, 1)
    assert len(ask(keystone, "role.id=r")["role_assignments"]) == 120
    assert len(ask(keystone, "effective&role.id=r")["role_assignments"]) == 60
    assert len(ask(keystone, "effective&role.id=r&scope.project.id=default&include_subtree")["role_assignments"]) == 60
