"""What is kept of servers for their pages is never older than the servers."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update

from cloudctl.compute import networking
from cloudctl.compute.tables import Server
from cloudctl.db import Connection
from cloudctl.network.standard import BATCH
from cloudctl.testing.cloud import MemoryCloud
from tests.compute.asking import LATEST, Asking
from tests.work import counted

# The last version that minds no parameter which it does not have: with one, an answer is not one that is kept.
UNMINDFUL = "2.101"


def rows_read(cloud: MemoryCloud, demo: Asking, path: str = "/servers/detail", version: str = LATEST) -> list[str]:
    with counted(cloud) as work:
        demo.get(path, version)
    return [statement for statement in work.statements if "servers.hostname" in statement]


def test_a_row_is_read_again_only_after_it_has_changed(demo: Asking, cloud: MemoryCloud) -> None:
    first, second = demo.boot(name="first"), demo.boot(name="second")
    assert len(rows_read(cloud, demo)) == 1
    assert rows_read(cloud, demo) == []
    demo.put(f"/servers/{first}", {"server": {"name": "other"}})
    (read,) = rows_read(cloud, demo)
    assert first in read
    assert second not in read


def test_one_server_is_read_again_only_after_it_has_changed(demo: Asking, cloud: MemoryCloud) -> None:
    """Its outline is: who may see it, and whether it has changed."""
    path = f"/servers/{demo.boot(name='first')}"
    demo.get(path, UNMINDFUL)
    assert rows_read(cloud, demo, f"{path}?again=1", UNMINDFUL) == []
    demo.put(path, {"server": {"name": "other"}})
    assert len(rows_read(cloud, demo, f"{path}?again=2", UNMINDFUL)) == 1


def test_a_page_shows_each_server_as_it_is_shown_alone(demo: Asking, admin: Asking) -> None:
    server_id = demo.boot()
    for asking, query in ((demo, ""), (admin, "?all_tenants=1")):
        for version in ("2.1", "2.16", LATEST):
            for _ in range(2):
                (shown,) = asking.get(f"/servers/detail{query}", version).json()["servers"]
                alone = asking.get(f"/servers/{server_id}", version).json()["server"]
                alone.pop("server_groups", None)
                assert shown == alone


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"description": "new"},
        {"accessIPv4": "192.0.2.1"},
    ],
)
def test_a_change_is_seen_at_once(demo: Asking, change: dict[str, str]) -> None:
    server_id = demo.boot()
    demo.get("/servers/detail", LATEST)
    demo.put(f"/servers/{server_id}", {"server": change}, LATEST)
    (shown,) = demo.get("/servers/detail", LATEST).json()["servers"]
    assert change.items() <= shown.items()


def test_every_update_raises_the_revision(demo: Asking, cloud: MemoryCloud) -> None:
    demo.boot()

    def revision(conn: Connection) -> int:
        return conn.execute(select(Server.revision)).scalar_one()

    before = cloud.db.transact(True, revision)
    cloud.db.transact(False, lambda conn: conn.execute(update(Server).values(power_state=4)))
    assert cloud.db.transact(True, revision) == before + 1


def test_what_others_change_is_seen_at_once(demo: Asking, admin: Asking, cloud: MemoryCloud) -> None:
    """Names of networks and groups, floating IPs, groups of ports, volumes: none of them is in the server's row."""
    server_id = demo.boot()
    client = cloud.client("demo")

    def page() -> Any:
        return demo.get("/servers/detail", LATEST).json()["servers"][0]

    def made(path: str, member: str, **wanted: Any) -> Any:
        answer = client.post(f"/networking/v2.0/{path}", {member: wanted})
        assert answer.status == 201, answer
        return answer.json()[member]

    def changed(path: str, member: str, **wanted: Any) -> None:
        answer = client.put(f"/networking/v2.0/{path}", {member: wanted})
        assert answer.status == 200, answer

    (port,) = client.get(f"/networking/v2.0/ports?device_id={server_id}").json()["ports"]
    assert list(page()["addresses"]) == ["private"]
    changed(f"networks/{port['network_id']}", "network", name="inside")
    assert list(page()["addresses"]) == ["inside"]

    public = next(
        each["id"] for each in client.get("/networking/v2.0/networks").json()["networks"] if each["router:external"]
    )
    floating = made("floatingips", "floatingip", floating_network_id=public, port_id=port["id"])
    assert [each["OS-EXT-IPS:type"] for each in page()["addresses"]["inside"]] == ["fixed", "floating"]
    changed(f"floatingips/{floating['id']}", "floatingip", port_id=None)
    assert [each["OS-EXT-IPS:type"] for each in page()["addresses"]["inside"]] == ["fixed"]
    changed(f"floatingips/{floating['id']}", "floatingip", port_id=port["id"])
    assert len(page()["addresses"]["inside"]) == 2
    assert client.delete(f"/networking/v2.0/floatingips/{floating['id']}").status == 204
    assert len(page()["addresses"]["inside"]) == 1

    group = made("security-groups", "security_group", name="web")
    changed(f"ports/{port['id']}", "port", security_groups=[group["id"]])
    assert page()["security_groups"] == [{"name": "web"}]
    changed(f"security-groups/{group['id']}", "security_group", name="shop")
    assert page()["security_groups"] == [{"name": "shop"}]

    volume = client.post("/volume/v3/volumes", {"volume": {"size": 1}}).json()["volume"]["id"]
    cloud.settle()
    demo.post(f"/servers/{server_id}/os-volume_attachments", {"volumeAttachment": {"volumeId": volume}})
    assert [each["id"] for each in page()["os-extended-volumes:volumes_attached"]] == [volume]
    cloud.settle()
    demo.delete(f"/servers/{server_id}/os-volume_attachments/{volume}")
    cloud.settle()
    assert page()["os-extended-volumes:volumes_attached"] == []


def test_a_port_that_names_a_foreign_server_is_not_among_its_addresses(demo: Asking, cloud: MemoryCloud) -> None:
    server_id = demo.boot()
    before = demo.server(server_id)
    other = cloud.client("admin")
    network = other.post("/networking/v2.0/networks", {"network": {"name": "theirs"}}).json()["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.66.0.0/24"}
    assert other.post("/networking/v2.0/subnets", {"subnet": subnet}).status == 201
    port = {"network_id": network, "device_id": server_id, "device_owner": "compute:nova"}
    assert other.post("/networking/v2.0/ports", {"port": port}).status == 201
    assert demo.server(server_id) == before
    assert demo.get(f"/servers/{server_id}/ips", LATEST).json()["addresses"] == {
        name: [{"addr": each["addr"], "version": each["version"]} for each in found]
        for name, found in before["addresses"].items()
    }
    assert demo.get("/servers?ip=10.66", LATEST).json()["servers"] == []


def test_no_statement_names_the_ports_of_all_servers(demo: Asking, cloud: MemoryCloud) -> None:
    """A filter by address looks at every server that there is; databases take so many values in a statement."""
    server_id = demo.boot()
    ids = [f"nobody-{number}" for number in range(1200)] + [server_id]
    with counted(cloud) as work:
        assert list(cloud.transact(networking.addresses, ids)) == [server_id]
    assert max(statement.count("nobody-") for statement in work.statements) <= BATCH
