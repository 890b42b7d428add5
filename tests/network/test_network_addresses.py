"""Pure rules about addresses. Reference: network-rules.md, sections 1 and 2."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloudctl.errors import CloudError, Conflict, Invalid
from cloudctl.network import addresses
from cloudctl.network.addresses import Range, key, written


def texts(ranges: list[Range], version: int = 4) -> list[tuple[str, str]]:
    return [(written(each.first, version), written(each.last, version)) for each in ranges]


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools"),
    [
        ("10.0.0.0/24", "10.0.0.1", [("10.0.0.2", "10.0.0.254")]),
        ("10.0.0.0/24", "10.0.0.254", [("10.0.0.1", "10.0.0.253")]),
        ("10.0.0.0/24", None, [("10.0.0.1", "10.0.0.254")]),
        ("10.0.0.0/24", "10.0.0.100", [("10.0.0.1", "10.0.0.99"), ("10.0.0.101", "10.0.0.254")]),
        ("10.0.0.0/24", "192.0.2.1", [("10.0.0.1", "10.0.0.254")]),
        ("10.0.0.0/31", None, [("10.0.0.0", "10.0.0.1")]),
        ("10.0.0.0/31", "10.0.0.0", [("10.0.0.1", "10.0.0.1")]),
        ("10.0.0.5/32", None, [("10.0.0.5", "10.0.0.5")]),
        ("10.0.0.5/32", "10.0.0.5", []),
        ("2001:db8::/126", "2001:db8::1", [("2001:db8::2", "2001:db8::3")]),
    ],
)
def test_default_pools_are_all_hosts_but_the_gateway(cidr: str, gateway: str | None, pools: list[object]) -> None:
    network = ip_network(cidr)
    found = addresses.default_pools(network, ip_address(gateway) if gateway else None)
    assert texts(found, network.version) == pools


@pytest.mark.parametrize(
    ("cidr", "gateway"),
    [
        ("10.0.0.0/24", "10.0.0.1"),
        ("10.0.0.4/31", "10.0.0.4"),
        ("10.0.0.4/32", "10.0.0.4"),
        ("2001:db8::/64", "2001:db8::1"),
    ],
)
def test_the_default_gateway_is_the_first_host(cidr: str, gateway: str) -> None:
    assert str(addresses.default_gateway(ip_network(cidr))) == gateway


@pytest.mark.parametrize(
    ("cidr", "dhcp"),
    [
        ("0.0.0.0/0", False),
        ("::/64", False),
        ("10.0.0.0/31", True),
        ("10.0.0.1/32", True),
        ("2001:db8::/127", True),
        ("224.0.0.0/24", True),
        ("127.0.0.0/24", True),
        ("0.0.0.0/24", True),
    ],
)
def test_a_cidr_that_no_subnet_can_have_is_refused(cidr: str, dhcp: bool) -> None:
    with pytest.raises(Invalid):
        addresses.check_cidr(ip_network(cidr), dhcp)


@pytest.mark.parametrize(("cidr", "dhcp"), [("10.0.0.0/30", True), ("10.0.0.0/31", False), ("2001:db8::/126", True)])
def test_small_cidrs_are_taken(cidr: str, dhcp: bool) -> None:
    addresses.check_cidr(ip_network(cidr), dhcp)


@pytest.mark.parametrize("gateway", ["10.0.0.0", "10.0.0.255", "2001:db8::1"])
def test_a_gateway_that_cannot_be_is_refused(gateway: str) -> None:
    with pytest.raises(Invalid):
        addresses.check_gateway(ip_address(gateway), ip_network("10.0.0.0/24"))


@pytest.mark.parametrize(
    ("pools", "type"),
    [
        ([("10.0.0.9", "10.0.0.2")], "InvalidAllocationPool"),
        ([("2001:db8::1", "2001:db8::2")], "InvalidAllocationPool"),
        ([("10.0.0.0", "10.0.0.9")], "OutOfBoundsAllocationPool"),
        ([("10.0.0.2", "10.0.0.255")], "OutOfBoundsAllocationPool"),
        ([("10.0.0.2", "10.0.0.9"), ("10.0.0.9", "10.0.0.20")], "OverlappingAllocationPools"),
        ([("10.0.0.50", "10.0.0.60"), ("10.0.0.2", "10.0.0.55")], "OverlappingAllocationPools"),
        ([("x", "10.0.0.9")], "InvalidInput"),
    ],
)
def test_pools_that_cannot_be_are_refused(pools: list[tuple[str, str]], type: str) -> None:
    with pytest.raises(CloudError) as caught:
        addresses.check_pools(pools, ip_network("10.0.0.0/24"))
    assert caught.value.type == type


def test_a_gateway_in_a_pool_is_refused() -> None:
    pools = addresses.check_pools([("10.0.0.2", "10.0.0.9")], ip_network("10.0.0.0/24"))
    with pytest.raises(Conflict) as caught:
        addresses.check_gateway_outside(pools, ip_address("10.0.0.9"))
    assert caught.value.type == "GatewayConflictWithAllocationPools"
    addresses.check_gateway_outside(pools, ip_address("10.0.0.10"))


@pytest.mark.parametrize(
    ("ra", "mode", "cidr", "dhcp"),
    [
        ("slaac", "dhcpv6-stateful", "2001:db8::/64", True),
        ("slaac", "slaac", "2001:db8::/64", False),
        ("slaac", "slaac", "2001:db8::/80", True),
        ("slaac", "slaac", "10.0.0.0/24", True),
    ],
)
def test_modes_that_contradict_are_refused(ra: str, mode: str, cidr: str, dhcp: bool) -> None:
    with pytest.raises(Invalid):
        addresses.check_modes(ra, mode, ip_network(cidr), dhcp)


def test_a_guest_gives_itself_its_eui64_address() -> None:
    found = addresses.eui64(ip_network("2001:db8:0:1::/64"), "fa:16:3e:23:fd:d7")
    assert str(found) == "2001:db8:0:1:f816:3eff:fe23:fdd7"


@pytest.mark.parametrize("text", ["", "10.0.0", "10.0.0.1/24", "fe80::1%eth0", "x" * 100, "١٠.0.0.1", None, 5])
def test_what_is_no_address_is_refused(text: object) -> None:
    with pytest.raises(Invalid):
        addresses.parse_address(text)


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_keys_sort_as_their_numbers_do(one: int, two: int) -> None:
    assert (key(one) < key(two)) == (one < two) and int(key(one)) == one


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5),
    st.sets(st.integers(0, 70), max_size=30),
)
def test_what_is_left_of_pools_is_what_is_not_taken(ends: list[tuple[int, int]], taken: set[int]) -> None:
    pools, free = [], 0
    for first, last in sorted((min(pair), max(pair)) for pair in ends):
        if first >= free:
            pools.append(Range(first, last))
            free = last + 1
    left = addresses.without(pools, taken)
    members = [number for each in left for number in range(each.first, each.last + 1)]
    expected = [number for pool in pools for number in range(pool.first, pool.last + 1) if number not in taken]
    assert members == expected
