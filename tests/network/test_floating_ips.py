"""`/floatingips`: addresses outside that lead inside. Reference: network.md, section 8; network-rules.md, section 7."""

from __future__ import annotations

from typing import Any

import pytest

from cloudctl.network import devices
from tests.network.conftest import Neutron
from tests.work import watched


@pytest.fixture
def external(neutron: Neutron) -> Any:
    return neutron.external()


@pytest.fixture
def network(neutron: Neutron) -> Any:
    return neutron.network()


@pytest.fixture
def router(neutron: Neutron, network: Any, external: Any) -> Any:
    """Leads from `network` out."""
    return neutron.router(network, external=external)


@pytest.fixture
def port(neutron: Neutron, network: Any, router: Any) -> Any:
    return neutron.create("port", network_id=network["id"], name="web", device_id="server-1")


def floating(neutron: Neutron, external: Any, user: str = "demo", **fields: Any) -> Any:
    return neutron.create("floatingip", user, floating_network_id=external["id"], **fields)


def show(neutron: Neutron, ip: Any) -> Any:
    return neutron.get(f"/floatingips/{ip['id']}")["floatingip"]


def put(neutron: Neutron, ip: Any, user: str = "demo", **fields: Any) -> Any:
    return neutron.expect(200, "PUT", f"/floatingips/{ip['id']}", {"floatingip": fields}, user)["floatingip"]


def refused(neutron: Neutron, status: int, type: str, external: Any, user: str = "demo", **fields: Any) -> str:
    body = {"floatingip": {"floating_network_id": external["id"], **fields}}
    return neutron.refused(status, type, "POST", "/floatingips", body, user)


def held(neutron: Neutron, router: Any) -> list[tuple[str, str]]:
    """(floating, fixed) addresses in the driver."""
    neutron.settle()
    return [
        (each.floating_address, each.fixed_address) for each in neutron.driver.routers.get(router["id"]).floating_ips
    ]


