"""Guests of OVN ask for their metadata: the proxy of their host says who asks, to whoever has its secret."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from attrs import define, evolve
from click.testing import CliRunner
from twisted.internet.interfaces import IListeningPort
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from cloudctl import cli
from cloudctl.drivers import forwarded
from cloudctl.drivers.netns import inside
from cloudctl.drivers.specs import FixedIp, NetworkSpec, PortSpec, SecurityGroupRule, SecurityGroupSpec, SubnetSpec
from cloudctl.metadata_proxy.proxy import names
from tests.bounds import WITH_ME
from tests.drivers.netns.lab import Guest
from tests.drivers.netns.wishes import eventually
from tests.drivers.ovn.lab import CHASSIS, Lab, lab, lacking
from tests.drivers.ovn.ovsdb import make_driver
from tests.needed import HOST, need

pytestmark = pytest.mark.slow

SECRET = "a secret of the hosts"
PORT = 8775
TOML = f"""
[driver.network.ovn]
southbound = ["unix:{{directory}}/sb.sock"]
datapath = "netdev"
ovs_db = "{{switch}}"
metadata_urls = ["http://127.0.0.1:{PORT}", "http://127.0.0.1:{PORT + 1}"]
metadata_secret = "{SECRET}"
"""
ADDRESS = "169.254.169.254"
OPEN = SecurityGroupSpec("open", (SecurityGroupRule("egress", "IPv4"),))


class Told(Resource):
    """Answers with what a proxy says of the guest."""

    isLeaf = True

    def render_GET(self, request: Request) -> bytes:
        request.setHeader("connection", "close")  # so that nobody is left when it stops listening
        return f"{forwarded.asker(SECRET, request.getHeader)} {(request.path or b'').decode()}".encode()


@pytest.fixture
def ovn() -> Iterator[Lab]:
    need(lacking(), HOST)
    with lab() as made:
        yield made


def listening(ovn: Lab, port: int) -> IListeningPort:
    """A process of the cloud, which the chassis can reach."""
    from twisted.internet import reactor

    with inside.listening(ovn.chassis, "127.0.0.1", port) as made:
        return cast(IListeningPort, reactor.adoptStreamPort(made.fileno(), socket.AF_INET, Site(Told())))  # type: ignore[attr-defined]  # it is a module


async def ended(port: IListeningPort) -> None:
    stopping = port.stopListening()
    assert stopping is not None
    await stopping


@pytest.fixture
def told(ovn: Lab) -> Iterator[IListeningPort]:
    port = listening(ovn, PORT)
    yield port
    port.stopListening()


@pytest.fixture
def proxy(ovn: Lab, tmp_path: Path) -> Iterator[Proxy]:
    """It is started."""
    made = Proxy(ovn, tmp_path)
    made.start()
    yield made
    made.kill()


@define(eq=False)
class Proxy:
    ovn: Lab
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        file = self.directory / "host.toml"
        file.write_text(TOML.format(directory=self.ovn.directory, switch=self.ovn.switch))
        cloudctl = [sys.executable, "-m", "cloudctl.cli", f"--config={file}", "metadata-proxy"]
        with (self.directory / "proxy.log").open("ab") as log:
            # Nobody else's namespaces are its own.
            apart = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs tmpfs /run/netns; exec "$@"', "sh"]
            command = [*WITH_ME, "ip", "netns", "exec", self.ovn.chassis, *apart, *cloudctl]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def network(id: str) -> NetworkSpec:
    return NetworkSpec(id, mtu=1450, subnets=(SubnetSpec(f"{id}-subnet", "10.7.0.0/24", "10.7.0.1"),))


def port(network_id: str, number: int) -> PortSpec:
    """Networks have the same addresses."""
    made = PortSpec(f"{network_id}{number:05d}-port", network_id, f"fa:16:3e:00:00:{number:02x}", mtu=1450)
    return evolve(made, fixed_ips=(FixedIp(f"{network_id}-subnet", "10.7.0.9"),), security_groups=("open",))


async def reached(guest: Guest) -> None:
    await eventually(partial(guest.connects, ADDRESS, 80, patience=1.0))


async def test_guests_are_told_apart_by_their_networks(ovn: Lab, told: IListeningPort, proxy: Proxy) -> None:
    driver = make_driver(ovn.northbound, datapath="netdev", metadata=True)
    await driver.ensure_security_group(OPEN)
    guests: dict[str, Guest] = {}
    for number, id in enumerate(("one", "two"), 11):
        await driver.ensure_network(network(id))
        guests[id] = ovn.guest(port(id, number), await driver.ensure_port(port(id, number), CHASSIS))
    ovn.settled()
    for id, guest in guests.items():
        lease = await guest.lease()
        assert f"{ADDRESS}/32 0.0.0.0" in lease["staticroutes"], lease
        await reached(guest)
        assert await guest.get("/latest/meta-data?x=1") == f"('{id}', '10.7.0.9') /latest/meta-data".encode()

    # Another process begins anew.
    proxy.kill()
    assert names("one")[1] in ovn.vsctl("list-ports", "br-int").split()
    await driver.ensure_port_absent(port("one", 11).id)
    ovn.settled()
    proxy.start()
    await eventually(lambda: names("one")[1] not in ovn.vsctl("list-ports", "br-int").split())
    await reached(guests["two"])
    assert await guests["two"].get("/") == b"('two', '10.7.0.9') /"

    # A network without guests is let go.
    await driver.ensure_port_absent(port("two", 12).id)
    await eventually(lambda: names("two")[1] not in ovn.vsctl("list-ports", "br-int").split())
    await driver.ensure_port(port("two", 12), CHASSIS)
    await reached(guests["two"])

    # Another process of the cloud is asked when one does not answer.
    await ended(told)
    second = listening(ovn, PORT + 1)
    assert await guests["two"].get("/") == b"('two', '10.7.0.9') /"
    await ended(second)
    assert await guests["two"].get("/") == b"The metadata service does not answer."
    assert ovn.complaints() == []
    await driver.close()


def test_the_command_says_what_it_lacks(tmp_path: Path) -> None:
    need(lacking(), HOST)
    (tmp_path / "host.toml").write_text("[driver.network.ovn]\nmetadata_secret = 'long enough, surely'\n")
    said = CliRunner().invoke(cli.main, [f"--config={tmp_path / 'host.toml'}", "metadata-proxy"])
    assert said.exit_code == 64
    assert "metadata-proxy needs southbound; " in said.output and "metadata-proxy needs metadata_urls" in said.output


def test_the_command_says_which_file_of_tls_it_lacks(tmp_path: Path) -> None:
    """It would have begun, and failed with a traceback once a second."""
    need(lacking(), HOST)
    options = ["southbound = ['ssl:192.0.2.11:6642']", "metadata_urls = ['https://192.0.2.11:8775']"]
    options += ["metadata_secret = 'long enough, surely'", f"private_key = '{tmp_path / 'none.pem'}'"]
    (tmp_path / "host.toml").write_text("\n".join(["[driver.network.ovn]", *options]))
    said = CliRunner().invoke(cli.main, [f"--config={tmp_path / 'host.toml'}", "metadata-proxy"])
    assert said.exit_code == 64
    assert f"needs private_key, and {tmp_path / 'none.pem'} cannot be read" in said.output
