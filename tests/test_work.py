"""What each piece of work costs the database: statements and transactions, counted where the driver runs them.

The bounds are what it takes today. A change that takes less lowers them; one that takes more says why it must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, text

from cloudctl.testing.cloud import Client, MemoryCloud
from tests.work import Work, counted

SERVERS, NETWORKING = "/compute/v2.1/servers", "/networking/v2.0"
MOMENT = 0.05  # seconds between two looks at something that is being made
LOOKS = 100


class Desk:
    """One user's requests. Their resources are made before anything is counted."""

    def __init__(self, cloud: MemoryCloud) -> None:
        self.cloud = cloud
        self.client: Client = cloud.client("demo")
        networks = self.client.get(f"{NETWORKING}/networks").json()["networks"]
        self.networks = {each["name"]: each["id"] for each in networks}
        self.image = self.client.get("/image/v2/images").json()["images"][0]["id"]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.client.request(method, path, body)
        assert answer.status < 300, answer
        return answer.json() if answer.body else None

    def made(self, path: str, member: str, /, **wanted: Any) -> str:
        return str(self.ask("POST", f"{NETWORKING}/{path}", {member: wanted})[member]["id"])

    def asked_twice(self, path: str) -> Work:
        """A GET whose token is already known. The second path differs, so that no cached answer is found."""
        self.ask("GET", path)
        with counted(self.cloud) as work:
            self.ask("GET", f"{path}{'&' if '?' in path else '?'}limit=200")
        return work

    def post_server(self) -> str:
        server = {"name": "vm", "flavorRef": "1", "imageRef": self.image, "networks": [{"uuid": self.private}]}
        return f"{SERVERS}/{self.ask('POST', SERVERS, {'server': server})['server']['id']}"

    @property
    def private(self) -> str:
        return str(self.networks["private"])

    def becomes(self, path: str, member: str, status: str) -> None:
        for _ in range(LOOKS):
            self.cloud.advance(MOMENT)
            if self.ask("GET", path)[member]["status"] == status:
                return
        raise AssertionError(f"{path} is not {status}")

    def gone(self, path: str) -> None:
        for _ in range(LOOKS):
            self.cloud.advance(MOMENT)
            if self.client.get(path).status == 404:
                return
        raise AssertionError(f"{path} is still there")

    def booted(self) -> str:
        path = self.post_server()
        self.becomes(path, "server", "ACTIVE")
        return path

    def new_volume(self) -> None:
        made = self.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})["volume"]
        self.becomes(f"/volume/v3/volumes/{made['id']}", "volume", "available")


def one_server(desk: Desk) -> Work:
    return desk.asked_twice(desk.booted())


def validation(desk: Desk) -> Work:
    path, headers = "/identity/v3/auth/tokens", {"X-Subject-Token": str(desk.client.token)}
    assert desk.client.get(path, headers=headers).status == 200
    with counted(desk.cloud) as work:
        assert desk.client.get(f"{path}?x=1", headers=headers).status == 200
    return work


def first_validation(desk: Desk) -> Work:
    """Validate a token that this process has never seen, with one that it knows."""
    token = desk.cloud.login("demo", "demo-secret", {"project": {"name": "demo", "domain": {"id": "default"}}})
    with counted(desk.cloud) as work:
        assert desk.client.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": token}).status == 200
    return work


def servers_with_detail(desk: Desk) -> Work:
    for _ in range(3):
        desk.booted()
    return desk.asked_twice(f"{SERVERS}/detail")


def list_of_ports(desk: Desk) -> Work:
    for _ in range(3):
        desk.made("ports", "port", network_id=desk.private)
    return desk.asked_twice(f"{NETWORKING}/ports")


def boot(desk: Desk) -> Work:
    """Not the project's first boot, which makes the default security group."""
    desk.booted()
    with counted(desk.cloud) as work:
        desk.booted()
    return work


def deletion(desk: Desk) -> Work:
    path = desk.booted()
    with counted(desk.cloud) as work:
        desk.ask("DELETE", path)
        desk.gone(path)
    return work


def network_cycle(desk: Desk) -> Work:
    # What a new cloud still has to do for its networks is not counted.
    desk.cloud.advance(1.0)
    with counted(desk.cloud) as work:
        network = desk.made("networks", "network", name="cycle")
        desk.cloud.advance(MOMENT)
        subnet = desk.made("subnets", "subnet", network_id=network, ip_version=4, cidr="192.168.7.0/24")
        desk.cloud.advance(MOMENT)
        port = desk.made("ports", "port", network_id=network)
        for path, id in (("ports", port), ("subnets", subnet), ("networks", network)):
            desk.ask("DELETE", f"{NETWORKING}/{path}/{id}")
            desk.cloud.advance(MOMENT)
    return work


