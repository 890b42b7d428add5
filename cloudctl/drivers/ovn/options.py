"""What an operator may set for the network driver `ovn`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, lt

from cloudctl.drivers.forwarded import is_secret

REMOTE = re.compile(r"unix:/.+|(tcp|ssl):([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]+")
SERVER = re.compile(r"https?://[^/?#\s]+/?")


def _remotes_or_none(_config: object, _option: Attribute[Any], value: list[str]) -> None:
    # A name would be looked up in the reactor's thread.
    if wrong := [each for each in value if not REMOTE.fullmatch(each)]:
        raise ValueError(f"not unix:PATH, tcp:ADDRESS:PORT or ssl:ADDRESS:PORT: {', '.join(map(repr, wrong))}")


def _remotes(config: object, option: Attribute[Any], value: list[str]) -> None:
    _remotes_or_none(config, option, value)
    if not value:
        raise ValueError("names no database")


def _urls(_config: object, _option: Attribute[Any], value: list[str]) -> None:
    if wrong := [each for each in value if not SERVER.fullmatch(each)]:
        raise ValueError(f"not http://HOST:PORT or https://HOST:PORT: {', '.join(map(repr, wrong))}")


@frozen
class Config:
    """`[driver.network.ovn]`"""

    # The northbound database: the servers of its cluster.
    northbound: list[str] = field(factory=lambda: ["unix:/run/ovn/ovnnb_db.sock"], validator=_remotes)
    # The southbound database, which shows which hosts answer: without it, instance HA leaves that to monitors.
    southbound: list[str] = field(factory=list, validator=_remotes_or_none)
    # Seconds after which a chassis that has not answered is silent.
    silence_seconds: float = field(default=20.0, validator=gt(0))
    # For ssl: remotes, PEM files: our key and certificate, and the authority that signs theirs.
    private_key: Path = Path("/etc/cloudctl/ovn/key.pem")
    certificate: Path = Path("/etc/cloudctl/ovn/certificate.pem")
    ca_certificate: Path = Path("/etc/cloudctl/ovn/authority.pem")
    # The chassis (their system-id) on which routers reach the outside; the first one that is alive is used.
    gateway_chassis: list[str] = field(factory=list)
    # Whether a floating address is served on the host of its port, not on the gateway's: every host needs a way out,
    # `ovn-bridge-mappings`.
    distributed_floating_ips: bool = False
    # The MTU of networks whose packets travel in Geneve: 1500 minus 58 for headers.
    tunnel_mtu: int = field(default=1442, validator=ge(1280))
    # The bridge on every host that ovn-controller manages, and its kind: the kernel's, or in userspace.
    bridge: str = "br-int"
    datapath: Literal["system", "netdev"] = "system"
    lease_seconds: int = field(default=43200, validator=[gt(0), lt(2**32)])  # of addresses given by DHCP
    # Whether guests find their metadata at 169.254.169.254, which takes `cloudctl metadata-proxy` on each host.
    metadata: bool = False
    # Of that proxy: where it asks for them, which is `[compute] metadata_listen` of each process or what is before
    # them, and `[compute] metadata_secret`. If one does not answer, the next is asked.
    metadata_urls: list[str] = field(factory=list, validator=_urls)
    metadata_secret: str = field(default="", validator=is_secret, repr=False)
    # The database of the host's Open vSwitch, which the proxy plugs into; empty: the one of the system.
    ovs_db: str = ""
    # Seconds until a call that the database does not answer is given up; the call is repeated.
    answer_timeout: float = field(default=30.0, validator=gt(0))
    # Seconds of silence after which the database is asked whether it is still there.
    probe_seconds: int = field(default=5, validator=ge(1))

    @property
    def has_tls(self) -> bool:
        return any(each.startswith("ssl:") for each in (*self.northbound, *self.southbound))
