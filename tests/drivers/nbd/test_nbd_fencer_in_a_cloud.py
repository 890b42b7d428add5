"""A cloud with real storage daemons and the fencer `nbd`: its host is cut off while what was a guest writes on.

The hypervisor is fake, so that a host can vanish and come back; who writes is a client of the daemons, as QEMU is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from sqlalchemy import select
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from cloudctl.app import SECTIONS, Cloud
from cloudctl.config import build
from cloudctl.db import Connection
from cloudctl.drivers.boundary import call
from cloudctl.instance_ha.tables import Proof
from tests.drivers.nbd.client import Client
from tests.drivers.nbd.test_nbd_fencer import offered
from tests.drivers.qcow2.live import MIB, demand
from tests.live.process import PASSWORDS, free_port

LOST, OTHER = "fake-1", "fake-2"
PATIENCE = 120.0


class Asked:
    """An administrator's requests to a cloud that this process is."""

    def __init__(self, reactor: Any, port: int) -> None:
        self.reactor = reactor
        self.url = f"http://127.0.0.1:{port}"
        self.token = ""

    async def log_in(self) -> None:
        password = {"user": {"name": "admin", "domain": {"id": "default"}, "password": PASSWORDS["admin"]}}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        body = {"auth": {"identity": {"methods": ["password"], "password": password}, "scope": scope}}
        answer = await deferToThread(self._send, "POST", "/identity/v3/auth/tokens", body)
        self.token = answer[0]["X-Subject-Token"]

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        return (await deferToThread(self._send, method, path, body))[1]

    def _send(self, method: str, path: str, body: Any) -> tuple[Any, Any]:
        headers = {"Content-Type": "application/json", "OpenStack-API-Version": "instance-ha 1.3, compute 2.60"}
        if self.token:
            headers["X-Auth-Token"] = self.token
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.url + path, data, headers, method=method), timeout=60) as answer:
                raw = answer.read()
                return answer.headers, json.loads(raw) if raw else None
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read()!r}") from error

    async def until(self, what: str, path: str, holds: Callable[[Any], bool]) -> Any:
        end = self.reactor.seconds() + PATIENCE
        while not holds(found := await self.ask("GET", path)):
            assert self.reactor.seconds() < end, f"never {what}: {found}"
            await deferLater(self.reactor, 0.1)
        return found


@pytest.fixture
def cloud(tmp_path: Path, runtime_dir: Path, reactor: Any) -> Cloud:
    demand("qemu-nbd")
    place = {"runtime_dir": str(runtime_dir)}
    tables = {
        "server": {"listen": [f"tcp:{free_port()}:interface=127.0.0.1"], "ha_listen": []},
        "drivers": {"volume": {"fast": "nbd", "slow": "nbd"}, "fencer": ["nbd"]},
        "driver": {
            "hypervisor": {"fake": {"hosts": 2}},
            "volume": {"fast": place, "slow": place},
            "fencer": {"nbd": {"hosts": [LOST, OTHER]}},
        },
    }
    made = Cloud(build(tables, SECTIONS, tmp_path / "state"), reactor)
    made.prepare(PASSWORDS)
    return made


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    made: list[Client] = []
    yield made
    for each in made:
        each.end()


async def test_who_is_cut_off_writes_nothing_more_and_its_server_goes_on_elsewhere(
    cloud: Cloud, clients: list[Client], runtime_dir: Path, reactor: Any
) -> None:
    port = int(cloud.config.server.listen[0].split(":")[1])
    cloud.startService()
    try:
        await _story(cloud, Asked(reactor, port), clients, runtime_dir)
    finally:
        await maybeDeferred(cloud.stopService)
        # A process would end with it.
        for backend in cloud._volumes.values():
            await call(backend.close)


