"""The resource usage of guests. Reference: compute.md, section 8.9."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cloudctl.compute import servers
from cloudctl.compute.api import gates
from cloudctl.compute.tables import Server
from cloudctl.db import Connection, Database
from cloudctl.drivers.boundary import call as driver_call
from cloudctl.drivers.errors import DriverError, HostDown, UnknownGuest, Unreachable
from cloudctl.drivers.interfaces import IDiagnostics, IHypervisor
from cloudctl.drivers.specs import DiskUse, GuestDiagnostics, Power, Traffic
from cloudctl.errors import Conflict, NotImplementedHere, Unavailable
from cloudctl.rest.call import Call
from cloudctl.rest.route import Routes

STATES = {
    Power.RUNNING: "running",
    Power.PAUSED: "paused",
    Power.SUSPENDED: "suspended",
    Power.STOPPED: "shutdown",
    Power.CRASHED: "crashed",
}
# Clients know five drivers; this is the one for machines like ours.
DRIVER = "libvirt"


@frozen
class Diagnostics:
    routes = Routes("Server diagnostics")

    db: Database
    hypervisor: IHypervisor

    @routes.get("/servers/<server_id>/diagnostics", policy="compute:servers:diagnostics")
    async def show(self, call: Call, server_id: str) -> dict[str, Any]:
        """Show the resource usage of a guest."""
        server = await self.db.read(_on_a_host, call, server_id)
        if not IDiagnostics.providedBy(self.hypervisor):
            raise NotImplementedHere("The hypervisor does not support this action.")
        try:
            found = await driver_call(self.hypervisor.diagnostics, server_id)
        except (UnknownGuest, HostDown, Unreachable):
            raise Unavailable("Service is unavailable at this time.") from None
        except DriverError as error:
            raise Conflict(str(error)) from None
        return standard(server, found) if call.version in gates.DIAGNOSTICS else plain(found)


def _on_a_host(conn: Connection, call: Call, server_id: str) -> Server:
    row = servers.visible(conn, call.caller, server_id)
    if row.host is None or row.launched_at is None:
        raise Conflict(f"Instance {row.id} is not ready")
    return row


def standard(server: Server, found: GuestDiagnostics) -> dict[str, Any]:
    """The form in microversions from 2.48 on."""
    return {
        "state": STATES[found.power],
        "driver": DRIVER,
        "hypervisor": "kvm",
        "hypervisor_os": "linux",
        "uptime": found.uptime,
        "config_drive": server.config_drive,
        "num_cpus": len(found.cpu_times),
        "num_disks": len(found.disks),
        "num_nics": len(found.nics),
        "cpu_details": [
            {"id": number, "time": spent, "utilisation": None} for number, spent in enumerate(found.cpu_times)
        ],
        "memory_details": {"maximum": found.memory_mib, "used": found.memory_used_mib},
        "disk_details": [_disk(disk) for disk in found.disks],
        "nic_details": [_nic(nic) for nic in found.nics],
    }


def _disk(disk: DiskUse) -> dict[str, int | None]:
    return {
        "read_bytes": disk.read_bytes,
        "read_requests": disk.read_requests,
        "write_bytes": disk.write_bytes,
        "write_requests": disk.write_requests,
        "errors_count": disk.errors,
    }


def _nic(nic: Traffic) -> dict[str, Any]:
    names = ("octets", "packets", "errors", "drop")
    counted = {f"{way}_{name}": getattr(nic, f"{way}_{name}") for way in ("rx", "tx") for name in names}
    return {"mac_address": nic.mac, **counted, "rx_rate": None, "tx_rate": None}


def plain(found: GuestDiagnostics) -> dict[str, int]:
    """The earlier form: a flat list of the numbers that are known."""
    told: dict[str, int | None] = {f"cpu{number}_time": spent for number, spent in enumerate(found.cpu_times)}
    told["memory"] = found.memory_mib << 10
    told["memory-actual"] = None if found.memory_used_mib is None else found.memory_used_mib << 10
    for disk in found.disks:
        told |= {
            f"{disk.name}_read": disk.read_bytes,
            f"{disk.name}_read_req": disk.read_requests,
            f"{disk.name}_write": disk.write_bytes,
            f"{disk.name}_write_req": disk.write_requests,
            f"{disk.name}_errors": disk.errors,
        }
    for number, nic in enumerate(found.nics):
        told |= {
            f"eth{number}_rx": nic.rx_octets,
            f"eth{number}_rx_packets": nic.rx_packets,
            f"eth{number}_rx_errors": nic.rx_errors,
            f"eth{number}_rx_drop": nic.rx_drop,
            f"eth{number}_tx": nic.tx_octets,
            f"eth{number}_tx_packets": nic.tx_packets,
            f"eth{number}_tx_errors": nic.tx_errors,
            f"eth{number}_tx_drop": nic.tx_drop,
        }
    return {name: value for name, value in told.items() if value is not None}
