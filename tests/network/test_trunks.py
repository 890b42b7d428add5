"""Trunks and their subports. Reference: network.md, section 16."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from cloudctl.drivers.specs import SubPort
from cloudctl.network import ports
from tests.network.conftest import Neutron


def port(neutron: Neutron, user: str = "demo", network: Any = None, **fields: Any) -> Any:
    return neutron.create("port", user, network_id=(network or neutron.network(None, user))["id"], **fields)


def sub(port: Any, vlan: int | None = 2, **fields: Any) -> dict[str, Any]:
    return {"port_id": port["id"], "segmentation_type": "vlan", "segmentation_id": vlan, **fields}


def trunk(neutron: Neutron, *subports: Any, parent: Any = None, **fields: Any) -> Any:
    return neutron.create("trunk", port_id=(parent or port(neutron))["id"], sub_ports=subports, **fields)


def bind(neutron: Neutron, port_id: str, host: str) -> None:
    neutron.expect(200, "PUT", f"/ports/{port_id}", {"port": {"binding:host_id": host}}, "admin")
    neutron.settle()


def test_it_carries_ports(neutron: Neutron) -> None:
    parent, one, two = (port(neutron) for _ in range(3))
    made = trunk(neutron, sub(one), parent=parent, name="t")
    assert {name: made[name] for name in ("name", "port_id", "status", "admin_state_up", "sub_ports")} == {
        "name": "t", "port_id": parent["id"], "status": "DOWN", "admin_state_up": True, "sub_ports": [sub(one)],
    }  # fmt: skip
    shown = neutron.get(f"/ports/{one['id']}")["port"]
    assert (shown["device_id"], shown["device_owner"]) == (made["id"], "trunk:subport")
    assert shown["revision_number"] == one["revision_number"] + 1
    path = f"/trunks/{made['id']}"
    added = neutron.expect(200, "PUT", f"{path}/add_subports", {"sub_ports": [sub(two, 3)]})
    assert added["sub_ports"] == [sub(one), sub(two, 3)]
    assert added["revision_number"] > made["revision_number"]
    details = neutron.get(f"/ports/{parent['id']}")["port"]["trunk_details"]
    carried = [{**sub(one), "mac_address": one["mac_address"]}, {**sub(two, 3), "mac_address": two["mac_address"]}]
    assert details == {"trunk_id": made["id"], "sub_ports": carried}
    assert "trunk_details" not in neutron.get(f"/ports/{one['id']}")["port"]
    left = neutron.expect(200, "PUT", f"{path}/remove_subports", {"sub_ports": [{"port_id": one["id"]}]})
    assert left["sub_ports"] == neutron.get(f"{path}/get_subports")["sub_ports"] == [sub(two, 3)]
    assert neutron.get(f"/ports/{one['id']}")["port"]["device_owner"] == ""
    neutron.expect(204, "DELETE", path)
    neutron.expect(204, "DELETE", f"/ports/{two['id']}")
    assert "trunk_details" not in neutron.get(f"/ports/{parent['id']}")["port"]


def test_subports_are_where_their_parent_is(neutron: Neutron) -> None:
    parent, one, two = (port(neutron) for _ in range(3))
    made = trunk(neutron, sub(one), parent=parent)
    bind(neutron, parent["id"], "h1")
    assert neutron.held[1] == {parent["id"]: ("h1",), one["id"]: ("h1",)}
    assert neutron.driver.ports.get(parent["id"]).spec.subports == (SubPort(one["id"], 2),)
    path = f"/trunks/{made['id']}"
    assert neutron.get(path)["trunk"]["status"] == "ACTIVE"
    assert neutron.get(f"/ports/{one['id']}")["port"]["status"] == "ACTIVE"
    neutron.expect(200, "PUT", f"{path}/add_subports", {"sub_ports": [sub(two, 3)]})
    neutron.settle()
    assert neutron.held[1][two["id"]] == ("h1",)
    assert len(neutron.driver.ports.get(parent["id"]).spec.subports) == 2
    neutron.expect(200, "PUT", path, {"trunk": {"admin_state_up": False}})
    neutron.settle()
    assert neutron.driver.ports.get(parent["id"]).spec.subports == ()
    assert neutron.get(path)["trunk"]["status"] == "DOWN"
    neutron.expect(200, "PUT", path, {"trunk": {"admin_state_up": True}})
    bind(neutron, parent["id"], "h2")
    assert {one["id"]: ("h2",), two["id"]: ("h2",)}.items() <= neutron.held[1].items()
    neutron.refused(409, "TrunkInUse", "DELETE", path)
    bind(neutron, parent["id"], "")
    assert neutron.held[1] == {}
    neutron.expect(204, "DELETE", path)


def test_subports_leave_the_host_with_their_parent(neutron: Neutron) -> None:
    """A server that is shelved has its ports on no host."""
    parent, one = port(neutron), port(neutron)
    made = trunk(neutron, sub(one), parent=parent)
    bind(neutron, parent["id"], "h1")
    assert neutron.get(f"/trunks/{made['id']}")["trunk"]["revision_number"] == made["revision_number"] + 1
    neutron.transact(ports.leave_host, parent["id"], datetime(2027, 1, 15, 8))
    neutron.settle()
    assert one["id"] not in neutron.held[1]
    assert neutron.get(f"/trunks/{made['id']}")["trunk"]["status"] == "DOWN"
    assert neutron.get(f"/ports/{one['id']}")["port"]["status"] == "DOWN"


def test_ports_of_a_trunk_stay(neutron: Neutron) -> None:
    parent, one = port(neutron), port(neutron)
    trunk(neutron, sub(one), parent=parent)
    neutron.refused(409, "PortInUseAsTrunkParent", "DELETE", f"/ports/{parent['id']}")
    neutron.refused(409, "PortInUseAsSubPort", "DELETE", f"/ports/{one['id']}")


def test_a_new_mac_of_a_subport_is_shown_by_its_parent(neutron: Neutron) -> None:
    parent, one = port(neutron), port(neutron)
    trunk(neutron, sub(one), parent=parent)
    neutron.get("/ports")
    neutron.expect(200, "PUT", f"/ports/{one['id']}", {"port": {"mac_address": "fa:16:3e:00:00:01"}})
    (listed,) = neutron.get(f"/ports?id={parent['id']}")["ports"]
    assert listed["trunk_details"]["sub_ports"][0]["mac_address"] == "fa:16:3e:00:00:01"


@pytest.mark.parametrize(
    "subport",
    [
        {"segmentation_type": "vlan"}, {"segmentation_id": 3}, {"segmentation_type": "vlan", "segmentation_id": 4095},
        {"segmentation_type": "vlan", "segmentation_id": 0}, {"segmentation_type": "inherit"},
        {"segmentation_type": "vxlan", "segmentation_id": 3},
    ],
)  # fmt: skip
def test_subports_that_cannot_be(neutron: Neutron, subport: dict[str, Any]) -> None:
    body = {"sub_ports": [{"port_id": port(neutron)["id"], **subport}]}
    neutron.expect(400, "POST", "/trunks", {"trunk": {"port_id": port(neutron)["id"], **body}})
    neutron.expect(400, "PUT", f"/trunks/{trunk(neutron)['id']}/add_subports", body)


def test_a_port_is_in_one_trunk(neutron: Neutron) -> None:
    parent, one, bound = port(neutron), port(neutron), port(neutron, device_id="x")
    made = trunk(neutron, sub(one), parent=parent)
    for wanted, type in ((parent, "ParentPortInUse"), (one, "TrunkPortInUse")):
        neutron.refused(409, type, "POST", "/trunks", {"trunk": {"port_id": wanted["id"]}})
    path = f"/trunks/{trunk(neutron)['id']}/add_subports"
    for wanted, type in ((parent, "ParentPortInUse"), (one, "TrunkPortInUse"), (bound, "TrunkPortInUse")):
        neutron.refused(409, type, "PUT", path, {"sub_ports": [sub(wanted)]})
    two, three = port(neutron), port(neutron)
    path = f"/trunks/{made['id']}"
    neutron.refused(409, "DuplicateSubPort", "PUT", f"{path}/add_subports", {"sub_ports": [sub(two)]})
    neutron.refused(400, "InvalidInput", "PUT", f"{path}/add_subports", {"sub_ports": [sub(two, 5), sub(three, 5)]})
    neutron.refused(404, "SubPortNotFound", "PUT", f"{path}/remove_subports", {"sub_ports": [sub(two)]})
    twice = {"sub_ports": [{"port_id": one["id"]}] * 2}
    neutron.refused(400, "InvalidInput", "PUT", f"{path}/remove_subports", twice)
    neutron.expect(200, "PUT", path, {"trunk": {"admin_state_up": False}})
    for action in ("add_subports", "remove_subports"):
        neutron.refused(409, "TrunkDisabled", "PUT", f"{path}/{action}", {"sub_ports": [sub(two, 7)]})
    neutron.refused(409, "TrunkDisabled", "DELETE", path)


def test_the_parents_network_carries_the_subports(neutron: Neutron) -> None:
    small, large = neutron.network(None, mtu=1400), neutron.network(None)
    body = {"trunk": {"port_id": port(neutron, network=small)["id"], "sub_ports": [sub(port(neutron, network=large))]}}
    neutron.refused(409, "SubPortMtuGreaterThanTrunkPortMtu", "POST", "/trunks", body)
    trunk(neutron, sub(port(neutron, network=small)), parent=port(neutron, network=large))


def test_the_vlan_of_the_network(neutron: Neutron) -> None:
    fields = {"provider__network_type": "vlan", "provider__segmentation_id": 77, "project_id": "demo", "mtu": 1450}
    vlan = neutron.network(None, "admin", **fields)
    made = trunk(neutron, {"port_id": port(neutron, network=vlan)["id"], "segmentation_type": "inherit"})
    assert made["sub_ports"][0] | {"port_id": ""} == {"port_id": "", "segmentation_type": "vlan", "segmentation_id": 77}


def test_other_projects_ports_are_unknown(neutron: Neutron) -> None:
    theirs = port(neutron, "other")
    neutron.refused(404, "PortNotFound", "POST", "/trunks", {"trunk": {"port_id": theirs["id"]}})
    body = {"sub_ports": [sub(theirs)]}
    neutron.refused(404, "PortNotFound", "PUT", f"/trunks/{trunk(neutron)['id']}/add_subports", body)
    neutron.expect(404, "PUT", f"/trunks/{trunk(neutron)['id']}/add_subports", {"sub_ports": []}, "other")
