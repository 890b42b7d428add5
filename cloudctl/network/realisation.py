"""What the driver has yet to do, written as tasks in the transaction that makes it necessary.

`ensure` has the driver hold an object as the database has it when the task runs; `clean_up` has it forget one that the
database does not have any more. The tasks of one object run one after the other: see `lifecycle`.
"""

from __future__ import annotations

from typing import Literal

from cloudctl import tasks
from cloudctl.db import Connection
from cloudctl.tasks import queue

Kind = Literal["network", "port", "router", "security_group"]


def ensure(conn: Connection, kind: Kind, id: str, now: float, project_id: str = "", user_id: str = "") -> None:
    """`now`: seconds since the epoch."""
    queue.submit_once(
        conn, f"network.{kind}.ensure", id, resource_type=kind, now=now, project_id=project_id, user_id=user_id
    )


def clean_up(conn: Connection, kind: Kind, id: str, now: float, project_id: str = "", user_id: str = "") -> None:
    tasks.cancel_open(conn, kind, id, now)
    tasks.submit(
        conn, f"network.{kind}.delete", id, resource_type=kind, now=now, project_id=project_id, user_id=user_id
    )


def move_port(conn: Connection, id: str, left: str, now: float, project_id: str = "", user_id: str = "") -> None:
    """Have the driver hold a port where it is bound now, and not on the host that it left."""
    tasks.submit(
        conn,
        "network.port.ensure",
        id,
        resource_type="port",
        args={"left": left},
        now=now,
        project_id=project_id,
        user_id=user_id,
    )