class TestAllocation:
    def test_what_a_new_one_is(self, neutron: Neutron, external: Any) -> None:
        made = floating(neutron, external, description="d", tags=["t"])
        seen = {**made}
        assert seen.pop("id") and seen.pop("created_at") == seen.pop("updated_at")
        assert seen == {
            "status": "DOWN", "floating_network_id": external["id"], "floating_ip_address": "203.0.113.2",
            "fixed_ip_address": None, "port_id": None, "router_id": None, "port_details": None, "port_forwardings": [],
            "description": "d", "dns_name": "", "dns_domain": "", "qos_policy_id": None, "qos_network_policy_id": None,
            "project_id": "demo", "tenant_id": "demo", "revision_number": 0, "tags": ["t"],
        }  # fmt: skip
        assert show(neutron, made) == made
        assert floating(neutron, external)["floating_ip_address"] == "203.0.113.3"

    def test_its_name_is_one_within_its_domain(self, neutron: Neutron, external: Any) -> None:
        made = floating(neutron, external, dns_name="Web", dns_domain="Example.org.")
        assert (made["dns_name"], made["dns_domain"]) == ("web", "example.org.")
        refused(neutron, 400, "HTTPBadRequest", external, dns_name="web.example.org.")

    def test_the_network_may_have_automatic_ipv6_addresses_too(self, neutron: Neutron, external: Any) -> None:
        automatic = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        six = {"network_id": external["id"], "ip_version": 6, "cidr": "2001:db8::/64", **automatic}
        v6 = neutron.create("subnet", "admin", **six)
        assert floating(neutron, external)["floating_ip_address"] == "203.0.113.2"
        assert floating(neutron, external, subnet_id=external["subnets"][0])["floating_ip_address"] == "203.0.113.3"
        refused(neutron, 400, "BadRequest", external, subnet_id=v6["id"])

    def test_its_port_is_hidden_and_protected(self, neutron: Neutron, external: Any) -> None:
        made = floating(neutron, external)
        assert neutron.ports() == []
        (port,) = neutron.ports(user="admin")
        assert (port["device_id"], port["device_owner"]) == (made["id"], "network:floatingip")
        assert (port["project_id"], port["status"], port["security_groups"]) == ("", "N/A", [])
        neutron.refused(409, "ServicePortInUse", "DELETE", f"/ports/{port['id']}", user="admin")
        for addresses in ([], [{"ip_address": "203.0.113.9"}]):
            taken = {"port": {"fixed_ips": addresses}}
            neutron.refused(400, "BadRequest", "PUT", f"/ports/{port['id']}", taken, "admin")
        neutron.refused(409, "SubnetInUse", "DELETE", f"/subnets/{external['subnets'][0]}", user="admin")
        body = {"network": {"router:external": False}}
        neutron.refused(409, "ExternalNetworkInUse", "PUT", f"/networks/{external['id']}", body, "admin")

    def test_it_is_given_back(self, neutron: Neutron, external: Any) -> None:
        made = floating(neutron, external)
        neutron.expect(204, "DELETE", f"/floatingips/{made['id']}")
        neutron.refused(404, "FloatingIPNotFound", "DELETE", f"/floatingips/{made['id']}")
        assert neutron.ports(user="admin") == []
        assert floating(neutron, external)["floating_ip_address"] == made["floating_ip_address"]

    def test_those_that_lead_nowhere_go_with_their_network(self, neutron: Neutron, external: Any) -> None:
        made = floating(neutron, external)
        neutron.expect(204, "DELETE", f"/networks/{external['id']}", user="admin")
        neutron.expect(404, "GET", f"/floatingips/{made['id']}")

    def test_administrators_choose_the_address(self, neutron: Neutron, external: Any) -> None:
        neutron.expect(403, "POST", "/floatingips", {"floatingip": {
            "floating_network_id": external["id"], "floating_ip_address": "203.0.113.9"}})  # fmt: skip
        made = floating(neutron, external, "admin", floating_ip_address="203.0.113.9", project_id="demo")
        assert (made["floating_ip_address"], made["project_id"]) == ("203.0.113.9", "demo")
        refused(neutron, 409, "IpAddressAlreadyAllocated", external, "admin", floating_ip_address="203.0.113.9")
        refused(neutron, 400, "InvalidIpForNetwork", external, "admin", floating_ip_address="10.9.9.9")

    def test_a_subnet_is_chosen(self, neutron: Neutron, external: Any) -> None:
        neutron.clock.advance(1)
        more = {"network_id": external["id"], "ip_version": 4, "cidr": "198.51.100.0/24"}
        subnet = neutron.create("subnet", "admin", **more)
        assert floating(neutron, external, subnet_id=subnet["id"])["floating_ip_address"] == "198.51.100.2"
        assert floating(neutron, external)["floating_ip_address"] == "203.0.113.2"
        inside = neutron.network()["subnets"][0]
        refused(neutron, 400, "InvalidInput", external, subnet_id=inside)

    def test_it_is_of_ipv4(self, neutron: Neutron) -> None:
        external = neutron.external("2001:db8::/64")
        refused(neutron, 400, "BadRequest", external)
        four = {"network_id": external["id"], "ip_version": 4, "cidr": "203.0.113.0/30"}
        neutron.create("subnet", "admin", **four)
        refused(neutron, 400, "BadRequest", external, "admin", floating_ip_address="2001:db8::9")
        assert floating(neutron, external)["floating_ip_address"] == "203.0.113.2"
        refused(neutron, 409, "IpAddressGenerationFailure", external)
        assert len(neutron.ports(user="admin")) == 1

    def test_it_is_on_a_network_that_leads_out(self, neutron: Neutron, network: Any) -> None:
        told = refused(neutron, 400, "BadRequest", network)
        assert told == f"Bad floatingip request: Network {network['id']} is not a valid external network."
        refused(neutron, 404, "NetworkNotFound", neutron.network(user="other"))
        refused(neutron, 400, "BadRequest", neutron.external(None))

    def test_several_are_made_at_once_or_none(self, neutron: Neutron, external: Any) -> None:
        one = {"floating_network_id": external["id"]}
        neutron.refused(400, "BadRequest", "POST", "/floatingips", {
            "floatingips": [one, {"floating_network_id": neutron.network()["id"]}]})  # fmt: skip
        assert neutron.get("/floatingips")["floatingips"] == []
        made = neutron.expect(201, "POST", "/floatingips", {"floatingips": [one, one]})["floatingips"]
        assert len({each["floating_ip_address"] for each in made}) == 2

    def test_the_quota_is_kept(self, neutron: Neutron, external: Any) -> None:
        neutron.expect(200, "PUT", "/quotas/demo", {"quota": {"floatingip": 1}}, "admin")
        floating(neutron, external)
        refused(neutron, 409, "OverQuota", external)
        details = neutron.get("/quotas/demo/details")["quota"]
        assert (details["floatingip"]["used"], details["port"]["used"]) == (1, 0)


