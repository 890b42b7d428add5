"""/auth/tokens: issue, validate and revoke tokens. Reference: identity.md, section 2."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from cloudctl.db import Database
from cloudctl.db.columns import seconds, utc
from cloudctl.errors import NotFound, Unauthorized
from cloudctl.identity import catalog, revocation, subject
from cloudctl.identity.api.auth_body import AuthRequest, methods, wish
from cloudctl.identity.api.oauth import signed_request
from cloudctl.identity.catalog import Viewer
from cloudctl.identity.catalogs import Catalogs
from cloudctl.identity.login import Logins
from cloudctl.identity.multi_factor import NotEnough
from cloudctl.identity.options import IdentityOptions
from cloudctl.identity.payload import ScopeKind, Token
from cloudctl.identity.service_providers import ServiceProviders
from cloudctl.identity.subject import Subject
from cloudctl.identity.tokens import Tokens
from cloudctl.rest import formats
from cloudctl.rest.body import Body
from cloudctl.rest.call import Call, Reply
from cloudctl.rest.route import Routes

RECEIPT_HEADER = "Openstack-Auth-Receipt"
ACCESS_RULES_HEADER = "OpenStack-Identity-Access-Rules"


@frozen
class AuthTokens:
    db: Database
    tokens: Tokens
    logins: Logins
    catalogs: Catalogs
    providers: ServiceProviders
    options: IdentityOptions
    instance_ha_url: str

    routes = Routes("Tokens")

    @routes.post("/auth/tokens", policy=None, status=201, body=Body(AuthRequest), query=("nocatalog",))
    async def create(self, call: Call, body: AuthRequest) -> Reply:
        """Issue a token"""
        presented = call.header("X-Auth-Token")
        chosen, scope = methods(body, lambda: signed_request(call)), wish(body)
        if presented is not None:
            # Stock clients send none; one that is sent must be valid.
            await self.tokens.authenticate(presented)
        try:
            token, issued = await self.logins.login(chosen, scope, call.header(RECEIPT_HEADER) or None)
        except NotEnough as error:
            return self._lacking(call, error)
        # For the log of requests: nobody was known when it came.
        call.caller = call.caller.as_(issued.identity)
        return await self.reply(call, token, issued)

    def _lacking(self, call: Call, error: NotEnough) -> Reply:
        """The receipt for what was proved, and what remains to be proved."""
        receipt, user = error.receipt.token, error.receipt.user
        body = {
            "receipt": {
                "methods": list(receipt.methods),
                "user": {
                    "id": user.id,
                    "name": user.name,
                    "domain": {"id": user.domain.id, "name": user.domain.name},
                },
                "issued_at": formats.zulu_micros(utc(receipt.issued_at)),
                "expires_at": formats.zulu_micros(utc(receipt.expires_at)),
            },
            "required_auth_methods": error.required,
        }
        headers = (
            (RECEIPT_HEADER, self.logins.seal_receipt(receipt)),
            ("WWW-Authenticate", f'Keystone uri="{call.root_url}/v3"'),
        )
        return Reply(body, status=401, headers=headers)

    @routes.head("/auth/tokens", policy="identity:check_token")
    @routes.get("/auth/tokens", policy="identity:validate_token", pure=True, query=("nocatalog", "allow_expired"))
    async def validate(self, call: Call) -> Reply:
        """Show what a token stands for"""
        text = call.header("X-Subject-Token")
        token = self._unseal(text)
        call.require(user_id=token.user_id)
        window = 0
        if call.query.flag("allow_expired"):
            window = self.options.allow_expired_window if call.may("identity:validate_expired_token") else 0
        found = await self._read(token, window) if window else await self._subject(text or "")
        if found.credential is not None and found.credential.access_rules is not None and not _knows_rules(call):
            raise unknown()
        assert text is not None
        # The validator's header decides on access rules and its rights on the window: such an answer is not cached.
        by_rules = found.credential is not None and found.credential.access_rules is not None
        until = 0.0 if by_rules or window else seconds(found.ends_at)
        return evolve(await self.reply(call, text, found), until=until)

    @routes.delete("/auth/tokens", policy="identity:revoke_token")
    async def revoke(self, call: Call) -> None:
        """Revoke a token"""
        token = self._unseal(call.header("X-Subject-Token"))
        call.require(user_id=token.user_id)
        await self._read(token, 0)
        await self.db.run(revocation.revoke_token, token, call.now)

    def _unseal(self, text: str | None) -> Token:
        try:
            return self.tokens.unseal(text or "")
        except Unauthorized:
            raise unknown() from None

    async def _subject(self, text: str) -> Subject:
        try:
            return await self.tokens.subject(text)
        except Unauthorized:
            raise unknown() from None

    async def _read(self, token: Token, window: int) -> Subject:
        try:
            return await self.db.read(subject.read, token, utc(self.db.clock.seconds()), window)
        except Unauthorized:
            raise unknown() from None

    async def reply(self, call: Call, token: str, found: Subject) -> Reply:
        """The token object, with its catalog, and the token itself in a header."""
        body = view(found)
        if found.token.scope.kind is not ScopeKind.UNSCOPED and not call.query.flag("nocatalog"):
            ha_url = catalog.instance_ha_url(call.host_url, self.instance_ha_url)
            viewer = Viewer(found.user.id, found.project.id if found.project else "", call.host_url, ha_url)
            body["catalog"] = await self.catalogs.json(viewer, found.epoch)
        if providers := await self.providers.shown(found.epoch):
            body["service_providers"] = providers
        return Reply({"token": body}, headers=(("X-Subject-Token", token),))


def unknown() -> NotFound:
    return NotFound("Could not find the subject token.")


def _knows_rules(call: Call) -> bool:
    """Whether the caller says that it enforces access rules."""
    try:
        return float(call.header(ACCESS_RULES_HEADER) or 0) >= 1
    except ValueError:
        return False


def view(found: Subject) -> dict[str, Any]:
    """The `token` object without its catalog."""
    token, user = found.token, found.user
    shown: dict[str, Any] = {
        "methods": list(token.methods),
        "user": {
            "id": user.id,
            "name": user.name,
            "domain": {"id": user.domain.id, "name": user.domain.name},
            "password_expires_at": formats.micros(user.password_expires_at),
        },
        "audit_ids": list(token.audit_ids),
        "expires_at": formats.zulu_micros(utc(token.expires_at)),
        "issued_at": formats.zulu_micros(utc(token.issued_at)),
    }
    if found.project is not None:
        project = found.project
        shown["project"] = {
            "id": project.id,
            "name": project.name,
            "domain": {"id": project.domain.id, "name": project.domain.name},
        }
        shown["is_domain"] = False
    if found.domain is not None:
        shown["domain"] = {"id": found.domain.id, "name": found.domain.name}
    if token.scope.kind is ScopeKind.SYSTEM:
        shown["system"] = {"all": True}
    if token.scope.kind is not ScopeKind.UNSCOPED:
        shown["roles"] = [{"id": role.id, "name": role.name} for role in found.roles]
    if found.credential is not None:
        credential = found.credential
        shown["application_credential"] = {
            "id": credential.id,
            "name": credential.name,
            "restricted": not credential.unrestricted,
        }
        if credential.access_rules is not None:
            shown["application_credential"]["access_rules"] = [
                {"id": rule.id, "service": rule.service, "method": rule.method, "path": rule.path}
                for rule in credential.access_rules
            ]
    if found.trust is not None:
        trust = found.trust
        shown["OS-TRUST:trust"] = {
            "id": trust.id,
            "impersonation": trust.impersonation,
            "trustor_user": {"id": trust.trustor.id},
            "trustee_user": {"id": trust.trustee.id},
        }
    if found.access is not None:
        shown["OS-OAUTH1"] = {"access_token_id": found.access.id, "consumer_id": found.access.consumer_id}
    return shown
