"""/OS-OAUTH1: consumers, request tokens and access tokens. Reference: OS-OAUTH1 of the Identity API v3; RFC 5849."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid, TooLarge
from cloudctl.identity import oauth, oauth_signatures, records, users
from cloudctl.identity.api.collection import link, listed, page, paged
from cloudctl.identity.api.fields import Description, RoleReference, changes, may_as_anybody, role_name
from cloudctl.identity.api.roles import view as role_view
from cloudctl.identity.delegation import check_manages, check_own_login
from cloudctl.identity.oauth import Issued
from cloudctl.identity.oauth_signatures import BadSignature, SignedRequest
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.payload import Keys
from cloudctl.identity.records import check_id
from cloudctl.identity.subject import invalid
from cloudctl.identity.tables import OAuthAccessToken, OAuthConsumer
from cloudctl.rest import formats
from cloudctl.rest.body import MISSING, Body, Items, Missing, extra
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

FORM = "application/x-www-form-urlencoded"
FORM_LIMIT = 65_536  # bytes


@frozen
class CreateConsumer:
    description: Description | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class UpdateConsumer:
    description: Description | Missing | None = MISSING
    extra: dict[str, Any] = extra()


@frozen
class Authorize:
    roles: Annotated[list[RoleReference], Items(1, 100)]
    others: dict[str, Any] = extra()


@frozen
class Consumers:
    db: Database
    keys: Keys

    routes = Routes("OAuth consumers")

    @routes.get("/OS-OAUTH1/consumers", policy="identity:list_consumers")
    async def list(self, call: Call) -> dict[str, Any]:
        """List the consumers, without their secrets"""
        return paged(call, "consumers", await self.db.scan(page, call, oauth.CONSUMERS), consumer_view)

    @routes.post(
        "/OS-OAUTH1/consumers", policy="identity:create_consumer", status=201, body=Body(CreateConsumer, key="consumer")
    )
    async def create(self, call: Call, body: CreateConsumer) -> dict[str, Any]:
        """Create a consumer; only this answer shows its secret"""
        _check_no_secret(body.extra)
        row, secret = await self.db.run(oauth.create_consumer, changes(body), self.keys, call.now)
        return {"consumer": {**consumer_view(call, row), "secret": secret}}

    @routes.get("/OS-OAUTH1/consumers/<consumer_id>", policy="identity:get_consumer")
    async def show(self, call: Call, consumer_id: str) -> dict[str, Any]:
        """Show a consumer, without its secret"""
        return {"consumer": consumer_view(call, await self.db.read(oauth.get_consumer, consumer_id))}

    @routes.patch(
        "/OS-OAUTH1/consumers/<consumer_id>",
        policy="identity:update_consumer",
        body=Body(UpdateConsumer, key="consumer"),
    )
    async def update(self, call: Call, consumer_id: str, body: UpdateConsumer) -> dict[str, Any]:
        """Change the description of a consumer"""
        check_id(body.extra, consumer_id)
        _check_no_secret(body.extra)
        return {"consumer": consumer_view(call, await self.db.run(oauth.change_consumer, consumer_id, changes(body)))}

    @routes.delete("/OS-OAUTH1/consumers/<consumer_id>", policy="identity:delete_consumer")
    async def delete(self, call: Call, consumer_id: str) -> None:
        """Delete a consumer and everything that was made for it"""
        await self.db.run(oauth.remove_consumer, consumer_id)


def _check_no_secret(sent: dict[str, Any]) -> None:
    if "secret" in sent:
        raise Invalid("The secret of a consumer cannot be chosen.")


def consumer_view(call: Call, row: OAuthConsumer) -> dict[str, Any]:
    shown = {"id": row.id, "description": row.description, "links": link(call, "OS-OAUTH1", "consumers", row.id)}
    return {**row.extra, **shown}


@frozen
class OAuthTokens:
    """Calls by which a consumer gets request tokens and access tokens: it signs them, and so needs no other token."""

    db: Database
    keys: Keys
    options: IdentityOptions

    routes = Routes("OAuth tokens")

    @routes.post("/OS-OAUTH1/request_token", policy=None, status=201)
    async def request(self, call: Call) -> Reply:
        """Issue a request token for the project in the header Requested-Project-Id"""
        request = signed_request(call)
        project_id = call.header("Requested-Project-Id")
        if not project_id:
            raise Invalid("The header Requested-Project-Id is missing.")
        lifetime = self.options.oauth_request_token_lifetime
        arguments = (request, project_id, self.keys, call.now, lifetime)
        return _form(await self.db.run(oauth.request_token, *arguments))

    @routes.put(
        "/OS-OAUTH1/authorize/<request_token_id>", policy="identity:authorize_request_token", body=Body(Authorize)
    )
    async def authorize(self, call: Call, request_token_id: str, body: Authorize) -> dict[str, Any]:
        """Give some of the caller's roles to a request token"""
        check_own_login(call.identity)
        wanted = [role_name(role) for role in body.roles]
        verifier = await self.db.run(oauth.authorize, request_token_id, call.user_id, wanted, call.now)
        return {"token": {"oauth_verifier": verifier}}

    @routes.post("/OS-OAUTH1/access_token", policy=None, status=201)
    async def access(self, call: Call) -> Reply:
        """Exchange an authorized request token for an access token"""
        lifetime = self.options.oauth_access_token_lifetime
        return _form(await self.db.run(oauth.access_token, signed_request(call), self.keys, call.now, lifetime))


