"""Subnet pools and address scopes. Reference: network.md, sections 4 and 5."""

from __future__ import annotations

from ipaddress import collapse_addresses, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudctl.network import prefixes
from tests.network.conftest import Neutron


def pool(neutron: Neutron, user: str = "demo", **fields: Any) -> Any:
    return neutron.create("subnetpool", user, **{"name": "p", "prefixes": ["10.10.0.0/16"], **fields})


def subnet(neutron: Neutron, user: str = "demo", network: Any = None, **fields: Any) -> Any:
    network = network or neutron.network(None, user)
    return neutron.create("subnet", user, network_id=network["id"], **fields)


def scope(neutron: Neutron, user: str = "demo", **fields: Any) -> Any:
    body = {"address_scope": {"ip_version": 4, **fields}}
    return neutron.expect(201, "POST", "/address-scopes", body, user)["address_scope"]


def refused_pool(neutron: Neutron, status: int, type: str, user: str = "demo", **fields: Any) -> None:
    body = {"subnetpool": {"name": "p", "prefixes": ["10.10.0.0/16"], **fields}}
    neutron.refused(status, type, "POST", "/subnetpools", body, user)


class TestPools:
    def test_what_is_shown(self, neutron: Neutron) -> None:
        made = pool(neutron, prefixes=["10.10.1.0/24", "10.10.0.0/24"], default_prefixlen="26")
        for name in ("id", "created_at", "updated_at"):
            assert made.pop(name)
        assert made == {
            "name": "p", "prefixes": ["10.10.0.0/23"], "ip_version": 4, "min_prefixlen": "8", "max_prefixlen": "32",
            "default_prefixlen": "26", "default_quota": None, "address_scope_id": None, "is_default": False,
            "shared": False, "project_id": "demo", "tenant_id": "demo", "description": "", "revision_number": 0,
            "tags": [],
        }  # fmt: skip
        six = pool(neutron, prefixes=["2001:db8::/48"])
        assert (six["min_prefixlen"], six["max_prefixlen"], six["default_prefixlen"]) == ("64", "128", "64")

    @pytest.mark.parametrize(
        ("fields", "type"),
        [
            ({"prefixes": []}, "EmptySubnetPoolPrefixList"),
            ({"prefixes": ["10.0.0.0/8", "2001:db8::/48"]}, "PrefixVersionMismatch"),
            ({"min_prefixlen": 28, "max_prefixlen": 24}, "IllegalSubnetPoolPrefixBounds"),
            ({"min_prefixlen": 24, "default_prefixlen": 20}, "IllegalSubnetPoolPrefixBounds"),
            ({"max_prefixlen": 24, "default_prefixlen": 26}, "IllegalSubnetPoolPrefixBounds"),
            ({"max_prefixlen": 64}, "IllegalSubnetPoolPrefixBounds"),
            ({"name": None}, "HTTPBadRequest"),
            ({"address_scope_id": "foo"}, "HTTPBadRequest"),
        ],
    )
    def test_bodies_that_are_refused(self, neutron: Neutron, fields: Any, type: str) -> None:
        refused_pool(neutron, 400, type, **fields)

    def test_default_and_shared_pools_are_administrators(self, neutron: Neutron) -> None:
        for name in ("is_default", "shared"):
            body: dict[str, Any] = {"name": "p", "prefixes": ["10.0.0.0/8"], name: True}
            neutron.expect(403, "POST", "/subnetpools", {"subnetpool": body})
        shared = pool(neutron, "admin", is_default=True, shared=True)
        refused_pool(neutron, 400, "InvalidInput", "admin", is_default=True)
        assert neutron.get("/subnetpools?shared=true")["subnetpools"][0]["id"] == shared["id"]
        assert subnet(neutron, use_default_subnetpool=True, prefixlen=24)["subnetpool_id"] == shared["id"]
        neutron.expect(403, "PUT", f"/subnetpools/{shared['id']}", {"subnetpool": {"name": "mine"}})

    def test_prefixes_only_grow_in_an_update(self, neutron: Neutron) -> None:
        path = f"/subnetpools/{pool(neutron)['id']}"
        body = {"subnetpool": {"prefixes": ["10.0.0.0/9"]}}
        assert neutron.expect(200, "PUT", path, body)["subnetpool"]["prefixes"] == ["10.0.0.0/9"]
        body = {"subnetpool": {"prefixes": ["10.0.0.0/16"]}}
        neutron.refused(400, "IllegalSubnetPoolPrefixUpdate", "PUT", path, body)

    def test_prefixes_are_added_and_removed(self, neutron: Neutron) -> None:
        made = pool(neutron, default_prefixlen=24)
        path = f"/subnetpools/{made['id']}"
        taken = subnet(neutron, subnetpool_id=made["id"])
        added = neutron.expect(200, "PUT", f"{path}/add_prefixes", {"prefixes": ["10.12.0.0/16", "10.10.0.0/24"]})
        assert added == {"prefixes": ["10.10.0.0/16", "10.12.0.0/16"]}
        body = {"prefixes": [taken["cidr"]]}
        neutron.refused(409, "IllegalSubnetPoolPrefixRemoval", "PUT", f"{path}/remove_prefixes", body)
        left = neutron.expect(200, "PUT", f"{path}/remove_prefixes", {"prefixes": ["10.10.128.0/17", "10.12.0.0/16"]})
        assert left == {"prefixes": ["10.10.0.0/17"]}
        neutron.expect(404, "PUT", f"{path}/add_prefixes", body, "other")

    def test_taking_some_out_leaves_no_more_than_a_pool_has(self, neutron: Neutron) -> None:
        made = pool(neutron, prefixes=["2001:db8::/32"])
        path = f"/subnetpools/{made['id']}"
        two = {"prefixes": ["2001:db8:1::/128", "2001:db8:2::/128"]}
        assert len(neutron.expect(200, "PUT", f"{path}/remove_prefixes", two)["prefixes"]) > 96
        more = {"prefixes": ["2001:db8:3::/128", "2001:db8:4::/128"]}
        neutron.refused(400, "InvalidInput", "PUT", f"{path}/remove_prefixes", more)

    def test_they_go_when_there_are_no_subnets(self, neutron: Neutron) -> None:
        made = pool(neutron, default_prefixlen=24)
        taken = subnet(neutron, subnetpool_id=made["id"])
        neutron.refused(400, "SubnetPoolDeleteError", "DELETE", f"/subnetpools/{made['id']}")
        neutron.expect(204, "DELETE", f"/subnets/{taken['id']}")
        neutron.expect(204, "DELETE", f"/subnetpools/{made['id']}")

    def test_their_number_is_limited(self, neutron: Neutron) -> None:
        neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"subnetpool": 1}}, "admin")
        pool(neutron)
        refused_pool(neutron, 409, "OverQuota")


