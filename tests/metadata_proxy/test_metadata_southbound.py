"""What the southbound database shows of a host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cloudctl.drivers.ovn.networks import METADATA
from cloudctl.metadata_proxy.southbound import BINDING, Bindings


def bound(name: str, type: str, network: str, *mac: str) -> Any:
    chassis = [SimpleNamespace(name="here")] if not type else []
    at = SimpleNamespace(uuid=network)
    return SimpleNamespace(logical_port=name, type=type, chassis=chassis, datapath=at, mac=list(mac))


def test_a_port_without_a_mac_address_is_nothing_to_the_other_networks() -> None:
    rows = [
        *(bound(f"guest-{id}", "", id) for id in ("none", "empty", "well")),
        bound(f"{METADATA}none", "localport", "none"),
        bound(f"{METADATA}empty", "localport", "empty", ""),
        bound(f"{METADATA}well", "localport", "well", "fa:16:3e:00:00:01 169.254.169.254"),
    ]
    copy: Any = SimpleNamespace(tables={BINDING: SimpleNamespace(rows=dict(enumerate(rows)))})
    assert Bindings.networks(copy, "here") == {"well": "fa:16:3e:00:00:01"}
