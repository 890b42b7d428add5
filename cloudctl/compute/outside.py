"""What services outside report about servers, and what is done about it. Reference: compute.md, section 17.

Networks, volumes and servers share one database here: the report only says that something has changed, and its new
state is looked up.
"""

from __future__ import annotations

from collections.abc import Callable

from cloudctl import tasks
from cloudctl.compute import block_devices, kinds
from cloudctl.compute.states import PLUGGABLE
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.rest.caller import Caller


def heed(conn: Connection, caller: Caller, name: str, server: Server, tag: str) -> None:
    """Act on a completed event of this name. `tag`: what it is about. Most names call for nothing."""
    if (work := _WORK.get(name)) is not None:
        work(conn, caller, server, tag)


def _refresh(conn: Connection, caller: Caller, server: Server, _tag: str) -> None:
    if server.task_state is None and server.vm_state in PLUGGABLE:
        tasks.submit_once(conn, kinds.REFRESH, server.id, caller)


def _extend(conn: Connection, caller: Caller, server: Server, volume_id: str) -> None:
    device = block_devices.find(conn, server.id, volume_id)
    if device is not None and device.attached:
        tasks.submit(conn, kinds.EXTEND_VOLUME, server.id, caller, args={"volume_id": volume_id})


def _compare(conn: Connection, caller: Caller, server: Server, _tag: str) -> None:
    tasks.submit_once(conn, kinds.COMPARE, server.id, caller)


_WORK: dict[str, Callable[[Connection, Caller, Server, str], None]] = {
    "network-changed": _refresh,
    "volume-extended": _extend,
    "power-update": _compare,
}
