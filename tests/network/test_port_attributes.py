"""What ports keep for their guests and for others. Reference: network.md, section 6."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.drivers.specs import DhcpOption
from tests.network.conftest import Neutron


@pytest.fixture
def port(neutron: Neutron) -> Any:
    return neutron.create("port", network_id=neutron.network()["id"])


def changed(neutron: Neutron, port: Any, user: str = "demo", **fields: Any) -> Any:
    sent = {name.replace("__", ":"): value for name, value in fields.items()}
    return neutron.expect(200, "PUT", f"/ports/{port['id']}", {"port": sent}, user)["port"]


def option(name: str, value: str | None, version: int = 4) -> dict[str, Any]:
    return {"opt_name": name, "opt_value": value, "ip_version": version}


class TestDhcpOptions:
    def test_an_update_says_what_is_different(self, neutron: Neutron, port: Any) -> None:
        assert port["extra_dhcp_opts"] == []
        one, two = option("bootfile-name", "pxelinux.0"), option("tftp-server", "10.0.0.9")
        assert changed(neutron, port, extra_dhcp_opts=[one, two])["extra_dhcp_opts"] == [one, two]
        other = option("bootfile-name", "other.0")
        assert changed(neutron, port, extra_dhcp_opts=[other])["extra_dhcp_opts"] == [other, two]
        six = option("bootfile-name", "six", 6)
        gone = option("tftp-server", None)
        assert changed(neutron, port, extra_dhcp_opts=[gone, six])["extra_dhcp_opts"] == [other, six]
        neutron.expect(400, "PUT", f"/ports/{port['id']}", {"port": {"extra_dhcp_opts": [option("x", "")]}})
        assert changed(neutron, port, extra_dhcp_opts=[option("router", "")])["extra_dhcp_opts"][-1]["opt_value"] == ""

    @pytest.mark.parametrize("name", ["tftp-server", "router"])
    def test_they_are_single_lines(self, neutron: Neutron, port: Any, name: str) -> None:
        for bad in option(name, "a\noption:router,10.0.0.66"), option(f"{name}\n6", "a"), option(" ", "a"):
            neutron.expect(400, "PUT", f"/ports/{port['id']}", {"port": {"extra_dhcp_opts": [bad]}})
        neutron.expect(400, "PUT", f"/ports/{port['id']}", {"port": {"extra_dhcp_opts": [option("mtu", " ")]}})

    def test_the_driver_has_them(self, neutron: Neutron) -> None:
        wanted = [{"opt_name": "mtu", "opt_value": "1400", "ip_version": "4"}]
        made = neutron.create("port", network_id=neutron.network()["id"], extra_dhcp_opts=wanted)
        changed(neutron, made, "admin", binding__host_id="h")
        neutron.settle()
        assert neutron.driver.ports.get(made["id"]).spec.dhcp_options == (DhcpOption("mtu", "1400", 4),)


class TestNames:
    def test_each_address_has_one(self, neutron: Neutron, port: Any) -> None:
        address = port["fixed_ips"][0]["ip_address"]
        host = "host-" + address.replace(".", "-")
        assert (port["dns_name"], port["dns_domain"]) == ("", "")
        assert port["dns_assignment"] == [{"hostname": host, "ip_address": address, "fqdn": f"{host}.openstacklocal."}]
        named = changed(neutron, port, dns_name="web", dns_domain="example.org.")
        assert (named["dns_name"], named["dns_domain"]) == ("web", "example.org.")
        assert named["dns_assignment"][0]["fqdn"] == "web.example.org."
        assert neutron.get("/ports?dns_name=web")["ports"][0]["id"] == port["id"]

    def test_a_name_is_in_the_domain_of_its_network(self, neutron: Neutron) -> None:
        """But in the port's own, if it has one; a page that was shown before tells it, too."""
        network = neutron.network()
        own = {"network_id": network["id"], "dns_name": "web"}
        port, other = neutron.create("port", **own), neutron.create("port", **own, dns_domain="example.com.")

        def shown() -> set[str]:
            ports = neutron.ports(f"?network_id={network['id']}&limit=9")
            return {each["dns_assignment"][0]["fqdn"] for each in ports}

        assert shown() == {"web.openstacklocal.", "web.example.com."}
        neutron.expect(200, "PUT", f"/networks/{network['id']}", {"network": {"dns_domain": "example.org."}})
        assert shown() == {"web.example.org.", "web.example.com."}
        changed(neutron, other, dns_domain="")
        assert shown() == {"web.example.org."}
        assert neutron.get(f"/ports/{port['id']}")["port"]["dns_assignment"][0]["hostname"] == "web"

    @pytest.mark.parametrize(
        "fields",
        [
            {"dns_name": "-x"},
            {"dns_name": "a b"},
            {"dns_name": "x.1"},
            {"dns_domain": "example.org"},
            {"dns_domain": "example.1234."},
            {"dns_domain": "a." * 127},
        ],
    )
    def test_what_is_no_name(self, neutron: Neutron, port: Any, fields: Any) -> None:
        neutron.expect(400, "PUT", f"/ports/{port['id']}", {"port": fields})

    def test_networks_have_a_domain(self, neutron: Neutron) -> None:
        assert neutron.network(None, dns_domain="example.org.")["dns_domain"] == "example.org."

    def test_they_are_kept_in_lower_case(self, neutron: Neutron, port: Any) -> None:
        assert neutron.network(None, dns_domain="Example.ORG.")["dns_domain"] == "example.org."
        named = changed(neutron, port, dns_name="Web", dns_domain="Example.ORG.")
        assert (named["dns_name"], named["dns_domain"]) == ("web", "example.org.")
        assert named["dns_assignment"][0]["fqdn"] == "web.example.org."