class TestSubnets:
    def test_each_is_given_a_part_of_its_own(self, neutron: Neutron) -> None:
        made = pool(neutron, default_prefixlen=24)
        found = [subnet(neutron, subnetpool_id=made["id"]) for _ in range(3)]
        assert [each["cidr"] for each in found] == ["10.10.0.0/24", "10.10.1.0/24", "10.10.2.0/24"]
        assert (found[0]["gateway_ip"], found[0]["ip_version"]) == ("10.10.0.1", 4)
        neutron.expect(204, "DELETE", f"/subnets/{found[1]['id']}")
        assert subnet(neutron, subnetpool_id=made["id"], prefixlen=23)["cidr"] == "10.10.4.0/23"
        assert subnet(neutron, subnetpool_id=made["id"], prefixlen=25)["cidr"] == "10.10.1.0/25"
        assert subnet(neutron, subnetpool_id=made["id"], cidr="10.10.9.0/24")["cidr"] == "10.10.9.0/24"

    @pytest.mark.parametrize(
        ("fields", "status", "type"),
        [
            ({"cidr": "10.10.0.0/24"}, 409, "SubnetAllocationError"),
            ({"cidr": "10.11.0.0/24"}, 409, "SubnetAllocationError"),
            ({"prefixlen": 20}, 400, "MinPrefixSubnetAllocationError"),
            ({"prefixlen": 30}, 400, "MaxPrefixSubnetAllocationError"),
            ({"prefixlen": 25, "cidr": "10.10.1.0/25"}, 400, "BadRequest"),
            ({"ip_version": 6}, 400, "BadRequest"),
            ({"use_default_subnetpool": True}, 400, "BadRequest"),
            ({"allocation_pools": [{"start": "10.10.0.5", "end": "10.10.0.9"}]}, 400, "BadRequest"),
            ({"subnetpool_id": "prefix_delegation"}, 400, "BadRequest"),
            ({"subnetpool_id": "x"}, 400, "HTTPBadRequest"),
            ({"subnetpool_id": "2f32f072-4d17-4811-b619-3623d018bd40"}, 404, "SubnetPoolNotFound"),
        ],
    )
    def test_what_is_refused(self, neutron: Neutron, fields: Any, status: int, type: str) -> None:
        made = pool(neutron, min_prefixlen=22, max_prefixlen=28)
        subnet(neutron, subnetpool_id=made["id"], cidr="10.10.0.0/24")
        body = {"network_id": neutron.network(None)["id"], "subnetpool_id": made["id"], **fields}
        neutron.refused(status, type, "POST", "/subnets", {"subnet": body})

    def test_without_a_pool(self, neutron: Neutron) -> None:
        network = neutron.network(None)
        for fields in ({"use_default_subnetpool": True}, {}, {"cidr": "10.0.0.0/24", "prefixlen": 24, "ip_version": 4}):
            body = {"subnet": {"network_id": network["id"], **fields}}
            neutron.refused(400, "BadRequest", "POST", "/subnets", body)
        body = {"subnet": {"network_id": network["id"], "cidr": "10.0.0.0/24"}}
        neutron.refused(400, "HTTPBadRequest", "POST", "/subnets", body)

    def test_there_is_room_for_so_many(self, neutron: Neutron) -> None:
        made = pool(neutron, prefixes=["10.10.0.0/23"], default_prefixlen=24, min_prefixlen=20)
        for _ in range(2):
            subnet(neutron, subnetpool_id=made["id"])
        body = {"subnet": {"network_id": neutron.network(None)["id"], "subnetpool_id": made["id"]}}
        neutron.refused(409, "SubnetAllocationError", "POST", "/subnets", body)

    def test_a_project_has_its_quota_of_a_pool(self, neutron: Neutron) -> None:
        made = pool(neutron, "admin", shared=True, default_prefixlen=24, default_quota=512)
        for user in ("demo", "demo", "other"):
            subnet(neutron, user, subnetpool_id=made["id"])
        body = {"subnet": {"network_id": neutron.network(None)["id"], "subnetpool_id": made["id"]}}
        neutron.refused(409, "SubnetPoolQuotaExceeded", "POST", "/subnets", body)
        six = pool(neutron, prefixes=["2001:db8::/48"], default_quota=1)
        network = neutron.network(None)
        subnet(neutron, network=network, subnetpool_id=six["id"], ip_version=6)
        body = {"subnet": {"network_id": neutron.network(None)["id"], "subnetpool_id": six["id"]}}
        neutron.refused(409, "SubnetPoolQuotaExceeded", "POST", "/subnets", body)

    def test_those_of_a_network_are_of_one_pool(self, neutron: Neutron) -> None:
        one, two = pool(neutron, default_prefixlen=24), pool(neutron, default_prefixlen=25, prefixes=["10.8.0.0/16"])
        body = {"subnet": {"network_id": neutron.network("172.16.0.0/24")["id"], "subnetpool_id": one["id"]}}
        neutron.refused(400, "NetworkSubnetPoolAffinityError", "POST", "/subnets", body)
        other = neutron.network(None)
        subnet(neutron, network=other, subnetpool_id=one["id"])
        subnet(neutron, network=other, subnetpool_id=one["id"])
        for fields in ({"subnetpool_id": two["id"]}, {"cidr": "192.168.0.0/24", "ip_version": 4}):
            body = {"subnet": {"network_id": other["id"], **fields}}
            neutron.refused(400, "NetworkSubnetPoolAffinityError", "POST", "/subnets", body)

    def test_those_that_there_are_become_a_pools(self, neutron: Neutron) -> None:
        made, network = pool(neutron), neutron.network("172.16.0.0/24")
        path, body = f"/subnetpools/{made['id']}/onboard_network_subnets", {"network_id": network["id"]}
        (found,) = neutron.expect(200, "PUT", path, body)
        assert found == {"id": network["subnets"][0], "cidr": "172.16.0.0/24"}
        assert neutron.get(f"/subnets/{found['id']}")["subnet"]["subnetpool_id"] == made["id"]
        prefixes = neutron.get(f"/subnetpools/{made['id']}")["subnetpool"]["prefixes"]
        assert prefixes == ["10.10.0.0/16", "172.16.0.0/24"]
        overlapping = {"network_id": neutron.network("172.16.0.0/25")["id"]}
        neutron.refused(409, "SubnetAllocationError", "PUT", path, overlapping)
        neutron.refused(400, "IllegalSubnetPoolUpdate", "PUT", path, {"network_id": neutron.network(None)["id"]})


