"""/credentials and /users/{id}/credentials/OS-EC2. Reference: identity.md, section 8."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid
from cloudctl.identity import credentials as domain
from cloudctl.identity import effective, records, totp, users
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Id, changes, may_as_anybody
from cloudctl.identity.credentials import Delegated
from cloudctl.identity.delegation import check_manages, check_own_login, is_own_login
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.payload import Keys, Scope, ScopeKind
from cloudctl.identity.records import check_id
from cloudctl.identity.tables import Credential
from cloudctl.rest.body import MISSING, Body, Length, Missing, Name, extra
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

Blob = Annotated[str, Length(0, 65_535)]


@frozen
class CreateCredential:
    type: Name
    blob: Blob
    user_id: Id
    project_id: Id | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateCredential:
    type: Name | Missing = MISSING
    blob: Blob | Missing = MISSING
    user_id: Id | Missing = MISSING
    project_id: Id | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Credentials:
    db: Database
    keys: Keys
    options: IdentityOptions

    routes = Routes("Credentials")

    @routes.get("/credentials", policy="identity:list_credentials", query=tuple(domain.LISTING.filters))
    async def list(self, call: Call) -> dict[str, Any]:
        """List the caller's credentials, or all"""
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> dict[str, Any]:
        own = [] if may_as_anybody(call, "identity:list_all_credentials") else [domain.are_of(call.identity)]
        return paged(call, "credentials", page(conn, call, domain.LISTING, *own), self.view)

    @routes.post(
        "/credentials", policy="identity:create_credential", status=201, body=Body(CreateCredential, key="credential")
    )
    async def create(self, call: Call, body: CreateCredential) -> dict[str, Any]:
        """Create a credential"""
        call.require(user_id=body.user_id)
        check_new(call, body.type, body.user_id, body.project_id)
        return {"credential": self.view(call, await self.db.run(self._create, call, body), told=True)}

    def _create(self, conn: Connection, call: Call, body: CreateCredential) -> Credential:
        check_project(conn, call, body.user_id, body.project_id)
        limit = self.options.credential_limit
        return domain.create(conn, changes(body), self.keys, delegated(call), call.now, limit)

    @routes.get("/credentials/<credential_id>", policy="identity:get_credential")
    async def show(self, call: Call, credential_id: str) -> dict[str, Any]:
        """Show a credential"""
        return {"credential": self.view(call, await self.db.read(self._required, call, credential_id))}

    @routes.patch(
        "/credentials/<credential_id>",
        policy="identity:update_credential",
        body=Body(UpdateCredential, key="credential"),
    )
    async def update(self, call: Call, credential_id: str, body: UpdateCredential) -> dict[str, Any]:
        """Change a credential"""
        check_id(body.extra, credential_id)
        row = await self.db.run(self._update, call, credential_id, body)
        return {"credential": self.view(call, row, told=body.blob is not MISSING)}

    def _update(self, conn: Connection, call: Call, credential_id: str, body: UpdateCredential) -> Credential:
        row = self._required(conn, call, credential_id)
        check_new(call, row.type, row.user_id, row.project_id)
        if call.identity.delegated and not domain.is_of(call.identity, row):
            raise Forbidden("A token of an application credential changes only credentials that it has made.")
        return domain.change(conn, credential_id, changes(body), self.keys)

    @routes.delete("/credentials/<credential_id>", policy="identity:delete_credential")
    async def delete(self, call: Call, credential_id: str) -> None:
        """Delete a credential"""
        await self.db.run(self._delete, call, credential_id)

    def _delete(self, conn: Connection, call: Call, credential_id: str) -> None:
        check_manages(call.identity)
        self._required(conn, call, credential_id)
        domain.remove(conn, credential_id)

    def _required(self, conn: Connection, call: Call, credential_id: str) -> Credential:
        """An unknown one is forbidden like another user's, so that nobody learns which there are."""
        row = records.find(conn, Credential, credential_id)
        is_own = row is not None and domain.is_of(call.identity, row)
        call.require(user_id=call.user_id if is_own else "")
        return row if row is not None else domain.get(conn, credential_id)

    def view(self, call: Call, row: Credential, *, told: bool = False) -> dict[str, Any]:
        """`told`: the caller has just sent the blob. Otherwise only the user's own login is shown it, and an
        administrator's own login, except the seeds of second factors; never a delegated token.
        """
        told = told or is_own_login(call.identity, row.user_id) or self._administers(call, row)
        return {
            **row.extra,
            "id": row.id,
            "type": row.type,
            "blob": domain.blob(row, self.keys) if told else None,
            "user_id": row.user_id,
            "project_id": row.project_id,
            "links": link(call, "credentials", row.id),
        }

    def _administers(self, call: Call, row: Credential) -> bool:
        return row.type != totp.TYPE and not call.identity.delegated and call.may("identity:change_privileged")


