"""Filters and weighers: pure functions over hosts and wishes. Reference: compute-scheduling.md, sections 4 to 8."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.placement import queries
from cloudctl.placement.filters import FILTERS, SAID, matches, passing
from cloudctl.placement.weighers import Weights, best_first
from cloudctl.placement.wishes import GroupWish, HostState, Resources, Wish

SMALL = Resources(1, 512, 1)


def host(name: str, **fields: Any) -> HostState:
    free = {"free_vcpus": 8, "free_memory_mib": 4096, "free_disk_gib": 100}
    return HostState(name, "nova", 4, 4096, 100, **{**free, **fields})


A, B, C = host("a"), host("b"), host("c")


def names(hosts: list[HostState], **wish: Any) -> str:
    return "".join(state.name for state in passing(hosts, Wish(**{"resources": SMALL, **wish})))


@pytest.mark.parametrize(
    ("wish", "left"),
    [
        ({}, "abc"),
        ({"excluded": frozenset({"a"})}, "bc"),
        ({"requested": "b"}, "b"),
        ({"requested": "z"}, ""),
        ({"zone": "nova"}, "abc"),
        ({"zone": "mars"}, ""),
        ({"resources": Resources(4, 4096, 100)}, "abc"),
        ({"resources": Resources(5, 1, 1)}, ""),  # more than the machine has, whatever the ratio
        ({"resources": Resources(1, 4097, 1)}, ""),
        ({"resources": Resources(1, 1, 101)}, ""),
        ({"same_as": frozenset({"b"})}, "b"),
        ({"same_as": frozenset()}, ""),
        ({"different_from": frozenset({"a", "b"})}, "c"),
        ({"group": GroupWish("anti-affinity", {"a": 1})}, "bc"),
        ({"group": GroupWish("anti-affinity", {"a": 1, "b": 2}, 2)}, "ac"),
        ({"group": GroupWish("affinity", {"c": 1})}, "c"),
        ({"group": GroupWish("affinity", {})}, "abc"),
        ({"group": GroupWish("soft-affinity", {"c": 1})}, "abc"),
        ({"extra_specs": {"capabilities:vcpus_total": ">= 4"}}, "abc"),
        ({"extra_specs": {"capabilities:vcpus_total": ">= 5"}}, ""),
        ({"extra_specs": {"capabilities:unheard": "x"}}, ""),
        ({"extra_specs": {"hw:cpu_policy": "shared"}}, "abc"),
    ],
)
def test_a_wish_leaves_the_hosts_that_can(wish: dict[str, Any], left: str) -> None:
    assert names([A, B, C], **wish) == left


def test_filters_to_which_a_wish_says_nothing_would_let_every_host_pass() -> None:
    odd = host(
        "odd",
        cpu_info={"arch": "x"},
        hypervisor_type="QEMU",
        traits=frozenset({"CUSTOM_ODD"}),
        host_ip="not one",
        aggregates=({"a": "b", "os_distro": "x"},),
    )
    short = Wish(SMALL)
    for each in (A, odd, odd._replace(zone="mars", up=False)):
        assert [test.__name__ for test in SAID if SAID[test](short) or not test(each, short)] == []
    assert set(SAID) <= set(FILTERS)


def test_hosts_that_are_down_or_disabled_take_nothing() -> None:
    assert names([A._replace(up=False), B._replace(enabled=False), C]) == "c"


def test_a_forced_host_is_not_questioned() -> None:
    full = A._replace(enabled=False, free_vcpus=0)
    assert names([full, B], forced="a", zone="mars") == "a"
    assert names([full, B], forced="a", excluded=frozenset({"a"})) == ""


def test_an_image_wants_its_architecture_and_hypervisor() -> None:
    arm, intel = host("a", cpu_info={"arch": "aarch64"}), host("b", cpu_info={"arch": "x86_64"}, hypervisor_type="QEMU")
    assert names([arm, intel, C], image_properties={"hw_architecture": "x86_64"}) == "bc"
    assert names([arm, intel], image_properties={"img_hv_type": "qemu"}) == "b"


# -- aggregates, traits, and what hints say


def in_aggregate(name: str, **metadata: str) -> HostState:
    return host(name, aggregates=({}, metadata))


def test_aggregates_are_chosen_by_extra_specs() -> None:
    fast, slow = in_aggregate("a", disk="ssd, nvme"), in_aggregate("b", disk="hdd")

    def chosen(wanted: str) -> str:
        return names([fast, slow, C], extra_specs={"aggregate_instance_extra_specs:disk": wanted})

    assert [chosen("ssd"), chosen("<or> hdd <or> nvme"), chosen("tape")] == ["a", "ab", ""]
    # Without the scope it says nothing of aggregates.
    assert names([fast, slow, C], extra_specs={"disk": "ssd"}) == "abc"


def test_aggregates_may_be_for_some_projects() -> None:
    ours = host("a", aggregates=({"filter_tenant_id": "me, you"}, {"filter_tenant_id2": "them"}))
    assert [names([ours, B], project_id=each) for each in ("me", "them", "others")] == ["ab", "ab", "b"]


def test_aggregates_may_be_for_some_images() -> None:
    windows = in_aggregate("a", os_distro="windows")
    assert names([windows, B], image_properties={"os_distro": "windows"}) == "ab"
    assert names([windows, B], image_properties={"os_distro": "linux"}) == "b"
    assert names([windows, B], image_properties={"other": "linux"}) == "ab"


def test_traits_are_there_or_are_not() -> None:
    gold = host("a", traits=frozenset({"CUSTOM_GOLD"}))
    assert names([gold, B], required_traits=frozenset({"CUSTOM_GOLD"})) == "a"
    assert names([gold, B], forbidden_traits=frozenset({"CUSTOM_GOLD"})) == "b"


def test_resources_that_only_some_hosts_have() -> None:
    special = host("a", left={"CUSTOM_X": 2})
    assert names([special, B], resources=Resources(1, 1, 1, {"CUSTOM_X": 2})) == "a"
    assert names([special, B], resources=Resources(1, 1, 1, {"CUSTOM_X": 3})) == ""
    assert names([special, B], resources=Resources(1, 1, 1, {"CUSTOM_X": 0})) == "ab"


def test_a_host_is_near_an_address() -> None:
    hosts = [host("a", host_ip="10.0.0.5"), host("b", host_ip="10.0.1.5"), C]
    assert names(hosts, near="10.0.0.9/24") == "a"
    assert names(hosts, near="10.0.0.9/23") == "ab"
    assert names(hosts, near="nowhere/24") == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('[">=", "$free_ram_mb", 4096]', "abc"),
        ('[">", "$free_ram_mb", 4096]', ""),
        ('["=", "$hypervisor_type", "b"]', "b"),
        ('["in", "$hypervisor_type", "a", "c"]', "ac"),
        ('["not", ["=", "$hypervisor_type", "b"]]', "ac"),
        ('["and", ["<=", "$vcpus_total", 4], ["or", ["=", "$hypervisor_type", "a"], [">", "$vcpus_free", 8]]]', "a"),
        ('["<", "$hypervisor_type", 5]', ""),
        ('["=", "$unheard", "x"]', ""),
        ('["or"]', ""),
        # Whoever could name hosts would learn which ones there are.
        ('["=", "$host", "a"]', ""),
        ('["in", "$nodename", "a"]', ""),
        ('["not", ["<", "$hypervisor_hostname", "b"]]', "abc"),
    ],
)
def test_a_query_leaves_the_hosts_that_answer_it(text: str, left: str) -> None:
    hosts = [each._replace(hypervisor_type=each.name) for each in (A, B, C)]
    assert names(hosts, query=queries.parse(text)) == left


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '["like", 1, 2]', '["and", [1, 2]]', '["=", {}, 1]', "[" * 50, '["="' + ", 1" * 300 + "]",
             '["not", ' * 30 + '["or"]' + "]" * 30, "[[1]]", '[{"a": 1}]', '["not", [["or"]]]']
)  # fmt: skip
def test_a_query_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(queries.QueryError):
        queries.parse(text)


@pytest.mark.parametrize(
    ("wanted", "value", "fits"),
    [
        ("= 4", "4", True),
        ("= 4", "5", True),
        ("= 4", "3", False),
        ("== 4", "4.0", True),
        ("!= 4", "4", False),
        ("<= 4", "4", True),
        ("== x", "4", False),
        ("s== abc", "abc", True),
        ("s!= abc", "abc", False),
        ("s< b", "a", True),
        ("<in> bc", "abcd", True),
        ("<in> x", "abcd", False),
        ("<all-in> a b", "ab", True),
        ("<all-in> a x", "ab", False),
        ("<or> a <or> b", "b", True),
        ("<or> a <or> b", "c", False),
        ("abc", "abc", True),
        ("", "", True),
    ],
)
def test_operators_of_extra_specs(wanted: str, value: str, fits: bool) -> None:
    assert matches(wanted, value) is fits


def ranked(hosts: list[HostState], weights: Weights | None = None, **wish: Any) -> str:
    found = best_first(hosts, Wish(**{"resources": SMALL, **wish}), weights or Weights())
    return "".join(state.name for state in found)


def test_the_emptiest_host_is_the_best() -> None:
    assert ranked([host("a", free_memory_mib=1), host("b", free_memory_mib=3), host("c", free_memory_mib=2)]) == "bca"


def test_a_negative_weight_packs() -> None:
    hosts = [host("a", free_memory_mib=1), host("b", free_memory_mib=3)]
    assert ranked(hosts, Weights(ram=-1.0)) == "ab"


def test_equal_hosts_are_in_the_order_of_their_names() -> None:
    assert ranked([C, A, B]) == "abc"
    assert ranked([]) == ""


def test_a_failed_build_outweighs_everything() -> None:
    assert ranked([host("a", failed_builds=1, free_memory_mib=9999), host("b", free_vcpus=0)]) == "ba"


def test_soft_groups_pull_and_push() -> None:
    alike = [A, B, C]
    assert ranked(alike, group=GroupWish("soft-affinity", {"c": 2, "b": 1})) == "cba"
    assert ranked(alike, group=GroupWish("soft-anti-affinity", {"a": 2, "b": 1})) == "cba"
    assert ranked(alike, Weights(soft_affinity=0.0), group=GroupWish("soft-affinity", {"c": 2})) == "abc"
