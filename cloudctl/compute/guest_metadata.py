"""Metadata for guests at 169.254.169.254: which server sent the request, and the answer to a path.

Reference: compute.md, section 18. The client's address on its network is the only proof of who it is: the network
driver ensures that no guest sends from an address that is not its own.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import select, update

from cloudctl.compute import guests
from cloudctl.compute.tables import Server, ServerInterface
from cloudctl.db import Connection
from cloudctl.drivers import guest_data
from cloudctl.drivers.guest_data import EC2_VERSIONS, LATEST, OPENSTACK_VERSIONS, SEED_BYTES
from cloudctl.drivers.specs import GuestSpec
from cloudctl.errors import Conflict, Invalid, NotFound
from cloudctl.network import ports

PASSWORD = "password"
PASSWORD_LIMIT = 1020  # bytes


@frozen
class Guest:
    """A server that requests its metadata."""

    spec: GuestSpec  # without the admin password
    password: str  # set and encrypted by the guest itself; "" if none


def server_at(conn: Connection, network_id: str, address: str) -> Server:
    """The row of the server that has this address on this network. Raises NotFound."""
    try:
        ip = ip_address(address)
    except ValueError:
        raise NotFound("No server has this address.") from None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    port_id = ports.at(conn, network_id, str(ip))
    # Not the port's `device_id`: the port's owner may write anything there.
    query = (
        select(Server)
        .join_from(ServerInterface, Server, Server.id == ServerInterface.server_id)
        .where(ServerInterface.port_id == port_id, Server.deleted_at.is_(None))
    )
    row = None if port_id is None else conn.execute(query).first()
    if row is None:
        raise NotFound("No server has this address.")
    return row


def guest_at(conn: Connection, network_id: str, address: str, image_path: Callable[[str], Path]) -> Guest:
    """Raises NotFound."""
    row = server_at(conn, network_id, address)
    spec = guests.described(conn, row, image_path)
    return Guest(evolve(spec, admin_password=None), row.guest_password or "")


def set_password(conn: Connection, network_id: str, address: str, value: bytes) -> None:
    """Store the password that a guest reports, encrypted, once. Raises NotFound, Invalid, Conflict."""
    row = server_at(conn, network_id, address)
    if len(value) > PASSWORD_LIMIT:
        raise Invalid(f"The password is longer than {PASSWORD_LIMIT} bytes.")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Invalid("The password is not text.") from None
    if not text or "\0" in text:
        raise Invalid("The password is not text.")
    unset = Server.id == row.id, Server.guest_password.is_(None)
    if conn.execute(update(Server).where(*unset).values(guest_password=text)).rowcount == 0:
        raise Conflict("The password has already been set.")


# -- the trees


def answer(guest: Guest, path: Sequence[str]) -> bytes | None:
    """The content of a path, given as its parts without empty ones; None if there is nothing."""
    if not path:
        return _lines((*EC2_VERSIONS, LATEST))
    if path[0] == "openstack":
        return _openstack(guest, path[1:])
    if path[0] not in (*EC2_VERSIONS, LATEST):
        return None
    return _ec2(guest.spec, path[1:])


def _openstack(guest: Guest, path: Sequence[str]) -> bytes | None:
    if not path:
        return _lines((*OPENSTACK_VERSIONS, LATEST))
    if path[0] == "content" and len(path) == 2:
        return _content(guest.spec, path[1])
    if path[0] not in (*OPENSTACK_VERSIONS, LATEST) or len(path) > 2:
        return None
    seed = base64.b64encode(secrets.token_bytes(SEED_BYTES)).decode()
    files = {**guest_data.openstack_files(guest.spec, path[0], seed), PASSWORD: guest.password.encode()}
    return _lines(sorted(files)) if len(path) == 1 else files.get(path[1])


def _content(spec: GuestSpec, name: str) -> bytes | None:
    named = {guest_data.content_path(number): file for number, file in enumerate(spec.files)}
    file = named.get(f"content/{name}")
    return None if file is None else base64.b64decode(file.contents)


def _ec2(spec: GuestSpec, path: Sequence[str]) -> bytes | None:
    has_data = spec.user_data is not None
    if not path:
        return _lines(("meta-data/", "user-data") if has_data else ("meta-data/",))
    if path[0] == "user-data":
        return guest_data.user_data(spec) if has_data and len(path) == 1 else None
    if path[0] != "meta-data":
        return None
    found: Any = guest_data.ec2_metadata(spec)
    for name in path[1:]:
        if not isinstance(found, dict) or name not in found or name.startswith("_"):
            return None
        found = found[name]
    if isinstance(found, dict):
        return _lines([_entry(name, value) for name, value in sorted(found.items()) if not name.startswith("_")])
    return _lines(found) if isinstance(found, list) else str(found).encode()


def _entry(name: str, value: Any) -> str:
    """A line of a listing: a directory shows its own name if it has one (`0=key`), or else ends in a slash."""
    if not isinstance(value, dict):
        return name
    return str(value.get("_name") or f"{name}/")


def _lines(names: Sequence[str]) -> bytes:
    return "\n".join(names).encode()
