"""What is done when a process of a host is dead: running servers go on, and no new ones are placed there."""

from __future__ import annotations

from cloudctl.instance_ha.lifecycle.host import disable
from cloudctl.instance_ha.notifications import COMPUTE
from cloudctl.instance_ha.recovery import NotDone, Over, Recovery
from cloudctl.placement import hosts


async def disable_compute_node(recovery: Recovery) -> None:
    name, process = recovery.notification.hostname, recovery.notification.payload.get("process_name", COMPUTE)
    if process != COMPUTE:
        raise Over(f"nothing depends on {process}")
    await recovery.tell(f"Disabling compute service on host: '{name}'", 0.0)
    await recovery.ctx.write(disable, name)


async def confirm_disabled(recovery: Recovery) -> None:
    host = await recovery.ctx.read(hosts.find, recovery.notification.hostname)
    if host is not None and host.enabled:
        raise NotDone(f"the compute service of {host.name} was enabled meanwhile")
