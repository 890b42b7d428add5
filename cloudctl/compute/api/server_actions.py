"""What `POST /servers/{id}/action` takes. Reference: compute.md, section 7."""

from __future__ import annotations

import re
from typing import Annotated, Any

from attrs import frozen
from sqlalchemy import Connection

from cloudctl.compute import power, servers
from cloudctl.db import Database
from cloudctl.drivers.boundary import call as driver_call
from cloudctl.drivers.errors import DriverError, HostDown, UnknownGuest, Unreachable
from cloudctl.drivers.interfaces import IHypervisor
from cloudctl.errors import Conflict, NotFound, Unavailable
from cloudctl.rest.body import MISSING, Body, Check, Missing, Range, ValueProblem, shown
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

PATH = "/servers/<server_id>/action"
# All control characters but tab and newline.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _reboot_type(value: Any) -> str:
    if not isinstance(value, str) or value.upper() not in ("SOFT", "HARD"):
        raise ValueProblem(f"{shown(value)} is not one of ['SOFT', 'HARD']")
    return value.upper()


def _length(value: Any) -> int | None:
    """A number, or a number as text; -1 and null are everything."""
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueProblem(f"{shown(value)} is not of type 'integer', 'string', 'null'", "type")
    if value < -1:
        raise ValueProblem(f"{value} is less than the minimum of -1")
    return None if value == -1 else int(Range(0)(value))


@frozen
class Reboot:
    type: Annotated[Any, Check(_reboot_type)]


@frozen
class ConsoleOutput:
    length: Annotated[Any, Check(_length)] | Missing = MISSING


@frozen
class ServerActions:
    routes = Routes("Server actions")

    db: Database
    hypervisor: IHypervisor

    @routes.action(PATH, "os-start", policy="compute:servers:start")
    async def start(self, call: Call, server_id: str) -> None:
        """Power a server on."""
        await self.db.run(power.start, call, server_id)

    @routes.action(PATH, "os-stop", policy="compute:servers:stop")
    async def stop(self, call: Call, server_id: str) -> None:
        """Power a server off."""
        await self.db.run(power.stop, call, server_id)

    @routes.action(PATH, "reboot", policy="compute:servers:reboot", body=Body(Reboot))
    async def reboot(self, call: Call, server_id: str, body: Reboot) -> None:
        """Reboot a server, gracefully or not."""
        await self.db.run(power.reboot, call, server_id, body.type == "HARD")

    @routes.action(
        PATH, "os-getConsoleOutput", policy="compute:servers:console_output", body=Body(ConsoleOutput), status=200
    )
    async def console_output(self, call: Call, server_id: str, body: ConsoleOutput) -> dict[str, str]:
        """Show the last lines of the serial console."""
        await self.db.read(_on_a_host, call, server_id)
        length = None if body.length is MISSING else body.length
        try:
            output = await driver_call(self.hypervisor.console_output, server_id, length)
        except UnknownGuest:
            raise NotFound(f"Console log of instance {server_id} is not available.") from None
        except (HostDown, Unreachable):
            raise Unavailable("Service is unavailable at this time.") from None
        except DriverError as error:
            raise Conflict(str(error)) from None
        return {"output": CONTROLS.sub("", output)}


def _on_a_host(conn: Connection, call: Call, server_id: str) -> None:
    row = servers.visible(conn, call, server_id)
    if row.host is None or row.launched_at is None:
        raise Conflict(f"Instance {row.id} is not ready")
