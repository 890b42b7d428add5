"""/credentials and /users/{id}/credentials/OS-EC2. Reference: identity.md, section 8."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Forbidden, Invalid
from cloudctl.identity import credentials as domain
from cloudctl.identity import totp, users
from cloudctl.identity.api.application_credentials import check_may_manage
from cloudctl.identity.api.collection import link, listed, page, paged
from cloudctl.identity.api.fields import Id, changes
from cloudctl.identity.credentials import Delegated
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.payload import Keys
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
        """List credentials: one's own, or all"""
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> dict[str, Any]:
        own = [] if call.may("identity:list_all_credentials") else [Credential.user_id == call.user_id]
        return paged(call, "credentials", page(conn, call, domain.LISTING, *own), self.view)

    @routes.post(
        "/credentials", policy="identity:create_credential", status=201, body=Body(CreateCredential, key="credential")
    )
    async def create(self, call: Call, body: CreateCredential) -> dict[str, Any]:
        """Create a credential"""
        call.require(user_id=body.user_id)
        check_delegation(call, body.type, body.project_id)
        arguments = (changes(body), self.keys, delegated(call), call.now, self.options.credential_limit)
        return {"credential": self.view(call, await self.db.run(domain.create, *arguments))}

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
        return {"credential": self.view(call, await self.db.run(self._update, call, credential_id, body))}

    def _update(self, conn: Connection, call: Call, credential_id: str, body: UpdateCredential) -> Credential:
        row = self._required(conn, call, credential_id)
        check_delegation(call, row.type, row.project_id)
        return domain.change(conn, credential_id, changes(body), self.keys)

    @routes.delete("/credentials/<credential_id>", policy="identity:delete_credential")
    async def delete(self, call: Call, credential_id: str) -> None:
        """Delete a credential"""
        await self.db.run(self._delete, call, credential_id)

    def _delete(self, conn: Connection, call: Call, credential_id: str) -> None:
        row = self._required(conn, call, credential_id)
        check_delegation(call, row.type, row.project_id)
        domain.remove(conn, credential_id)

    def _required(self, conn: Connection, call: Call, credential_id: str) -> Credential:
        row = domain.get(conn, credential_id)
        call.require(user_id=row.user_id)
        return row

    def view(self, call: Call, row: Credential) -> dict[str, Any]:
        return {
            **row.extra,
            "id": row.id,
            "type": row.type,
            "blob": domain.blob(row, self.keys),
            "user_id": row.user_id,
            "project_id": row.project_id,
            "links": link(call, "credentials", row.id),
        }


def check_delegation(call: Call, type: str, project_id: str | Missing | None) -> None:
    """A delegated token makes no new way to log in: no second factor, and no EC2 credential of another project.

    Raises Forbidden.
    """
    if type not in (domain.EC2, totp.TYPE):
        return
    check_may_manage(call)
    if type == domain.EC2 and call.identity.application_credential_id and project_id != call.project_id:
        raise Forbidden("A token of an application credential is for its own project only.")


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
        return listed(call, "credentials", await self.db.scan(self._list, call, user_id))

    def _list(self, conn: Connection, call: Call, user_id: str) -> Any:
        users.get(conn, user_id)
        mine = (Credential.user_id == user_id, Credential.type == domain.EC2)
        found = page(conn, call, domain.LISTING, *mine)
        return [self.view(call, row) for row in found.rows]

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
        check_delegation(call, domain.EC2, project_id)
        limit = self.options.credential_limit
        arguments = (user_id, project_id, self.keys, delegated(call), call.now, limit)
        return {"credential": self.view(call, await self.db.run(domain.create_ec2, *arguments))}

    @routes.get("/users/<user_id>/credentials/OS-EC2/<access>", policy="identity:ec2_get_credential")
    async def show(self, call: Call, user_id: str, access: str) -> dict[str, Any]:
        """Show an EC2 credential with its secret"""
        return {"credential": self.view(call, await self.db.read(domain.get_ec2, user_id, access))}

    @routes.delete("/users/<user_id>/credentials/OS-EC2/<access>", policy="identity:ec2_delete_credential")
    async def delete(self, call: Call, user_id: str, access: str) -> None:
        """Delete an EC2 credential"""
        await self.db.run(self._delete, call, user_id, access)

    def _delete(self, conn: Connection, call: Call, user_id: str, access: str) -> None:
        row = domain.get_ec2(conn, user_id, access)
        check_delegation(call, domain.EC2, row.project_id)
        domain.remove(conn, row.id)

    def view(self, call: Call, row: Credential) -> dict[str, Any]:
        access, secret = domain.pair(row, self.keys)
        return {
            "access": access,
            "secret": secret,
            "user_id": row.user_id,
            "tenant_id": row.project_id,
            "trust_id": row.trust_id,
            "links": link(call, "users", row.user_id, "credentials", "OS-EC2", access),
        }
