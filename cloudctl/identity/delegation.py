"""What a delegated token may do with what belongs to its user. Reference: identity.md, sections 7, 8 and 11.

Delegating roles does not delegate the user's identity. A token that was made from an application credential, a trust or
an OAuth access token, or for a request that was signed with an EC2 secret, does not own the user's credentials, second
factors and other delegations: it sees only what it has made. It may still do what its roles allow for any user.
"""

from __future__ import annotations

from cloudctl.errors import Forbidden
from cloudctl.rest.identity import Identity


def check_not_passed_on(identity: Identity) -> None:
    """Only a user's own login or application credential may deal with application credentials. Raises Forbidden."""
    if identity.delegated and not (identity.application_credential_id and not identity.signed):
        raise Forbidden("A token of a trust, an OAuth access token or an EC2 credential cannot be used for this.")


def check_manages(identity: Identity) -> None:
    """Of the delegated tokens, only an unrestricted credential's may manage credentials. Raises Forbidden."""
    check_not_passed_on(identity)
    if identity.restricted:
        raise Forbidden("A token of a restricted application credential cannot manage credentials.")


def check_own_login(identity: Identity) -> None:
    """The holder of some of the user's rights must not create a way to get more of them. Raises Forbidden."""
    if identity.delegated:
        raise Forbidden("A delegated token cannot be used for this: it takes a login of the user's own.")


def is_own_login(identity: Identity, user_id: str) -> bool:
    """Whether it is the user's own login, the only one that is shown secrets."""
    return identity.user_id == user_id and not identity.delegated
