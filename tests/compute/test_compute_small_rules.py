"""Pure rules: host names, zones and resources of flavors, extra specs, keys, power, options."""

from __future__ import annotations

from datetime import datetime

import pytest

from cloudctl.compute import audit, extra_specs, keys
from cloudctl.compute.hostnames import hostname
from cloudctl.compute.options import HIGHEST, ComputeOptions
from cloudctl.compute.placing import promises, resources
from cloudctl.drivers.specs import HostInventory
from cloudctl.errors import Invalid
from cloudctl.options import structure
from cloudctl.placement.wishes import Resources

FLAVOR = {"vcpus": 2, "ram": 1024, "disk": 10, "ephemeral": 3, "swap": 1500, "extra_specs": {}}


@pytest.mark.parametrize(
    ("name", "dots", "expected"),
    [
        ("web-1", False, "web-1"),
        ("My Server_2", False, "my-server-2"),
        ("a.b.c", False, "a-b-c"),
        ("a.b.c", True, "a.b.c"),
        ("--x--", False, "x"),
        ("größe", False, "gre"),
        ("日本", False, "Server-ID"),
        ("!!!", False, "Server-ID"),
        ("x" * 80, False, "x" * 63),
        ("x" * 62 + "-yy", False, "x" * 62),
    ],
)
def test_a_host_name_is_made_of_the_name(name: str, dots: bool, expected: str) -> None:
    assert hostname(name, "ID", dots=dots) == expected


def test_a_flavor_takes_its_disks_and_swap_rounded_up() -> None:
    assert resources(FLAVOR, True) == Resources(2, 1024, 15)
    assert resources(FLAVOR, False) == Resources(2, 1024, 5)


def test_extra_specs_replace_amounts() -> None:
    specs = {"resources:VCPU": "0", "resources:MEMORY_MB": "2048", "resources:DISK_GB": "lots"}
    assert resources({**FLAVOR, "extra_specs": specs}, True) == Resources(0, 2048, 15)


def test_promises_follow_from_the_options() -> None:
    made = promises(ComputeOptions(cpu_allocation_ratio=2.0, reserved_host_memory_mib=24, zones={"east": ["a"]}))
    host = HostInventory("a", "fake", 8, 1024, 100)
    found = made.inventories(host)
    assert found["VCPU"] == {"total": 8, "reserved": 0, "max_unit": 8, "allocation_ratio": 2.0}
    assert (found["MEMORY_MB"]["reserved"], found["DISK_GB"]["total"]) == (24, 100)
    assert (made.zone_of("a"), made.zone_of("b")) == ("east", "nova")
    small = made.inventories(HostInventory("a", "fake", 1, 10, 0))
    assert small.keys() == {"VCPU", "MEMORY_MB"} and small["MEMORY_MB"]["reserved"] == 10


@pytest.mark.parametrize(
    ("key", "value", "fine"),
    [
        ("hw:cpu_policy", "dedicated", True),
        ("hw:cpu_policy", "Dedicated", False),
        ("hw:numa_nodes", "0", False),
        ("hw:cpu_max_sockets", "4", True),
        ("resources:CUSTOM_X", "one", False),
        ("trait:HW_CPU_X86", "required", True),
        ("trait:HW_CPU_X86", "maybe", False),
        ("hw:watchdog_action", "reset", True),
        ("mine", "anything", True),
    ],
)
def test_known_extra_specs_are_checked(key: str, value: str, fine: bool) -> None:
    if fine:
        extra_specs.check({key: value})
    else:
        with pytest.raises(Invalid):
            extra_specs.check({key: value})


def test_a_fingerprint_is_the_md5_of_the_key() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMWMt1Xa2WgXBQEQqbqWPV0A2pW0k2XW3mXQkPLo4Gq9"
    assert keys.fingerprint("ssh", f"{key} me") == keys.fingerprint("ssh", key)
    assert len(keys.fingerprint("ssh", key).split(":")) == 16


@pytest.mark.parametrize("text", ["", " ", "ssh-rsa", "ssh-rsa !!", "x" * 100, "ssh-ed25519 AAAA\x00", "-----BEGIN"])
@pytest.mark.parametrize("kind", ["ssh", "x509"])
def test_what_is_no_key_is_refused(text: str, kind: str) -> None:
    with pytest.raises(Invalid):
        keys.fingerprint(kind, text)


def test_a_made_pair_has_the_fingerprint_of_its_public_key() -> None:
    for kind in ("ssh", "x509"):
        pair = keys.generate(kind, "user", datetime(2026, 1, 1))
        assert pair.fingerprint == keys.fingerprint(kind, pair.public_key)
        assert pair.private_key not in repr(pair)


@pytest.mark.parametrize(
    ("vm_state", "power", "kind", "stop"),
    [
        ("active", 1, None, False),
        ("active", 4, "guest-off", True),
        ("active", 6, "guest-off", True),
        ("active", 3, "guest-odd", False),
        ("stopped", 4, None, False),
        ("stopped", 1, "guest-on", True),
        ("soft-delete", 1, "guest-on", True),
        ("soft-delete", 4, None, False),
        ("paused", 4, "guest-off", True),
        ("error", 4, None, False),
        ("building", 1, None, False),
    ],
)
def test_what_differs_from_a_guest_is_told(vm_state: str, power: int, kind: str | None, stop: bool) -> None:
    found = audit.compare(vm_state, power)
    assert (found and found.kind) == kind
    assert (found is not None and found.stop) is stop


@pytest.mark.parametrize(
    "table",
    [
        {"max_microversion": f"2.{HIGHEST + 1}"},
        {"max_microversion": "3.1"},
        {"max_microversion": "2.0"},
        {"max_limit": 0},
        {"max_attempts": 0},
        {"cpu_allocation_ratio": -1.0},
        {"zones": {"a": "b"}},
        {"colour": 1},
    ],
)
def test_a_wrong_option_is_refused(table: dict[str, object]) -> None:
    from cloudctl.errors import ConfigError

    with pytest.raises(ConfigError):
        structure(ComputeOptions, table, "compute")


def test_the_highest_microversion_is_a_pair() -> None:
    assert structure(ComputeOptions, {"max_microversion": "2.9"}, "compute").maximum == (2, 9)
