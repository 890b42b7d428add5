"""/users: users, their passwords, their projects and groups. Reference: identity.md, section 3."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import (
    federated_users,
    groups,
    holdings,
    lockout,
    password_rules,
    projects,
    reachable,
    users,
)
from cloudctl.identity.api.collection import link, listed, page, paged
from cloudctl.identity.api.fields import Description, Id, changes, distinct, domain_of, unknown_as_foreign
from cloudctl.identity.api.projects import views as project_views
from cloudctl.identity.api.resource import Declared
from cloudctl.identity.assignments import Actor
from cloudctl.identity.auth_request import UserName
from cloudctl.identity.federated_users import Called
from cloudctl.identity.login import Logins
from cloudctl.identity.options import PasswordOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.records import check_id
from cloudctl.identity.subject import invalid
from cloudctl.identity.tables import Group, Project, User
from cloudctl.rest import formats
from cloudctl.rest.body import MISSING, Body, Check, Items, Length, Missing, Name, extra
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, conditions
from cloudctl.rest.resource import Json
from cloudctl.rest.route import Routes

Rule = Annotated[list[Annotated[str, Length(1, 255)]], Items(1, 16), Check(distinct)]


@frozen
class UserOptions:
    """null removes an option."""

    ignore_change_password_upon_first_use: bool | Missing | None = MISSING
    ignore_password_expiry: bool | Missing | None = MISSING
    ignore_lockout_failure_attempts: bool | Missing | None = MISSING
    lock_password: bool | Missing | None = MISSING
    ignore_user_inactivity: bool | Missing | None = MISSING
    multi_factor_auth_enabled: bool | Missing | None = MISSING
    multi_factor_auth_rules: Annotated[list[Rule], Items(0, 64), Check(distinct)] | Missing | None = MISSING


@frozen
class FederatedProtocol:
    protocol_id: Id
    unique_id: Annotated[str, Length(1, 255)]


@frozen
class FederatedObject:
    """What an identity provider calls the user."""

    idp_id: Id
    protocols: Annotated[list[FederatedProtocol], Items(1, 50)]


Federated = Annotated[list[FederatedObject], Items(0, 50)]


@frozen
class CreateUser:
    name: Name
    domain_id: Id | Missing | None = MISSING
    password: str | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    default_project_id: Id | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    federated: Federated | Missing = MISSING
    options: UserOptions | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateUser:
    name: Name | Missing = MISSING
    domain_id: Id | Missing | None = MISSING
    password: str | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    default_project_id: Id | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    federated: Federated | Missing = MISSING
    options: UserOptions | Missing = MISSING
    extra: dict[str, Any] = extra()


@frozen
class ChangePassword:
    original_password: str
    password: str
    others: dict[str, Any] = extra()


def sent(body: CreateUser | UpdateUser) -> dict[str, Any]:
    """The fields that were sent, as the domain takes them."""
    values = changes(body)
    if "federated" in values:
        values["federated"] = [
            Called(each.idp_id, one.protocol_id, one.unique_id)
            for each in values["federated"]
            for one in each.protocols
        ]
    return values


def visible(call: Call) -> list[Condition]:
    """A token for a domain shows no user of another one."""
    return [User.domain_id == call.identity.domain_id] if call.identity.domain_id else []


# What lists of users can be filtered by.
FILTERS = (*users.FILTERS, *federated_users.COLUMNS)


@frozen
class Users:
    db: Database
    logins: Logins
    hasher: Hasher
    rules: PasswordOptions
    groups: Declared[Group]

    routes = Routes("Users")

    @routes.get("/users", policy="identity:list_users", query=FILTERS)
    async def list(self, call: Call) -> dict[str, Any]:
        """List users"""
        return await self.db.scan(self.page, call)

    def page(self, conn: Connection, call: Call, *where: Condition) -> Json:
        """Those that meet `where`, as a list shows them."""
        asked = {name: value for name in federated_users.COLUMNS if (value := call.query.get(name)) is not None}
        called = [federated_users.are_called(asked)] if asked else []
        found = page(conn, call, users.listing(self.rules, call.now), *visible(call), *called, *where)
        views = iter(self.views(conn, call, found.rows))
        return paged(call, "users", found, lambda call, user: next(views))

    @routes.post("/users", policy="identity:create_user", status=201, body=Body(CreateUser, key="user"))
    async def create(self, call: Call, body: CreateUser) -> dict[str, Any]:
        """Create a user"""
        values = sent(body)
        values["domain_id"] = domain_of(call, body.domain_id)
        call.require(domain_id=values["domain_id"])
        await self._hash(values)
        return await self.db.run(self._create, call, values)

    def _create(self, conn: Connection, call: Call, values: dict[str, Any]) -> Json:
        return self._shown(conn, call, users.create(conn, values, self.rules, call.now))

    @routes.get("/users/<user_id>", policy="identity:get_user")
    async def show(self, call: Call, user_id: str) -> dict[str, Any]:
        """Show a user"""
        return await self.db.read(self._show, call, user_id)

    def _show(self, conn: Connection, call: Call, user_id: str) -> Json:
        return self._shown(conn, call, self._required(conn, call, user_id))

    @routes.patch("/users/<user_id>", policy="identity:update_user", body=Body(UpdateUser, key="user"))
    async def update(self, call: Call, user_id: str, body: UpdateUser) -> dict[str, Any]:
        """Change a user"""
        check_id(body.extra, user_id)
        values = sent(body)
        if "password" in values:
            # No hash is computed for a caller who may not change it.
            await self.db.read(self._changeable, call, user_id)
        await self._hash(values)
        return await self.db.run(self._update, call, user_id, values)

    def _update(self, conn: Connection, call: Call, user_id: str, values: dict[str, Any]) -> Json:
        self._changeable(conn, call, user_id)
        return self._shown(conn, call, users.change(conn, user_id, values, self.rules, call.now))

    @routes.delete("/users/<user_id>", policy="identity:delete_user")
    async def delete(self, call: Call, user_id: str) -> None:
        """Delete a user"""
        await self.db.run(self._delete, call, user_id)

    def _delete(self, conn: Connection, call: Call, user_id: str) -> None:
        self._changeable(conn, call, user_id)
        users.remove(conn, user_id)

    def _required(self, conn: Connection, call: Call, user_id: str) -> User:
        """The user, if the Operation's rule allows it for the user's domain."""
        with unknown_as_foreign(call):
            row = users.get(conn, user_id)
        call.require(domain_id=row.domain_id)
        return row

    def _changeable(self, conn: Connection, call: Call, user_id: str) -> None:
        """The same, for what lets the caller act as the user, or deletes the user. Raises Forbidden."""
        self._required(conn, call, user_id)
        holdings.check_manageable(conn, call.caller, Actor("user", user_id))

    # -- passwords

    async def _hash(self, values: dict[str, Any]) -> None:
        """Replace `password` by its hash. Raises Invalid."""
        if "password" in values:
            password = values.pop("password")
            if password is not None:
                password_rules.check(password, self.rules)
            values["password_hash"] = None if password is None else await self.hasher.hash(password)

    @routes.post("/users/<user_id>/password", policy=None, status=204, body=Body(ChangePassword, key="user"))
    async def change_password(self, call: Call, user_id: str, body: ChangePassword) -> None:
        """Change a user's own password; the original one is proof enough, even if it has expired"""
        proof = await self.logins.prove_password(UserName(id=user_id), body.original_password)
        password_rules.check(body.password, self.rules)
        for stored in await self.db.read(password_rules.earlier, user_id, self.rules):
            if await self.hasher.verify(stored, body.password):
                told = f"The new password must differ from the last {self.rules.unique_last_count}."
                raise Invalid(told)
        new_hash = await self.hasher.hash(body.password)
        arguments = (user_id, proof.stored_hash, new_hash, self.rules, call.now)
        if not await self.db.run(users.change_own_password, *arguments):
            raise invalid()

    # -- what belongs to a user

    @routes.get("/users/<user_id>/projects", policy="identity:list_user_projects", query=tuple(projects.FILTERS))
    async def list_projects(self, call: Call, user_id: str) -> dict[str, Any]:
        """List the projects in which a user has a role"""
        return listed(call, "projects", await self.db.scan(self._projects, call, user_id))

    def _projects(self, conn: Connection, call: Call, user_id: str) -> Any:
        self._required(conn, call, user_id)
        where = conditions(projects.LISTING, call)
        if call.identity.domain_id and user_id != call.user_id:
            where.append(Project.domain_id == call.identity.domain_id)
        return project_views(conn, call, reachable.projects_of(conn, user_id, *where))

    @routes.get("/users/<user_id>/groups", policy="identity:list_groups_for_user")
    async def list_groups(self, call: Call, user_id: str) -> dict[str, Any]:
        """List the groups that a user is in"""
        return await self.db.scan(self._groups, call, user_id)

    def _groups(self, conn: Connection, call: Call, user_id: str) -> Json:
        self._required(conn, call, user_id)
        where = [] if user_id == call.user_id else self.groups.visible(call)
        return self.groups.page(conn, call, groups.of_user(user_id), *where)

    def _shown(self, conn: Connection, call: Call, row: User) -> Json:
        return {"user": self.views(conn, call, [row])[0]}

    def views(self, conn: Connection, call: Call, found: Sequence[User]) -> Sequence[Json]:
        called = federated_users.of_users(conn, [row.id for row in found])
        return [self._view(call, row, called[row.id]) for row in found]

    def _view(self, call: Call, row: User, called: Sequence[Called]) -> Json:
        shown = {
            **row.extra,
            "id": row.id,
            "name": row.name,
            "domain_id": row.domain_id,
            "enabled": row.enabled and not lockout.is_inactive(row, self.rules, call.now),
            "description": row.description,
            "federated": federated(called),
            "options": row.options,
            "password_expires_at": formats.micros(row.password_expires_at),
            "links": link(call, "users", row.id),
        }
        if row.default_project_id is not None:
            shown["default_project_id"] = row.default_project_id
        return shown


def federated(called: Sequence[Called]) -> Sequence[Json]:
    """`called` is sorted."""
    return [
        {
            "idp_id": idp_id,
            "protocols": [{"protocol_id": one.protocol_id, "unique_id": one.unique_id} for one in of_provider],
        }
        for idp_id, of_provider in groupby(called, lambda each: each.provider_id)
    ]