async def _story(cloud: Cloud, asked: Asked, clients: list[Client], runtime_dir: Path) -> None:
    await asked.log_in()
    ha = "/instance-ha/v1"
    backends: dict[str, Any] = dict(cloud._volumes)
    segment = (
        await asked.ask(
            "POST", f"{ha}/segments", {"segment": {"name": "r", "recovery_method": "auto", "service_type": "COMPUTE"}}
        )
    )["segment"]["uuid"]
    members = {}
    for name in (LOST, OTHER):
        new = {"host": {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}}
        made = await asked.ask("POST", f"{ha}/segments/{segment}/hosts", new)
        members[name] = f"{ha}/segments/{segment}/hosts/{made['host']['uuid']}"
    volumes = {name: await _volume(asked, name) for name in backends}
    server = await _server(asked, list(volumes.values()))

    def connected(name: str, host: str, reconnect: int = 1) -> Client:
        disks = backends[name]
        found = disks.disks.connection(disks.records.volume(volumes[name]), host)
        clients.append(Client(found, reconnect))
        return clients[-1]

    guests = [connected(name, LOST) for name in backends]
    for guest in guests:
        assert (await guest.write("7", MIB)).startswith("wrote")
    writing = [deferToThread(guest.writes_on) for guest in guests]

    # -- nobody sees the host any more, and what it runs goes on
    hypervisor: Any = cloud.drivers.hypervisor
    hypervisor.fail_host(LOST)
    told = {"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"}
    body = {"hostname": LOST, "type": "COMPUTE_HOST", "payload": told}
    made = await asked.ask("POST", f"{ha}/notifications", body)
    path = f"{ha}/notifications/{made['notification']['notification_uuid']}"
    await asked.until("finished", path, lambda found: found["notification"]["status"] == "finished")
    for written in writing:
        assert await written > 1, "it could write before"
    proof = await cloud.db.read(_proof)
    assert [str(backend.records.root) in proof for backend in backends.values()] == [True, True]

    # -- elsewhere it is as it was, and the old one is not let in any more
    shown = (await asked.ask("GET", f"/compute/v2.1/servers/{server}"))["server"]
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", OTHER)
    for name, old in zip(backends, guests, strict=True):
        guest = connected(name, OTHER)
        assert await guest.holds("7", MIB)
        assert (await guest.write("9", 2 * MIB)).startswith("wrote")
        assert not (await deferToThread(old.says, f"write -P 8 {2 * MIB} 4096"))[0].startswith("wrote")
        assert await guest.holds("9", 2 * MIB)
    assert offered(runtime_dir) == {f"{id}/{OTHER}" for id in volumes.values()}

    # -- the host returns
    await asked.ask("PUT", members[LOST], {"host": {"on_maintenance": False}})
    hypervisor.recover_host(LOST)
    services = f"/compute/v2.1/os-services?host={LOST}&binary=nova-compute"
    await asked.until("used again", services, lambda found: found["services"][0]["status"] == "enabled")
    assert not any(backend.disks.fenced.has(LOST) for backend in backends.values())
    again = await _volume(asked, "slow")
    await _server(asked, [again])
    assert f"{again}/{LOST}" in offered(runtime_dir)


def _proof(conn: Connection) -> str:
    return str(conn.scalars(select(Proof.evidence)).one())


async def _volume(asked: Asked, backend: str) -> str:
    """On this backend."""
    types = (await asked.ask("GET", "/volume/v3/types"))["volume_types"]
    if all(each["name"] != backend for each in types):
        new = {"name": backend, "extra_specs": {"volume_backend_name": backend}}
        await asked.ask("POST", "/volume/v3/types", {"volume_type": new})
    made = await asked.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1, "volume_type": backend}})
    path = f"/volume/v3/volumes/{made['volume']['id']}"
    await asked.until("available", path, lambda found: found["volume"]["status"] == "available")
    return str(made["volume"]["id"])


async def _server(asked: Asked, volumes: list[str]) -> str:
    """On the host that is to be lost, with these volumes."""
    image = (await asked.ask("GET", "/image/v2/images?name=tiny"))["images"][0]["id"]
    disks: list[dict[str, Any]] = [
        {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "local"}
    ]
    disks += [{"uuid": each, "source_type": "volume", "destination_type": "volume"} for each in volumes]
    new = {
        "name": "vm",
        "flavorRef": "1",
        "imageRef": image,
        "networks": "none",
        "availability_zone": f"nova:{LOST}",
        "block_device_mapping_v2": disks,
    }
    made = await asked.ask("POST", "/compute/v2.1/servers", {"server": new})
    path = f"/compute/v2.1/servers/{made['server']['id']}"
    await asked.until("active", path, lambda found: found["server"]["status"] == "ACTIVE")
    return str(made["server"]["id"])