class TestScopes:
    def test_a_networks_scope_is_that_of_its_subnets_pool(self, neutron: Neutron) -> None:
        made = scope(neutron, name="v4")
        assert made == {
            "id": made["id"], "name": "v4", "ip_version": 4, "shared": False, "project_id": "demo",
            "tenant_id": "demo",
        }  # fmt: skip
        found = pool(neutron, address_scope_id=made["id"], default_prefixlen=24)
        network = neutron.network(None)
        subnet(neutron, network=network, subnetpool_id=found["id"])
        shown = neutron.get(f"/networks/{network['id']}")["network"]
        assert (shown["ipv4_address_scope"], shown["ipv6_address_scope"]) == (made["id"], None)
        neutron.refused(409, "AddressScopeInUse", "DELETE", f"/address-scopes/{made['id']}")

    def test_a_networks_subnets_are_of_pools_in_one(self, neutron: Neutron) -> None:
        made, other = scope(neutron), scope(neutron)
        one, two = (pool(neutron, address_scope_id=made["id"], prefixes=[f"10.{n}.0.0/16"]) for n in (1, 2))
        foreign = pool(neutron, address_scope_id=other["id"], prefixes=["10.3.0.0/16"])
        network = neutron.network(None)

        def put(scope_id: str | None) -> Any:
            body = {"subnetpool": {"address_scope_id": scope_id}}
            return neutron.ask("PUT", f"/subnetpools/{two['id']}", body)

        for each in one, two, one:
            subnet(neutron, network=network, subnetpool_id=each["id"], prefixlen=24)
        assert neutron.get(f"/networks/{network['id']}")["network"]["ipv4_address_scope"] == made["id"]
        beside = {"network_id": network["id"], "ip_version": 4}
        apart = {"subnet": {**beside, "subnetpool_id": foreign["id"], "prefixlen": 24}}
        neutron.refused(400, "NetworkAddressScopeAffinityError", "POST", "/subnets", apart)
        of_none = {"subnet": {**beside, "cidr": "192.0.2.0/24"}}
        neutron.refused(400, "NetworkSubnetPoolAffinityError", "POST", "/subnets", of_none)
        for scope_id in other["id"], None:
            refused = put(scope_id)
            assert (refused.status, refused.json()["NeutronError"]["type"]) == (400, "NetworkAddressScopeAffinityError")
        (second,) = neutron.get(f"/subnets?subnetpool_id={two['id']}")["subnets"]
        neutron.expect(204, "DELETE", f"/subnets/{second['id']}")
        assert put(other["id"]).status == 200

    def test_pools_within_one_do_not_overlap(self, neutron: Neutron) -> None:
        made = scope(neutron)
        pool(neutron, address_scope_id=made["id"])
        refused_pool(neutron, 409, "AddressScopePrefixConflict", address_scope_id=made["id"])
        other = pool(neutron, address_scope_id=made["id"], prefixes=["10.12.0.0/16"])
        body = {"subnetpool": {"prefixes": ["10.8.0.0/13"]}}
        neutron.refused(409, "AddressScopePrefixConflict", "PUT", f"/subnetpools/{other['id']}", body)

    def test_a_pool_without_prefixes_may_be_in_one(self, neutron: Neutron) -> None:
        made = pool(neutron)
        path = f"/subnetpools/{made['id']}"
        assert neutron.expect(200, "PUT", f"{path}/remove_prefixes", {"prefixes": made["prefixes"]}) == {"prefixes": []}
        six = {"subnetpool": {"address_scope_id": scope(neutron, ip_version=6)["id"]}}
        neutron.refused(400, "IllegalSubnetPoolIpVersionAssociationToAddressScope", "PUT", path, six)
        four = {"subnetpool": {"address_scope_id": scope(neutron)["id"]}}
        neutron.expect(200, "PUT", path, four)
        neutron.refused(409, "SubnetAllocationError", "POST", "/subnets", {"subnet": {
            "network_id": neutron.network(None)["id"], "ip_version": 4, "subnetpool_id": made["id"],
        }})  # fmt: skip

    def test_a_pool_in_one_is_shared_with_whom_the_scope_is(self, neutron: Neutron) -> None:
        found = pool(neutron, address_scope_id=scope(neutron)["id"])
        policy = {"object_type": "subnetpool", "object_id": found["id"], "action": "access_as_shared"}
        to_other = {"rbac_policy": {"target_tenant": "other"}}
        both = {"rbac_policy": {**policy, "target_tenant": "other"}}
        neutron.refused(400, "InvalidInput", "POST", "/rbac-policies", both)
        own = {"rbac_policy": {**policy, "target_tenant": "demo"}}
        made = neutron.expect(201, "POST", "/rbac-policies", own)["rbac_policy"]
        neutron.refused(400, "InvalidInput", "PUT", f"/rbac-policies/{made['id']}", to_other)

    def test_the_family_of_a_scope_may_be_text(self, neutron: Neutron) -> None:
        assert scope(neutron, ip_version="6")["ip_version"] == 6
        body = {"address_scope": {"ip_version": "5"}}
        neutron.refused(400, "HTTPBadRequest", "POST", "/address-scopes", body)

    def test_who_may_put_a_pool_into_one(self, neutron: Neutron) -> None:
        theirs = scope(neutron, "other")
        refused_pool(neutron, 404, "AddressScopeNotFound", address_scope_id=theirs["id"])
        six = scope(neutron, ip_version=6)
        refused_pool(neutron, 400, "IllegalSubnetPoolIpVersionAssociationToAddressScope", address_scope_id=six["id"])
        neutron.expect(403, "POST", "/address-scopes", {"address_scope": {"ip_version": 4, "shared": True}})
        shared = scope(neutron, "admin", shared=True)
        mine = pool(neutron, address_scope_id=shared["id"])
        body = {"subnetpool": {"prefixes": ["10.10.0.0/15"]}}
        path = f"/subnetpools/{mine['id']}"
        neutron.refused(400, "IllegalSubnetPoolAssociationToAddressScope", "PUT", path, body)
        neutron.expect(200, "PUT", path, body, "admin")

    def test_a_pool_is_shared_with_who_sees_its_scope(self, neutron: Neutron) -> None:
        mine = pool(neutron, address_scope_id=scope(neutron)["id"])
        body = {"object_type": "subnetpool", "object_id": mine["id"], "action": "access_as_shared"}
        policy = {"rbac_policy": {**body, "target_tenant": "other"}}
        neutron.refused(400, "InvalidInput", "POST", "/rbac-policies", policy)

    def test_a_shared_one_stays_shared(self, neutron: Neutron) -> None:
        path = f"/address-scopes/{scope(neutron, 'admin', shared=True)['id']}"
        body: dict[str, Any] = {"address_scope": {"shared": False}}
        neutron.refused(400, "AddressScopeUpdateError", "PUT", path, body, "admin")
        renamed = {"address_scope": {"name": "new", "shared": True}}
        assert neutron.expect(200, "PUT", path, renamed, "admin")["address_scope"]["name"] == "new"
        neutron.expect(403, "PUT", path, {"address_scope": {"name": "x"}})