class TestAssociation:
    def test_it_leads_to_a_port_through_its_router(
        self, neutron: Neutron, external: Any, router: Any, port: Any
    ) -> None:
        made = floating(neutron, external)
        led = put(neutron, made, port_id=port["id"])
        assert (led["port_id"], led["fixed_ip_address"], led["router_id"]) == (port["id"], "10.0.0.2", router["id"])
        assert led["status"] == "DOWN" and led["revision_number"] > made["revision_number"]
        assert led["port_details"] == {
            "name": "web", "network_id": port["network_id"], "mac_address": port["mac_address"],
            "admin_state_up": True, "status": "DOWN", "device_id": "server-1", "device_owner": "",
        }  # fmt: skip
        assert held(neutron, router) == [("203.0.113.3", "10.0.0.2")]
        assert show(neutron, made)["status"] == "ACTIVE"

    def test_at_once_when_it_is_made(self, neutron: Neutron, external: Any, router: Any, port: Any) -> None:
        made = floating(neutron, external, port_id=port["id"], fixed_ip_address="10.0.0.2")
        assert (made["port_id"], made["router_id"]) == (port["id"], router["id"])
        assert held(neutron, router) == [(made["floating_ip_address"], "10.0.0.2")]

    def test_null_ends_it_and_keeps_the_address(self, neutron: Neutron, external: Any, router: Any, port: Any) -> None:
        made = floating(neutron, external, port_id=port["id"])
        neutron.settle()
        ended = put(neutron, made, port_id=None)
        assert [ended[name] for name in ("port_id", "fixed_ip_address", "router_id", "status", "port_details")] == [
            None, None, None, "DOWN", None,
        ]  # fmt: skip
        assert ended["floating_ip_address"] == made["floating_ip_address"] and held(neutron, router) == []

    def test_a_request_that_says_nothing_ends_it(self, neutron: Neutron, external: Any, router: Any, port: Any) -> None:
        ip = floating(neutron, external, port_id=port["id"])
        assert put(neutron, ip)["port_id"] is None

    def test_without_a_port_the_request_leaves_it(
        self, neutron: Neutron, external: Any, router: Any, port: Any
    ) -> None:
        made = floating(neutron, external, port_id=port["id"])
        neutron.settle()
        changed = put(neutron, made, description="x")
        assert (changed["port_id"], changed["description"], changed["status"]) == (port["id"], "x", "ACTIVE")
        body = {"floatingip": {"fixed_ip_address": "10.0.0.2"}}
        neutron.refused(400, "BadRequest", "PUT", f"/floatingips/{made['id']}", body)

    def test_it_moves(self, neutron: Neutron, external: Any, network: Any, router: Any, port: Any) -> None:
        made = floating(neutron, external, port_id=port["id"])
        second = neutron.create("port", network_id=network["id"])
        assert put(neutron, made, port_id=second["id"])["fixed_ip_address"] == "10.0.0.3"
        assert held(neutron, router) == [(made["floating_ip_address"], "10.0.0.3")]

    def test_one_fixed_address_has_one(self, neutron: Neutron, external: Any, router: Any, port: Any) -> None:
        made = floating(neutron, external, port_id=port["id"])
        refused(neutron, 409, "FloatingIPPortAlreadyAssociated", external, port_id=port["id"])
        second = floating(neutron, external)
        path, body = f"/floatingips/{second['id']}", {"floatingip": {"port_id": port["id"]}}
        neutron.refused(409, "FloatingIPPortAlreadyAssociated", "PUT", path, body)
        assert put(neutron, made, port_id=port["id"])["port_id"] == port["id"]

    def test_of_several_addresses_one_is_named(
        self, neutron: Neutron, external: Any, network: Any, router: Any
    ) -> None:
        two = [{"ip_address": "10.0.0.20"}, {"ip_address": "10.0.0.21"}]
        port = neutron.create("port", network_id=network["id"], fixed_ips=two)
        assert "multiple fixed IPv4" in refused(neutron, 400, "BadRequest", external, port_id=port["id"])
        refused(neutron, 400, "BadRequest", external, port_id=port["id"], fixed_ip_address="10.0.0.99")
        refused(neutron, 400, "BadRequest", external, port_id=port["id"], fixed_ip_address="2001:db8::1")
        refused(neutron, 400, "InvalidInput", external, port_id=port["id"], fixed_ip_address="x")
        for ip in ("10.0.0.20", "10.0.0.21"):
            made = floating(neutron, external, port_id=port["id"], fixed_ip_address=ip)
            assert made["fixed_ip_address"] == ip
        assert len(held(neutron, router)) == 2

    def test_ports_that_it_cannot_lead_to(self, neutron: Neutron, external: Any, network: Any, router: Any) -> None:
        bare = neutron.create("port", network_id=network["id"], fixed_ips=[])
        refused(neutron, 400, "BadRequest", external, port_id=bare["id"])
        refused(neutron, 404, "PortNotFound", external, port_id=router["id"])
        shared = neutron.network("10.4.0.0/24", user="admin", shared=True)
        theirs = neutron.create("port", "other", network_id=shared["id"])
        refused(neutron, 404, "PortNotFound", external, port_id=theirs["id"])
        refused(neutron, 400, "BadRequest", external, "admin", port_id=theirs["id"])
        dhcp = neutron.create("port", network_id=network["id"], device_owner="network:dhcp")
        refused(neutron, 400, "BadRequest", external, port_id=dhcp["id"])

    def test_without_a_way_there_is_none(self, neutron: Neutron, external: Any, network: Any) -> None:
        port = neutron.create("port", network_id=network["id"])
        missing = "ExternalGatewayForFloatingIPNotFound"
        told = refused(neutron, 404, missing, external, port_id=port["id"])
        assert told == (
            f"External network {external['id']} is not reachable from subnet {network['subnets'][0]}. Therefore, "
            f"cannot associate Port {port['id']} with a Floating IP."
        )
        made = neutron.router(network)
        refused(neutron, 404, missing, external, port_id=port["id"])
        other = neutron.external("198.51.100.0/24")
        body = {"router": {"external_gateway_info": {"network_id": other["id"]}}}
        neutron.expect(200, "PUT", f"/routers/{made['id']}", body)
        refused(neutron, 404, missing, external, port_id=port["id"])
        assert floating(neutron, other, port_id=port["id"])["router_id"] == made["id"]
        assert len(neutron.get("/floatingips")["floatingips"]) == 1

    def test_of_two_routers_that_with_the_gateways_address_leads(
        self, neutron: Neutron, external: Any, network: Any
    ) -> None:
        first = neutron.router(external=external)
        by_port = neutron.create("port", network_id=network["id"])
        neutron.join(first, port_id=by_port["id"])
        port = neutron.create("port", network_id=network["id"])
        made = floating(neutron, external, port_id=port["id"])
        assert made["router_id"] == first["id"]
        second = neutron.router(network, external=external)
        assert put(neutron, made, port_id=port["id"])["router_id"] == second["id"]
        assert held(neutron, first) == [] and len(held(neutron, second)) == 1

    def test_a_gateway_without_traffic_is_down(self, neutron: Neutron, external: Any, router: Any, port: Any) -> None:
        made = floating(neutron, external, port_id=port["id"])
        path = f"/routers/{router['id']}"
        for up, status in ((False, "DOWN"), (True, "ACTIVE")):
            neutron.expect(200, "PUT", path, {"router": {"admin_state_up": up}})
            neutron.settle()
            assert show(neutron, made)["status"] == status

    def test_a_stale_revision_is_refused(self, neutron: Neutron, external: Any) -> None:
        made = floating(neutron, external)
        for method, body in (("PUT", {"floatingip": {"description": "x"}}), ("DELETE", None)):
            neutron.expect(412, method, f"/floatingips/{made['id']}", body, If_Match="revision_number=99")


