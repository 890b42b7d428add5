"""What a purge removes of recoveries, and what it leaves because a host is still off."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from cloudctl.drivers.fake.fencer import FakeFencer
from cloudctl.instance_ha.tables import Notification, Proof, VMove
from cloudctl.testing.cloud import MemoryCloud
from tests.ended import purge
from tests.instance_ha.asking import Ha
from tests.instance_ha.test_host_recovery import on, place

DAY = 86_400.0


def ids(cloud: MemoryCloud, column: Any) -> set[str]:
    return set(cloud.transact(lambda conn: conn.scalars(select(column))))


def test_a_notification_stays_while_its_host_is_fenced(cloud: MemoryCloud, ha: Ha, fencer: FakeFencer) -> None:
    segment = ha.segment()
    hosts = {name: ha.host(segment, name) for name in ("fake-1", "fake-2")}
    server = on(ha, "fake-1")
    first = ha.reported("fake-1")
    ha.cloud.settle()
    newest = ha.reported("fake-2", event="STARTED", cluster_status="ONLINE", host_status="NORMAL")
    ha.cloud.settle()
    assert ha.status(first) == "finished" and place(ha, server)[0] != "fake-1"
    cloud.advance(40 * DAY)
    ha = Ha(cloud.client("admin"))
    assert "notifications" not in purge(cloud.db, 30)
    assert fencer.fenced == {"fake-1"}

    done = ha.ask("PUT", f"/segments/{segment}/hosts/{hosts['fake-1']}", {"host": {"on_maintenance": False}})
    assert done.status == 200
    cloud.settle()
    # It is let back although all that fenced it was long ago.
    assert fencer.fenced == set()
    assert purge(cloud.db, 30)["notifications"] == 1
    assert ids(cloud, Notification.id) == {newest}
    assert ha.compute.status(server) == "ACTIVE"
    assert ids(cloud, Proof.notification_id) == ids(cloud, VMove.notification_id) == set()