def signed_request(call: Call) -> SignedRequest:
    """A POST as it was signed. Raises Unauthorized, TooLarge."""
    form = b""
    if (call.header("Content-Type") or "").partition(";")[0].strip().lower() == FORM:
        call.content.seek(0)
        form = call.content.read(FORM_LIMIT + 1)
        if len(form) > FORM_LIMIT:
            raise TooLarge(f"A signed form has at most {FORM_LIMIT} bytes.")
    try:
        return oauth_signatures.read("POST", call.url, call.query.pairs, call.header("Authorization") or "", form)
    except BadSignature:
        raise invalid() from None


def _form(issued: Issued) -> Reply:
    fields = {"oauth_token": issued.id, "oauth_token_secret": issued.secret}
    if issued.expires_at is not None:
        fields["oauth_expires_at"] = formats.zulu_micros(issued.expires_at)
    # The colons of a time stay as they are.
    return Reply(urlencode(fields, safe=":").encode(), headers=(("Content-Type", FORM),))


@frozen
class AccessTokens:
    db: Database

    routes = Routes("OAuth access tokens")

    @routes.get("/users/<user_id>/OS-OAUTH1/access_tokens", policy="identity:list_access_tokens")
    async def list(self, call: Call, user_id: str) -> dict[str, Any]:
        """List the access tokens that a user has authorized"""
        check_own(call)
        return await self.db.scan(self._list, call, user_id)

    def _list(self, conn: Connection, call: Call, user_id: str) -> dict[str, Any]:
        users.get(conn, user_id)
        mine = OAuthAccessToken.user_id == user_id
        return paged(call, "access_tokens", page(conn, call, oauth.ACCESS_TOKENS, mine), access_token_view)

    @routes.get("/users/<user_id>/OS-OAUTH1/access_tokens/<access_token_id>", policy="identity:get_access_token")
    async def show(self, call: Call, user_id: str, access_token_id: str) -> dict[str, Any]:
        """Show an access token, without its secret"""
        check_own(call)
        found = await self.db.read(oauth.get_access_token, user_id, access_token_id)
        return {"access_token": access_token_view(call, found)}

    @routes.delete("/users/<user_id>/OS-OAUTH1/access_tokens/<access_token_id>", policy="identity:delete_access_token")
    async def delete(self, call: Call, user_id: str, access_token_id: str) -> None:
        """Revoke an access token; the tokens made from it end"""
        check_manages(call.identity)
        check_own(call)
        await self.db.run(oauth.remove_access_token, user_id, access_token_id)

    @routes.get(
        "/users/<user_id>/OS-OAUTH1/access_tokens/<access_token_id>/roles", policy="identity:list_access_token_roles"
    )
    async def list_roles(self, call: Call, user_id: str, access_token_id: str) -> dict[str, Any]:
        """List the roles of an access token"""
        check_own(call)
        rows = await self.db.read(oauth.roles_of, user_id, access_token_id)
        return listed(call, "roles", (role_view(call, row) for row in rows))

    @routes.get(
        "/users/<user_id>/OS-OAUTH1/access_tokens/<access_token_id>/roles/<role_id>",
        policy="identity:get_access_token_role",
    )
    async def show_role(self, call: Call, user_id: str, access_token_id: str, role_id: str) -> dict[str, Any]:
        """Show a role of an access token"""
        check_own(call)
        for row in await self.db.read(oauth.roles_of, user_id, access_token_id):
            if row.id == role_id:
                return {"role": role_view(call, row)}
        raise records.not_found("role in access token", role_id)


def check_own(call: Call) -> None:
    """Delegated tokens cannot authorize access tokens, so none is theirs. Raises Forbidden."""
    if not may_as_anybody(call):
        check_own_login(call.identity)


def access_token_view(call: Call, row: OAuthAccessToken) -> dict[str, Any]:
    links = link(call, "users", row.user_id, "OS-OAUTH1", "access_tokens", row.id)
    return {
        "id": row.id,
        "consumer_id": row.consumer_id,
        "project_id": row.project_id,
        "authorizing_user_id": row.user_id,
        "expires_at": None if row.expires_at is None else formats.zulu_micros(row.expires_at),
        "links": {**links, "roles": f"{links['self']}/roles"},
    }
