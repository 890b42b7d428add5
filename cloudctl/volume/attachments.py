"""Attachments: who uses a volume, from a reservation to its end. Reference: volume-states.md, sections 3 and 7.

Attachments made by the compute service are `managed`: that service ends them, not a user of this API. Times are naive
UTC.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Select, bindparam, case, delete, insert, literal, or_, select, update

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.db.columns import new_id
from cloudctl.errors import Conflict, NotFound
from cloudctl.placement import allocations
from cloudctl.rest.caller import Caller
from cloudctl.tasks import Transient
from cloudctl.volume import kinds, states, volumes
from cloudctl.volume.owned import ATTACHMENTS
from cloudctl.volume.tables import Attachment, Volume

RESERVED, ATTACHING, ATTACHED, DETACHING = "reserved", "attaching", "attached", "detaching"
ERROR_ATTACHING, ERROR_DETACHING = "error_attaching", "error_detaching"
FAILING = {ERROR_ATTACHING: ATTACHING, ERROR_DETACHING: DETACHING}

# A volume takes the strongest status of its attachments.
STRENGTH = (ATTACHED, ATTACHING, DETACHING, RESERVED)

# A guest still has a volume while it is being detached.
SHOWN = (ATTACHED, DETACHING)


class Busy(Conflict, Transient):
    """No host, or not this one, can be connected to the volume for now: a client or a task tries again."""


find, get, visible, not_found = ATTACHMENTS.find, ATTACHMENTS.get, ATTACHMENTS.visible, ATTACHMENTS.not_found


# -- queries


# Built once, as all below: building a statement costs more than running it.
# A user of this API may name any server without proof, so a server's attachments are only those that compute made.
_of_servers, _of_volumes = (
    select(Attachment)
    .where(column.in_(bindparam("wanted", expanding=True)), *whose)
    .order_by(Attachment.created_at, Attachment.id)
    for column, whose in ((Attachment.server_id, (Attachment.managed.is_(True),)), (Attachment.volume_id, ()))
)
_places = select(Attachment.volume_id, Attachment.host).where(
    Attachment.status == ATTACHED, Attachment.host.is_not(None)
)
_statuses = select(Attachment.status).where(Attachment.volume_id == bindparam("volume")).distinct()
# A volume being moved stays in use when its server detaches it: nobody else may have it before it has arrived.
_follows = Volume.status.in_(bindparam("following", expanding=True)) & or_(
    states.not_migrating, literal(states.AVAILABLE) != bindparam("strongest")
)
_followed = (
    update(Volume)
    .where(Volume.id == bindparam("followed"))
    .values(status=case((_follows, bindparam("strongest")), else_=Volume.status))
)


def of_server(conn: Connection, server_ids: Iterable[str]) -> dict[str, list[Attachment]]:
    """Server id → its attachments, the oldest first; servers without any are left out."""
    return _grouped(conn, _of_servers, server_ids, "server_id")


def of_volume(conn: Connection, volume_ids: Iterable[str]) -> dict[str, list[Attachment]]:
    """Volume id → its attachments, the oldest first; volumes without any are left out."""
    return _grouped(conn, _of_volumes, volume_ids, "volume_id")


def places(conn: Connection) -> dict[str, tuple[str, ...]]:
    """Volume id → the hosts it is attached to, by name; volumes attached to none are left out."""
    found: dict[str, tuple[str, ...]] = {}
    for id, host in conn.execute(_places):
        if host is not None:
            # Nearly all volumes have one host, and there may be very many volumes.
            found[id] = tuple(sorted({*found[id], host})) if id in found else (host,)
    return found


def hosts_of(conn: Connection, volume_id: str) -> frozenset[str]:
    """The hosts to which this volume is attached."""
    mine = conn.execute(_places.where(Attachment.volume_id == volume_id))
    return frozenset(host for _, host in mine if host is not None)


def _grouped(conn: Connection, which: Select[Attachment], ids: Iterable[str], by: str) -> dict[str, list[Attachment]]:
    found: dict[str, list[Attachment]] = defaultdict(list)
    for row in conn.execute(which, {"wanted": list(ids)}):
        found[getattr(row, by)].append(row)
    return dict(found)


# -- actions


def reserve(
    conn: Connection,
    volume_id: str,
    server_id: str | None,
    *,
    project_id: str | None,
    now: datetime,
    device: str | None = None,
    mode: str | None = "rw",
    managed: bool = True,
    attachment_id: str | None = None,
) -> str:
    """Reserve the volume for a server: `reserved`, or still `in-use` if others have it. Returns the attachment's id.

    `project_id`: the caller's, who sees no volume of another project; None sees all. `mode`: unless the volume is
    read-only. Repeating the call with the same `attachment_id` changes nothing. Raises NotFound, Conflict.
    """
    if attachment_id is not None and find(conn, attachment_id) is not None:
        return attachment_id
    volume = volumes.get(conn, volume_id, lock=True)
    if project_id not in (None, volume.project_id):
        raise volumes.not_found(volume_id)
    others = of_volume(conn, [volume_id]).get(volume_id, [])
    _demand_reservable(volume, server_id, others)
    mode = volumes.forced_mode(volume) or mode
    made = _insert(
        conn, volume, server_id, id=attachment_id, status=RESERVED, device=device, mode=mode, managed=managed, at=now
    )
    follow(conn, volume_id, now)
    return made


def check_server(conn: Connection, caller: Caller, server_id: str | None) -> None:
    """Check that a user of this API may name this server for a volume. Raises NotFound for one of another project.

    An id that no server of this cloud has may be a machine elsewhere; it is only a label, by which nothing is found.
    """
    server = None if server_id is None else allocations.find_consumer(conn, server_id)
    if server is not None and server.project_id != caller.project_id and not caller.may("volume:all_projects"):
        raise NotFound(f"Instance {server_id} could not be found.")


def _insert(
    conn: Connection, volume: Volume, server_id: str | None, *, at: datetime, id: str | None = None, **values: Any
) -> str:
    made = id or new_id()
    row = {"id": made, "volume_id": volume.id, "project_id": volume.project_id, "server_id": server_id}
    conn.execute(insert(Attachment).values(connection={}, created_at=at, **row, **values))
    return made


def _demand_reservable(volume: Volume, server_id: str | None, others: list[Attachment]) -> None:
    allowed = {states.AVAILABLE}
    if not others:
        allowed.add(states.DOWNLOADING)
    if volume.multiattach:
        allowed.add(states.IN_USE)
    if server_id is not None and any(other.server_id == server_id for other in others):
        # A live migration attaches the volume a second time to the server that has it.
        allowed |= {states.IN_USE, states.RESERVED}
    if states.is_migrating(volume):
        # Only the guest that has it is led to where it goes: another would keep what is left behind.
        allowed.discard(states.IN_USE)
    if volume.status not in allowed:
        raise Conflict(
            f"Invalid volume: Volume {volume.id} status must be available or downloading to reserve, but the current "
            f"status is {volume.status}."
        )


def connect(conn: Connection, attachment_id: str, host: str, now: datetime, device: str | None = None) -> None:
    """Set `attaching`, before the backend is asked to connect `host`, so that the connection can be undone.

    One that failed may be tried again with the same host, if the volume is still free. Raises NotFound, Conflict;
    Busy, which a step may pass on, while another attachment leaves this host, or an image is written to the volume.
    """
    volume, attachment = _locked(conn, attachment_id)
    if volume.status == states.DOWNLOADING:
        # It may be reserved by now. A host would see half of the image, and keep the driver from writing the rest.
        raise Busy(f"Resource conflict: Volume {volume.id} is in status {volume.status}.")
    if attachment.status == ERROR_ATTACHING and attachment.host == host:
        _demand_still_free(conn, attachment)
    elif attachment.status not in (RESERVED, ATTACHING) or attachment.host not in (None, host):
        raise Conflict(f"Resource conflict: attachment {attachment_id} is {attachment.status} already.")
    _demand_host(conn, attachment.volume_id, host)
    _set(conn, attachment_id, status=ATTACHING, host=host, device=device or attachment.device)
    follow(conn, attachment.volume_id, now)


def _demand_still_free(conn: Connection, attachment: Attachment) -> None:
    """Check that an attachment that failed, and no longer holds the volume, may have it again. Raises Conflict."""
    present = of_volume(conn, [attachment.volume_id]).get(attachment.volume_id, [])
    others = [other for other in present if other.id != attachment.id]
    _demand_reservable(volumes.get(conn, attachment.volume_id), attachment.server_id, others)


def _demand_host(conn: Connection, volume_id: str, host: str) -> None:
    leaving = (
        Attachment.volume_id == volume_id,
        Attachment.host == host,
        Attachment.status == DETACHING,
    )
    if conn.execute(select(Attachment.id).where(*leaving).limit(1)).first() is not None:
        raise Busy(f"Resource conflict: volume {volume_id} is being disconnected from {host}.")


def connected(conn: Connection, attachment_id: str, connection: Mapping[str, Any]) -> None:
    """Store the backend's answer. An attachment that is gone by now is not an error."""
    _set(conn, attachment_id, connection=dict(connection))


