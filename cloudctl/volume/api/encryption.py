"""Encryption of types on the wire. Reference: volume.md, section 7."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from attrs import frozen

from cloudctl.db import Connection, Database
from cloudctl.rest.body import MISSING, Body, Loose, Missing, Name, Range, Text, given
from cloudctl.rest.call import Call
from cloudctl.rest.formats import micros
from cloudctl.rest.route import Routes
from cloudctl.volume import encryption, types
from cloudctl.volume.encryption import NewEncryption
from cloudctl.volume.tables import TypeEncryption

ALL = "/types/<type_id>/encryption"
ONE = f"{ALL}/<encryption_id>"

Location = Literal["front-end", "back-end"]
KeySize = Annotated[int, Loose(), Range(0)]


@frozen
class CreateEncryption:
    provider: Name
    control_location: Location
    cipher: Text | None = None
    key_size: KeySize | None = None


@frozen
class UpdateEncryption:
    provider: Name | Missing = MISSING
    control_location: Location | Missing = MISSING
    cipher: Text | Missing | None = MISSING
    key_size: KeySize | Missing | None = MISSING


@frozen
class TypeEncryptions:
    routes = Routes("Volume types")

    db: Database

    @routes.get(ALL, policy="volume:types:encryption")
    async def show(self, call: Call, type_id: str) -> Any:
        """Show how volumes of a type are encrypted; nothing if they are not."""
        return await self.db.read(_shown, type_id)

    @routes.post(ALL, policy="volume:types:encryption", body=Body(CreateEncryption, key="encryption"))
    async def create(self, call: Call, type_id: str, body: CreateEncryption) -> Any:
        """Set how volumes of a type are to be encrypted; none can be made, as no backend encrypts yet."""
        made = await self.db.run(encryption.create, type_id, NewEncryption(**given(body)), call.now)
        return {"encryption": {"volume_type_id": type_id, "encryption_id": made.id, **_specs(made)}}

    @routes.get(ONE, policy="volume:types:encryption")
    async def show_one(self, call: Call, type_id: str, encryption_id: str) -> Any:
        """Show one field of the encryption of a type, by its name."""
        found = await self.db.read(_shown, type_id)
        if encryption_id not in found:
            raise encryption.not_found(type_id)
        return {encryption_id: found[encryption_id]}

    @routes.put(ONE, policy="volume:types:encryption", body=Body(UpdateEncryption, key="encryption"))
    async def update(self, call: Call, type_id: str, encryption_id: str, body: UpdateEncryption) -> Any:
        """Change how volumes of a type are to be encrypted."""
        changes = given(body)
        await self.db.run(_update, call, type_id, encryption_id, changes)
        return {"encryption": changes}

    @routes.delete(ONE, policy="volume:types:encryption", status=202)
    async def delete(self, call: Call, type_id: str, encryption_id: str) -> None:
        """Remove the encryption of a type."""
        await self.db.run(_delete, type_id, encryption_id)


def _specs(record: TypeEncryption) -> dict[str, Any]:
    return {
        "provider": record.provider,
        "control_location": record.control_location,
        "cipher": record.cipher,
        "key_size": record.key_size,
    }


def _shown(conn: Connection, type_id: str) -> dict[str, Any]:
    types.get(conn, type_id)
    found = encryption.find(conn, type_id)
    if found is None:
        return {}
    times = {"created_at": micros(found.created_at), "updated_at": micros(found.updated_at)}
    gone = {"deleted_at": None, "deleted": False}
    return {"volume_type_id": type_id, "encryption_id": found.id, **_specs(found), **times, **gone}


def _update(conn: Connection, call: Call, type_id: str, encryption_id: str, changes: dict[str, Any]) -> None:
    encryption.change(conn, encryption.get(conn, type_id, encryption_id), changes, call.now)


def _delete(conn: Connection, type_id: str, encryption_id: str) -> None:
    encryption.remove(conn, encryption.get(conn, type_id, encryption_id))
