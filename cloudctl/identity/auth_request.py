"""What a client sends to get a token: how it proves who it is, and the scope that it wants.

Reference: identity.md, «POST /auth/tokens».
"""

from __future__ import annotations

from attrs import frozen

from cloudctl.identity.oauth_signatures import SignedRequest
from cloudctl.identity.payload import Token


@frozen
class DomainName:
    """By id, or by name where there is no id."""

    id: str | None = None
    name: str | None = None


@frozen
class UserName:
    id: str | None = None
    name: str | None = None
    domain: DomainName = DomainName()


@frozen
class ProjectName:
    id: str | None = None
    name: str | None = None
    domain: DomainName = DomainName()


@frozen
class ByPassword:
    user: UserName
    password: str


@frozen
class ByTotp:
    user: UserName
    passcode: str


@frozen
class ByApplicationCredential:
    """By id, or by its name and its user."""

    id: str | None
    name: str | None
    user: UserName
    secret: str


@frozen
class ByToken:
    id: str


@frozen
class ByOAuth:
    """The request itself is signed with the secret of an access token."""

    request: SignedRequest


Method = ByPassword | ByTotp | ByApplicationCredential | ByToken | ByOAuth


@frozen
class Unscoped:
    """Explicitly requested: the default project does not apply."""


@frozen
class SystemWide:
    """The whole cloud."""


@frozen
class TrustName:
    id: str


Wish = ProjectName | DomainName | SystemWide | TrustName | Unscoped | None


# -- what was proved


@frozen
class Proof:
    """One method that succeeded.

    `had_failures`: logins of the user failed before; they are forgotten once a token is issued. `stored_hash` must
    still be the one in the database by then. `credential_id`, `trust_id` and `access_token_id` bind the token to an
    application credential, a trust or an OAuth access token. `token` is the content of a token string, not validated.
    """

    method: str
    user_id: str
    stored_hash: str = ""
    credential_id: str = ""
    trust_id: str = ""
    access_token_id: str = ""
    token: Token | None = None
    had_failures: bool = False