def complete(
    conn: Connection,
    attachment_id: str,
    connection: Mapping[str, Any] | None,
    host: str | None,
    now: datetime,
    device: str | None = None,
) -> None:
    """`attached`, and the volume `in-use`; `detaching` stays. `connection`: the backend's answer; None: the stored one.

    Repeating it changes nothing. Raises NotFound.
    """
    _, attachment = _locked(conn, attachment_id)
    values: dict[str, Any] = {"host": host or attachment.host, "device": device or attachment.device}
    if connection is not None:
        values["connection"] = dict(connection)
    # As long as it is being ended, nobody may connect its host anew.
    if attachment.status not in (ATTACHED, DETACHING):
        values |= {"status": ATTACHED, "attached_at": now}
    _set(conn, attachment_id, **values)
    follow(conn, attachment.volume_id, now)


def fail(conn: Connection, attachment_id: str, now: datetime, status: str = ERROR_ATTACHING) -> None:
    """Set `error_…`: the attachment no longer holds the volume. One that is gone, or does something else, stays so."""
    _turn(conn, attachment_id, FAILING[status], status, now)


def begin_detach(conn: Connection, attachment_id: str, now: datetime) -> None:
    """Set `detaching`, if it is attached and its volume in-use. Raises Conflict, NotFound."""
    volume, attachment = _locked(conn, attachment_id)
    usable = volume.status in (states.IN_USE, states.DETACHING) and not states.is_migrating(volume)
    if attachment.status != ATTACHED or not usable:
        raise states.refused(conn, volume.id, "begin detaching")
    _set(conn, attachment_id, status=DETACHING)
    follow(conn, attachment.volume_id, now)


