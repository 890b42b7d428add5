"""The body of POST /auth/tokens → the methods and the scope that `login` takes.

Unknown keys are ignored, as stock services do here. Reference: identity.md, section 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from cloudctl.errors import Invalid, Unauthorized
from cloudctl.identity.auth_request import (
    ByApplicationCredential,
    ByOAuth,
    ByPassword,
    ByToken,
    ByTotp,
    DomainName,
    Method,
    ProjectName,
    SystemWide,
    TrustName,
    Unscoped,
    UserName,
    Wish,
)
from cloudctl.identity.oauth_signatures import SignedRequest
from cloudctl.rest.body import MISSING, Missing, extra, structure
from cloudctl.rest.faults import UNAUTHENTICATED


@frozen
class DomainBody:
    id: str | Missing = MISSING
    name: str | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class UserBody:
    id: str | Missing = MISSING
    name: str | Missing = MISSING
    domain: DomainBody | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class PasswordUserBody:
    password: str
    id: str | Missing = MISSING
    name: str | Missing = MISSING
    domain: DomainBody | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class PasswordBody:
    user: PasswordUserBody
    others: dict[str, Any] = extra()


@frozen
class TotpUserBody:
    passcode: str
    id: str | Missing = MISSING
    name: str | Missing = MISSING
    domain: DomainBody | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class TotpBody:
    user: TotpUserBody
    others: dict[str, Any] = extra()


@frozen
class ApplicationCredentialBody:
    secret: str
    id: str | Missing = MISSING
    name: str | Missing = MISSING
    user: UserBody | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class TokenBody:
    id: str
    others: dict[str, Any] = extra()


@frozen
class IdentityBody:
    methods: list[str]
    password: PasswordBody | Missing = MISSING
    totp: TotpBody | Missing = MISSING
    application_credential: ApplicationCredentialBody | Missing = MISSING
    token: TokenBody | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class AuthBody:
    identity: IdentityBody
    scope: dict[str, Any] | str | Missing | None = MISSING
    others: dict[str, Any] = extra()


@frozen
class AuthRequest:
    auth: AuthBody
    others: dict[str, Any] = extra()


@frozen
class ProjectBody:
    id: str | Missing = MISSING
    name: str | Missing = MISSING
    domain: DomainBody | Missing = MISSING
    others: dict[str, Any] = extra()


@frozen
class TrustBody:
    id: str
    others: dict[str, Any] = extra()


@frozen
class SystemBody:
    all: bool
    others: dict[str, Any] = extra()


IDENTITY = "$.auth.identity"
SCOPE = "$.auth.scope"


def methods(request: AuthRequest, signed: Callable[[], SignedRequest]) -> list[Method]:
    """`signed`: the request itself, for the method that needs it.

    Raises Invalid for a method without its object, Unauthorized for one that is not offered or for none at all.
    """
    identity = request.auth.identity
    chosen = [_method(identity, name, signed) for name in dict.fromkeys(identity.methods)]
    if not chosen:
        raise Unauthorized(UNAUTHENTICATED)
    return chosen


def _method(identity: IdentityBody, name: str, signed: Callable[[], SignedRequest]) -> Method:
    if name == "password" and identity.password is not MISSING:
        user = identity.password.user
        return ByPassword(_user(user, f"{IDENTITY}.password.user"), user.password)
    if name == "totp" and identity.totp is not MISSING:
        shown = identity.totp.user
        return ByTotp(_user(shown, f"{IDENTITY}.totp.user"), shown.passcode)
    if name == "token" and identity.token is not MISSING:
        return ByToken(identity.token.id)
    if name == "application_credential" and identity.application_credential is not MISSING:
        return _credential(identity.application_credential, f"{IDENTITY}.application_credential")
    if name == "oauth1":
        return ByOAuth(signed())
    if name in ("password", "totp", "token", "application_credential"):
        raise Invalid(f"'{name}' is a required property @ {IDENTITY}")
    raise Unauthorized(UNAUTHENTICATED)


def _credential(body: ApplicationCredentialBody, path: str) -> ByApplicationCredential:
    if body.id is not MISSING:
        return ByApplicationCredential(body.id, None, UserName(), body.secret)
    if body.name is MISSING or body.user is MISSING:
        raise Invalid(f"'id', or 'name' and 'user', are required @ {path}")
    return ByApplicationCredential(None, body.name, _user(body.user, f"{path}.user"), body.secret)


def _user(body: UserBody | PasswordUserBody | TotpUserBody, path: str) -> UserName:
    if body.id is not MISSING:
        return UserName(id=body.id)
    if body.name is MISSING or body.domain is MISSING:
        raise Invalid(f"'id', or 'name' and 'domain', are required @ {path}")
    return UserName(name=body.name, domain=_domain(body.domain, f"{path}.domain"))


def _domain(body: DomainBody, path: str) -> DomainName:
    if body.id is not MISSING:
        return DomainName(id=body.id)
    if body.name is MISSING:
        raise Invalid(f"'id' or 'name' is required @ {path}")
    return DomainName(name=body.name)


def wish(request: AuthRequest) -> Wish:
    """The requested scope; None if there is none. Raises Invalid unless it has exactly one known key."""
    scope = request.auth.scope
    if scope is MISSING or scope is None:
        return None
    if scope == "unscoped":
        return Unscoped()
    if not isinstance(scope, dict) or len(scope) != 1:
        raise Invalid(f"the scope is 'unscoped' or an object with exactly one key @ {SCOPE}")
    ((kind, value),) = scope.items()
    if kind == "unscoped":
        return Unscoped()
    path = f"{SCOPE}.{kind}"
    if kind == "project":
        return _project(structure(value, ProjectBody, path), path)
    if kind == "domain":
        return _domain(structure(value, DomainBody, path), path)
    if kind == "system":
        if not structure(value, SystemBody, path).all:
            raise Invalid(f"'all' must be true @ {path}")
        return SystemWide()
    if kind == "OS-TRUST:trust":
        return TrustName(structure(value, TrustBody, path).id)
    raise Invalid(f"unknown scope: {kind[:64]!r} @ {SCOPE}")


def _project(body: ProjectBody, path: str) -> ProjectName:
    if body.id is not MISSING:
        return ProjectName(id=body.id)
    if body.name is MISSING or body.domain is MISSING:
        raise Invalid(f"'id', or 'name' and 'domain', are required @ {path}")
    return ProjectName(name=body.name, domain=_domain(body.domain, f"{path}.domain"))