class TestThroughARouterFurtherOut:
    """The subnet is behind another router: the one that has the gateway has no interface on it."""

    @pytest.fixture
    def outer(self, neutron: Neutron, external: Any) -> Any:
        return neutron.router(external=external)

    @pytest.fixture
    def far(self, neutron: Neutron, outer: Any, network: Any) -> Any:
        inner, transit = neutron.router(network), neutron.network("192.168.200.0/24")
        for each in (inner, outer):
            neutron.join(each, port_id=neutron.create("port", network_id=transit["id"])["id"])
        return neutron.create("port", network_id=network["id"])

    def test_one_that_is_named_leads(self, neutron: Neutron, external: Any, outer: Any, far: Any) -> None:
        refused(neutron, 404, "ExternalGatewayForFloatingIPNotFound", external, port_id=far["id"])
        made = floating(neutron, external, port_id=far["id"], router_id=outer["id"])
        fixed = far["fixed_ips"][0]["ip_address"]
        assert (made["router_id"], made["fixed_ip_address"]) == (outer["id"], fixed)
        assert held(neutron, outer) == [(made["floating_ip_address"], fixed)]
        assert put(neutron, made, description="x", router_id=None)["router_id"] == outer["id"]
        body = {"router": {"external_gateway_info": None}}
        path = f"/routers/{outer['id']}"
        neutron.refused(409, "RouterExternalGatewayInUseByFloatingIp", "PUT", path, body)
        assert put(neutron, made, port_id=None)["router_id"] is None
        assert put(neutron, made, port_id=far["id"], router_id=outer["id"])["router_id"] == outer["id"]

    def test_another_one_may_be_named_later(self, neutron: Neutron, external: Any, outer: Any, far: Any) -> None:
        second = neutron.router(external=external)
        made = floating(neutron, external, port_id=far["id"], router_id=outer["id"])
        assert put(neutron, made, router_id=second["id"])["router_id"] == second["id"]
        assert held(neutron, outer) == [] and len(held(neutron, second)) == 1
        alone = floating(neutron, external)
        body = {"floatingip": {"router_id": second["id"]}}
        neutron.refused(400, "BadRequest", "PUT", f"/floatingips/{alone['id']}", body)
        refused(neutron, 400, "BadRequest", external, router_id=second["id"])

    def test_it_leads_out_and_is_ones_own(self, neutron: Neutron, external: Any, far: Any) -> None:
        inside, theirs = neutron.router(), neutron.router(user="other", external=external)
        elsewhere = neutron.router(external=neutron.external("198.51.100.0/24"))
        for each in (inside, elsewhere):
            refused(neutron, 409, "RouterNotOnFloatingNetwork", external, port_id=far["id"], router_id=each["id"])
        refused(neutron, 404, "RouterNotFound", external, port_id=far["id"], router_id=theirs["id"])

    def test_it_knows_a_fixed_address_once(self, neutron: Neutron, external: Any, outer: Any, far: Any) -> None:
        same = neutron.create("port", network_id=neutron.network()["id"], fixed_ips=[far_address(far)])
        floating(neutron, external, port_id=far["id"], router_id=outer["id"])
        taken = "FloatingIPPortAlreadyAssociated"
        refused(neutron, 409, taken, external, port_id=same["id"], router_id=outer["id"])
        other = neutron.router(external=external)
        floating(neutron, external, port_id=same["id"], router_id=other["id"])


