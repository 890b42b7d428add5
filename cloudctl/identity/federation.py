"""Federation as administrators describe it: identity providers, their protocols, mappings, and service providers.

Records and the references between them, nothing else: nobody logs in through another identity provider here (the method
`mapped` is refused), so mappings are checked and stored but never applied. Reference: Identity API v3, OS-FEDERATION.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, delete, insert, select, update

from cloudctl.db import Connection, Record
from cloudctl.db.columns import new_hex_id
from cloudctl.db.unique import unique
from cloudctl.errors import Conflict, Invalid
from cloudctl.identity import cascade, domains, records
from cloudctl.identity.federation_tables import (
    FederationMapping,
    FederationProtocol,
    IdentityProvider,
    RemoteId,
)
from cloudctl.rest.listing import Listing, equals

R = TypeVar("R", bound=Record)


PROTOCOLS = Listing(
    FederationProtocol.table,
    sort_keys={"id": FederationProtocol.id, "created_at": FederationProtocol.created_at},
    order=(("created_at", "asc"),),
    filters={"id": equals(FederationProtocol.id)},
)


def create(conn: Connection, record: type[R], kind: str, values: dict[str, Any], now: datetime) -> R:
    """A mapping or a service provider. Raises Conflict (id)."""
    taken = Conflict(f"There is a {kind} with the id {values['id'][:64]} already.")
    records.insert_unique(conn, record, {**values, "created_at": now}, taken)
    return records.get(conn, record, values["id"], kind)


def change(conn: Connection, record: type[R], kind: str, id: str, changes: dict[str, Any]) -> R:
    """Raises NotFound."""
    records.get(conn, record, id, kind)
    records.update_by_id(conn, record, id, changes)
    return records.get(conn, record, id, kind)


def remove(conn: Connection, record: type[Record], kind: str, id: str) -> None:
    """Raises NotFound."""
    records.get(conn, record, id, kind)
    conn.execute(delete(record).where(record.table.c.id == id))


# -- identity providers


def remote_ids_of(conn: Connection, provider_ids: Iterable[str]) -> dict[str, list[str]]:
    """By provider, sorted."""
    found: dict[str, list[str]] = {id: [] for id in provider_ids}
    where = RemoteId.provider_id.in_(list(found))
    for row in conn.execute(select(RemoteId).where(where).order_by(RemoteId.remote_id)):
        found[row.provider_id].append(row.remote_id)
    return found


def create_provider(conn: Connection, values: dict[str, Any], remote: Iterable[str], now: datetime) -> IdentityProvider:
    """Without a domain_id it gets a domain of its own. Raises Conflict (id, remote ids), NotFound (the domain)."""
    if values.get("domain_id"):
        domains.get(conn, values["domain_id"], stays=True)
    else:
        # Not named for the provider: a domain of that name may be there, if only of an earlier provider with this id.
        id, description = new_hex_id(), f"Of the identity provider {values['id']}."
        own = {"id": id, "name": id, "description": description, "options": {}}
        values = {**values, "domain_id": domains.create(conn, own, now).id}
    row = create(conn, IdentityProvider, "identity provider", values, now)
    _set_remote_ids(conn, row.id, remote)
    return row


def change_provider(
    conn: Connection, provider_id: str, values: dict[str, Any], remote: Iterable[str] | None
) -> IdentityProvider:
    """Raises NotFound, Invalid (the domain stays), Conflict (remote ids)."""
    before = records.get(conn, IdentityProvider, provider_id, "identity provider", lock=True)
    if values.get("domain_id", before.domain_id) != before.domain_id:
        raise Invalid("The domain of an identity provider cannot be changed.")
    if remote is not None:
        _set_remote_ids(conn, provider_id, remote)
    return change(conn, IdentityProvider, "identity provider", provider_id, values)


def _set_remote_ids(conn: Connection, provider_id: str, remote: Iterable[str]) -> None:
    held, wanted = set(remote_ids_of(conn, [provider_id])[provider_id]), set(remote)
    # In order: two providers that take each other's then do not wait for each other in a circle.
    for remote_id in sorted(held ^ wanted):
        if remote_id in held:
            conn.execute(delete(RemoteId).where(RemoteId.remote_id == remote_id, RemoteId.provider_id == provider_id))
            continue
        with unique(conn, Conflict(f"The remote id {remote_id[:64]} belongs to another identity provider.")):
            conn.execute(insert(RemoteId).values(remote_id=remote_id, provider_id=provider_id))


def remove_provider(conn: Connection, provider_id: str) -> None:
    """With its protocols; its domain stays. Raises NotFound."""
    records.get(conn, IdentityProvider, provider_id, "identity provider", lock=True)
    cascade.delete_identity_providers(conn, IdentityProvider.id == provider_id)


# -- protocols


def get_protocol(conn: Connection, provider_id: str, id: str) -> FederationProtocol:
    """Raises NotFound."""
    found = conn.execute(select(FederationProtocol).where(*_protocol(provider_id, id))).first()
    if found is None:
        raise records.not_found("federation protocol", id)
    return found


def put_protocol(
    conn: Connection, provider_id: str, id: str, values: Mapping[str, Any], now: datetime
) -> FederationProtocol:
    """`values`: mapping_id, remote_id_attribute. Raises NotFound (the provider), Invalid (mapping), Conflict."""
    records.get(conn, IdentityProvider, provider_id, "identity provider", stays=True)
    _check_mapping(conn, values["mapping_id"])
    values = {**values, "provider_id": provider_id, "id": id, "created_at": now}
    taken = Conflict(f"The identity provider has a protocol {id[:64]} already.")
    records.insert_unique(conn, FederationProtocol, values, taken)
    return get_protocol(conn, provider_id, id)


def change_protocol(conn: Connection, provider_id: str, id: str, values: Mapping[str, Any]) -> FederationProtocol:
    """Raises NotFound, Invalid (no such mapping)."""
    get_protocol(conn, provider_id, id)
    if "mapping_id" in values:
        _check_mapping(conn, values["mapping_id"])
    if values:
        conn.execute(update(FederationProtocol).where(*_protocol(provider_id, id)).values(**values))
    return get_protocol(conn, provider_id, id)


def remove_protocol(conn: Connection, provider_id: str, id: str) -> None:
    """Raises NotFound."""
    get_protocol(conn, provider_id, id)
    conn.execute(delete(FederationProtocol).where(*_protocol(provider_id, id)))


def _protocol(provider_id: str, id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return FederationProtocol.provider_id == provider_id, FederationProtocol.id == id


def _check_mapping(conn: Connection, mapping_id: str) -> None:
    if conn.execute(select(FederationMapping.id).where(FederationMapping.id == mapping_id)).first() is None:
        raise Invalid(f"There is no mapping {mapping_id[:64]}.")