NETWORKS = st.builds(
    lambda at, length: ip_network((at >> (32 - length) << (32 - length), length)),
    st.integers(0, 1023),
    st.integers(22, 30),
)


@given(st.lists(NETWORKS, min_size=1, max_size=6), st.lists(NETWORKS, max_size=8), st.integers(22, 30))
def test_the_first_free_part_is_found(pools: Any, taken: Any, length: int) -> None:
    whole = prefixes.joined(pools)
    found = prefixes.first_free(whole, taken, length)
    candidates = [each for pool in whole if pool.prefixlen <= length for each in pool.subnets(new_prefix=length)]
    free = [each for each in candidates if not any(each.overlaps(other) for other in taken)]
    assert found == (min(free) if free else None)


@given(st.lists(NETWORKS, min_size=1, max_size=6), st.lists(NETWORKS, max_size=4))
def test_what_is_left_holds_nothing_that_was_taken_out(pools: Any, fewer: Any) -> None:
    left = prefixes.without(prefixes.joined(pools), fewer)
    have = {address for each in collapse_addresses(pools) for address in range(int(each[0]), int(each[-1]) + 1)}
    gone = {address for each in fewer for address in range(int(each[0]), int(each[-1]) + 1)}
    assert {address for each in left for address in range(int(each[0]), int(each[-1]) + 1)} == have - gone
