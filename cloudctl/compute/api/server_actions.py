"""Actions on the power of a server, its console and its lock. Reference: compute.md, section 7."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar

from attrs import frozen
from zope.interface import Interface

from cloudctl.compute import locks, power, servers
from cloudctl.db import Connection, Database
from cloudctl.drivers.boundary import call as driver_call
from cloudctl.drivers.errors import DriverError, HostDown, UnknownGuest, Unreachable
from cloudctl.drivers.interfaces import IHypervisor, IPause, ISuspend
from cloudctl.errors import Conflict, NotFound, NotImplementedHere, Unavailable
from cloudctl.rest.body import MISSING, Body, Check, Length, Missing, Range, ValueProblem
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes
from cloudctl.rest.standing import shown

PATH = "/servers/<server_id>/action"

P = ParamSpec("P")
T = TypeVar("T")

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
class Lock:
    locked_reason: Annotated[str, Length(1, 255)] | Missing = MISSING


@frozen
class ResetState:
    state: Literal["active", "error"]


def able(
    hypervisor: IHypervisor, needed: type[Interface], fn: Callable[Concatenate[Connection, P], T]
) -> Callable[Concatenate[Connection, P], T]:
    """`fn`, which is rolled back if the hypervisor lacks a capability: all other refusals come first.

    Raises NotImplementedHere, and what `fn` raises.
    """

    def run(conn: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result = fn(conn, *args, **kwargs)
        if not needed.providedBy(hypervisor):
            raise NotImplementedHere("The hypervisor does not support this action.")
        return result

    return run


@frozen
class ServerActions:
    routes = Routes("Server actions")

    db: Database
    hypervisor: IHypervisor

    @routes.action(PATH, "os-start", policy="compute:servers:start")
    async def start(self, call: Call, server_id: str) -> None:
        """Power a server on."""
        await self.db.run(power.begin, call.caller, server_id, "start")

    @routes.action(PATH, "os-stop", policy="compute:servers:stop")
    async def stop(self, call: Call, server_id: str) -> None:
        """Power a server off."""
        await self.db.run(power.begin, call.caller, server_id, "stop")

    @routes.action(PATH, "reboot", policy="compute:servers:reboot", body=Body(Reboot))
    async def reboot(self, call: Call, server_id: str, body: Reboot) -> None:
        """Reboot a server, gracefully or not."""
        await self.db.run(power.begin, call.caller, server_id, "reboot_hard" if body.type == "HARD" else "reboot")

    @routes.action(PATH, "pause", policy="compute:servers:pause")
    async def pause(self, call: Call, server_id: str) -> None:
        """Freeze a server in memory."""
        await self.db.run(able(self.hypervisor, IPause, power.begin), call.caller, server_id, "pause")

    @routes.action(PATH, "unpause", policy="compute:servers:pause")
    async def unpause(self, call: Call, server_id: str) -> None:
        """Let a paused server continue."""
        await self.db.run(able(self.hypervisor, IPause, power.begin), call.caller, server_id, "unpause")

    @routes.action(PATH, "suspend", policy="compute:servers:suspend")
    async def suspend(self, call: Call, server_id: str) -> None:
        """Freeze a server to disk."""
        await self.db.run(able(self.hypervisor, ISuspend, power.begin), call.caller, server_id, "suspend")

    @routes.action(PATH, "resume", policy="compute:servers:suspend")
    async def resume(self, call: Call, server_id: str) -> None:
        """Let a suspended server continue."""
        await self.db.run(able(self.hypervisor, ISuspend, power.begin), call.caller, server_id, "resume")

    @routes.action(PATH, "lock", policy="compute:servers:lock", body={(2, 73): Body(Lock | None)})
    async def lock(self, call: Call, server_id: str, body: Lock | None = None) -> None:
        """Protect a server from being changed by mistake."""
        reason = body.locked_reason or None if body is not None else None
        await self.db.run(locks.lock, call.caller, server_id, reason)

    @routes.action(PATH, "unlock", policy="compute:servers:lock")
    async def unlock(self, call: Call, server_id: str) -> None:
        """Unlock a server."""
        await self.db.run(locks.unlock, call.caller, server_id)

    @routes.action(PATH, "os-resetState", policy="compute:servers:reset_state", body=Body(ResetState))
    async def reset_state(self, call: Call, server_id: str, body: ResetState) -> None:
        """Declare a server active or broken."""
        await self.db.run(locks.reset_state, call.caller, server_id, body.state)

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
    row = servers.visible(conn, call.caller, server_id)
    if row.host is None or row.launched_at is None:
        raise Conflict(f"Instance {row.id} is not ready")
