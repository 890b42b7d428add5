"""What a delegated token may do with what belongs to its user. Reference: identity.md, sections 7, 8 and 11.

A user who gives roles away does not give himself away. A token that was made from an application credential, a trust or
an OAuth access token, or for a request that was signed with an EC2 secret, is not the owner of the user's credentials,
second factors and other delegations: it sees only what it has made. What its roles allow for anybody's, it may.
"""

from __future__ import annotations

from cloudctl.errors import Forbidden
from cloudctl.rest.identity import Identity


def check_not_passed_on(identity: Identity) -> None:
    """Only a user's own login and application credentials deal with application credentials. Raises Forbidden."""
    if identity.delegated and not (identity.application_credential_id and not identity.signed):
        raise Forbidden("A token of a trust, an OAuth access token or an EC2 credential cannot be used for this.")


def check_manages(identity: Identity) -> None:
    """Of the delegated tokens, only that of an unrestricted credential manages others. Raises Forbidden."""
    check_not_passed_on(identity)
    if identity.restricted:
        raise Forbidden("A token of a restricted application credential cannot manage credentials.")


def check_own_login(identity: Identity) -> None:
    """Whoever has a part of the user's rights makes no way to get more of them. Raises Forbidden."""
    if identity.delegated:
        raise Forbidden("A delegated token cannot be used for this: it takes a login of the user's own.")


def is_own_login(identity: Identity, user_id: str) -> bool:
    """Whether it is the user, who alone is told secrets."""
    return identity.user_id == user_id and not identity.delegated
