"""Guests with ports in Open vSwitch: what is said to it, and real ones on a real OVN."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import define, evolve, field

from cloudctl.drivers.errors import DriverError, Unreachable, Unusable
from cloudctl.drivers.programs import ProgramFailed, Programs
from cloudctl.drivers.qemu import processes
from cloudctl.drivers.qemu.hypervisor import Qemu
from cloudctl.drivers.qemu.options import Config
from cloudctl.drivers.qemu.switches import Switches
from cloudctl.drivers.specs import GuestSpec, PortSpec, Power
from tests.drivers.netns.lab import run
from tests.drivers.netns.probes import connects
from tests.drivers.ovn.lab import CHASSIS, TUNNEL, Lab, lab, lacking
from tests.drivers.ovn.ovsdb import eventually, make_driver
from tests.drivers.ovn.test_ovn_live import FRIENDS, NETWORK
from tests.drivers.ovn.test_ovn_live import port as ovn_port
from tests.drivers.qemu.real import ID, driver_in, soon, tiny
from tests.drivers.qemu.test_qemu_linux import direct, logged_in, on_console
from tests.needed import HOST, need
from tests.there import there

AWAY = "west"
NEIGHBOUR = "6f1c0f5e-0000-4000-8000-00000000000b"
DETAILS = {
    "bridge": "br-int",
    "interface_id": "a,port",
    "tap": "tapa",
    "mtu": 1442,
    "datapath_type": "netdev",
    "offloads": False,
    "port_filter": True,
}
PORT = PortSpec("a", "n", "fa:16:3e:00:00:01", binding={"vif_type": "ovs", "vif_details": DETAILS})
TAP = evolve(PORT, id="b", binding={"vif_type": "tap", "vif_details": {"tap": "tapb", "namespace": ""}})
SPEC = GuestSpec(ID, "g", "east", vcpus=1, memory_mib=64, disk_gib=0, ports=(PORT, TAP))
CONFIG = Config(hosts={"east": "ns-east", "here": ""}, ovs_db={"east": "unix:/run/east/db.sock"})
ADDED = ["--may-exist", "add-port", "br-int", "tapa", "--", "set", "Interface", "tapa"]
ADDED += ['external_ids:iface-id="a,port"', 'external_ids:attached-mac="fa:16:3e:00:00:01"']
ADDED += ['external_ids:iface-status="active"']


@define
class Said:
    """Programs that are not run. `refused`: words of a line, and what is complained of as it fails."""

    refused: dict[str, str] = field(factory=dict)
    lines: list[list[str]] = field(factory=list)

    async def change(self, name: str, *arguments: Any, **more: Any) -> bytes:
        line = [name, *arguments]
        self.lines.append(line)
        for words, complaint in self.refused.items():
            if words in " ".join(line):
                raise ProgramFailed(name, 1, complaint)
        return b""


def of(said: Said) -> Switches:
    return Switches(cast(Programs, said), CONFIG)


async def test_a_port_is_a_tap_in_the_bridge_of_its_host_and_then_neither() -> None:
    said = Said()
    hosts = of(said)
    await hosts.ensure(SPEC, *SPEC.ports)
    to_ip, to_switch = ["ip", "-n", "ns-east"], ["ovs-vsctl", "--db=unix:/run/east/db.sock"]
    assert said.lines == [
        [*to_ip, "tuntap", "add", "dev", "tapa", "mode", "tap"],
        [*to_ip, "link", "set", "dev", "tapa", "addrgenmode", "none", "mtu", "1442", "up"],
        [*to_switch, *ADDED],
    ]
    said.lines.clear()
    await hosts.ensure_absent(SPEC, *SPEC.ports)
    assert said.lines == [
        [*to_ip, "link", "del", "dev", "tapa"],
        [*to_switch, "--if-exists", "del-port", "tapa"],
    ]


async def test_a_host_that_names_no_switch_has_that_of_this_machine() -> None:
    said = Said()
    await of(said).ensure(evolve(SPEC, host="here"), PORT)
    assert said.lines[0][:2] == ["ip", "tuntap"] and said.lines[-1] == ["ovs-vsctl", *ADDED]


async def test_what_is_there_or_gone_is_no_failure() -> None:
    said = Said(
        {
            "tuntap add": "ioctl(TUNSETIFF): Device or resource busy",
            "link del": 'Cannot find device "tapa"',
        }
    )
    await of(said).ensure(SPEC, PORT)
    await of(said).ensure_absent(SPEC, PORT)
    assert len(said.lines) == 5
    said.lines.clear()
    await of(said).ensure_absent(evolve(SPEC, host="a host of once"), PORT)
    assert said.lines == []


@pytest.mark.parametrize(
    ("words", "complaint", "expected"),
    [
        ("ovs-vsctl", "ovs-vsctl: unix:/x: database connection failed (Connection refused)", Unreachable),
        ("ovs-vsctl", "ovs-vsctl: no bridge named br-int", Unreachable),
        ("ovs-vsctl", 'ovs-vsctl: "--may-exist add-port" but tapa is actually attached to bridge x', ProgramFailed),
        ("tuntap add", "ioctl(TUNSETIFF): Invalid argument", ProgramFailed),
    ],
)
async def test_a_switch_that_has_not_begun_is_waited_for(
    words: str, complaint: str, expected: type[DriverError]
) -> None:
    with pytest.raises(DriverError) as raised:
        await of(Said({words: complaint})).ensure(SPEC, PORT)
    assert type(raised.value) is expected


@pytest.mark.parametrize("wrong", [{"east": ""}, {"": "unix:/x"}, {"east": "unix:/x y"}])
def test_a_place_of_a_switch_is_one_word(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="ovs-vsctl --db"):
        Config(hosts={"east": "ns-east"}, ovs_db=wrong)


# -- real ones


@pytest.fixture
def ovn() -> Iterator[Lab]:
    need(lacking(), HOST)
    with lab() as made:
        yield made


def taps(place: Lab) -> list[str]:
    """Those of guests of QEMU, each of which is in Open vSwitch as well, and nothing else of them."""
    links = [line.split(":")[1].strip() for line in run("ip", "-n", place.chassis, "-o", "link").splitlines()]
    made = [name for name in links if name.startswith("tap") and "@" not in name]
    veths = [name.split("@")[0] for name in links if "@" in name]
    plugged = [name for name in place.vsctl("list-ports", "br-int").split() if name.startswith("tap")]
    assert sorted(made) == sorted(set(plugged).difference(veths))
    return made


@pytest.mark.slow
async def test_a_guest_has_its_address_by_ovn_and_takes_it_along(
    ovn: Lab, image: Path, tmp_path: Path, runtime_dir: Path
) -> None:
    with ovn.beside(AWAY) as other:
        places = {CHASSIS: ovn, AWAY: other}
        network = make_driver(ovn.northbound, gateway_chassis=[], datapath="netdev")
        await network.ensure_network(NETWORK)
        await network.ensure_security_group(FRIENDS)
        hosts = {name: place.chassis for name, place in places.items()}
        ovs_db = {name: place.switch for name, place in places.items()}
        driver = driver_in(tmp_path, runtime_dir, hosts=hosts, ovs_db=ovs_db)
        await driver.check()
        with pytest.raises(Unusable, match="ovs_db names north, and hosts does not"):
            await driver_in(tmp_path, runtime_dir, hosts=hosts, ovs_db={"north": ovn.switch}).check()
        peers = {}
        for number, (name, place) in enumerate(places.items(), 21):
            peers[name] = place.guest(ovn_port(number), await network.ensure_port(ovn_port(number), name))

        async def plugged(number: int, host: str) -> PortSpec:
            return evolve(ovn_port(number), binding=await network.ensure_port(ovn_port(number), host))

        spec = direct(image, host=CHASSIS, ports=(await plugged(11, CHASSIS),))
        await driver.ensure_defined(spec)
        await driver.ensure_running(ID)
        await on_console(driver, "eth0 has 10.7.0.11/24")
        for peer in peers.values():
            assert (await peer.lease())["mtu"] == "1442"
        assert peers[CHASSIS].ping("10.7.0.11")
        assert connects(peers[CHASSIS].namespace, "10.7.0.11", 22), "with the checksums of TCP"
        assert await soon(lambda: peers[AWAY].ping("10.7.0.11")), "from the other chassis"
        assert connects(peers[AWAY].namespace, "10.7.0.11", 22)
        [tap] = taps(ovn)
        assert "mtu 1442" in run("ip", "-n", ovn.chassis, "link", "show", "dev", tap)

        spec = evolve(spec, host=AWAY, ports=(await plugged(11, AWAY),))
        await driver.ensure_migrated(spec)
        assert (taps(ovn), taps(other)) == ([], [tap])
        await network.ensure_port_absent(spec.ports[0].id, CHASSIS)
        ovn.settled()
        for peer in peers.values():
            assert await soon(lambda peer=peer: peer.ping("10.7.0.11")), "once it has moved"  # type: ignore[misc]  # it is bound

        second = await plugged(12, AWAY)
        for _ in range(2):
            await driver.ensure_port_attached(ID, second)
        await on_console(driver, "eth1 has 10.7.0.12/24")
        assert len(taps(other)) == 2
        await driver.ensure_port_detached(ID, second.id)
        assert taps(other) == [tap]

        await driver.ensure_stopped(ID, 0.0)
        assert taps(other) == []
        await driver.close()
        await network.close()


@pytest.mark.slow
async def test_guests_on_two_chassis_reach_each_other_in_a_tunnel(
    ovn: Lab, image: Path, tmp_path: Path, runtime_dir: Path
) -> None:
    with ovn.beside(AWAY) as other:
        network = make_driver(ovn.northbound, gateway_chassis=[], datapath="netdev")
        await network.ensure_network(NETWORK)
        await network.ensure_security_group(FRIENDS)
        hosts = {CHASSIS: ovn.chassis, AWAY: other.chassis}
        driver = driver_in(tmp_path, runtime_dir, hosts=hosts, ovs_db={CHASSIS: ovn.switch, AWAY: other.switch})
        for id, number, host in ((ID, 11, CHASSIS), (NEIGHBOUR, 12, AWAY)):
            plugged = evolve(ovn_port(number), binding=await network.ensure_port(ovn_port(number), host))
            await driver.ensure_defined(direct(image, id=id, host=host, ports=(plugged,)))
            await driver.ensure_running(id)
        console = await logged_in(driver)
        before = ovn.tunnelled(f"{TUNNEL}.2"), other.tunnelled(f"{TUNNEL}.1")
        # As long as the other one takes to start; then each of them answers.
        await console.type("until ping -c 1 -W 1 10.7.0.12 >/dev/null; do sleep 1; done; echo it is $((40+2))", "is 42")
        await console.type("ping -c 5 -s 1400 -W 5 10.7.0.12", " 0% packet loss")
        # Open vSwitch looks at its counters once in five seconds.
        eventually(lambda: ovn.tunnelled(f"{TUNNEL}.2") >= before[0] + 6)
        eventually(lambda: other.tunnelled(f"{TUNNEL}.1") >= before[1] + 6)
        await console.hang_up()
        for id in (ID, NEIGHBOUR):
            await driver.ensure_absent(id)
        assert (taps(ovn), taps(other)) == ([], [])
        await driver.close()
        await network.close()


@pytest.mark.slow
async def test_however_a_guest_ends_nothing_of_its_port_is_left(ovn: Lab, tmp_path: Path, runtime_dir: Path) -> None:
    eventually(lambda: "br-int" in ovn.vsctl("list-br").split())
    nowhere = f"unix:{tmp_path}/none.sock"
    hosts, ovs_db = {CHASSIS: ovn.chassis, AWAY: ovn.outside}, {CHASSIS: ovn.switch, AWAY: nowhere}
    driver = driver_in(tmp_path, runtime_dir, hosts=hosts, ovs_db=ovs_db)
    spec = evolve(tiny(tmp_path), host=CHASSIS, ports=(PORT,))

    def killed() -> None:
        pid = processes.find(driver.records.files_of(there(driver.records.get(ID))).pid)
        os.kill(there(pid), signal.SIGKILL)

    await driver.ensure_defined(spec)
    # Of a machine that was switched off: the switch remembers it, and the kernel does not.
    ovn.vsctl("--no-wait", "add-port", "br-int", "tapa")
    await driver.ensure_running(ID)
    assert taps(ovn) == ["tapa"]
    eventually(lambda: ovn.vsctl("get", "Interface", "tapa", "link_state").strip() == "up")
    assert ovn.vsctl("get", "Interface", "tapa", "external_ids:iface-id").strip() == '"a,port"'

    with pytest.raises(Unreachable):
        await driver.ensure_migrated(evolve(spec, host=AWAY))
    state = await driver.observe(ID)
    assert (state.host, state.power, taps(ovn)) == (CHASSIS, Power.RUNNING, ["tapa"])
    assert "tap" not in run("ip", "-n", ovn.outside, "-o", "link")

    await driver.ensure_suspended(ID)
    assert taps(ovn) == []
    await driver.ensure_running(ID)
    assert taps(ovn) == ["tapa"]
    await driver.ensure_stopped(ID, 0.0)
    assert taps(ovn) == []
    # Which is what the cloud asks for as soon as it is told of it.
    await driver.ensure_running(ID)
    killed()
    assert await soon(lambda: crashed(driver))
    await driver.ensure_stopped(ID, 0.0)
    assert taps(ovn) == []
    for again in ((), (PORT,)):
        await driver.ensure_defined(spec)
        await driver.ensure_running(ID)
        killed()
        assert await soon(lambda: crashed(driver))
        await driver.ensure_defined(evolve(spec, ports=again))
        assert taps(ovn) == [each.binding["vif_details"]["tap"] for each in again if each.binding]
    await driver.ensure_defined(evolve(spec, host=AWAY))
    assert taps(ovn) == []
    with pytest.raises(Unreachable):
        await driver.ensure_running(ID)
    # Who leaves a host does not wait for it.
    await driver.ensure_defined(spec)
    assert "tap" not in run("ip", "-n", ovn.outside, "-o", "link")
    await driver.ensure_running(ID)
    assert taps(ovn) == ["tapa"]
    for _ in range(2):
        await driver.ensure_absent(ID)
        assert taps(ovn) == []
    await driver.close()


async def crashed(driver: Qemu) -> bool:
    return (await driver.observe(ID)).power is Power.CRASHED
