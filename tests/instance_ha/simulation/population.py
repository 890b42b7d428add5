"""How large a simulated cloud is, and the servers that it has."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from attrs import evolve, field, frozen
from sqlalchemy import insert, select

from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.drivers.fake.hypervisor import FakeHypervisor
from cloudctl.placement.tables import Allocation, Consumer, Host
from tests.instance_ha.asking import Ha

MOST_BOOTED = 9  # by the API, whose quota is 10; the others are copies of one more


@frozen
class Size:
    hosts: int
    servers: int
    segments: int
    reserves: int
    on_shared_storage: set[str] = field(factory=set)  # ids of the servers whose disk is a volume

    @classmethod
    def by(cls, chance: Random) -> Size:
        hosts = chance.randint(4, 10)
        return cls(hosts, chance.randint(4, MOST_BOOTED), chance.randint(1, 2), chance.randint(0, hosts // 4))

    @classmethod
    def of(cls, hosts: int, servers: int) -> Size:
        return cls(hosts, servers, segments=max(1, hosts // 50), reserves=hosts // 50)


def populate(ha: Ha, hypervisor: FakeHypervisor, size: Size, chance: Random) -> None:
    image = ha.compute.image
    disk = {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1}
    for number in range(min(size.servers, MOST_BOOTED)):
        wishes: dict[str, Any] = {"metadata": {"HA_Enabled": "True"}} if number % 2 else {}
        if number % 3:
            ha.compute.boot(**wishes)
        else:
            made = ha.compute.boot(imageRef=None, block_device_mapping_v2=[disk], **wishes)
            size.on_shared_storage.add(made)
    rest = size.servers - MOST_BOOTED
    if rest > 0:
        template = ha.compute.boot("2.37", networks="none")
        ha.cloud.transact(_copy, hypervisor, template, rest, chance)


def _copy(conn: Connection, hypervisor: FakeHypervisor, template: str, count: int, chance: Random) -> None:
    server = conn.execute(select(Server.table).where(Server.id == template)).one()._asdict()
    claimed = conn.execute(select(Allocation).where(Allocation.consumer_id == template)).all()
    consumer = conn.execute(select(Consumer).where(Consumer.id == template)).one()
    guest = hypervisor.guests.get(template)
    assert guest is not None
    places = conn.execute(select(Host)).all()
    del server["number"]
    rows: dict[Any, list[dict[str, Any]]] = {Server: [], Consumer: [], Allocation: []}
    for number in range(count):
        id, host = str(UUID(int=chance.getrandbits(128), version=4)), places[number % len(places)]
        rows[Server].append(server | {"id": id, "name": f"copy-{number}", "host": host.name})
        who = {"project_id": consumer.project_id, "user_id": consumer.user_id, "type": consumer.type}
        rows[Consumer].append({"id": id, **who})
        for each in claimed:
            values = {"consumer_id": id, "provider_id": host.id, "resource_class": each.resource_class}
            rows[Allocation].append({**values, "amount": each.amount})
        hypervisor.guests.put(id, evolve(guest, spec=evolve(guest.spec, id=id, host=host.name)))
    for record, those in rows.items():
        conn.execute(insert(record), those)