def roll_detach(conn: Connection, attachment_id: str, now: datetime) -> None:
    """Undo `begin_detach`: `attached` again. An attachment that is unknown, or not `detaching`, stays as it is."""
    _turn(conn, attachment_id, DETACHING, ATTACHED, now)


def _turn(conn: Connection, attachment_id: str, before: str, after: str, now: datetime) -> None:
    """From one status to another, if it is there and has the first."""
    attachment = find(conn, attachment_id)
    if attachment is not None:
        volumes.get(conn, attachment.volume_id, lock=True)
        mine = (Attachment.id == attachment_id) & (Attachment.status == before)
        conn.execute(update(Attachment).where(mine).values(status=after))
        follow(conn, attachment.volume_id, now)


def finish_detach(conn: Connection, attachment_id: str, now: datetime) -> None:
    """Delete the attachment, whatever its status; its volume follows the others. Repeating it changes nothing.

    Call it after the backend has disconnected the host.
    """
    attachment = find(conn, attachment_id)
    if attachment is None:
        return
    volumes.get(conn, attachment.volume_id, lock=True)
    conn.execute(delete(Attachment).where(Attachment.id == attachment_id))
    follow(conn, attachment.volume_id, now)


def leave_host(conn: Connection, attachment_id: str, now: datetime) -> None:
    """`reserved` again, on no host, whatever the status of the volume: nobody else could take it for a moment.

    One that is gone is not an error. Call it after the backend has disconnected the host.
    """
    attachment = find(conn, attachment_id)
    if attachment is None:
        return
    volumes.get(conn, attachment.volume_id, lock=True)
    _set(conn, attachment_id, status=RESERVED, host=None, connection={}, attached_at=None)
    follow(conn, attachment.volume_id, now)


