"""Transfers on the wire, at their two paths. Reference: volume.md, section 11."""

from __future__ import annotations

from typing import Annotated, Any

from attrs import evolve, frozen
from sqlalchemy import func

from cloudctl.db import Connection, Database
from cloudctl.drivers.interfaces import IVolumeBackend
from cloudctl.rest.body import MISSING, Body, Length, LooseBool, Uuid
from cloudctl.rest.call import Call
from cloudctl.rest.resource import REQUIRED, Attribute, always
from cloudctl.rest.route import Routes
from cloudctl.rest.versions import since
from cloudctl.volume import attachments, connections, transfers
from cloudctl.volume.api import lists
from cloudctl.volume.api.fields import Label
from cloudctl.volume.api.resource import Declared, Made, created, linked
from cloudctl.volume.options import VolumeOptions
from cloudctl.volume.tables import Transfer
from cloudctl.volume.transfers import NewTransfer

SNAPSHOTS = since(3, 55)
OLD, NEW = "/os-volume-transfer", "/volume-transfers"
SUMMARY = ("id", "volume_id", "name", "links")


def visible(conn: Connection, call: Call, transfer_id: str) -> Transfer:
    return transfers.visible(conn, call.caller, transfer_id)


def create(conn: Connection, call: Call, values: dict[str, Any]) -> Made[Transfer]:
    transfer, key = transfers.create(conn, call.caller, NewTransfer(**values))
    return Made(transfer, {"auth_key": key})


def remove(conn: Connection, call: Call, transfer: Transfer) -> None:
    transfers.remove(conn, call.caller, transfer)


TRANSFERS = Declared(
    name="transfer",
    record=Transfer,
    path=OLD,
    attributes=(
        Attribute("id", Transfer.id, filter=lists.exact, sort=True),
        Attribute("volume_id", Transfer.volume_id, Uuid, post=REQUIRED, filter=lists.exact, sort=True),
        Attribute(
            "name", Transfer.name, Label | None, post=None, filter=lists.exact, sort=func.coalesce(Transfer.name, "")
        ),
        created(Transfer),
        Attribute("no_snapshots", Transfer.no_snapshots, LooseBool, post=MISSING, span=SNAPSHOTS),
        Attribute("source_project_id", Transfer.project_id, span=since(3, 57)),
        Attribute("destination_project_id", view=always(None), span=since(3, 57)),
        # An accepted transfer is gone.
        Attribute("accepted", view=always(False), span=since(3, 57)),
        linked(OLD),
    ),
    shows={"list": SUMMARY},
    visible=visible,
    not_found=transfers.not_found,
    create=create,
    remove=remove,
    says={
        "create": "Offer a volume to another project; the answer alone tells the key.",
        "delete": "Withdraw an offer.",
    },
)
NEWER = evolve(TRANSFERS, path=NEW, span=SNAPSHOTS)


@frozen
class Accept:
    auth_key: Annotated[str, Length(1, 255)]


@frozen
class Acceptance:
    routes = Routes("Transfers")

    db: Database
    backend: IVolumeBackend
    options: VolumeOptions

    @routes.post(f"{NEW}/<transfer_id>/accept", policy="volume:transfers:accept", status=202, since=SNAPSHOTS.since,
                 body=Body(Accept, key="accept"))  # fmt: skip
    @routes.post(
        f"{OLD}/<transfer_id>/accept", policy="volume:transfers:accept", status=202, body=Body(Accept, key="accept")
    )
    async def accept(self, call: Call, transfer_id: str, body: Accept) -> Any:
        """Accept a volume that another project offers, with the key of the transfer."""
        # What the former owner has connected must not stay so; nothing can be connected to it while it is offered.
        volume_id, kept = await self.db.read(_offered, transfer_id, body.auth_key)
        for host in await connections.hosts(self.backend, volume_id):
            if host not in kept:
                await connections.disconnect(self.backend, volume_id, host)
        return await self.db.run(_accept, call, transfer_id, body.auth_key, self.options)


def _offered(conn: Connection, transfer_id: str, key: str) -> tuple[str, frozenset[str]]:
    """The volume, and the hosts to which it is attached: an administrator may have set another status."""
    volume_id = transfers.offered(conn, transfer_id, key).volume_id
    return volume_id, attachments.hosts_of(conn, volume_id)


def _accept(conn: Connection, call: Call, transfer_id: str, key: str, options: VolumeOptions) -> Any:
    transfer = transfers.accept(conn, call.caller, transfer_id, key, options)
    return {"transfer": TRANSFERS.seen_in("list", conn, call, [transfer])[0]}
