"""Records that can be added to are bounded, however often: each is read whole, and writers wait for its change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloudctl.testing.cloud import Client, MemoryCloud

NETWORKING, VOLUME = "/networking/v2.0", "/volume/v3"
TURNS = 60
MOST = 250_000  # bytes of the record, as shown


def made(client: Client, path: str, key: str, **fields: Any) -> str:
    answer = client.post(path, {key: fields})
    assert answer.status < 300, answer
    client.cloud.settle()
    return f"{path}/{answer.json()[key]['id']}"


def added(client: Client, method: str, path: str, body: Callable[[int], Any], shown: str) -> tuple[int, int]:
    """The last status, and how large the record has become."""
    status = 200
    for turn in range(TURNS):
        status = client.request(method, path, body(turn)).status
        if status >= 400:
            break
    return status, len(client.get(shown).body)


def entries(turn: int) -> dict[str, str]:
    return {f"{turn}-{number}": "x" * 250 for number in range(100)}


@pytest.fixture
def demo() -> Client:
    return MemoryCloud().client("demo", **{"OpenStack-API-Version": "volume latest"})


def test_addresses_of_a_group(demo: Client) -> None:
    group = made(demo, f"{NETWORKING}/address-groups", "address_group", addresses=[])

    def body(turn: int) -> Any:
        return {"addresses": [f"10.{turn}.{number // 250}.{number % 250}/32" for number in range(500)]}

    status, size = added(demo, "PUT", f"{group}/add_addresses", body, group)
    assert (status, size < MOST) == (400, True)
    assert demo.put(f"{group}/remove_addresses", body(0)).status == 200


def test_prefixes_of_a_subnet_pool(demo: Client) -> None:
    pool = made(demo, f"{NETWORKING}/subnetpools", "subnetpool", name="x", prefixes=["10.255.0.0/24"])

    def body(turn: int) -> Any:
        return {"prefixes": [f"10.{turn}.{2 * number}.0/24" for number in range(100)]}

    status, size = added(demo, "PUT", f"{pool}/add_prefixes", body, pool)
    assert (status, size < 10_000) == (400, True)


@pytest.mark.parametrize("of", ["volume", "snapshot", "image"])
def test_metadata_of_volumes(demo: Client, of: str) -> None:
    path = volume = made(demo, f"{VOLUME}/volumes", "volume", size=1)
    if of == "snapshot":
        path = made(demo, f"{VOLUME}/snapshots", "snapshot", volume_id=volume.rpartition("/")[2])
    if of == "image":
        status, size = added(
            demo, "POST", f"{path}/action", lambda turn: {"os-set_image_metadata": {"metadata": entries(turn)}}, path
        )
    else:
        status, size = added(demo, "POST", f"{path}/metadata", lambda turn: {"metadata": entries(turn)}, path)
    assert (status, size < MOST) == (413, True)
    assert demo.get(path).status == 200


def test_tags_of_a_network(demo: Client) -> None:
    network = made(demo, f"{NETWORKING}/networks", "network")
    statuses = {demo.put(f"{network}/tags/t{turn}").status for turn in range(TURNS)}
    assert statuses == {201, 400} and len(demo.get(f"{network}/tags").json()["tags"]) < TURNS