def new_rule(desk: Desk) -> Work:
    group = desk.made("security-groups", "security_group", name="mine")
    with counted(desk.cloud) as work:
        desk.made("security-group-rules", "security_group_rule", security_group_id=group, direction="ingress")
    return work


def deleted_rule(desk: Desk) -> Work:
    group = desk.made("security-groups", "security_group", name="mine")
    rule = desk.made("security-group-rules", "security_group_rule", security_group_id=group, direction="ingress")
    with counted(desk.cloud) as work:
        desk.ask("DELETE", f"{NETWORKING}/security-group-rules/{rule}")
    return work


def volume(desk: Desk) -> Work:
    desk.new_volume()
    with counted(desk.cloud) as work:
        desk.new_volume()
    return work


def floating_ip_cycle(desk: Desk) -> Work:
    port = desk.made("ports", "port", network_id=desk.private)
    # What a new cloud still has to do for its networks is not counted.
    desk.cloud.advance(1.0)
    with counted(desk.cloud) as work:
        path = f"floatingips/{desk.made('floatingips', 'floatingip', floating_network_id=desk.networks['public'])}"
        for to in (port, None):
            desk.ask("PUT", f"{NETWORKING}/{path}", {"floatingip": {"port_id": to}})
        desk.ask("DELETE", f"{NETWORKING}/{path}")
        desk.cloud.advance(MOMENT)
    return work


def login_by_token(desk: Desk) -> Work:
    identity = {"methods": ["token"], "token": {"id": desk.client.token}}
    scope = {"project": {"name": "demo", "domain": {"id": "default"}}}
    with counted(desk.cloud) as work:
        answer = desk.cloud.anonymous().post(
            "/identity/v3/auth/tokens", {"auth": {"identity": identity, "scope": scope}}
        )
    assert answer.status == 201
    return work


def login_by_password(desk: Desk) -> Work:
    with counted(desk.cloud) as work:
        desk.cloud.login("demo", "demo-secret", {"project": {"name": "demo", "domain": {"id": "default"}}})
    return work


def ten_idle_seconds(desk: Desk) -> Work:
    desk.cloud.settle()
    with counted(desk.cloud) as work:
        for _ in range(10):
            desk.cloud.advance(1.0)
    return work


# (work, at most so many statements, reading transactions, writing transactions)
AT_MOST: list[tuple[Callable[[Desk], Work], tuple[int, int, int]]] = [
    (one_server, (2, 1, 0)),
    (validation, (0, 0, 0)),
    (first_validation, (4, 1, 0)),
    (servers_with_detail, (2, 1, 0)),
    (list_of_ports, (2, 1, 0)),
    # A share of a host is one record per resource class, and the host's provider and the consumer have generations.
    # A third transaction reads what has changed while its port was plugged.
    (boot, (67, 3, 4)),
    (deletion, (36, 1, 4)),
    # Four tasks: the network, with its subnet and the port that hands out addresses, without them, and gone.
    # The port is shown with the domain of its network.
    (network_cycle, (128, 4, 15)),
    (new_rule, (9, 0, 1)),
    (deleted_rule, (5, 0, 1)),
    (volume, (24, 3, 4)),
    # Each view shows the policy of its network.
    (floating_ip_cycle, (89, 3, 8)),
    (login_by_token, (10, 1, 0)),
    (login_by_password, (7, 2, 0)),
    # Every ten seconds the hosts, their zones and what schedules and conducts are recorded, notifications that nobody
    # has picked up are looked for, and events a day old are deleted. Every five, whether events have come.
    (ten_idle_seconds, (39, 14, 2)),
]


@pytest.fixture
def cloud() -> Iterator[MemoryCloud]:
    made = MemoryCloud()
    yield made
    made.close()


@pytest.mark.parametrize(("piece", "most"), AT_MOST, ids=[piece.__name__ for piece, _ in AT_MOST])
def test_a_piece_of_work_stays_within_its_bounds(
    cloud: MemoryCloud, piece: Callable[[Desk], Work], most: tuple[int, int, int]
) -> None:
    work = piece(Desk(cloud))
    asked = "\n".join(work.statements)
    assert all(count <= bound for count, bound in zip(work.counts, most, strict=True)), f"{work.counts}\n{asked}"


def test_what_is_counted(cloud: MemoryCloud) -> None:
    """Staying below a bound would mean nothing if the counter saw nothing."""

    def two(conn: Connection) -> None:
        conn.execute(text("SELECT 1"))
        conn.execute(text("SELECT 2"))

    with counted(cloud) as work:
        cloud.db.transact(False, two)
        cloud.db.transact(True, two)
    assert work.statements == ["SELECT 1", "SELECT 2"] * 2
    assert work.writes == 1
    with counted(cloud) as later:
        pass
    assert later.counts == (0, 0, 0)
