"""Networks that their owners share: a guest project has ports there, which are its own and no one else's.

The owner of the network sees them; the guest has what everybody there has: addresses that are chosen for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from tests.generated.world import VARIABLE, World
from tests.hostile.tenants import Tenant, ask
from tests.hostile.test_foreign_ids import named
from tests.hostile.wishes import KINDS, NETWORKING, WISHES, Wish, compute, network

PORTS = frozenset(kind for kind, (path, *_) in KINDS.items() if path == f"{NETWORKING}/ports")
SHARE = {"object_type": "network", "action": "access_as_shared"}


def kinds(wish: Wish) -> list[str]:
    return [kind for kind in wish.kinds if kind.rstrip("2") in PORTS]


def share(owner: Tenant, guest: Tenant, network_id: str) -> None:
    policy = {**SHARE, "object_id": network_id, "target_tenant": guest.project_id}
    assert owner.client.post(f"{NETWORKING}/rbac-policies", {"rbac_policy": policy}).status == 201


@pytest.mark.parametrize(
    "wish",
    [each for each in WISHES if kinds(each)],
    ids=lambda wish: f"{wish.method} {wish.at} {' '.join(kinds(wish))}",
)
def test_the_owner_of_a_network_uses_no_port_that_a_guest_has_there(
    lands: World, tenants: tuple[Tenant, Tenant], wish: Wish
) -> None:
    mine, theirs = tenants
    granted = ask(mine, wish).status < 300
    lands.restore()
    assert granted or not wish.granted
    wrong = []
    for kind in kinds(wish):
        place, subnet = ("addressed", "within") if kind == "routed" else ("network", "subnet")
        share(mine, theirs, mine.id(place))
        made = {"network_id": mine.id(place), "fixed_ips": [{"subnet_id": mine.id(subnet)}]}
        answer = theirs.client.post(f"{NETWORKING}/ports", {"port": made})
        assert answer.status == 201, answer
        port = answer.json()["port"]
        assert mine.client.get(f"{NETWORKING}/ports/{port['id']}").status == 200
        answer = ask(mine, wish, **{kind: port["id"]})
        if answer.status < 400 or answer.status >= 500:
            wrong.append(f"{kind}: {answer}")
        lands.restore()
    assert not wrong, "\n".join(wrong)


# -- addresses

ADDRESS = "10.9.0.77"
NAMED = [{"uuid": "$network", "fixed_ip": ADDRESS}]
FIXED = [{"ip_address": ADDRESS}]
MAC = "fa:16:3e:00:00:77"
SERVER: dict[str, Any] = {"name": "y", "imageRef": "$tiny", "flavorRef": "1"}


def on_ports(**fields: Any) -> list[Wish]:
    new = network("POST", "ports", "port", network_id="$network", **fields)
    return [new, network("PUT", "ports/$own", "port", **fields)]


# Every way to choose addresses on a network, or to send from them.
WAYS = [
    *on_ports(fixed_ips=FIXED),
    *on_ports(mac_address=MAC),
    *on_ports(allowed_address_pairs=[{"ip_address": ADDRESS, "mac_address": MAC}]),
    network("POST", "local_ips", "local_ip", network_id="$network", local_ip_address=ADDRESS),
    compute("POST", "servers", "server", **SERVER, networks=NAMED),
    compute("POST", "os-volumes_boot", "server", version="2.102", **SERVER, networks=NAMED),
    compute("POST", "servers/$server/os-interface", "interfaceAttachment", net_id="$network", fixed_ips=FIXED),
]
LOOKS_LIKE = ("ip_address", "fixed_ip", "fixed_ips", "mac_address", "address_pairs")
# Below these paths an address belongs to a port of the caller's, or only administrators may name it.
OTHERS = ("/routers", "/floatingips", "/ndp_proxies", "/local_ips/<local_ip_id>/port_associations", "/subnets")


def names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from names(each)
    elif isinstance(value, list):
        for each in value:
            yield from names(each)


def there(tenant: Tenant, network_id: str) -> dict[str, str]:
    """The network, and the tenant's own port on it."""
    answer = tenant.client.post(f"{NETWORKING}/ports", {"port": {"network_id": network_id}})
    assert answer.status == 201, answer
    return {"network": network_id, "own": str(answer.json()["port"]["id"])}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.method} {way.at} {' '.join(names(way.body))}")
def test_the_owner_of_a_network_chooses_its_addresses(lands: World, tenants: tuple[Tenant, Tenant], way: Wish) -> None:
    mine, theirs = tenants
    network_id = mine.id("network")
    share(mine, theirs, network_id)
    for tenant, status in ((mine, 2), (theirs, 4)):
        instead = there(tenant, network_id)
        placed = evolve(way, at=way.at.replace("$own", instead["own"]))
        answer = ask(tenant, placed, **instead)
        assert answer.status // 100 == status, answer
        assert status == 2 or answer.status == 403, answer
    lands.restore()


def test_every_field_that_takes_an_address_is_asked_for(lands: World) -> None:
    asked = {
        (way.api, way.method, re.sub(r"\$\w+", "$", way.at).split("/", 2)[2], name)
        for way in WAYS
        for name in names(way.body)
    }
    member, missing = lands.identity("member"), []
    for api, path, operation in lands.operations():
        body = next(reversed([*(operation.body or {}).values()]), None)
        may = operation.policy is not None and lands.cloud.cloud.policy.might(operation.policy, member, {})
        if body is None or not may or operation.path.startswith(OTHERS):
            continue
        place = VARIABLE.sub("$", path).strip("/").split("/", 1)[1]
        for name in sorted(set(named(body.type, LOOKS_LIKE))):
            if (api, operation.method, place, name) not in asked:
                missing.append(f"{api} {operation.key} {name} {place}")
    assert not missing, "\n".join(missing)
