"""Names follow from ids, fit the kernel, and lead back to the ids."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import asdict

from cloudctl.drivers.netns.config import PREFIX_LIMIT, Config
from cloudctl.drivers.netns.names import LINK_NAME_LIMIT, Names, read, short, written
from cloudctl.errors import ConfigError
from cloudctl.options import structure

UUID = "a1b2c3d4-0000-4000-8000-00000000000c"
ODD = "../p;o rt%#"
NAMES = Names("c" * PREFIX_LIMIT)
LINKS = ("bridge", "tunnel", "service", "tap", "router_outer", "router_inner")


@pytest.mark.parametrize("id", [UUID, "1", ODD])
def test_every_link_has_a_name_of_its_own_that_fits(id: str) -> None:
    names = [getattr(NAMES, kind)(id) for kind in LINKS]
    assert len(set(names)) == len(names)
    assert all(len(name) <= LINK_NAME_LIMIT and name.isascii() and "/" not in name for name in names)


@pytest.mark.parametrize(
    ("hosts", "told"),
    [
        ({"a": "ns", "b": "other", "c": "ns"}, "a and c have the same network namespace, 'ns': each needs one"),
        ({"a": "", "b": ""}, "a and b have the same network namespace, this machine's own: each needs one"),
    ],
)
def test_hosts_that_would_be_in_each_others_way_are_refused(hosts: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"^[^\n]*hosts: {told} of its own$"):
        structure(Config, {"hosts": hosts}, "driver.network.netns")


def test_the_longest_prefix_leaves_room_for_all_names() -> None:
    assert len(NAMES.underlay_link) <= LINK_NAME_LIMIT


def test_a_uuid_is_recognised_by_its_beginning_and_other_ids_by_a_hash() -> None:
    assert short(UUID) == "a1b2c3d4-00"
    assert short("port-of-somebody-1") != short("port-of-somebody-2")


@pytest.mark.parametrize("id", [UUID, ODD])
def test_ids_survive_being_written(id: str) -> None:
    assert read(written(id)) == id
    assert not set(written(id)) & set("/;# ")


def test_networks_and_routers_are_found_among_all_namespaces() -> None:
    names = Names("cc")
    there = {names.network_namespace(UUID), names.network_namespace("n2"), names.router_namespace("r1"), "ccother", "x"}
    assert names.networks_among(there) == [UUID, "n2"]
    assert names.routers_among(there) == ["r1"]


def test_a_tap_of_another_cloud_is_none_of_ours() -> None:
    assert Names("cc").is_tap(Names("cc").tap(UUID))
    assert not Names("cc").is_tap(Names("cct").tap(UUID))
    assert not Names("cc").is_tap(Names("cc").bridge(UUID))


@pytest.mark.parametrize(
    "table",
    [
        {"prefix": ""},
        {"prefix": "long"},
        {"prefix": "1a"},
        {"hosts": {"h": "../ns"}},
        {"hosts": {"h": ".."}},
        {"hosts": {"": ""}},
        {"hosts": {"h 1": "ns"}},
        {"physical_networks": {"": "br-ex"}},
        {"physical_networks": {"public": "br ex"}},
        {"physical_networks": {"public": "a-name-too-long-x"}},
        {"underlay": "10.0.0.1/24"},
        {"underlay": "fd00::/64"},
        {"lease_seconds": 119},  # dnsmasq gives 120
        {"lease_seconds": 2**32},  # of this, too
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(table: Any) -> None:
    with pytest.raises(ConfigError, match=f"driver.network.netns.{next(iter(table))}"):
        structure(Config, table, "driver.network.netns")


def test_without_hosts_this_machine_is_the_only_one() -> None:
    assert list(Config().namespaces.values()) == [""]
    assert asdict(Config())["hosts"] == {}
