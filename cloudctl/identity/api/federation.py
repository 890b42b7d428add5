"""/OS-FEDERATION: what administrators say of other identity services. Reference: Identity API v3, OS-FEDERATION."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.errors import Invalid
from cloudctl.identity import federation, records
from cloudctl.identity.api.collection import link, page, paged
from cloudctl.identity.api.fields import Description, Id
from cloudctl.identity.api.fields import changes as sent
from cloudctl.identity.federation_tables import FederationMapping, FederationProtocol, IdentityProvider, ServiceProvider
from cloudctl.rest.body import MISSING, Body, Check, Items, Length, Missing, Range, given
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

ROOT = "/OS-FEDERATION"
PROVIDER = f"{ROOT}/identity_providers/<idp_id>"
PROTOCOL = f"{PROVIDER}/protocols/<protocol_id>"
MAPPING = f"{ROOT}/mappings/<mapping_id>"
SERVICE_PROVIDER = f"{ROOT}/service_providers/<sp_id>"
DEFAULT_PREFIX = "ss:mem:"


def web_address(text: str) -> str:
    """Raises ValueError unless it is the URL of a web service."""
    scheme, _, rest = text.partition("://")
    if scheme not in ("http", "https") or not rest:
        raise ValueError(f"{text[:64]!r} is not a URL with http or https")
    return text


Url = Annotated[str, Length(1, 2048), Check(web_address)]
RemoteId = Annotated[str, Length(1, 255)]
RemoteIds = Annotated[list[RemoteId], Items(0, 200)]
Ttl = Annotated[int, Range(0)]
Version = Literal["1.0", "2.0", "3.0"]


@frozen
class Remote:
    """A condition on what the other service says, or a value that is taken from it."""

    type: Annotated[str, Length(1, 255)]
    any_one_of: list[str] | Missing = MISSING
    not_any_of: list[str] | Missing = MISSING
    blacklist: list[str] | Missing = MISSING
    whitelist: list[str] | Missing = MISSING
    regex: bool | Missing = MISSING


@frozen
class MappingRule:
    local: Annotated[list[dict[str, Any]], Items(1, 100)]
    remote: Annotated[list[Remote], Items(1, 100)]


@frozen
class PutMapping:
    rules: Annotated[list[MappingRule], Items(1, 200)]
    schema_version: Version = "1.0"
    id: Id | Missing = MISSING  # as in the path, if at all


@frozen
class UpdateMapping:
    rules: Annotated[list[MappingRule], Items(1, 200)] | Missing = MISSING
    schema_version: Version | Missing = MISSING
    id: Id | Missing = MISSING  # as in the path, if at all


@frozen
class PutProvider:
    domain_id: Id | Missing | None = MISSING
    description: Description | Missing | None = MISSING
    enabled: bool = False
    remote_ids: RemoteIds | Missing | None = MISSING
    authorization_ttl: Ttl | Missing | None = MISSING
    id: Id | Missing = MISSING  # as in the path, if at all


@frozen
class UpdateProvider:
    domain_id: Id | Missing = MISSING
    description: Description | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    remote_ids: RemoteIds | Missing | None = MISSING
    authorization_ttl: Ttl | Missing | None = MISSING
    id: Id | Missing = MISSING  # as in the path, if at all


@frozen
class ProtocolBody:
    mapping_id: Id
    id: Id | Missing = MISSING  # as in the path, if at all


@frozen
class PutServiceProvider:
    auth_url: Url
    sp_url: Url
    description: Description | Missing | None = MISSING
    enabled: bool = False
    relay_state_prefix: Annotated[str, Length(0, 255)] = DEFAULT_PREFIX
    id: Id | Missing = MISSING  # as in the path, if at all


@frozen
class UpdateServiceProvider:
    auth_url: Url | Missing = MISSING
    sp_url: Url | Missing = MISSING
    description: Description | Missing | None = MISSING
    enabled: bool | Missing = MISSING
    relay_state_prefix: Annotated[str, Length(0, 255)] | Missing = MISSING
    id: Id | Missing = MISSING  # as in the path, if at all


def changes(body: Any, id: str) -> dict[str, Any]:
    """The fields that were sent, but for the id. Raises Invalid if that is not the one in the path."""
    values = sent(body)
    if values.pop("id", id) != id:
        raise Invalid("The id in the body is not the one in the path.")
    return values


def named(id: str) -> str:
    """The id that a client chose in the path. Raises NotFound for one that no record can have."""
    if not 1 <= len(id) <= 64:
        raise records.not_found("record", id)
    return id


@frozen
class IdentityProviders:
    db: Database

    routes = Routes("Identity providers")

    @routes.get(f"{ROOT}/identity_providers", policy="identity:list_identity_providers", query=("id", "enabled"))
    async def list(self, call: Call) -> dict[str, Any]:
        """List identity providers"""
        return await self.db.scan(self._list, call)

    def _list(self, conn: Connection, call: Call) -> dict[str, Any]:
        found = page(conn, call, federation.PROVIDERS)
        remote = federation.remote_ids_of(conn, [row.id for row in found.rows])
        return paged(call, "identity_providers", found, lambda call, row: provider_view(call, row, remote[row.id]))

    @routes.put(
        PROVIDER,
        policy="identity:create_identity_provider",
        status=201,
        body=Body(PutProvider, key="identity_provider"),
    )
    async def create(self, call: Call, idp_id: str, body: PutProvider) -> dict[str, Any]:
        """Describe an identity provider; nobody can log in through it"""
        return {"identity_provider": await self.db.run(self._create, call, named(idp_id), changes(body, idp_id))}

    def _create(self, conn: Connection, call: Call, idp_id: str, values: dict[str, Any]) -> dict[str, Any]:
        remote = values.pop("remote_ids", None) or ()
        return self._shown(conn, call, federation.create_provider(conn, {"id": idp_id, **values}, remote, call.now))

    @routes.get(PROVIDER, policy="identity:get_identity_provider")
    async def show(self, call: Call, idp_id: str) -> dict[str, Any]:
        """Show an identity provider"""
        return {"identity_provider": await self.db.read(self._show, call, idp_id)}

    def _show(self, conn: Connection, call: Call, idp_id: str) -> dict[str, Any]:
        return self._shown(conn, call, records.get(conn, IdentityProvider, idp_id, "identity provider"))

    def _shown(self, conn: Connection, call: Call, row: IdentityProvider) -> dict[str, Any]:
        return provider_view(call, row, federation.remote_ids_of(conn, [row.id])[row.id])

    @routes.patch(
        PROVIDER, policy="identity:update_identity_provider", body=Body(UpdateProvider, key="identity_provider")
    )
    async def update(self, call: Call, idp_id: str, body: UpdateProvider) -> dict[str, Any]:
        """Change an identity provider"""
        return {"identity_provider": await self.db.run(self._update, call, idp_id, changes(body, idp_id))}

    def _update(self, conn: Connection, call: Call, idp_id: str, values: dict[str, Any]) -> dict[str, Any]:
        remote = (values.pop("remote_ids") or ()) if "remote_ids" in values else None
        return self._shown(conn, call, federation.change_provider(conn, idp_id, values, remote))

    @routes.delete(PROVIDER, policy="identity:delete_identity_provider")
    async def delete(self, call: Call, idp_id: str) -> None:
        """Delete an identity provider with its protocols"""
        await self.db.run(federation.remove_provider, idp_id)


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

    @routes.put(PROTOCOL, policy="identity:create_protocol", status=201, body=Body(ProtocolBody, key="protocol"))
    async def create(self, call: Call, idp_id: str, protocol_id: str, body: ProtocolBody) -> dict[str, Any]:
        """Give an identity provider a protocol, and that a mapping"""
        chosen = changes(body, protocol_id)["mapping_id"]
        arguments = (idp_id, named(protocol_id), chosen, call.now)
        return {"protocol": protocol_view(call, await self.db.run(federation.put_protocol, *arguments))}

    @routes.get(PROTOCOL, policy="identity:get_protocol")
    async def show(self, call: Call, idp_id: str, protocol_id: str) -> dict[str, Any]:
        """Show a protocol of an identity provider"""
        return {"protocol": protocol_view(call, await self.db.read(federation.get_protocol, idp_id, protocol_id))}

    @routes.patch(PROTOCOL, policy="identity:update_protocol", body=Body(ProtocolBody, key="protocol"))
    async def update(self, call: Call, idp_id: str, protocol_id: str, body: ProtocolBody) -> dict[str, Any]:
        """Give a protocol another mapping"""
        arguments = (idp_id, protocol_id, changes(body, protocol_id)["mapping_id"])
        return {"protocol": protocol_view(call, await self.db.run(federation.change_protocol, *arguments))}

    @routes.delete(PROTOCOL, policy="identity:delete_protocol")
    async def delete(self, call: Call, idp_id: str, protocol_id: str) -> None:
        """Take a protocol from an identity provider"""
        await self.db.run(federation.remove_protocol, idp_id, protocol_id)


@frozen
class Mappings:
    db: Database

    routes = Routes("Federation mappings")

    @routes.get(f"{ROOT}/mappings", policy="identity:list_mappings", query=("id",))
    async def list(self, call: Call) -> dict[str, Any]:
        """List mappings"""
        return paged(call, "mappings", await self.db.scan(page, call, federation.MAPPINGS), mapping_view)

    @routes.put(MAPPING, policy="identity:create_mapping", status=201, body=Body(PutMapping, key="mapping"))
    async def create(self, call: Call, mapping_id: str, body: PutMapping) -> dict[str, Any]:
        """Keep a mapping; nothing applies it"""
        values = {"id": named(mapping_id), **mapping_values(body, mapping_id)}
        row = await self.db.run(federation.create, FederationMapping, "mapping", values, call.now)
        return {"mapping": mapping_view(call, row)}

    @routes.get(MAPPING, policy="identity:get_mapping")
    async def show(self, call: Call, mapping_id: str) -> dict[str, Any]:
        """Show a mapping"""
        return {
            "mapping": mapping_view(call, await self.db.read(records.get, FederationMapping, mapping_id, "mapping"))
        }

    @routes.patch(MAPPING, policy="identity:update_mapping", body=Body(UpdateMapping, key="mapping"))
    async def update(self, call: Call, mapping_id: str, body: UpdateMapping) -> dict[str, Any]:
        """Change a mapping"""
        values = mapping_values(body, mapping_id)
        row = await self.db.run(federation.change, FederationMapping, "mapping", mapping_id, values)
        return {"mapping": mapping_view(call, row)}

    @routes.delete(MAPPING, policy="identity:delete_mapping")
    async def delete(self, call: Call, mapping_id: str) -> None:
        """Delete a mapping"""
        await self.db.run(federation.remove, FederationMapping, "mapping", mapping_id)


@frozen
class ServiceProviders:
    db: Database

    routes = Routes("Service providers")

    @routes.get(f"{ROOT}/service_providers", policy="identity:list_service_providers", query=("id", "enabled"))
    async def list(self, call: Call) -> dict[str, Any]:
        """List service providers"""
        found = await self.db.scan(page, call, federation.SERVICE_PROVIDERS)
        return paged(call, "service_providers", found, service_provider_view)

    @routes.put(
        SERVICE_PROVIDER,
        policy="identity:create_service_provider",
        status=201,
        body=Body(PutServiceProvider, key="service_provider"),
    )
    async def create(self, call: Call, sp_id: str, body: PutServiceProvider) -> dict[str, Any]:
        """Describe another cloud; no assertions are made for it"""
        values = {"id": named(sp_id), **changes(body, sp_id)}
        row = await self.db.run(federation.create, ServiceProvider, "service provider", values, call.now)
        return {"service_provider": service_provider_view(call, row)}

    @routes.get(SERVICE_PROVIDER, policy="identity:get_service_provider")
    async def show(self, call: Call, sp_id: str) -> dict[str, Any]:
        """Show a service provider"""
        row = await self.db.read(records.get, ServiceProvider, sp_id, "service provider")
        return {"service_provider": service_provider_view(call, row)}

    @routes.patch(
        SERVICE_PROVIDER,
        policy="identity:update_service_provider",
        body=Body(UpdateServiceProvider, key="service_provider"),
    )
    async def update(self, call: Call, sp_id: str, body: UpdateServiceProvider) -> dict[str, Any]:
        """Change a service provider"""
        values = changes(body, sp_id)
        row = await self.db.run(federation.change, ServiceProvider, "service provider", sp_id, values)
        return {"service_provider": service_provider_view(call, row)}

    @routes.delete(SERVICE_PROVIDER, policy="identity:delete_service_provider")
    async def delete(self, call: Call, sp_id: str) -> None:
        """Delete a service provider"""
        await self.db.run(federation.remove, ServiceProvider, "service provider", sp_id)


def mapping_values(body: PutMapping | UpdateMapping, id: str) -> dict[str, Any]:
    """As it is stored. Raises Invalid for rules that are too large."""
    values = changes(body, id)
    if body.rules is not MISSING:
        values["rules"] = [{"local": rule.local, "remote": [given(one) for one in rule.remote]} for rule in body.rules]
        records.own_attributes({"rules": values["rules"]})
    return values


def provider_view(call: Call, row: IdentityProvider, remote: list[str]) -> dict[str, Any]:
    links = link(call, "OS-FEDERATION", "identity_providers", row.id)
    return {
        "id": row.id,
        "domain_id": row.domain_id,
        "description": row.description,
        "enabled": row.enabled,
        "remote_ids": remote,
        "authorization_ttl": row.authorization_ttl,
        "links": {**links, "protocols": f"{links['self']}/protocols"},
    }


def protocol_view(call: Call, row: FederationProtocol) -> dict[str, Any]:
    provider = link(call, "OS-FEDERATION", "identity_providers", row.provider_id)["self"]
    links = {"self": f"{provider}/protocols/{row.id}", "identity_provider": provider}
    return {"id": row.id, "mapping_id": row.mapping_id, "links": links}


def mapping_view(call: Call, row: FederationMapping) -> dict[str, Any]:
    shown = {"id": row.id, "rules": row.rules, "schema_version": row.schema_version}
    return {**shown, "links": link(call, "OS-FEDERATION", "mappings", row.id)}


def service_provider_view(call: Call, row: ServiceProvider) -> dict[str, Any]:
    names = ("id", "auth_url", "sp_url", "description", "enabled", "relay_state_prefix")
    return {
        **{name: getattr(row, name) for name in names},
        "links": link(call, "OS-FEDERATION", "service_providers", row.id),
    }