def far_address(port: Any) -> dict[str, str]:
    return {"ip_address": port["fixed_ips"][0]["ip_address"]}


class TestEnds:
    @pytest.fixture
    def led(self, neutron: Neutron, external: Any, port: Any) -> Any:
        made = floating(neutron, external, port_id=port["id"])
        neutron.settle()
        return made

    def test_a_port_that_goes_leaves_the_address(self, neutron: Neutron, router: Any, port: Any, led: Any) -> None:
        neutron.expect(204, "DELETE", f"/ports/{port['id']}")
        left = show(neutron, led)
        assert (left["port_id"], left["router_id"], left["status"]) == (None, None, "DOWN")
        assert left["floating_ip_address"] == led["floating_ip_address"]
        assert left["revision_number"] > led["revision_number"] and held(neutron, router) == []

    def test_a_floating_ip_that_goes_leaves_the_port(self, neutron: Neutron, router: Any, port: Any, led: Any) -> None:
        neutron.expect(204, "DELETE", f"/floatingips/{led['id']}")
        assert neutron.get(f"/ports/{port['id']}") and held(neutron, router) == []

    def test_the_way_stays_while_it_is_used(self, neutron: Neutron, network: Any, router: Any, led: Any) -> None:
        path = f"/routers/{router['id']}"
        subnet = {"subnet_id": network["subnets"][0]}
        neutron.refused(409, "RouterInterfaceInUseByFloatingIP", "PUT", f"{path}/remove_router_interface", subnet)
        other = neutron.external("198.51.100.0/24")
        for info in (None, {"network_id": other["id"]}):
            body = {"router": {"external_gateway_info": info}}
            neutron.refused(409, "RouterExternalGatewayInUseByFloatingIp", "PUT", path, body)
        neutron.refused(409, "RouterInUse", "DELETE", path)
        put(neutron, led, port_id=None)
        neutron.part(router, **subnet)
        neutron.expect(204, "DELETE", path)
        assert show(neutron, led)["status"] == "DOWN"

    def test_other_interfaces_may_go(self, neutron: Neutron, router: Any, led: Any) -> None:
        more = neutron.network("10.7.0.0/24")
        neutron.join(router, subnet_id=more["subnets"][0])
        neutron.part(router, subnet_id=more["subnets"][0])

    def test_the_address_that_it_leads_to_stays(self, neutron: Neutron, port: Any, led: Any) -> None:
        path = f"/ports/{port['id']}"
        neutron.refused(400, "BadRequest", "PUT", path, {"port": {"fixed_ips": [{"ip_address": "10.0.0.50"}]}})
        both = [{"ip_address": "10.0.0.50"}, {"ip_address": "10.0.0.2"}]
        neutron.expect(200, "PUT", path, {"port": {"fixed_ips": both}})
        assert show(neutron, led)["fixed_ip_address"] == "10.0.0.2"

    def test_of_another_projects_floating_ip_only_administrators_take_the_port(
        self, neutron: Neutron, port: Any, led: Any
    ) -> None:
        neutron.transact(_give_away, led["id"])
        neutron.refused(409, "FipAssociated", "DELETE", f"/ports/{port['id']}")
        neutron.expect(204, "DELETE", f"/ports/{port['id']}", user="admin")

    def test_what_the_driver_cannot_do_is_an_error(self, neutron: Neutron, router: Any, port: Any, led: Any) -> None:
        neutron.driver.behaviour.fail("ensure_router", times=None)
        put(neutron, led, port_id=None)
        led = put(neutron, led, port_id=port["id"])
        neutron.settle(7200)
        failed = show(neutron, led)
        assert failed["status"] == "ERROR" and failed["revision_number"] == led["revision_number"] + 1
        neutron.driver.behaviour.clear()
        put(neutron, led, port_id=None)
        put(neutron, led, port_id=port["id"])
        neutron.settle()
        assert show(neutron, led)["status"] == "ACTIVE"

    def test_one_that_ends_while_the_driver_is_at_it_stays_down(
        self, neutron: Neutron, router: Any, port: Any, led: Any
    ) -> None:
        neutron.driver.behaviour.delay("ensure_router", 5.0)
        second = neutron.create("port", network_id=port["network_id"])
        put(neutron, led, port_id=second["id"])
        neutron.clock.advance(1)
        put(neutron, led, port_id=None)
        neutron.clock.advance(6)
        assert show(neutron, led)["status"] == "DOWN"
        assert held(neutron, router) == [] and show(neutron, led)["status"] == "DOWN"