def check_new(call: Call, type: str, user_id: str, project_id: str | Missing | None) -> None:
    """Whether the caller may choose the blob of such a credential.

    A delegated token must not create a new way to log in: no second factor, and nothing for another user or project.
    Raises Forbidden.
    """
    check_manages(call.identity)
    if type == totp.TYPE:
        check_own_login(call.identity)
    if type == domain.EC2:
        call.require("identity:ec2_create_credential", user_id=user_id)
    if call.identity.delegated and (user_id != call.user_id or (project_id or call.project_id) != call.project_id):
        raise Forbidden("A token of an application credential is for its own user and project only.")


def check_project(conn: Connection, call: Call, user_id: str, project_id: str | Missing | None) -> None:
    """A project in which the user has no role is unknown to all but those who make credentials for anybody.

    Raises NotFound.
    """
    if not project_id or may_as_anybody(call):
        return
    if not effective.roles_on(conn, user_id, Scope(ScopeKind.PROJECT, project_id)):
        raise records.not_found("project", project_id)


def delegated(call: Call) -> Delegated:
    return Delegated(call.identity.application_credential_id, call.identity.trust_id)


@frozen
class CreateEc2:
    tenant_id: Id | Missing = MISSING
    project_id: Id | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class Ec2Credentials:
    db: Database
    keys: Keys
    options: IdentityOptions

    routes = Routes("EC2 credentials")

    @routes.get("/users/<user_id>/credentials/OS-EC2", policy="identity:ec2_list_credentials")
    async def list(self, call: Call, user_id: str) -> dict[str, Any]:
        """List the EC2 credentials of a user"""
        return await self.db.scan(self._list, call, user_id)

    def _list(self, conn: Connection, call: Call, user_id: str) -> dict[str, Any]:
        users.get(conn, user_id)
        mine = [Credential.user_id == user_id, Credential.type == domain.EC2]
        if not may_as_anybody(call):
            mine.append(domain.are_of(call.identity))
        return paged(call, "credentials", page(conn, call, domain.LISTING, *mine), self.view)

    @routes.post(
        "/users/<user_id>/credentials/OS-EC2",
        policy="identity:ec2_create_credential",
        status=201,
        body=Body(CreateEc2),
    )
    async def create(self, call: Call, user_id: str, body: CreateEc2) -> dict[str, Any]:
        """Create an access key and its secret"""
        project_id = body.tenant_id or body.project_id
        if not project_id:
            raise Invalid("'tenant_id' is a required property")
        check_new(call, domain.EC2, user_id, project_id)
        return {"credential": self.view(call, await self.db.run(self._create, call, user_id, project_id), told=True)}

    def _create(self, conn: Connection, call: Call, user_id: str, project_id: str) -> Credential:
        check_project(conn, call, user_id, project_id)
        limit = self.options.credential_limit
        return domain.create_ec2(conn, user_id, project_id, self.keys, delegated(call), call.now, limit)

    @routes.get("/users/<user_id>/credentials/OS-EC2/<access>", policy="identity:ec2_get_credential")
    async def show(self, call: Call, user_id: str, access: str) -> dict[str, Any]:
        """Show an EC2 credential; only its user's own login sees the secret"""
        return {"credential": self.view(call, await self.db.read(self._required, call, user_id, access))}

    @routes.delete("/users/<user_id>/credentials/OS-EC2/<access>", policy="identity:ec2_delete_credential")
    async def delete(self, call: Call, user_id: str, access: str) -> None:
        """Delete an EC2 credential"""
        await self.db.run(self._delete, call, user_id, access)

    def _delete(self, conn: Connection, call: Call, user_id: str, access: str) -> None:
        check_manages(call.identity)
        domain.remove(conn, self._required(conn, call, user_id, access).id)

    def _required(self, conn: Connection, call: Call, user_id: str, access: str) -> Credential:
        row = domain.get_ec2(conn, user_id, access)
        call.require(user_id=user_id if domain.is_of(call.identity, row) else "")
        return row

    def view(self, call: Call, row: Credential, *, told: bool = False) -> dict[str, Any]:
        """`told`: it has just been made."""
        access, secret = domain.pair(row, self.keys)
        return {
            "access": access,
            "secret": secret if told or is_own_login(call.identity, row.user_id) else None,
            "user_id": row.user_id,
            "tenant_id": row.project_id,
            "trust_id": row.trust_id,
            "links": link(call, "users", row.user_id, "credentials", "OS-EC2", access),
        }
