"""What a client says to get a token: how it proves who it is, and the scope that it wants.

Reference: identity.md, «POST /auth/tokens».
"""

from __future__ import annotations

from attrs import frozen

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
class ByApplicationCredential:
    """By id, or by its name and its user."""

    id: str | None
    name: str | None
    user: UserName
    secret: str


@frozen
class ByToken:
    id: str


Method = ByPassword | ByApplicationCredential | ByToken


@frozen
class Unscoped:
    """Asked for in so many words: the default project does not apply."""


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

    `stored_hash` must still be the one in the database when the token is issued. `credential_id` and `trust_id` bind
    the token to an application credential or a trust. `token` is the text's own content, not yet validated.
    """

    method: str
    user_id: str
    stored_hash: str = ""
    credential_id: str = ""
    trust_id: str = ""
    token: Token | None = None
