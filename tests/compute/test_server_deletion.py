"""What a delete leaves to others: the ports of a server are let go of in its own step."""

from __future__ import annotations

from sqlalchemy import select

from cloudctl.db import Connection
from cloudctl.db.columns import utc
from cloudctl.drivers.fake.network import FakeNetworkBackend
from cloudctl.network import kinds, plugging, ports
from cloudctl.tasks import Unasked
from cloudctl.tasks.tables import TaskRow
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import Asking


def tasks_of_ports(conn: Connection) -> list[str]:
    query = select(TaskRow.resource_id).where(TaskRow.kind == kinds.DELETE_PORT.name)
    return list(conn.scalars(query))


def test_the_ports_of_a_server_need_no_task_of_their_own(
    demo: Asking, cloud: MemoryCloud, network: FakeNetworkBackend
) -> None:
    server_id = demo.boot()
    assert len(list(network.ports.values())) == 1
    demo.delete(f"/servers/{server_id}")
    cloud.settle()
    assert not list(network.ports.values())
    assert cloud.db.transact(True, tasks_of_ports) == []


def test_a_port_that_was_plugged_again_meanwhile_is_taken_away(demo: Asking, cloud: MemoryCloud) -> None:
    demo.boot()
    (port_id,) = demo.ports

    def delete(conn: Connection) -> None:
        port = ports.find(conn, port_id)
        assert port is not None
        now = utc(conn.now())
        plugging.leaving(conn, [port_id], now)
        assert plugging.plugged(conn, port_id, port.host, {"vif_type": "fake"}, now)
        ports.discard(conn, port_id, now, Unasked(), has_left=True)

    cloud.db.transact(False, delete)
    assert cloud.db.transact(True, tasks_of_ports) == [port_id]