def insert_attached(
    conn: Connection, volume: Volume, server_id: str | None, host: str | None, device: str, mode: str, now: datetime
) -> None:
    """Record an attachment that somebody else has made. The volume must be locked."""
    _insert(conn, volume, server_id, status=ATTACHED, host=host, device=device, mode=mode, attached_at=now, at=now)
    follow(conn, volume.id, now)


def end(conn: Connection, caller: Caller, attachment: Attachment) -> None:
    """End it at once, or once the backend has disconnected its host. Its volume must be locked.

    Raises Conflict if it is the compute service's and the caller is not.
    """
    if attachment.status not in volumes.BROKEN:
        demand_own(caller, attachment)
    if attachment.host is None:
        finish_detach(conn, attachment.id, caller.now)
        return
    _set(conn, attachment.id, status=DETACHING)
    follow(conn, attachment.volume_id, caller.now)
    args = {"attachment_id": attachment.id, "host": attachment.host}
    tasks.submit(conn, kinds.DETACH_VOLUME, attachment.volume_id, caller, args=args)


def demand_own(caller: Caller, attachment: Attachment) -> None:
    """Raises Conflict if it is the compute service's and the caller is not."""
    if attachment.managed and not caller.may("volume:volumes:use_managed"):
        raise managed(attachment)


def managed(attachment: Attachment) -> Conflict:
    return Conflict(
        f"ConflictNovaUsingAttachment: Detach volume from instance {attachment.server_id} using the Compute API"
    )


def host_is_used(conn: Connection, volume_id: str, host: str, but: str) -> bool:
    """Whether an attachment other than `but` needs this host's connection to the volume."""
    others = [row for row in of_volume(conn, [volume_id]).get(volume_id, []) if row.id != but]
    return any(row.host == host and row.status not in volumes.BROKEN for row in others)


def derived(conn: Connection, volume_id: str) -> tuple[str, str]:
    """(status, attach_status) that a volume's attachments give it."""
    present = set(conn.scalars(_statuses, {"volume": volume_id}))
    strongest = next((word for word in STRENGTH if word in present), None)
    if strongest is None:
        return states.AVAILABLE, "detached"
    return (states.IN_USE if strongest == ATTACHED else strongest), strongest


def follow(conn: Connection, volume_id: str, now: datetime, leaving: str | None = None) -> None:
    """Bring the volume's status in line with its attachments, unless something else decides what comes next.

    `leaving`: a status that ends now and gives way to the attachments'. Otherwise the volume must be locked.
    """
    if leaving is not None:
        # Meanwhile users detach it: that must be seen here, or be done with the status that this sets.
        volumes.find(conn, volume_id, lock=True)
    status, attach_status = derived(conn, volume_id)
    following = states.FOLLOWING if leaving is None else {leaving}
    values = {"followed": volume_id, "following": sorted(following), "strongest": status}
    conn.execute(_followed, {**values, "attach_status": attach_status, "updated_at": now})


def _locked(conn: Connection, attachment_id: str) -> tuple[Volume, Attachment]:
    """The attachment, and its volume, locked: everything that concerns one volume takes turns."""
    volume = volumes.get(conn, get(conn, attachment_id).volume_id, lock=True)
    return volume, get(conn, attachment_id)


def _set(conn: Connection, attachment_id: str, **values: Any) -> None:
    conn.execute(update(Attachment).where(Attachment.id == attachment_id).values(**values))