def _give_away(conn: Any, id: str) -> None:
    from cloudctl.network.tables import FloatingIp

    conn.execute(FloatingIp.table.update().where(FloatingIp.id == id).values(project_id="admin"))


def test_a_devices_addresses_are_followed_by_floating_ones(
    neutron: Neutron, external: Any, router: Any, port: Any
) -> None:
    made = floating(neutron, external, port_id=port["id"])
    found = neutron.transact(devices.addresses, [port["id"]])[port["id"]]
    assert [(each.ip, each.floating, each.version) for each in found] == [
        ("10.0.0.2", False, 4), (made["floating_ip_address"], True, 4),
    ]  # fmt: skip
    assert {each.mac for each in found} == {port["mac_address"]}


def test_lists_filter_and_sort(neutron: Neutron, external: Any, router: Any, port: Any) -> None:
    free, led = floating(neutron, external), floating(neutron, external, port_id=port["id"])
    neutron.settle()
    for query in (
        f"port_id={port['id']}", f"router_id={router['id']}", "status=ACTIVE", "fixed_ip_address=10.0.0.2",
        f"floating_ip_address={led['floating_ip_address']}", "sort_key=port_id&sort_dir=desc&limit=1",
        f"floating_network_id={external['id']}&status=ACTIVE",
    ):  # fmt: skip
        assert [each["id"] for each in neutron.get(f"/floatingips?{query}")["floatingips"]] == [led["id"]], query
    ids = {each["id"] for each in neutron.get("/floatingips?sort_key=fixed_ip_address&sort_dir=asc")["floatingips"]}
    assert ids == {free["id"], led["id"]}
    neutron.expect(400, "GET", "/floatingips?x=1")


def test_one_statement_tells_of_all_that_a_router_serves(
    neutron: Neutron, external: Any, network: Any, router: Any
) -> None:
    made = []
    for _ in range(5):
        port = neutron.create("port", network_id=network["id"])
        made.append(floating(neutron, external, port_id=port["id"]))
    driver = neutron.db.connections.get().driver

    def written() -> int:
        """How often floating IPs are written until all tasks have ended."""
        with watched(driver) as work:
            neutron.settle()
        return sum(statement.startswith("UPDATE floating_ips") for statement in work.statements)

    assert written() == 1
    renamed = {"router": {"name": "other"}}
    neutron.expect(200, "PUT", f"/routers/{router['id']}", renamed)
    assert written() == 0, "they were as they are"
    assert {show(neutron, ip)["status"] for ip in made} == {"ACTIVE"}
