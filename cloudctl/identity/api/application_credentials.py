"""/users/{id}/application_credentials and /users/{id}/access_rules. Reference: identity.md, section 7."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid
from cloudctl.identity import application_credentials as domain
from cloudctl.identity import records, users
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Description, Id, RoleReference, may_as_anybody, role_name
from cloudctl.identity.delegation import check_manages, check_not_passed_on
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.passwords import Hasher
from cloudctl.identity.tables import AccessRule, ApplicationCredential, Role
from cloudctl.rest import formats
from cloudctl.rest.body import MISSING, Body, Check, Items, Length, Missing, Name, Pattern, extra
from cloudctl.rest.call import Call
from cloudctl.rest.listing import Condition, Page
from cloudctl.rest.route import Routes

RulePath = Annotated[str, Length(1, 225), Pattern("/.*", "a path: it begins with a slash")]


def moment(text: str) -> str:
    """Raises ValueError unless it is a time."""
    try:
        formats.parse_time(text)
    except OverflowError:
        raise ValueError(f"{text[:64]!r} is out of range") from None
    return text


Moment = Annotated[str, Length(1, 64), Check(moment)]


@frozen
class RuleReference:
    id: Id | Missing = MISSING
    path: RulePath | Missing = MISSING
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] | Missing = MISSING
    service: Name | Missing = MISSING


@frozen
class CreateApplicationCredential:
    name: Name
    secret: Annotated[str, Length(1, 4096)] | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    expires_at: Moment | Missing | None = MISSING
    expiration: Moment | Missing | None = MISSING
    roles: Annotated[list[RoleReference], Items(0, 100)] | Missing = MISSING
    unrestricted: bool = False
    access_rules: Annotated[list[RuleReference], Items(0, 200)] | Missing | None = MISSING
    project_id: Id | Missing | None = MISSING
    others: dict[str, Any] = extra()


@frozen
class ApplicationCredentials:
    db: Database
    hasher: Hasher
    options: IdentityOptions

    routes = Routes("Application credentials")

    @routes.get("/users/<user_id>/application_credentials", policy="identity:list_application_credentials")
    async def list(self, call: Call, user_id: str) -> dict[str, Any]:
        """List the application credentials of a user"""
        check_not_passed_on(call.identity)
        return await self.db.scan(self._list, call, user_id)

    def _list(self, conn: Connection, call: Call, user_id: str) -> dict[str, Any]:
        users.get(conn, user_id)
        where = [ApplicationCredential.user_id == user_id]
        if sees_its_own_only(call):
            where.append(ApplicationCredential.id == call.identity.application_credential_id)
        found = page(conn, call, domain.LISTING, *where)
        shown = iter(views(conn, call, found.rows))
        return paged(call, "application_credentials", found, lambda call, row: next(shown))

    @routes.post(
        "/users/<user_id>/application_credentials",
        policy="identity:create_application_credential",
        status=201,
        body=Body(CreateApplicationCredential, key="application_credential"),
    )
    async def create(self, call: Call, user_id: str, body: CreateApplicationCredential) -> dict[str, Any]:
        """Create an application credential for the caller; only this answer shows its secret"""
        check_manages(call.identity)
        expires_at = expiration(body)
        check_rules(body)
        if user_id != call.user_id:
            raise Forbidden("An application credential is made by its user.")
        if not call.project_id:
            raise Forbidden("An application credential needs a token that is scoped to a project.")
        if body.project_id and body.project_id != call.project_id:
            raise Forbidden("An application credential is for the project of the token.")
        secret = body.secret or domain.new_secret()
        if len(secret) > self.options.passwords.maximum_length:
            raise Invalid(f"A secret has at most {self.options.passwords.maximum_length} characters.")
        secret_hash = await self.hasher.hash(secret)
        shown = await self.db.run(self._create, call, body, expires_at, secret_hash)
        return {"application_credential": {**shown, "secret": secret}}

    def _create(
        self,
        conn: Connection,
        call: Call,
        body: CreateApplicationCredential,
        expires_at: datetime | None,
        secret_hash: str,
    ) -> dict[str, Any]:
        new = domain.NewCredential(
            name=body.name,
            secret_hash=secret_hash,
            description=body.description or None,
            expires_at=expires_at,
            unrestricted=body.unrestricted,
            roles=None if not body.roles else [role_name(role) for role in body.roles],
            # Stock clients send an empty list if their user has not named any rules.
            rules=None if not body.access_rules else [_rule(rule) for rule in body.access_rules],
        )
        limits = domain.Limits(self.options.application_credential_limit, self.options.access_rule_limit)
        row = domain.create(conn, call.caller, new, limits)
        return views(conn, call, [row])[0]

    @routes.get(
        "/users/<user_id>/application_credentials/<credential_id>", policy="identity:get_application_credential"
    )
    async def show(self, call: Call, user_id: str, credential_id: str) -> dict[str, Any]:
        """Show an application credential, without its secret"""
        check_not_passed_on(call.identity)
        if sees_its_own_only(call) and credential_id != call.identity.application_credential_id:
            raise records.not_found("application credential", credential_id)
        return {"application_credential": await self.db.read(self._show, call, user_id, credential_id)}

    def _show(self, conn: Connection, call: Call, user_id: str, credential_id: str) -> dict[str, Any]:
        row = domain.get(conn, user_id, credential_id)
        return views(conn, call, [row])[0]

    @routes.delete(
        "/users/<user_id>/application_credentials/<credential_id>", policy="identity:delete_application_credential"
    )
    async def delete(self, call: Call, user_id: str, credential_id: str) -> None:
        """Delete an application credential; its tokens end with it"""
        check_manages(call.identity)
        await self.db.run(domain.remove, user_id, credential_id)


@frozen
class AccessRules:
    db: Database

    routes = Routes("Access rules")

    @routes.get(
        "/users/<user_id>/access_rules",
        policy="identity:list_access_rules",
        query=tuple(domain.RULE_LISTING.filters),
    )
    async def list(self, call: Call, user_id: str) -> dict[str, Any]:
        """List the access rules of a user"""
        check_not_passed_on(call.identity)
        return paged(call, "access_rules", await self.db.scan(self._list, call, user_id), rule_view)

    def _list(self, conn: Connection, call: Call, user_id: str) -> Page:
        users.get(conn, user_id)
        return page(conn, call, domain.RULE_LISTING, AccessRule.user_id == user_id, *_seen_rules(call))

    @routes.get("/users/<user_id>/access_rules/<rule_id>", policy="identity:get_access_rule")
    async def show(self, call: Call, user_id: str, rule_id: str) -> dict[str, Any]:
        """Show an access rule"""
        check_not_passed_on(call.identity)
        found = await self.db.read(domain.get_rule, user_id, rule_id, *_seen_rules(call))
        return {"access_rule": rule_view(call, found)}

    @routes.delete("/users/<user_id>/access_rules/<rule_id>", policy="identity:delete_access_rule")
    async def delete(self, call: Call, user_id: str, rule_id: str) -> None:
        """Delete an access rule that no application credential has"""
        check_manages(call.identity)
        await self.db.run(domain.remove_rule, user_id, rule_id)


def sees_its_own_only(call: Call) -> bool:
    """Whether the caller is a restricted credential that could see more only because of its user."""
    return call.identity.restricted and not may_as_anybody(call)


def _seen_rules(call: Call) -> Sequence[Condition]:
    if not sees_its_own_only(call):
        return ()
    return [domain.is_rule_of(call.identity.application_credential_id)]


def expiration(body: CreateApplicationCredential) -> datetime | None:
    """The expiry, under either of its two names. Raises Invalid if both are given and differ."""
    times = [formats.parse_time(text) for text in (body.expires_at, body.expiration) if text]
    if len(set(times)) > 1:
        raise Invalid("'expires_at' and 'expiration' differ.")
    return times[0] if times else None


def check_rules(body: CreateApplicationCredential) -> None:
    """Raises Invalid for a rule that has neither an id nor all the rest."""
    for rule in body.access_rules or ():
        if rule.id is MISSING and MISSING in (rule.path, rule.method, rule.service):
            raise Invalid("An access rule has 'id', or 'path', 'method' and 'service'.")


def _rule(body: RuleReference) -> domain.NewRule:
    if body.id is not MISSING:
        return domain.NewRule(id=body.id)
    return domain.NewRule(path=body.path or "", method=body.method or "", service=body.service or "")


def views(conn: Connection, call: Call, rows: Sequence[ApplicationCredential]) -> list[dict[str, Any]]:
    ids = [row.id for row in rows]
    roles, rules = domain.roles_of(conn, ids), domain.rules_of(conn, ids)
    return [view(call, row, roles[row.id], rules[row.id]) for row in rows]


def view(call: Call, row: ApplicationCredential, roles: Sequence[Role], rules: Sequence[AccessRule]) -> dict[str, Any]:
    expires = formats.micros(row.expires_at)
    shown = {
        "id": row.id,
        "name": row.name,
        "description": row.description,
        "user_id": row.user_id,
        "project_id": row.project_id,
        "system": None,
        "roles": [{"id": role.id, "name": role.name, "domain_id": role.domain_id or None} for role in roles],
        "expires_at": expires,
        "expiration": expires,
        "unrestricted": row.unrestricted,
        "links": link(call, "users", row.user_id, "application_credentials", row.id),
    }
    if row.has_access_rules:
        shown["access_rules"] = [
            {"id": rule.id, "path": rule.path, "method": rule.method, "service": rule.service} for rule in rules
        ]
    return shown


def rule_view(call: Call, row: AccessRule) -> dict[str, Any]:
    return {
        "id": row.id,
        "path": row.path,
        "method": row.method,
        "service": row.service,
        "links": link(call, "users", row.user_id, "access_rules", row.id),
    }
