"""Who asks: what a token stands for, as every service sees it."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Protocol

from attrs import frozen


@frozen
class AccessRule:
    """One call that a restricted application credential allows. Reference: identity.md, section 7."""

    id: str
    service: str
    method: str
    path: str


# It is part of the key of cached answers, and many requests share one.
@frozen(cache_hash=True)
class Identity:
    """The user, the scope and the roles (implied ones included) of a valid token. Times are seconds since the epoch."""

    user_id: str = ""
    user_name: str = ""
    user_domain_id: str = ""
    project_id: str = ""
    project_name: str = ""
    project_domain_id: str = ""
    domain_id: str = ""
    system: bool = False
    roles: frozenset[str] = frozenset()
    audit_id: str = ""
    expires_at: float = 0.0
    application_credential_id: str = ""
    trust_id: str = ""
    oauth_access_token_id: str = ""
    # It stands for one request that was signed with an EC2 secret.
    signed: bool = False
    # A restricted application credential manages no credentials.
    restricted: bool = False
    access_rules: tuple[AccessRule, ...] | None = None

    @property
    def delegated(self) -> bool:
        """Whether somebody acts for the user, rather than the user by his own login."""
        return bool(self.application_credential_id or self.trust_id or self.oauth_access_token_id or self.signed)


ANONYMOUS = Identity()


class Signatures(Protocol):
    """What the pipeline needs from an API whose requests are signed."""

    def identity(self, request: Any, now: datetime) -> Awaitable[Identity]:
        """Who signed the request. Raises Unauthorized if nobody did, and Forbidden or Invalid for a bad signature."""
        ...


class Authenticator(Protocol):
    """What the pipeline needs from the identity service."""

    def authenticate(self, token: str) -> Awaitable[Identity]:
        """The identity behind a token. Raises Unauthorized."""
        ...

    def authenticate_again(self, token: str) -> Awaitable[Identity]:
        """The identity behind a token that began a long task, even if it has expired since. Raises Unauthorized."""
        ...
