"""/OS-FEDERATION: what administrators record of other identity services. Reference: Identity API v3, OS-FEDERATION."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import epoch, federation, records
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Description, Id, distinct
from cloudctl.identity.api.fields import changes as sent
from cloudctl.identity.api.resource import Declared, linked
from cloudctl.identity.federation_tables import FederationMapping, FederationProtocol, IdentityProvider, ServiceProvider
from cloudctl.identity.records import flag
from cloudctl.rest.body import MISSING, Body, Check, Items, Length, Missing, Range, given
from cloudctl.rest.call import Call
from cloudctl.rest.listing import equals
from cloudctl.rest.resource import REQUIRED, Attribute, Json
from cloudctl.rest.route import Routes

ROOT = "/OS-FEDERATION"
PROVIDER = f"{ROOT}/identity_providers/<idp_id>"
PROTOCOL = f"{PROVIDER}/protocols/<protocol_id>"
DEFAULT_PREFIX = "ss:mem:"


def web_address(text: str) -> str:
    """Raises ValueError unless it is the URL of a web service."""
    scheme, _, rest = text.partition("://")
    if scheme not in ("http", "https") or not rest:
        raise ValueError(f"{text[:64]!r} is not a URL with http or https")
    return text


Url = Annotated[str, Length(1, 2048), Check(web_address)]
RemoteId = Annotated[str, Length(1, 255)]
RemoteIds = Annotated[list[RemoteId], Items(0, 200), Check(distinct)]
Ttl = Annotated[int, Range(0)]
Version = Literal["1.0", "2.0", "3.0"]
FIRST_VERSION = "1.0"


@frozen
class Remote:
    """A condition on what the other service says, or a value that is taken from it."""

    type: Annotated[str, Length(1, 255)]
    any_one_of: list[str] | Missing = MISSING
    not_any_of: list[str] | Missing = MISSING
    blacklist: list[str] | Missing = MISSING
    whitelist: list[str] | Missing = MISSING
    regex: bool | Missing = MISSING


# A condition has at most one of them.
TESTS = ("any_one_of", "not_any_of", "blacklist", "whitelist")


@frozen
class MappingRule:
    local: Annotated[list[dict[str, Any]], Items(0, 100)]
    remote: Annotated[list[Remote], Items(1, 100)]


RemoteIdAttribute = Annotated[str, Length(0, 64)]


@frozen
class CreateProtocol:
    mapping_id: Id
    remote_id_attribute: RemoteIdAttribute | Missing | None = MISSING
    id: Id | Missing = MISSING  # as in the path, if at all


@frozen
class UpdateProtocol:
    mapping_id: Id | Missing = MISSING
    remote_id_attribute: RemoteIdAttribute | Missing | None = MISSING
    id: Id | Missing = MISSING


def changes(body: Any, id: str) -> dict[str, Any]:
    """The fields that were sent, except the id. Raises Invalid if that is not the one in the path."""
    values = sent(body)
    if values.pop("id", id) != id:
        raise Invalid("The id in the body is not the one in the path.")
    return values


def named(id: str) -> str:
    """The id that a client chose in the path. Raises NotFound for one that no record can have."""
    if not 1 <= len(id) <= 64:
        raise records.not_found("record", id)
    return id


def identified(record: type[IdentityProvider | FederationMapping | ServiceProvider], path: str) -> Sequence[Attribute]:
    """The attributes that all of them have."""
    return (
        Attribute("id", record.id, Id, post=MISSING, put=True, filter=equals, sort=True),
        Attribute("created_at", record.created_at, sort=True, view=None),
        linked("OS-FEDERATION", path),
    )


# -- identity providers


def create_provider(conn: Connection, call: Call, values: Json) -> IdentityProvider:
    named(values["id"])
    return federation.create_provider(conn, values, values.pop("remote_ids", None) or (), call.now)


def change_provider(conn: Connection, call: Call, id: str, changes: Json) -> IdentityProvider:
    remote = (changes.pop("remote_ids") or ()) if "remote_ids" in changes else None
    return federation.change_provider(conn, id, changes, remote)


def remove_provider(conn: Connection, call: Call, id: str) -> None:
    federation.remove_provider(conn, id)


def remote_ids(conn: Connection, call: Call, found: Sequence[IdentityProvider]) -> Iterable[list[str]]:
    of = federation.remote_ids_of(conn, [provider.id for provider in found])
    return [of[provider.id] for provider in found]


def provider_links(conn: Connection, call: Call, found: Sequence[IdentityProvider]) -> Iterable[dict[str, str]]:
    for provider in found:
        links = link(call, "OS-FEDERATION", "identity_providers", provider.id)
        yield {**links, "protocols": f"{links['self']}/protocols"}


IDENTITY_PROVIDERS = Declared(
    name="identity_provider",
    record=IdentityProvider,
    attributes=(
        *identified(IdentityProvider, "identity_providers")[:2],
        Attribute("domain_id", IdentityProvider.domain_id, Id | None, post=MISSING, put=Id),
        Attribute("description", IdentityProvider.description, Description | None, post=MISSING, put=True),
        Attribute("enabled", IdentityProvider.enabled, bool, post=False, put=True, filter=flag),
        Attribute("remote_ids", None, RemoteIds | None, post=MISSING, put=True, view=remote_ids),
        Attribute("authorization_ttl", IdentityProvider.authorization_ttl, Ttl | None, post=MISSING, put=True),
        Attribute("links", view=provider_links),
    ),
    create=create_provider,
    change=change_provider,
    remove=remove_provider,
    extra=False,
    named=True,
    path=f"{ROOT}/identity_providers",
    id="idp_id",
    says={
        "create": "Describe an identity provider; nobody can log in through it",
        "delete": "Delete an identity provider with its protocols",
    },
)


@frozen
class Protocols:
    db: Database

    routes = Routes("Federation protocols")

    @routes.get(f"{PROVIDER}/protocols", policy="identity:list_protocols", query=("id",))
    async def list(self, call: Call, idp_id: str) -> dict[str, Any]:
        """List the protocols of an identity provider"""
        return await self.db.scan(self._list, call, idp_id)

    def _list(self, conn: Connection, call: Call, idp_id: str) -> dict[str, Any]:
        records.get(conn, IdentityProvider, idp_id, "identity provider")
        found = page(conn, call, federation.PROTOCOLS, FederationProtocol.provider_id == idp_id)
        return paged(call, "protocols", found, protocol_view)

    @routes.put(PROTOCOL, policy="identity:create_protocol", status=201, body=Body(CreateProtocol, key="protocol"))
    async def create(self, call: Call, idp_id: str, protocol_id: str, body: CreateProtocol) -> dict[str, Any]:
        """Add a protocol with its mapping to an identity provider"""
        arguments = (idp_id, named(protocol_id), changes(body, protocol_id), call.now)
        return {"protocol": protocol_view(call, await self.db.run(federation.put_protocol, *arguments))}

    @routes.get(PROTOCOL, policy="identity:get_protocol")
    async def show(self, call: Call, idp_id: str, protocol_id: str) -> dict[str, Any]:
        """Show a protocol of an identity provider"""
        return {"protocol": protocol_view(call, await self.db.read(federation.get_protocol, idp_id, protocol_id))}

    @routes.patch(PROTOCOL, policy="identity:update_protocol", body=Body(UpdateProtocol, key="protocol"))
    async def update(self, call: Call, idp_id: str, protocol_id: str, body: UpdateProtocol) -> dict[str, Any]:
        """Change a protocol, such as its mapping"""
        arguments = (idp_id, protocol_id, changes(body, protocol_id))
        return {"protocol": protocol_view(call, await self.db.run(federation.change_protocol, *arguments))}

    @routes.delete(PROTOCOL, policy="identity:delete_protocol")
    async def delete(self, call: Call, idp_id: str, protocol_id: str) -> None:
        """Remove a protocol from an identity provider"""
        await self.db.run(federation.remove_protocol, idp_id, protocol_id)


def protocol_view(call: Call, row: FederationProtocol) -> dict[str, Any]:
    provider = link(call, "OS-FEDERATION", "identity_providers", row.provider_id)["self"]
    links = {"self": f"{provider}/protocols/{row.id}", "identity_provider": provider}
    shown = {"id": row.id, "mapping_id": row.mapping_id, "remote_id_attribute": row.remote_id_attribute}
    return {**shown, "links": links}


# -- mappings


def create_mapping(conn: Connection, call: Call, values: Json) -> FederationMapping:
    named(values["id"])
    values["schema_version"] = values["schema_version"] or FIRST_VERSION
    return federation.create(conn, FederationMapping, "mapping", with_rules(values), call.now)


def change_mapping(conn: Connection, call: Call, id: str, changes: Json) -> FederationMapping:
    if changes.get("schema_version") is None:
        # How stock clients say that it stays.
        changes.pop("schema_version", None)
    return federation.change(conn, FederationMapping, "mapping", id, with_rules(changes))


def remove_mapping(conn: Connection, call: Call, id: str) -> None:
    federation.remove(conn, FederationMapping, "mapping", id)


def with_rules(values: Json) -> Json:
    """As they are stored. Raises Invalid for rules that are too large, or contradict themselves."""
    if "rules" in values:
        rules = values["rules"]
        for one in (one for rule in rules for one in rule.remote):
            tests = [name for name in TESTS if getattr(one, name) is not MISSING]
            if len(tests) > 1:
                raise Invalid(f"The condition on {one.type[:64]!r} has {' and '.join(tests)}: one is possible.")
        values["rules"] = [{"local": rule.local, "remote": [given(one) for one in rule.remote]} for rule in rules]
        records.own_attributes({"rules": values["rules"]})
    return values


Rules = Annotated[list[MappingRule], Items(1, 200)]
MAPPINGS = Declared(
    name="mapping",
    record=FederationMapping,
    attributes=(
        *identified(FederationMapping, "mappings"),
        Attribute("rules", FederationMapping.rules, Rules, post=REQUIRED, put=True),
        Attribute("schema_version", FederationMapping.schema_version, Version | None, post=FIRST_VERSION, put=True),
    ),
    create=create_mapping,
    change=change_mapping,
    remove=remove_mapping,
    extra=False,
    named=True,
    path=f"{ROOT}/mappings",
    title="Federation mappings",
    says={"create": "Keep a mapping; nothing applies it"},
)


# -- service providers


def create_service_provider(conn: Connection, call: Call, values: Json) -> ServiceProvider:
    named(values["id"])
    epoch.changed(conn)  # tokens list them
    return federation.create(conn, ServiceProvider, "service provider", values, call.now)


def change_service_provider(conn: Connection, call: Call, id: str, changes: Json) -> ServiceProvider:
    epoch.changed(conn)
    return federation.change(conn, ServiceProvider, "service provider", id, changes)


def remove_service_provider(conn: Connection, call: Call, id: str) -> None:
    epoch.changed(conn)
    federation.remove(conn, ServiceProvider, "service provider", id)


Prefix = Annotated[str, Length(0, 255)]
SERVICE_PROVIDERS = Declared(
    name="service_provider",
    record=ServiceProvider,
    attributes=(
        *identified(ServiceProvider, "service_providers"),
        Attribute("auth_url", ServiceProvider.auth_url, Url, post=REQUIRED, put=True),
        Attribute("sp_url", ServiceProvider.sp_url, Url, post=REQUIRED, put=True),
        Attribute("description", ServiceProvider.description, Description | None, post=MISSING, put=True),
        Attribute("enabled", ServiceProvider.enabled, bool, post=False, put=True, filter=flag),
        Attribute("relay_state_prefix", ServiceProvider.relay_state_prefix, Prefix, post=DEFAULT_PREFIX, put=True),
    ),
    create=create_service_provider,
    change=change_service_provider,
    remove=remove_service_provider,
    extra=False,
    named=True,
    path=f"{ROOT}/service_providers",
    id="sp_id",
    says={"create": "Describe another cloud; no assertions are made for it"},
)
