"""What users are called by those who vouch for them elsewhere. Reference: identity.md, section 3.

Records only, like the rest of federation: see `federation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen
from sqlalchemy import delete, insert, select

from cloudctl.db import Connection
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid
from cloudctl.identity.federation_tables import FederatedUser, FederationProtocol, IdentityProvider
from cloudctl.identity.tables import User
from cloudctl.rest.listing import Condition

# What lists of users are filtered by.
COLUMNS = {
    "idp_id": FederatedUser.provider_id,
    "protocol_id": FederatedUser.protocol_id,
    "unique_id": FederatedUser.unique_id,
}


@frozen(order=True)
class Called:
    """A name for a user, given by a provider that is asked in one protocol."""

    provider_id: str
    protocol_id: str
    unique_id: str


def of_users(conn: Connection, user_ids: Iterable[str]) -> dict[str, list[Called]]:
    """By user, sorted."""
    found: dict[str, list[Called]] = {id: [] for id in user_ids}
    if found:
        for row in conn.execute(select(FederatedUser).where(FederatedUser.user_id.in_(list(found)))):
            found[row.user_id].append(Called(row.provider_id, row.protocol_id, row.unique_id))
    return {id: sorted(called) for id, called in found.items()}


def are_called(asked: Mapping[str, str]) -> Condition:
    """That users have a name with all of this: keys of COLUMNS → values."""
    return User.id.in_(select(FederatedUser.user_id).where(*(COLUMNS[name] == value for name, value in asked.items())))


def put(conn: Connection, user_id: str, wanted: Iterable[Called]) -> None:
    """In place of all that the user was called. Raises Invalid (provider, protocol), Conflict (another user's)."""
    held, new = set(of_users(conn, [user_id])[user_id]), set(wanted)
    _check_protocols(conn, new)
    # In order: two users who take each other's then do not wait for each other in a circle.
    for called in sorted(held ^ new):
        row = FederatedUser.table.c
        if called in held:
            this = (row.provider_id == called.provider_id, row.protocol_id == called.protocol_id)
            conn.execute(delete(FederatedUser).where(*this, row.unique_id == called.unique_id))
            continue
        values = {"user_id": user_id, "provider_id": called.provider_id, "protocol_id": called.protocol_id}
        with unique(conn, Conflict(f"Another user is {called.unique_id[:64]!r} to the identity provider already.")):
            conn.execute(insert(FederatedUser).values(**values, unique_id=called.unique_id))


def _check_protocols(conn: Connection, wanted: Iterable[Called]) -> None:
    """They stay until this transaction ends."""
    providers = sorted({called.provider_id for called in wanted})
    if not providers:
        return
    query = (
        select(FederationProtocol.provider_id, FederationProtocol.id)
        .where(FederationProtocol.provider_id.in_(providers))
        .order_by(FederationProtocol.provider_id, FederationProtocol.id)
        .with_for_update(read=True)
    )
    there = {(provider_id, id) for provider_id, id in conn.execute(query)}
    for called in sorted(wanted):
        if (called.provider_id, called.protocol_id) not in there:
            known = select(IdentityProvider.id).where(IdentityProvider.id == called.provider_id)
            if conn.execute(known).first() is None:
                raise Invalid(f"There is no identity provider {called.provider_id[:64]}.")
            raise Invalid(f"The identity provider has no protocol {called.protocol_id[:64]}.")