class TestKept:
    def test_the_kind_of_interface_stays_while_a_host_has_it(self, neutron: Neutron, port: Any) -> None:
        assert port["binding:vnic_type"] == "normal"
        assert changed(neutron, port, binding__vnic_type="direct")["binding:vnic_type"] == "direct"
        assert neutron.get("/ports?binding:vnic_type=direct")["ports"][0]["id"] == port["id"]
        changed(neutron, port, "admin", binding__host_id="h")
        body = {"port": {"binding:vnic_type": "normal"}}
        neutron.refused(409, "PortInUse", "PUT", f"/ports/{port['id']}", body)
        neutron.expect(400, "PUT", f"/ports/{port['id']}", {"port": {"binding:vnic_type": "virtual"}})

    def test_what_administrators_say(self, neutron: Neutron, port: Any) -> None:
        said = {"data_plane_status": "DOWN", "hints": {"openvswitch": {"x": "y"}}, "trusted": True}
        for name, value in said.items():
            neutron.expect(403, "PUT", f"/ports/{port['id']}", {"port": {name: value}})
        assert said.items() <= changed(neutron, port, "admin", **said).items()
        assert neutron.get(f"/ports/{port['id']}", "admin")["port"]["binding:profile"] == {"trusted": True}
        seen = neutron.get(f"/ports/{port['id']}")["port"]
        assert seen["data_plane_status"] == "DOWN" and not {"hints", "trusted"} & seen.keys()

    def test_what_anybody_says(self, neutron: Neutron) -> None:
        said: dict[str, Any] = {
            "propagate_uplink_status": False,
            "numa_affinity_policy": "socket",
            "device_profile": "gpu",
        }
        made = neutron.create("port", network_id=neutron.network()["id"], **said)
        assert said.items() <= made.items()
        said = {"propagate_uplink_status": True, "numa_affinity_policy": None}
        assert said.items() <= changed(neutron, made, **said).items()
        neutron.expect(400, "PUT", f"/ports/{made['id']}", {"port": {"device_profile": "x"}})


def test_a_group_is_named_once(neutron: Neutron, port: Any) -> None:
    body = {"port": {"security_groups": port["security_groups"] * 2}}
    neutron.refused(400, "HTTPBadRequest", "PUT", f"/ports/{port['id']}", body)
