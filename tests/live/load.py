"""Boots and deletes requested from a cloud whose processes die, and what must come of them.

A lost answer is no answer: the request is repeated, after a check whether the first one took effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from attrs import define, field
from sqlalchemy import func, select
from twisted.internet.task import Clock

from cloudctl.compute.tables import BlockDevice, ServerInterface
from cloudctl.compute.tables import Server as ServerRecord
from cloudctl.db import Connection, Database
from cloudctl.db.driver import create
from cloudctl.db.threads import Inline
from cloudctl.network.tables import IpAllocation, Port
from cloudctl.placement.tables import Allocation, Consumer, Inventory
from cloudctl.tasks.tables import CANCELLED, DONE, OPEN, TaskRow
from cloudctl.volume.tables import Attachment, Volume
from tests.live.process import LiveCloud

SERVERS = "/compute/v2.1/servers"
PATIENCE = 120.0  # seconds within which all work ends once no process is killed any more

# Slow enough that a process can die in the middle of everything.
TOML = """
[volume]
volumes = -1
gigabytes = -1
[driver.hypervisor.fake]
durable = true
delays = { ensure_defined = 0.05, ensure_running = 0.8, ensure_absent = 0.8 }
[driver.volume.fake]
durable = true
delays = { ensure_created = 0.1, connect = 0.02, disconnect = 0.02, ensure_absent = 0.05 }
[driver.network.fake]
durable = true
delays = { ensure_port = 0.02, ensure_port_absent = 0.05 }
"""


@define(eq=False)
class Server:
    """What the client knows of a server that it wants."""

    name: str
    on_volume: bool
    id: str | None = None
    asked: bool = False  # a boot was requested, and not answered
    delete_asked: bool = False
    deleted: bool = False  # a delete was answered


@define
class Load:
    """`boots` servers are made and `deletes` of them deleted, by requests to whichever process is alive."""

    clouds: Sequence[LiveCloud]
    chance: Random
    boots: int
    deletes: int
    servers: list[Server] = field(factory=list)
    image: str = ""
    network: str = ""

    def prepare(self) -> None:
        """Lift the quotas, and look up what servers are made of."""
        cloud = self.clouds[0]
        (project,) = good(cloud.ask("GET", "/identity/v3/auth/projects"))["projects"]
        unlimited = {"quota_set": {"instances": -1, "cores": -1, "ram": -1}}
        good(cloud.ask("PUT", f"/compute/v2.1/os-quota-sets/{project['id']}", unlimited, user="admin"))
        self.image = good(cloud.ask("GET", "/image/v2/images?name=tiny"))["images"][0]["id"]
        self.network = good(cloud.ask("GET", "/networking/v2.0/networks?name=private"))["networks"][0]["id"]

    # -- working

    @property
    def kept(self) -> list[Server]:
        return [server for server in self.servers if server.id is not None and not server.delete_asked]

    @property
    def is_done(self) -> bool:
        return not self._boots_left() and not self._deletes_left()

    def _boots_left(self) -> int:
        return self.boots - sum(server.id is not None for server in self.servers)

    def _deletes_left(self) -> int:
        return self.deletes - sum(server.deleted for server in self.servers)

    def work(self, most: int) -> None:
        """Send up to `most` requests; fewer if no process answers."""
        for _ in range(most):
            alive = [cloud for cloud in self.clouds if cloud.alive]
            if not alive or self.is_done:
                return
            try:
                self._one(self.chance.choice(alive))
            except OSError:
                # That process died; see again which one is alive.
                continue

    def _one(self, cloud: LiveCloud) -> None:
        boots, deletes = self._boots_left(), self._deletes_left()
        if self.chance.random() * (boots + deletes) < boots or not self._deletable():
            self._boot(cloud)
        else:
            self._delete(cloud, self.chance.choice(self._deletable()))

    def _deletable(self) -> list[Server]:
        lost = [server for server in self.servers if server.delete_asked and not server.deleted]
        return lost or self.kept

    def _boot(self, cloud: LiveCloud) -> None:
        server = next((each for each in self.servers if each.id is None), None)
        if server is None:
            number = len(self.servers)
            server = Server(f"server-{number}", on_volume=number % 4 == 0)
            self.servers.append(server)
        if server.asked:
            found = good(cloud.ask("GET", f"{SERVERS}?name=^{server.name}$"))["servers"]
            assert len(found) <= 1
            if found:
                server.id = found[0]["id"]
                return
        server.asked = True
        status, value = cloud.ask("POST", SERVERS, {"server": self._body(server)})
        assert status == 202, value
        server.id = value["server"]["id"]

    def _body(self, server: Server) -> dict[str, Any]:
        body = {"name": server.name, "flavorRef": "1", "networks": [{"uuid": self.network}]}
        if not server.on_volume:
            return {**body, "imageRef": self.image}
        device = {"source_type": "image", "uuid": self.image, "destination_type": "volume", "boot_index": 0}
        return {**body, "block_device_mapping_v2": [{**device, "volume_size": 1, "delete_on_termination": True}]}

    def _delete(self, cloud: LiveCloud, server: Server) -> None:
        again, server.delete_asked = server.delete_asked, True
        status, value = cloud.ask("DELETE", f"{SERVERS}/{server.id}")
        # What was answered with 202 exists after every crash, until it is deleted.
        assert status == 204 or (again and status == 404), (status, value)
        server.deleted = True

    # -- ends

    def finish(self) -> None:
        """Request what is left, with no more kills, and wait until everything requested exists."""
        self.work(10 * (self.boots + self.deletes))
        assert self.is_done
        self.wait(lambda: self.statuses() == dict.fromkeys((server.id for server in self.kept), "ACTIVE"))

    def delete_all(self) -> None:
        self.deletes = self.boots
        self.finish()

    def statuses(self) -> dict[str, str]:
        """Id → status of every server that exists."""
        found = good(self._ask("GET", f"{SERVERS}/detail?all_tenants=1", user="admin"))["servers"]
        return {each["id"]: each["status"] for each in found}

    def _ask(self, *request: Any, **options: Any) -> tuple[int, Any]:
        return next(cloud for cloud in self.clouds if cloud.alive).ask(*request, **options)

    def wait(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, f"not within {PATIENCE} s: {self.statuses()}"
            time.sleep(0.1)

    def check(self, url: str) -> None:
        """The kept servers have everything that belongs to them, and nothing else exists anywhere."""
        self.wait(lambda: read(url, open_tasks) == [])
        kept = {str(server.id) for server in self.kept}
        on_volumes = sum(server.on_volume for server in self.kept)
        for path, key, number in (
            ("/networking/v2.0/ports?device_owner=compute:nova", "ports", len(kept)),
            ("/volume/v3/volumes/detail?all_tenants=1", "volumes", on_volumes),
        ):
            assert len(good(self._ask("GET", path, user="admin"))[key]) == number
        found = good(self._ask("GET", "/compute/v2.1/os-hypervisors/detail", user="admin"))["hypervisors"]
        assert sum(each["vcpus_used"] for each in found) == len(kept)
        drivers = self.clouds[0].state_dir / "drivers"
        assert stored(drivers / "hypervisor" / "fake" / "guests") == kept
        plugged = stored(drivers / "network" / "fake" / "ports")
        disks = stored(drivers / "volume" / "fake" / "volumes")
        assert (len(plugged), len(disks)) == (len(kept), on_volumes)
        rows = read(url, rows_of_servers)
        assert rows.pop("claimed") == rows.pop("used") == len(kept)
        assert rows.pop("consumers") == rows.pop("servers") == kept
        assert rows.pop("ports") == rows.pop("interfaces") == rows.pop("addresses") == plugged
        assert rows.pop("volumes") == rows.pop("devices") == rows.pop("attachments") == disks
        assert rows == {"leases": 0}


def good(answer: tuple[int, Any]) -> Any:
    status, value = answer
    assert status < 300, answer
    return value


def stored(directory: Path) -> set[str]:
    """The ids of what a durable fake driver stores there."""
    return {path.stem for path in directory.glob("*.json")}


def read(url: str, fn: Callable[[Connection], Any]) -> Any:
    inline: Any = Inline()
    db = Database(create(url), inline, inline, Clock())
    try:
        return db.transact(True, fn)
    finally:
        db.close()


def open_tasks(conn: Connection) -> list[Any]:
    """Tasks under way, and those that an operator would have to look at."""
    unfinished = TaskRow.state.in_((*OPEN, "held"))
    return list(conn.execute(select(TaskRow.kind, TaskRow.state, TaskRow.error).where(unfinished)))


def interrupted(conn: Connection, kind: str) -> int:
    """How many tasks of this kind were claimed more than once, although nothing in them waits or failed.

    A cancellation is one more claim.
    """
    done, cancelled = (TaskRow.fence > 1) & (TaskRow.state == DONE), (TaskRow.fence > 2) & (TaskRow.state == CANCELLED)
    again = (TaskRow.kind == kind) & (done | cancelled)
    return int(conn.execute(select(func.count()).select_from(TaskRow).where(again)).scalar_one())


def rows_of_servers(conn: Connection) -> dict[str, Any]:
    """Everything that may be in the database because of servers."""

    def ids(column: Any, *where: Any) -> set[str]:
        return set(conn.execute(select(column).where(*where)).scalars())

    # The first start makes a router, and a network that hands out addresses.
    of_servers = ~Port.device_owner.startswith("network:")
    return {
        "servers": ids(ServerRecord.id, ServerRecord.deleted_at.is_(None)),
        "consumers": ids(Consumer.id),
        "claimed": conn.execute(
            select(func.coalesce(func.sum(Allocation.amount), 0)).where(Allocation.resource_class == "VCPU")
        ).scalar_one(),
        "used": conn.execute(select(func.sum(Inventory.used)).where(Inventory.resource_class == "VCPU")).scalar_one(),
        "ports": ids(Port.id, of_servers),
        "interfaces": ids(ServerInterface.port_id),
        "addresses": ids(IpAllocation.port_id, IpAllocation.port_id.in_(select(Port.id).where(of_servers))),
        "volumes": ids(Volume.id),
        "devices": ids(BlockDevice.volume_id),
        "attachments": ids(Attachment.volume_id),
        "leases": conn.execute(select(func.count()).where(TaskRow.owner.is_not(None))).scalar_one(),
    }
